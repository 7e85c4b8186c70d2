# SPDX-License-Identifier: GPL-2.0-or-later
"""RFC 2544's other tests: recorded, summed up, and shown."""

from __future__ import annotations

from pathlib import Path

import pytest
import searches
from rich.table import Table
from test_report import fake_gnuplot

from skblab_analysis.base.words import FIXED_SPACE
from skblab_analysis.load import Run, load
from skblab_analysis.report import findings
from skblab_analysis.report.page import build_report
from skblab_analysis.report.terminal import of_run
from skblab_analysis.rfc2544 import picture
from skblab_analysis.rfc2544 import summary as rfc2544_summary
from skblab_analysis.rfc2544 import view as benchmarks
from skblab_analysis.rfc2544.rows import Figure, FigureRow
from skblab_analysis.rfc2544.summary import Rfc2544Summary, summaries


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Two settings in two blocks, the second one of which has no other tests."""
    folder = searches.finished_run(tmp_path, list(searches.searches({"baseline": [80_000.0]})))
    return load(folder)


def of(*figures: Figure) -> Rfc2544Summary:
    found = [
        FigureRow(
            trial=0, setting="baseline", block=0, traffic=searches.TRAFFIC, **figure.model_dump()
        )
        for figure in figures
    ]
    [summary] = summaries(found)
    return summary


def test_figures_are_means_over_all_repetitions() -> None:
    [one] = of(*searches.tested(80_000.0, 200_000.0)).settings
    assert one.latency_ns is not None and one.latency_ns.mean == 32_000
    assert one.latency_ns.deviation == pytest.approx(1_414, abs=1)
    assert one.burst is not None and (one.burst.mean, one.burst.count) == (510, 3)
    assert one.buffer_s is not None
    assert one.buffer_s.mean == pytest.approx(510 / 200_000 * 0.6)
    assert one.recovery_s is not None and one.recovery_s.mean == 0.5
    assert one.loss == pytest.approx({1.0: 60.0, 0.9: 55.6, 0.4: 0.0, 0.3: 0.0}, abs=0.1)


def test_a_table_has_a_row_for_each_setting() -> None:
    summary = of(*searches.tested(80_000.0, 200_000.0))
    [row] = benchmarks.rows(summary)
    assert tuple(figure.replace(FIXED_SPACE, " ") for figure in row.figures) == (
        "32.0 µs ± 1.41 µs",
        "8.00 µs",
        "510 ± 10",
        "1.53 ms ± 30.0 µs",
        "500 ms ± 354 ms",
    )
    assert benchmarks.load_names(summary) == ["100\xa0%", "90\xa0%", "40\xa0%", "30\xa0%"]
    [loss] = benchmarks.loss_rows(summary)
    assert loss.figures == ("60.0", "55.6", "0.0", "0.0")
    assert [table.title for table in benchmarks.tables(summary)] == [
        f"RFC 2544 ({searches.TRAFFIC})",
        f"Frame loss rate (%, by share of the tester's maximum, {searches.TRAFFIC})",
    ]


def test_fine_steps_are_thinned_for_a_table() -> None:
    fine = [
        Figure(
            test="frame loss", repeat=at, load=1e5, share=1 - at / 100, seconds=1, loss_percent=1
        )
        for at in range(60)
    ]
    summary = of(*fine)
    assert len(benchmarks.loads(summary)) == 10
    assert benchmarks.rows(summary) == []
    [table] = benchmarks.tables(summary)
    assert table.title is not None and "Frame loss rate" in str(table.title)


def test_bounds_and_what_is_none_are_said() -> None:
    burst = Figure(
        test="back-to-back", repeat=0, load=2e5, seconds=1, burst=200_000, buffer_s=0.5, open=True
    )
    why = "packets were lost until the end"
    lasting = Figure(test="recovery", repeat=0, load=1e5, seconds=1, open=True, reason=why)
    summary = of(burst, lasting)
    [row] = benchmarks.rows(summary)
    assert row.figures == ("–", "–", "≥ 200 000", "≥ 500 ms", "not")
    assert benchmarks.note(summary).endswith("no burst that was tried lost anything.")
    assert benchmarks.unseen([summary]) == [
        f"{searches.TRAFFIC}: RFC 2544's recovery is missing with baseline (1 of 1): {why}."
    ]


def test_a_mean_with_a_bound_in_it_is_a_bound() -> None:
    burst = Figure(test="back-to-back", repeat=0, load=2e5, seconds=1, burst=9, buffer_s=0.5)
    bound = burst.model_copy(update={"repeat": 1, "burst": 11, "open": True})
    [one] = of(burst, bound).settings
    assert one.burst is not None and (one.burst.mean, one.burst.open) == (10, True)


def test_what_is_missing_is_said_with_its_reason() -> None:
    tagged = Figure(test="latency", repeat=0, load=1e5, seconds=1, latency_ns=5_000)
    absent = tagged.model_copy(update={"repeat": 1, "latency_ns": None, "reason": "none came"})
    slow = Figure(test="back-to-back", repeat=0, load=2e5, seconds=1, reason="too slow")
    late = Figure(
        test="frame loss", repeat=0, load=2e5, seconds=1, share=1, limit="generator", reason="late"
    )
    summary = of(tagged, absent, slow, late)
    [row] = benchmarks.rows(summary)
    assert row.figures == ("5.00 µs (1 of 2)", "–", "missing", "–", "–")
    assert benchmarks.loss_rows(summary) == []
    assert benchmarks.unseen([summary]) == [
        f"{searches.TRAFFIC}: RFC 2544's {test} is missing with baseline ({count}): {why}."
        for test, count, why in (
            ("latency", "1 of 2", "none came"),
            ("back-to-back", "1 of 1", "too slow"),
            ("frame loss", "1 of 1", "late"),
        )
    ]


def test_a_recovery_as_short_as_can_be_told_is_a_bound() -> None:
    short = Figure(test="recovery", repeat=0, load=1e5, seconds=1, recovery_s=0.01, within_s=0.03)
    [row] = benchmarks.rows(of(short))
    assert row.figures[-1] == "≤ 30.0 ms"
    [row] = benchmarks.rows(of(short.model_copy(update={"recovery_s": 0.04})))
    assert row.figures[-1] == "40.0 ms"


def test_a_block_without_loss_counts_at_loads_below_where_it_ended() -> None:
    """Four blocks: three end at 80 %, and one loses at 70 %, and of one the load was not kept."""

    def block(boot: int, *losses: float | None) -> list[FigureRow]:
        return [
            FigureRow(
                trial=0,
                **{"setting": "baseline", "block": boot, "traffic": "IPv4", "test": "frame loss"},
                **{"repeat": at, "load": 1e5, "seconds": 1, "share": 1 - at / 10},
                loss_percent=lost,
            )
            for at, lost in enumerate(losses)
        ]

    clean = [row for boot in range(3) for row in block(boot, 4.0, 0.0, 0.0)]
    found = [*clean, *block(3, 8.0, 2.0, 4.0, 1.2, 0.0, 0.0), *block(4, 8.0, None, 0.0)]
    [summary] = summaries(found)
    [one] = summary.settings
    expected = {1.0: 28 / 5, 0.9: 0.5, 0.8: 4 / 5, 0.7: 0.3, 0.6: 0.0, 0.5: 0.0}
    assert one.loss == pytest.approx(expected)


def test_a_run_has_them_in_its_tables_and_its_report(tmp_path: Path) -> None:
    made = searches.search("baseline", 0, 80_000.0)
    folder = searches.finished_run(tmp_path, [made], list(searches.tested(80_000.0, 200_000.0)))
    run = load(folder)
    assert len(rfc2544_summary.of(run)) == 1
    titles = [str(table.title) for table in of_run(folder) if isinstance(table, Table)]
    assert any(title.startswith("RFC 2544 (") for title in titles)
    page = build_report(folder, fake_gnuplot).read_text()
    assert "RFC 2544’s other tests" in page
    assert "Frame loss rate (26.3)" in page
    [section] = benchmarks.VIEW.sections(run)
    [drawn] = section.pictures
    assert drawn.title.startswith("Frame loss by offered load")
    assert findings.unseen(run)
    found = {one.figure: one for one in benchmarks.VIEW.figures(run) if one.figure != "frame loss"}
    assert {name: (one.value, one.unit) for name, one in found.items()} == {
        "latency": (32_000, "ns"),
        "latency of the tester": (8_000, "ns"),
        "back-to-back": (510, "packets"),
        "buffer": (pytest.approx(510 / 200_000 * 0.6), "s"),
        "recovery": (0.5, "s"),
    }


def lossy(name: str, *losses: float) -> list[FigureRow]:
    """Return the frame loss of a setting from the whole load down by tenths, in per cent."""
    return [
        FigureRow(
            trial=0,
            **{"setting": name, "block": 0, "traffic": "IPv4", "test": "frame loss"},
            **{"repeat": at, "load": 1e5, "seconds": 1, "share": 1 - at / 10},
            loss_percent=lost,
        )
        for at, lost in enumerate(losses)
    ]


def test_frame_loss_is_drawn_by_load() -> None:
    [summary] = summaries([*lossy("baseline", 50, 40, 0, 0), *lossy("one load", 3)])
    drawn = picture.picture(summary, "baseline")
    assert drawn is not None and drawn.variables["series"] == 1, "of one load there is no line"
    rows = [line.split() for line in drawn.data.splitlines() if not line.startswith("#")]
    values = [[float(row[at]) for at in (0, 1, 4)] for row in rows]
    # Offered, lost, and what came out, all in per cent.
    assert values == [
        pytest.approx(row) for row in ([70, 0, 70], [80, 0, 80], [90, 40, 54], [100, 50, 50])
    ]
    assert "50.0 % lost at 100" in drawn.description
    [alone] = summaries(lossy("one load", 3))
    assert picture.picture(alone, "baseline") is None


def test_of_many_settings_those_are_drawn_that_differ_most() -> None:
    many = [lossy(f"setting {at}", 10 + at, 0, 0) for at in range(9)]
    [summary] = summaries([row for rows in (*many, lossy("baseline", 10, 0, 0)) for row in rows])
    names = [one.setting for one in picture.shown(summary, "baseline")]
    assert names == [*(f"setting {at}" for at in range(2, 9)), "baseline"]
    # Without a baseline nothing differs: the first ones.
    assert len(picture.shown(summary, None)) == 8


def test_a_run_without_them_shows_none(run: Run) -> None:
    assert rfc2544_summary.of(run) == []
    assert "other tests" not in build_report(run.folder, fake_gnuplot).read_text()
