# SPDX-License-Identifier: GPL-2.0-or-later
"""CPU time per packet: what is stored, what settings differ, and what is shown of it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import page_checks
import pytest
import searches
from test_report import fake_gnuplot
from test_tables import text

from skblab_analysis.base.certainty import AGAIN
from skblab_analysis.base.checked import RefusedError
from skblab_analysis.cpu import heat
from skblab_analysis.cpu.rows import (
    TICK_NS,
    Interval,
    IntervalRow,
    Times,
    TimesRow,
    Worked,
    by_setting,
    trials,
)
from skblab_analysis.cpu.summary import of
from skblab_analysis.cpu.view import VIEW
from skblab_analysis.load import Run, load
from skblab_analysis.report import advice, findings
from skblab_analysis.report.page import build_report
from skblab_analysis.report.terminal import of_run
from skblab_analysis.runfolder import RunFolder

SECONDS = 10


def worked(setting: str, block: int, softirq: int, *, kept: bool = True, **more: int) -> Worked:
    """A trial of two CPUs at 1000 packets a second: ticks in softirqs, and 100 more of system."""
    whole = SECONDS * 100
    busy = Times(
        cpu=0,
        user=0,
        system=100 * TICK_NS,
        interrupt=0,
        softirq=softirq * TICK_NS,
        idle=(whole - 100 - softirq) * TICK_NS,
        steal=0,
    )
    other = Times(cpu=1, user=0, system=0, interrupt=0, softirq=0, idle=whole * TICK_NS, steal=0)
    known = {"tried": 10_000, "forwarded": 10_000} | more
    return Worked(
        setting=setting,
        block=block,
        traffic="IPv4",
        rate=1000,
        offered_rate=1000 if kept else 900,
        times=(busy, other),
        **known,
    )


def recorded(results: Path, *found: Worked) -> Run:
    folder = RunFolder.create(results, "cpu", searches.plan(), synthetic=True)
    for trial in found:
        folder.record(trial)
    return load(folder.path)


def sweep(results: Path) -> Run:
    return recorded(
        results,
        *(
            worked(setting, block, softirq + block)
            for block in range(3)
            for setting, softirq in (("baseline", 300), (AGAIN, 302), ("slow", 400), ("quick", 200))
        ),
    )


def test_a_trial_has_a_row_for_each_cpu(tmp_path: Path) -> None:
    run = recorded(tmp_path, worked("baseline", 0, 300, tried=10_001))
    [trial] = run.trials
    assert (trial.measure, trial.rate, trial.state) == ("cpu", 1000, "good")
    assert (trial.tried, trial.forwarded, trial.lost) == (10_001, 10_000, 1)
    first, second = run.rows(TimesRow)
    assert (first.cpu, first.softirq, first.busy) == (0, 300 * TICK_NS, 400 * TICK_NS)
    assert (second.cpu, second.busy, second.idle) == (1, 0, 1000 * TICK_NS)


def test_without_a_forwarded_packet_there_is_no_figure(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path, "cpu", searches.plan(), synthetic=True)
    with pytest.raises(RefusedError, match="of 10000 packets none was forwarded"):
        folder.record(worked("baseline", 0, 300, forwarded=0))
    [trial] = load(folder.path).trials
    assert trial.state == "invalid"
    assert of(load(folder.path)) == []


def test_settings_are_compared_block_by_block(tmp_path: Path) -> None:
    [summary] = of(sweep(tmp_path))
    assert (summary.traffic, summary.rate, summary.baseline) == ("IPv4", 1000, "baseline")
    first = summary.usages[0]
    # 401 ticks on average over 10 000 packets.
    assert first.per_packet() == pytest.approx(401 * TICK_NS / 10_000)
    assert first.per_packet("softirq") == pytest.approx(301 * TICK_NS / 10_000)
    assert first.by_cpu == {0: pytest.approx(0.401)}
    slow, again = summary.change("slow"), summary.change(AGAIN)
    assert slow is not None and again is not None
    assert slow.difference.significant
    assert slow.difference.effect == pytest.approx(100 / 401, rel=0.01)
    # Two ticks in four hundred are what reading two CPUs in whole ticks may make.
    assert again.difference.significant is False
    assert again.difference.why == "resolution"


def test_a_block_at_another_rate_is_in_no_comparison(tmp_path: Path) -> None:
    run = recorded(
        tmp_path,
        *(worked("baseline", block, 300) for block in range(2)),
        worked("slow", 0, 400),
        worked("slow", 1, 900, kept=False),
    )
    [summary] = of(run)
    change = summary.change("slow")
    assert change is not None and change.difference.blocks == 1
    figures = by_setting(trials(run.rows(TimesRow), run.trials))
    assert list(map(len, figures)) == [2, 1]
    assert "in some block of slow. Such a block is in no comparison" in " ".join(
        findings.unseen(run)
    )


def test_table_page_and_findings(tmp_path: Path) -> None:
    run = sweep(tmp_path)
    shown = text(*of_run(run.folder))
    assert "CPU time (ns per packet, IPv4, 1 000 packets/s)" in shown
    assert "401 000" in shown and "(+0.5" in shown
    assert findings.headline(run) == (
        "quick saves 24.9\u00a0% of a packet’s CPU time; "
        "slow costs 24.9\u00a0% more CPU time a packet"
    )
    assert findings.summary(run)[0].startswith("Biggest saving: quick, −24.9\u00a0%")
    [compared] = findings.compared(run)
    assert (compared.measure, compared.rate, compared.unit) == ("cpu", 1000, "ns/packet")
    said = " ".join(findings.sentences(run))
    assert "with baseline a packet takes 401\u202fµs of CPU time, 301\u202fµs of it in" in said
    assert "False alarms in CPU time: 0 of 1 comparisons of the baseline with itself." in said
    page = page_checks.check(build_report(run.folder, fake_gnuplot))
    assert "CPU time of a packet: IPv4, 1 000 packets/s" in page.text
    assert advice.of(run).first == ("quick",)


def test_a_picture_has_the_time_of_each_setting(tmp_path: Path) -> None:
    [section] = VIEW.sections(sweep(tmp_path))
    drawn, _ = section.pictures
    assert drawn.name == "cpu"
    lines = [line.replace("\u00a0", " ") for line in drawn.data.splitlines()[1:]]
    # Of 10 000 packets in three blocks 400, 401 and 402 ticks of 10 ms each.
    assert lines[0].startswith('"baseline" 401000 ') and '"401 000"' in lines[0]
    assert '"403 000 (+0.5 %)"' in lines[1]
    assert '"501 000 +24.9 %"' in lines[2]


def test_each_cpu_has_a_cell_in_the_row_of_its_setting(tmp_path: Path) -> None:
    [summary] = of(sweep(tmp_path))
    drawn = heat.picture(summary, "cpus")
    assert drawn is not None and drawn.variables["column_ticks"] == '"CPU 0" 0.5, "CPU 1" 1.5'
    names, cells = drawn.data.split("\n\n\n")
    assert (
        names.replace("\u00a0", " ").splitlines()[1]
        == '"baseline" "busiest CPU 0: 40 %" "baseline"'
    )
    rows = [[float(cell) for cell in line.split()] for line in cells.splitlines()[1:]]
    # 301 of 1000 ticks in softirqs, 100 of system; the other CPU has nothing to do.
    bottom = 3 + 0.06
    filled = [bottom + 0.5 * part for part in (1, 0.301, 0.401)]
    assert rows[0] == pytest.approx([0.5, 0.04, 0.96, bottom, *filled])
    assert rows[1] == pytest.approx([1.5, 1.04, 1.96, bottom, bottom + 0.5, bottom, bottom])
    assert len(rows) == 2 * len(summary.usages)


def test_of_many_cpus_some_have_their_number_below(tmp_path: Path) -> None:
    [summary] = of(sweep(tmp_path))
    one = summary.usages[0].trials[0]
    many = replace(one, times=tuple(replace_cpu(one.times[0], cpu) for cpu in range(0, 64, 2)))
    usage = replace(summary.usages[0], trials=(many,))
    drawn = heat.picture(replace(summary, usages=(usage,)), "cpus")
    assert drawn is not None and drawn.variables["columns"] == 32
    assert str(drawn.variables["column_ticks"]).startswith('"CPU 0" 0.5, "8" 4.5, ')
    alone = replace(usage, trials=(replace(one, times=one.times[:1]),))
    assert heat.picture(replace(summary, usages=(alone,)), "cpus") is None


def replace_cpu(times: Times, cpu: int) -> Times:
    return times.model_copy(update={"cpu": cpu})


def read_often(setting: str, block: int, softirq: int, *, kept: bool = True) -> Worked:
    """A trial whose CPUs were read each second: ever more of each is in softirqs, up to `softirq`.

    In ticks, of 100 a second.
    """
    made = worked(setting, block, 10 * softirq, kept=kept)
    parts = [
        Interval(
            begin=second * 100 * TICK_NS,
            end=(second + 1) * 100 * TICK_NS,
            cpu=cpu,
            user=0,
            system=0,
            interrupt=0,
            softirq=ticks * TICK_NS,
            idle=(100 - ticks) * TICK_NS,
            steal=0,
        )
        for second in range(SECONDS)
        for cpu, ticks in ((0, softirq * (second + 1) // SECONDS), (1, 0))
    ]
    return made.model_copy(update={"intervals": tuple(parts)})


def test_parts_of_a_trial_are_rows(tmp_path: Path) -> None:
    run = recorded(tmp_path, read_often("baseline", 0, 50))
    rows = run.rows(IntervalRow)
    assert len(rows) == 2 * SECONDS
    assert (rows[-2].begin, rows[-2].end) == (900 * TICK_NS, 1000 * TICK_NS)
    assert (rows[-2].cpu, rows[-2].softirq, rows[-2].rate) == (0, 50 * TICK_NS, 1000)
    [trial] = of(run)[0].usages[0].trials
    assert len(trial.intervals) == len(rows)


def test_each_part_of_a_trial_has_a_cell_in_the_row_of_its_cpu(tmp_path: Path) -> None:
    run = recorded(
        tmp_path,
        read_often("baseline", 0, 80, kept=False),
        read_often("baseline", 1, 50),
        *(read_often("near", block, 51) for block in range(2)),
        *(read_often("far", block, 90) for block in range(2)),
    )
    [summary] = of(run)
    drawn = heat.over_time(summary, "cpus-time")
    assert drawn is not None and drawn.variables["columns"] == SECONDS
    assert str(drawn.variables["column_ticks"]).startswith('"0.0 s" 0.5, "2.0 s" 2.5, ')
    names, cells = drawn.data.replace("\u00a0", " ").split("\n\n\n")
    # The baseline, in the first block that kept the rate, and what differs most from it.
    assert [line.split('"')[1:4:2] for line in names.splitlines()[1:]] == [
        ["CPU 0: baseline", "interrupts up to 50 %"],
        ["CPU 1: baseline", "interrupts up to 0 %"],
        ["CPU 0: far", "interrupts up to 90 %"],
        ["CPU 1: far", "interrupts up to 0 %"],
    ]
    rows = [[float(cell) for cell in line.split()] for line in cells.splitlines()[1:]]
    assert len(rows) == 4 * SECONDS
    # The last second of the first CPU: half of its cell is filled.
    assert rows[9][:3] == pytest.approx([9.5, 9.04, 9.96])
    assert rows[9][5] - rows[9][3] == pytest.approx(0.25)


def test_of_many_cpus_the_busiest_are_drawn_over_time(tmp_path: Path) -> None:
    [summary] = of(recorded(tmp_path, read_often("baseline", 0, 50)))
    one = summary.usages[0].trials[0]
    cpus = range(20)
    trial = replace(
        one,
        times=tuple(
            one.times[0].model_copy(update={"cpu": cpu, "system": cpu * TICK_NS}) for cpu in cpus
        ),
        intervals=tuple(
            part.model_copy(update={"cpu": cpu})
            for part in one.intervals
            if part.cpu == 0
            for cpu in cpus
        ),
    )
    usage = replace(summary.usages[0], trials=(trial,))
    drawn = heat.over_time(replace(summary, usages=(usage,)), "cpus-time")
    assert drawn is not None and drawn.variables["rows"] == heat.MOST_CPUS
    assert "CPU 12: baseline" in drawn.data.replace("\u00a0", " ")
    assert "CPU 11: baseline" not in drawn.data.replace("\u00a0", " ")


def test_the_page_has_both_pictures_of_cpus(tmp_path: Path) -> None:
    run = recorded(tmp_path, read_often("baseline", 0, 50))
    page = page_checks.check(build_report(run.folder, fake_gnuplot))
    assert "One cell for each CPU, filled by" in page.text
    assert "a cell for each part of the trial" in page.text
    assert heat.over_time(of(sweep(tmp_path))[0], "cpus-time") is None
