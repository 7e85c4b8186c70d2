# SPDX-License-Identifier: GPL-2.0-or-later
"""Figures of one measure below each other, of several runs: layers and events."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import page_checks
import synthetic_run
import test_events
import test_layering
import test_samples
from test_report import fake_gnuplot

from skblab_analysis.base.certainty import Interval
from skblab_analysis.base.sampled import Sampled
from skblab_analysis.events.rows import Event
from skblab_analysis.formats.run import Plan
from skblab_analysis.load import load
from skblab_analysis.report import by_row, markdown, runs, together
from skblab_analysis.runfolder import RunFolder


def layered(results: Path, more: int = 0) -> Path:
    """A run whose third layer takes so many ns more, of the baseline and of a setting."""
    plan = Plan(experiment="where", question="Where does it go?", seed=1, baseline="baseline")
    folder = RunFolder.create(results, "where", plan, synthetic=True)
    for boot in range(3):
        for setting, slower in (("baseline", 0), ("rules", 2500)):
            times = [1000 * (place + 1) for place in range(len(test_layering.POINTS) - 1)]
            times[2] += 10 * boot + slower + more
            folder.record_probe(
                test_layering.document(times), 0.1, of=test_layering.of(setting, boot)
            )
    return folder.finish(synthetic_run.environment(), {"measuring": 1.0})


def test_layers_of_two_runs_stand_in_one_table(tmp_path: Path) -> None:
    found = runs.of(
        [load(folder) for folder in (layered(tmp_path / "a"), layered(tmp_path / "b", 400))]
    )
    assert found.tables == ()
    [table] = by_row.of(found.rows)
    assert table.title == f"layers: {test_layering.TRAFFIC}, 100 packets/s"
    assert table.runs == ("run 1", "run 2")
    assert [group.setting for group in table.groups] == ["baseline", "rules"]
    third = f"{test_layering.POINTS[2]}→{test_layering.POINTS[3]}"
    for group in table.groups:
        rows = {row.name: row.cells for row in group.rows}
        # Each from point to point, the whole path, and the NAPI delay before it.
        assert len(rows) == len(test_layering.POINTS) + 1
        moved = {name for name, cells in rows.items() if cells[1].differs.share[:1] == "+"}
        assert moved == {third, "whole path"}
        # By the same 400 ns: a larger part of the layer than of the path.
        assert group.said == (
            f"{group.setting}, run 2: it differs most in whole path +400\u202fns and "
            f"{third} +400\u202fns.",
        )
    # 3 010 ns and what the packets of a trial differ by.
    mean = {row.name: row.cells[0].mean for row in table.groups[0].rows}[third]
    assert mean.startswith("3.01")


def test_a_layer_that_one_run_has_not_is_no_row(tmp_path: Path) -> None:
    line = runs.Line(
        run="run 2",
        number=2,
        started=datetime.now(UTC),
        interval=Interval(5.0, 1.0, 3),
        differs=None,
        first=True,
        mean="5 ns",
        half="±1 ns",
        median="5 ns",
        blocks="3",
        from_baseline=runs.Against(),
        from_first=runs.Against(),
    )
    third = replace(line, run="run 3", number=3, first=False)
    first = replace(line, run="run 1", number=1)
    rows = (
        runs.Compared("", "ns", (runs.Shared("a", (first, line, third)),), (), "one", "layers"),
        runs.Compared("", "ns", (runs.Shared("a", (line, third)),), (), "other", "layers"),
    )
    [table] = by_row.of(rows)
    [group] = table.groups
    assert table.runs == ("run 1", "run 2", "run 3")
    assert [[cell.mean for cell in row.cells] for row in group.rows] == [
        ["5 ns", "5 ns", "5 ns"],
        ["–", "5 ns", "5 ns"],
    ]
    assert group.said == ()


def test_the_page_has_layers_and_events_by_row(tmp_path: Path) -> None:
    def counted(results: Path, cycles: float) -> Path:
        plan = Plan(experiment="where", question="What?", seed=1, baseline="baseline")
        folder = RunFolder.create(results, "where", plan, synthetic=True)
        for block in range(3):
            event = Event(collector="perf: cycles", name="cycles", value=10 * (cycles + block))
            folder.record(test_events.collected(block, event))
        return folder.finish(synthetic_run.environment(), {"measuring": 1.0})

    folders = [layered(tmp_path / "a"), layered(tmp_path / "b", 400)]
    folders += [counted(tmp_path / "c", 900.0), counted(tmp_path / "d", 1800.0)]
    page = together.build(folders, tmp_path / "page", fake_gnuplot).page
    text = markdown.of_page(page.read_text())
    assert "**Layers: IPv4, 64 bytes, 1 flow, 100 packets/s**" in text
    assert "| perf: cycles, cycles (count/packet) | 901.0" in text
    assert "+99.9\u00a0%" in text
    page_checks.check(page)


def functions(results: Path, **found: int) -> Path:
    """A run in which functions were found so often in each of three blocks."""
    plan = Plan(experiment="where", question="Which?", seed=1, baseline="baseline")
    folder = RunFolder.create(results, "which", plan, synthetic=True)
    for block in range(3):
        # What scatters is not what differs.
        counts = {name: count + block for name, count in found.items()}
        folder.record(test_samples.sampled("baseline", block, "cpu-clock", **counts))
    return folder.finish(synthetic_run.environment(), {"measuring": 1.0})


def test_functions_that_one_run_alone_has_differ_by_all_they_take(tmp_path: Path) -> None:
    usual = {"ip_rcv": 300, "ip_forward": 400, "rare": 1}
    folders = [
        functions(tmp_path / "a", **usual),
        functions(tmp_path / "b", **usual, new_filter=200),
    ]
    found = runs.of([load(folder) for folder in folders])
    assert found.tables == () and found.apart == ()
    [table] = by_row.of(found.rows)
    assert table.title == "samples: IPv4, 1\u202f000 packets/s"
    [group] = table.groups
    rows = {row.name: row.cells for row in group.rows}
    # What is less than notable in both is in no row.
    assert list(rows) == ["ip_forward", "ip_rcv", "new_filter"]
    assert [cell.mean for cell in rows["new_filter"]] == ["0\u202fns", "20.1\u202fµs"]
    assert rows["ip_rcv"][1].differs.share.startswith("(")
    assert group.said == ("baseline, run 2: it differs most in new_filter +20.1\u202fµs.",)


def test_of_many_rows_those_are_there_that_differ_most(tmp_path: Path) -> None:
    many = {f"f{number}": 100 for number in range(30)}
    folders = [functions(tmp_path / "a", **many), functions(tmp_path / "b", **many | {"f7": 300})]
    [table] = by_row.of(runs.of([load(folder) for folder in folders]).rows)
    [group] = table.groups
    assert len(group.rows) == by_row.MOST_ROWS and table.left_out == 10
    assert "f7" in {row.name for row in group.rows}
    page = together.build(folders, tmp_path / "page", fake_gnuplot).page
    page_checks.check(page)
    assert "10 further rows differ by less." in page.read_text()


def test_a_layer_that_no_packet_has_takes_no_time(tmp_path: Path) -> None:
    sample = Sampled(
        measure="layers",
        figure="mean",
        part="ip→route",
        unit="ns",
        setting="baseline",
        blocks={0: 5.0, 1: 5.0},
        row="ip→route",
        may_be_zero=True,
    )
    delay = replace(sample, part="NAPI delay", row="NAPI delay", may_be_zero=False)
    whole = replace(sample, part="whole path", row="whole path")
    one = runs._One(1, load(layered(tmp_path / "a")))
    other = runs._One(2, load(layered(tmp_path / "b")))
    one.__dict__["samples"] = [whole, sample, delay]
    other.__dict__["samples"] = [whole]
    tables, _ = runs._tables([one, other], "wall")
    assert [table.row for table in tables] == ["whole path", "ip→route"]
    assert [line.mean for line in tables[1].settings[0].lines] == ["5\u202fns", "0\u202fns"]


def test_measures_that_come_in_turns_are_one_table_each() -> None:
    def row(name: str, measure: str, first: int = 1) -> runs.Compared:
        return runs.Compared("", "ns", (), (), name, measure, (1, first))

    # What a later run alone has comes after all of the first; and another place is another table.
    rows = (row("a", "layers"), row("c", "events"), row("b", "layers"), row("d", "layers", 3))
    assert [table.title for table in by_row.of(rows)] == ["layers", "events", "layers"]


def test_one_name_of_two_states_is_two_groups() -> None:
    rows = (
        runs.Compared(
            *("", "ns", (runs.Shared("x", (), (("gro", "on"),)), runs.Shared("x", ())), ()),
            *("a", "layers"),
        ),
    )
    [table] = by_row.of(rows)
    assert [group.setting for group in table.groups] == ["x", "x"]
