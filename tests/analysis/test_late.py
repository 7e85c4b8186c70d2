# SPDX-License-Identifier: GPL-2.0-or-later
"""Late packets of a sweep: what is stored, how both sides' packets are joined, what is shown."""

from __future__ import annotations

from pathlib import Path

import page_checks
import pytest
import synthetic_run
import test_readers
from made_up_late import COUNT, LIMIT_NS, arrivals, packet, probed
from test_layering import TRAFFIC, document, of
from test_report import fake_gnuplot
from test_tables import text

from skblab_analysis.base.checked import RefusedError
from skblab_analysis.formats.run import Plan
from skblab_analysis.late import summary as late_summary
from skblab_analysis.late.rows import LatePacketRow, LateTrialRow, numbers
from skblab_analysis.late.view import tables
from skblab_analysis.load import Run, load
from skblab_analysis.report import findings, summary
from skblab_analysis.report.page import build_report
from skblab_analysis.runfolder import RunFolder


def new(results: Path) -> RunFolder:
    plan = Plan(
        experiment="late",
        question="What makes them late?",
        seed=1,
        baseline="baseline",
        settings=("baseline", "threads"),
        traffic=(TRAFFIC,),
    )
    return RunFolder.create(results, "late", plan, synthetic=True)


@pytest.fixture
def run(tmp_path: Path) -> Run:
    folder = new(tmp_path)
    by_thread = {
        "since_entry_ns": 900_000,
        "cpu_did": [{"before_end_ns": 800_000, "kind": "task", "comm": "napi/r0-1", "id": 5}],
    }
    for setting, packets, late in (
        ("threads", [packet(n, "stack", **by_thread) for n in (10, 11, 12)], 9),
        ("baseline", [packet(3), packet(11), packet(99, "done"), packet(None)], None),
    ):
        made, what = probed(setting, 0, *packets, late=late)
        folder.record_probe(made, of=what)
    folder.finish(synthetic_run.environment(), {"measuring": 1.0})
    return load(folder.path)


def test_a_trial_has_its_numbers_and_each_packet(run: Run) -> None:
    threads, baseline = run.rows(LateTrialRow)
    assert (baseline.rate, baseline.threshold, baseline.in_a_row) == (100, LIMIT_NS, 1)
    assert (baseline.forwarded, baseline.late, baseline.recorded) == (COUNT, 4, 4)
    # Numbers 3 and 11 are known on both sides.
    assert (baseline.tester_late, baseline.tester_recorded, baseline.both) == (5, 5, 2)
    assert (threads.late, threads.recorded, threads.not_recorded, threads.both) == (9, 3, 6, 3)
    rows = [row for row in run.rows(LatePacketRow) if row.setting == "baseline"]
    assert [row.sequence for row in rows] == [3, 11, 99, None]
    assert [row.tester_late for row in rows] == [True, True, False, None]
    assert [row.layer for row in rows] == ["route", "route", "done", "route"]
    assert {(row.ran, row.ran_for) for row in rows} == {("softirq net_rx", 300_000)}
    assert {(row.took, row.in_layer, row.cpu, row.backlog) for row in rows} == {
        (400_000, 365_000, 1, 3)
    }


def test_numbers_of_late_packets_are_those_of_their_runs() -> None:
    assert numbers(arrivals()) == frozenset({3, 4, 10, 11, 12})


def test_numbers_beyond_32_bits_are_their_lower_bits() -> None:
    seen = arrivals()
    [late] = seen.late
    first = late.runs.recorded[0].model_copy(update={"sequence": 2**32, "packets": 2})
    runs = late.runs.model_copy(update={"recorded": (first,)})
    late = late.model_copy(update={"runs": runs})
    assert numbers(seen.model_copy(update={"late": (late,)})) == frozenset({0, 1})


