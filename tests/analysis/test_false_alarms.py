# SPDX-License-Identifier: GPL-2.0-or-later
"""A/A: of figures that are drawn, and of made-up runs whose settings all are the baseline."""

from __future__ import annotations

import random
from functools import partial
from pathlib import Path

import pytest
import searches
import synthetic_run
import test_latency
import test_layering
import typer
from typer.testing import CliRunner

from skblab_analysis import false_alarms
from skblab_analysis.base.certainty import CONFIDENCE, FalseAlarms, difference
from skblab_analysis.base.certainty import false_alarms as count_alarms
from skblab_analysis.exact import summary as exact
from skblab_analysis.exact.rows import ExactTrial
from skblab_analysis.false_alarms import DRAWN, KINDS
from skblab_analysis.formats.run import Plan
from skblab_analysis.runfolder import RunFolder

COMPARISONS = 600
NAMES = ("baseline", "baseline again", "baseline 3")


@pytest.mark.parametrize("blocks", DRAWN)
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_no_figure_alarms_more_often_than_promised(
    kind: false_alarms.Kind[float], blocks: int
) -> None:
    found = kind.alarms(blocks, COMPARISONS)
    assert found.comparisons == COMPARISONS
    # Three standard deviations of what is counted.
    promised = 1 - CONFIDENCE
    deviation = (promised * CONFIDENCE / COMPARISONS) ** 0.5
    assert found.alarms / COMPARISONS < promised + 3 * deviation
    # One that never alarms would detect nothing, but where it is the resolution that decides.
    if kind.name in ("p99", "layer", "rate") or (kind.name == "bench patch" and blocks > 3):
        assert found.alarms / COMPARISONS > promised - 4 * deviation


def test_figures_that_agree_by_chance_are_what_the_resolution_is_for() -> None:
    """Figures that have one of two values agree in both boots, and differ, in one of eight."""
    both = (1000.0, 1000.2)
    for compare, least, most in (
        (partial(difference, paired=False), 0.08, 0.17),
        (partial(exact.compare, whole=1000.0), 0, 0),
    ):
        made = false_alarms.Kind[float](
            "steps", ("", ""), lambda rng: 1.0, lambda rng, _: rng.choice(both), compare
        )
        assert least <= made.alarms(2, COMPARISONS).alarms / COMPARISONS <= most


def output(*arguments: str) -> str:
    app = typer.Typer()
    app.command()(false_alarms.main)
    done = CliRunner().invoke(app, list(arguments), env={"COLUMNS": "100"})
    return f"{done.exit_code}\n{done.output}".replace("\u00a0", " ")


def rows(text: str) -> dict[tuple[str, str], list[str]]:
    """Return what is printed by figure and blocks: comparisons, false alarms, share."""
    found = [line.split() for line in text.splitlines()]
    return {
        (cells[0], cells[1]): cells[2:5] for cells in found if cells[2:3] and cells[2].isdigit()
    }


def test_rates_of_a_run_are_compared_pair_by_pair(tmp_path: Path) -> None:
    low, high = [1000.0] * 6, [1100.0] * 6
    rates = {"baseline": low, "baseline again": low, "baseline 3": high, "other": high}
    run = searches.finished_run(tmp_path, list(searches.searches(rates)))
    text = output(str(run))
    assert text.startswith("0\n")
    # Three pairs in three groups of two blocks; one of the three settings differs from two.
    assert rows(text) == {
        ("rate", "2"): ["9", "6", "66.7"],
        ("rate", "3"): ["6", "4", "66.7"],
        ("rate", "all"): ["3", "2", "66.7"],
    }
    assert rows(output(str(run), "--names", "baseline a")) == {}


def test_all_measures_of_a_run_are_compared(tmp_path: Path) -> None:
    plan = Plan(experiment="aa", seed=1, baseline="baseline")
    folder = RunFolder.create(tmp_path, "aa", plan, synthetic=True)
    usual = [1000] * (len(test_layering.POINTS) - 1)
    for block in range(3):
        for name in NAMES:
            folder.record(
                ExactTrial(setting=name, block=block, packets=9, delivered=9, instructions=9000)
            )
            values = test_latency.latencies(40_000 + 500 * block)
            folder.record(test_latency.trial(name, block, values))
            document = test_layering.document(usual)
            folder.record_probe(document, 0.1, of=test_layering.of(name, block))
    folder.finish(synthetic_run.environment(), {"measuring": 1.0})
    found = rows(output(str(folder.path)))
    assert {name for name, _ in found} == {"instructions", "p99", "late", "lost", "layer"}
    assert found["instructions", "all"] == ["3", "0", "0.0"]
    assert found["p99", "2"] == ["3", "0", "0.0"]


def test_a_run_without_blocks_is_said(tmp_path: Path) -> None:
    run = searches.finished_run(tmp_path, [searches.search("baseline", 0, 1000.0)])
    text = output(str(run))
    assert text.startswith("2\n")
    assert "no two settings whose names begin with 'baseline' have two blocks" in text
    assert output(str(tmp_path / "none")).startswith("2\n")


@pytest.mark.parametrize(
    ("alarms", "comparisons", "ends"),
    [
        # From the tables of binomial confidence limits.
        (0, 10, (0, 0.3085)),
        (1, 20, (0.0013, 0.2487)),
        (10, 10, (0.6915, 1)),
    ],
)
def test_the_interval_of_the_share(
    alarms: int, comparisons: int, ends: tuple[float, float]
) -> None:
    found = false_alarms.interval(FalseAlarms(comparisons, alarms))
    assert found == pytest.approx(ends, abs=1e-4)


def test_the_table_has_all_kinds_of_figures() -> None:
    table = false_alarms.simulated(20)
    assert table.row_count == len(KINDS)
    assert len(table.columns) == 3 + len(DRAWN)


@pytest.mark.parametrize(
    ("boots", "deviations", "least", "most"),
    [
        # The larger sample scatters more, or has a part in it: far more seldom than promised.
        ((5, 2), (20, 1), 0, 0.01),
        ((2, 5), (1, 20), 0, 0.01),
        ((5, 2), (1, 3), 0, 0.01),
        ((2, 5), (3, 1), 0, 0.01),
        # The smaller one does, and decides: as promised.
        ((5, 2), (1, 20), 0.035, 0.065),
        ((2, 5), (20, 1), 0.035, 0.065),
        # As many boots of both, which is the rule: Welch's.
        ((2, 2), (20, 1), 0.035, 0.08),
        ((5, 5), (1, 20), 0.035, 0.065),
        ((5, 5), (1, 1), 0.035, 0.065),
    ],
)
def test_two_samples_of_unequal_size_and_spread_alarm_no_more_than_promised(
    boots: tuple[int, int], deviations: tuple[float, float], least: float, most: float
) -> None:
    rng = random.Random(1)
    found = []
    for _ in range(4000):
        baseline, other = (
            {boot: rng.gauss(1000, deviation) for boot in range(count)}
            for count, deviation in zip(boots, deviations, strict=True)
        )
        compared = difference(baseline, other, paired=False)
        assert compared is not None
        found.append(compared)
    assert least <= count_alarms(found).alarms / 4000 < most
