# SPDX-License-Identifier: GPL-2.0-or-later
"""Latency trials: recorded with all they hold, compared block by block, and shown."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import made_up_arrivals
import pytest
import synthetic_run
from rich.console import Console
from test_report import fake_gnuplot

from skblab_analysis.base.certainty import AGAIN, widest
from skblab_analysis.base.checked import RefusedError
from skblab_analysis.base.offered import behind
from skblab_analysis.base.words import FIXED_SPACE, NARROW_SPACE
from skblab_analysis.formats.pktsink import ArrivalsDocument
from skblab_analysis.formats.run import Command, Plan
from skblab_analysis.latency import cells
from skblab_analysis.latency import summary as latency_summary
from skblab_analysis.latency import view as delays
from skblab_analysis.latency.rows import COMPARED, AnomalyRow, Arrivals, LateRow, by_setting
from skblab_analysis.latency.summary import LatencySummary
from skblab_analysis.load import Run, load
from skblab_analysis.report import advice, findings, terminal
from skblab_analysis.report.page import build_report
from skblab_analysis.runfolder import RunFolder
from skblab_analysis.trials.rows import Part

TRAFFIC = "IPv4, 64 bytes, 1 flow"
COUNT = 2000
# ns, of most packets; one in fifty takes ten times that.
BASE = {"baseline": 40_000, AGAIN: 40_100, "slow": 60_000, "quick": 20_000}


def latencies(base: int, late: int = 0) -> list[int]:
    """Return COUNT of them; `late` at the end are of 800 µs."""
    usual = [base * (10 if number % 50 == 7 else 1) + number % 100 for number in range(COUNT)]
    return [*usual[: COUNT - late], *([800_000] * late)]


def document(values: list[int], **more: object) -> ArrivalsDocument:
    text = json.dumps(made_up_arrivals.document(values) | more)
    return ArrivalsDocument.model_validate_json(text)


def trial(
    setting: str,
    boot: int,
    values: list[int],
    *,
    part: Part = "whole",
    lost: int = 0,
    took: float = 2.0,
    **more: object,
) -> Arrivals:
    return Arrivals(
        setting=setting,
        part=part,
        block=boot,
        traffic=TRAFFIC,
        rate=COUNT // 2,
        tried=len(values) + lost,
        seconds=2.0,
        took=took,
        document=document(values, **more),
    )


def trials() -> Iterator[Arrivals]:
    for boot in range(3):
        yield trial("tester", boot, latencies(9_000), part="tester")
        for setting, base in BASE.items():
            late = 5 if setting == "slow" else 0
            # Boots differ in both alike.
            yield trial(setting, boot, latencies(base + 500 * boot, late))


def made(results: Path) -> RunFolder:
    asked = {"experiment": "late", "question": "Which is late?", "seed": 1, "baseline": "baseline"}
    plan = Plan.model_validate(asked | {"parameters": {"testbed": "netns"}})
    return RunFolder.create(results, "late", plan, synthetic=True)


@pytest.fixture
def run(tmp_path: Path) -> Run:
    folder = made(tmp_path)
    for row in trials():
        folder.record(row)
    folder.finish(
        synthetic_run.environment(),
        {"measuring": 1.0},
        commands=[Command(where="the router", command="echo 1 >/quick", setting="quick")],
    )
    return load(folder.path)


def summary(run: Run) -> LatencySummary:
    [found] = latency_summary.of(run)
    return found


def test_settings_are_compared_block_by_block(run: Run) -> None:
    found = summary(run)
    assert (found.traffic, found.rate, found.baseline) == (TRAFFIC, 1000, "baseline")
    assert [delay.setting for delay in found.delays] == list(BASE)
    assert [tester.setting for tester in found.testers] == ["tester alone"]
    shares = {change.setting: change.compared for change in found.changes}
    slow, quick = shares["slow"], shares["quick"]
    assert slow is not None and slow.significant and slow.share == pytest.approx(0.5, abs=0.1)
    assert quick is not None and quick.significant and quick.share == pytest.approx(-0.5, abs=0.1)
    # A bucket is wider than what these two are apart.
    again = shares[AGAIN]
    assert again is not None and again.why == "resolution"
    assert advice.of(run).first == ("quick",)


def test_late_packets_and_anomalies_are_added_up(run: Run) -> None:
    slow = next(delay for delay in summary(run).delays if delay.setting == "slow")
    first, second = slow.lateness
    assert (first.threshold_ns, second.threshold_ns) == (250_000, 750_000)
    assert (second.late, second.runs, second.in_runs, second.longest) == (15, 3, 15, 5)
    # Those of ten times the usual are alone: late, and no anomaly.
    assert first.late > 100 and first.runs == 3
    rows = [row for row in run.rows(AnomalyRow) if row.threshold == 750_000]
    assert [(row.packets, row.open_begin, row.open_end) for row in rows] == [(5, False, True)] * 3
    assert {row.latency_mean for row in rows} == {800_000.0}
    # Five in a row, one each millisecond.
    assert {row.sent_span for row in rows} == {4_000_000}
    change = summary(run).change("slow")
    # 15 packets more than the 120 of the baseline may be chance, however well blocks agree.
    assert change is not None and change.late is not None and change.late.why == "resolution"


def test_what_loses_more_is_not_the_best(tmp_path: Path) -> None:
    folder = made(tmp_path)
    for boot in range(3):
        folder.record(trial("baseline", boot, latencies(40_000 + boot)))
        folder.record(trial("quick", boot, latencies(20_000 + boot), lost=2))
    run = load(folder.path)
    found = summary(run)
    change = found.change("quick")
    assert change is not None and change.compared is not None and change.compared.significant
    advised = advice.of(run)
    assert advised.first == ()
    [mixed] = advised.mixed
    assert mixed.name == "quick" and mixed.losses.endswith("of packets lost")
    assert (found.delays[1].lost, found.delays[1].tried) == (6, 3 * COUNT + 6)


def test_one_block_is_summed_up_alone(tmp_path: Path) -> None:
    folder = made(tmp_path)
    folder.record(trial("slow", 0, latencies(60_000, late=5)))
    [slow] = summary(load(folder.path)).delays
    assert [(lateness.late, lateness.longest) for lateness in slow.lateness[1:]] == [(5, 5)]


def test_a_rate_that_was_not_kept_is_compared_with_nothing(tmp_path: Path) -> None:
    folder = made(tmp_path)
    for boot in range(3):
        folder.record(trial("baseline", boot, latencies(40_000)))
        folder.record(trial("quick", boot, latencies(20_000), took=2.0 if boot else 2.1))
    found = summary(load(folder.path))
    change = found.change("quick")
    assert change is not None and change.compared is not None
    assert change.compared.blocks == 2
    assert behind(found.delays[1].trials) == 1
    said = " ".join(delays.unseen([found])).replace(FIXED_SPACE, " ")
    assert "sent over 1 % less than that in some block of quick" in said


@pytest.mark.parametrize(("packets", "compared"), [(999, False), (1000, True)])
def test_a_rate_with_few_packets_is_never_narrow(
    tmp_path: Path, packets: int, compared: bool
) -> None:
    folder = made(tmp_path)
    for boot in range(3):
        came = latencies(40_000 + boot)[:packets]
        folder.record(trial("baseline", boot, came, lost=COUNT - packets))
    run = load(folder.path)
    found = summary(run)
    # All blocks together have one all the same.
    assert found.delays[0].latency.quantile(COMPARED) is not None
    assert (widest(by_setting(run.trials, run.of_trial)) is not None) == compared


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"clock": {"tai_offset_s": {"start": 0, "end": 0}, "steps": 2, "stepped_ns": 9}}, "2 tim"),
        ({}, "none came"),
    ],
)
def test_times_that_cannot_be_trusted_are_void(
    tmp_path: Path, more: dict[str, Any], words: str
) -> None:
    folder = made(tmp_path)
    values = latencies(40_000) if more else []
    with pytest.raises(RefusedError, match=words):
        folder.record(trial("baseline", 0, values, lost=5, **more))
    run = load(folder.path)
    assert [row.state for row in run.trials] == ["invalid"]
    assert (latency_summary.of(run), run.rows(LateRow), run.rows(AnomalyRow)) == ([], (), ())


def test_they_are_there_when_the_run_goes_on(run: Run) -> None:
    folder = RunFolder.open(run.folder)
    folder.record(trial("slow", 3, latencies(60_000)))
    again = load(run.folder)
    assert len(again.trials) == len(run.trials) + 1
    assert len(again.rows(AnomalyRow)) == len(run.rows(AnomalyRow))
    assert len(summary(again).delays[2].trials) == 4


def test_the_tables_and_the_findings(run: Run) -> None:
    console = Console(width=100, record=True, highlight=False, file=io.StringIO())
    for table in terminal.of_run(run.folder):
        console.print(table)
    text = console.export_text().replace(FIXED_SPACE, " ")
    for words in (
        "Latency (µs, IPv4, 64 bytes, 1 flow, 1 000 packets/s)",
        "tester alone",
        "Late packets (IPv4, 64 bytes, 1 flow, 1 000 packets/s)",
        "anomaly: 2 or more late packets in a row",
    ):
        assert words in text
    said = " ".join(findings.sentences(run)).replace(NARROW_SPACE, " ").replace(FIXED_SPACE, " ")
    assert "with baseline half of the packets take less than" in said
    assert "Its 99th percentile against baseline: quick −" in said
    assert "False alarms in latency: 0 of 1 comparisons of the baseline with itself." in said
    assert "quick lowers the 99th percentile by" in findings.headline(run)
    percentile, late, lost = findings.compared(run)
    assert (percentile.figure, percentile.unit) == ("p99", "ns")
    assert (late.figure, late.part, late.wording) == ("late", "from 250000 ns", None)
    assert (lost.figure, lost.unit, lost.wording) == ("lost", "1", None)
    # All but the baseline are in each.
    assert len(percentile.changes) == len(late.changes) == len(lost.changes) == len(BASE) - 1


def test_what_is_shown_is_what_was_measured(run: Run) -> None:
    found = summary(run)
    shown = {row.setting: row for row in cells.rows(found)}
    assert shown["baseline"].difference == "baseline"
    # Of this setting against the baseline in three blocks, not of the baseline itself.
    assert shown["quick"].difference.startswith("−49.3")
    assert delays.headline([found]) is not None
    headline = str(delays.headline([found])).replace(FIXED_SPACE, " ")
    assert headline == (
        "slow raises the 99th percentile by 51.1 %; quick lowers the 99th percentile by 49.3 %"
    )
    late = [row for row in cells.late_rows(found) if row.setting == "slow"]
    assert [(row.late, row.runs, row.in_runs, row.longest) for row in late] == [
        ("135", "3", "15", "5"),
        ("15", "3", "15", "5"),
    ]
    # Packets in a million; only the first threshold is compared.
    assert [row.difference.partition(" ±")[0] for row in late] == ["(+2 500.0", ""]


def test_anomalies_are_drawn_by_setting(run: Run) -> None:
    [section] = [one for one in delays.VIEW.sections(run) if "section" in one.template]
    [drawn] = [one for one in section.pictures if one.name == "anomalies"]
    rows = {line.split('"')[1]: line for line in drawn.data.splitlines()[1:]}
    assert set(rows) == {*BASE, "tester alone"}
    # One of five packets in each of three blocks, at 1 000 packets a second.
    late = next(one for one in summary(run).delays if one.setting == "slow").lateness[0]
    daily = 3 / late.packets * 1000 * 86_400
    assert float(rows["slow"].split('"')[2].split()[0]) == pytest.approx(daily, rel=1e-5)
    assert "longest 5 packets" in rows["slow"] and "longest" not in rows["tester alone"]
    assert drawn.variables["axis"] == "Anomalies a day: 2 or more in a row from 250\u202fµs"


def test_without_an_anomaly_there_is_no_picture_of_them(tmp_path: Path) -> None:
    folder = made(tmp_path)
    folder.record(trial("baseline", 0, latencies(40_000)))
    sections = delays.VIEW.sections(load(folder.path))
    assert [one.name for section in sections for one in section.pictures] == ["latency"]


def test_settings_without_a_difference_are_named(tmp_path: Path) -> None:
    folder = made(tmp_path)
    for boot in range(3):
        folder.record(trial("baseline", boot, latencies(40_000 + 500 * boot)))
        folder.record(trial("same", boot, latencies(40_000 + 500 * boot)))
        folder.record(trial("slow", boot, latencies(60_000 + 500 * boot)))
    said = " ".join(delays.sentences([summary(load(folder.path))]))
    said = said.replace(FIXED_SPACE, " ")
    # A bucket's width, and blocks that agree to a hundredth of it.
    assert "Not significant: same. Smallest detectable difference: 6.2 %." in said
    assert "With same more blocks detect no less: that is the resolution." in said


def test_of_few_packets_the_headline_has_the_median(tmp_path: Path) -> None:
    folder = made(tmp_path)
    folder.record(trial("baseline", 0, latencies(40_000)[:100], lost=COUNT - 100))
    run = load(folder.path)
    assert findings.headline(run).startswith("50\u00a0% of packets take less than 40.")
    assert findings.summary(run) == [f"{findings.headline(run)}."]


def test_the_report_has_all_of_it(run: Run) -> None:
    page = build_report(run.folder, fake_gnuplot).read_text()
    for words in (
        "Latency: IPv4, 64 bytes, 1 flow, 1 000 packets/s",
        "Late packets, and anomalies: 2 or more late packets in a row",
        "slow: jitter",
        "Set this",
        "<li>quick: latency ",
        "echo 1 &gt;/quick",
    ):
        assert words in page
    assert (run.folder / "report" / "latency.svg").exists()