@pytest.mark.parametrize("what", ["lost", "reordered", "duplicates"])
def test_runs_with_packets_missing_do_not_tell_numbers(tmp_path: Path, what: str) -> None:
    made, of_trial = probed("baseline", 0, packet(3), packet(11))
    seen = of_trial.arrivals
    assert seen is not None
    seen = seen.model_copy(update={"packets": seen.packets.model_copy(update={what: 1})})
    folder = new(tmp_path)
    folder.record_probe(made, of=of_trial.model_copy(update={"arrivals": seen}))
    run = load(folder.path)
    [row] = run.rows(LateTrialRow)
    assert (row.late, row.tester_late, row.both) == (2, 5, None)
    assert {row.tester_late for row in run.rows(LatePacketRow)} == {None}
    [found] = late_summary.of(run)
    assert found.settings[0].explained is None


def test_a_tester_that_is_not_to_be_trusted_makes_the_trial_invalid(tmp_path: Path) -> None:
    made, of_trial = probed("baseline", 0, packet(3))
    seen = of_trial.arrivals
    assert seen is not None
    seen = seen.model_copy(update={"clock": seen.clock.model_copy(update={"steps": 2})})
    folder = new(tmp_path)
    with pytest.raises(RefusedError, match="not to be trusted: the clock was set 2 times"):
        folder.record_probe(made, of=of_trial.model_copy(update={"arrivals": seen}))
    # What it said is kept all the same.
    assert (folder.logs / "pktsink-0.json").exists()


def test_causes_are_counted_the_most_frequent_first(run: Run) -> None:
    [found] = late_summary.of(run)
    # In the order of the plan.
    baseline, threads = found.settings
    assert [(one.layer, one.ran, one.packets) for one in baseline.causes] == [
        ("route", "softirq net_rx", 3),
        ("done", "softirq net_rx", 1),
    ]
    assert [(one.layer, one.ran, one.packets, one.longest) for one in threads.causes] == [
        ("stack", "napi/r0-1", 3, 900_000)
    ]
    # Of threads the probe recorded 3 of 9.
    assert (baseline.explained, threads.explained) == (2 / 5, None)
    assert baseline.share("late") == 4 / COUNT


def test_tables_page_and_document_say_what_makes_packets_late(run: Run) -> None:
    [found] = late_summary.of(run)
    counted, causes = map(text, tables(found))
    assert "Late packets (250" in counted and "also in" in counted
    assert "40\N{NO-BREAK SPACE}%" in counted
    lines = [line.split() for line in causes.splitlines()]
    assert ["baseline", "route", "softirq", "net_rx", "3"] in [line[:5] for line in lines]
    page = build_report(run.folder, fake_gnuplot)
    page_checks.check(page)
    assert "What makes packets late here" in page.read_text()
    document = summary.of_run(run.folder, page)
    assert "with baseline, 75" in document.headline and "late in route" in document.headline
    said = findings.sentences(run)
    assert any("75" in one and "late in route, and what ran longest" in one for one in said)
    unseen = findings.unseen(run)
    assert any(
        one.endswith(
            "with threads there were more late packets than the probe records: "
            "causes are of those recorded."
        )
        for one in unseen
    )
    figures = {
        (one.setting, one.part): one.value
        for one in summary.of_run(run.folder, page).figures
        if one.figure == "late"
    }
    assert figures["baseline", "tester"] == 5 / COUNT


def test_packets_that_the_driver_freed_late_are_told_apart(tmp_path: Path) -> None:
    folder = new(tmp_path)
    made, what = probed("baseline", 0, packet(1, "done"), packet(2, "done"))
    folder.record_probe(made, of=what)
    said = findings.unseen(load(folder.path))
    assert any("the driver freed them late, after they had left" in one for one in said)


def test_without_late_packets_there_is_one_table(tmp_path: Path) -> None:
    folder = new(tmp_path)
    made, what = probed("baseline", 0)
    folder.record_probe(made, of=what)
    [found] = late_summary.of(load(folder.path))
    [counted] = tables(found)
    assert "0\N{NO-BREAK SPACE}%" in text(counted)


def test_a_trial_that_did_not_ask_has_none(tmp_path: Path) -> None:
    folder = new(tmp_path)
    folder.record_probe(document([1000] * 8), of=of("baseline", 0))
    assert late_summary.of(load(folder.path)) == []


def test_a_page_of_all_measures_has_each_anchor_once(tmp_path: Path) -> None:
    page_checks.check(build_report(test_readers.finished_run(tmp_path), fake_gnuplot))
