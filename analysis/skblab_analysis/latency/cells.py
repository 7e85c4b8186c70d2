# SPDX-License-Identifier: GPL-2.0-or-later
"""The figures of tables of latency, as text."""

from __future__ import annotations

from dataclasses import dataclass

from skblab_analysis.base.certainty import Difference
from skblab_analysis.base.differences import difference_text, half_text
from skblab_analysis.base.histogram import Histogram
from skblab_analysis.base.offered import behind
from skblab_analysis.base.words import ABSENT, Scale, number, quantity, scale, small_share
from skblab_analysis.latency.rows import COMPARED
from skblab_analysis.latency.summary import Delay, LatencySummary, Lateness

QUANTILES = {"p50": 0.5, "p99": COMPARED, "p99.9": 0.999, "p99.99": 0.9999}
# What a whole has of late packets is given in parts of this.
MILLION = 1_000_000


@dataclass(frozen=True)
class DelayCells:
    """The row of a setting: what was lost, its percentiles, and what it differs from the baseline.

    `times`: one for each of QUANTILES, and the longest.
    """

    setting: str
    blocks: str
    lost: str
    times: tuple[str, ...]
    difference: str
    half: str
    rate: str


@dataclass(frozen=True)
class LateCells:
    """The row of a setting and a threshold: late packets, runs of them, and packets in these."""

    setting: str
    threshold: str
    late: str
    share: str
    runs: str
    in_runs: str
    longest: str
    difference: str


def scale_of(summary: LatencySummary) -> Scale:
    """Return the one scale in which all its times are written."""
    longest = [delay.latency.maximum for delay in (*summary.delays, *summary.testers)]
    return scale("ns", max(longest, default=0))


def rows(summary: LatencySummary, space: str = " ") -> list[DelayCells]:
    """Return a row for every setting, and last ones for the tester if it was measured."""
    return [_cells(delay, summary, space) for delay in (*summary.delays, *summary.testers)]


def late_rows(summary: LatencySummary, space: str = " ") -> list[LateCells]:
    """Return a row for every setting and threshold, the tester's last."""
    return [
        _late(delay, late, summary, space)
        for delay in (*summary.delays, *summary.testers)
        for late in delay.lateness
    ]


def figure_row(delay: Delay, figure: str, scaled: Scale, space: str = " ") -> tuple[str, ...]:
    """Return percentiles and the longest of a figure of a setting, as `rows` has latency's."""
    return _times(delay.histogram(figure), scaled, space)


def _cells(delay: Delay, summary: LatencySummary, space: str) -> DelayCells:
    change = summary.change(delay.setting)
    compared = change.compared if change else None
    if delay.setting == summary.baseline:
        difference = "baseline"
    elif change is None:
        difference = ""
    else:
        difference = ABSENT if compared is None else difference_text(compared)
    slow = min((trial.offered_rate for trial in delay.trials), default=0.0)
    return DelayCells(
        setting=delay.setting,
        blocks=str(len(delay.trials)),
        lost=small_share(delay.lost / delay.tried if delay.tried else None),
        times=_times(delay.latency, scale_of(summary), space),
        difference=difference,
        half="" if compared is None else half_text(compared),
        rate=f"{number(slow, 0, space)} at least" if behind(delay.trials) else "kept",
    )


def _times(found: Histogram, scaled: Scale, space: str) -> tuple[str, ...]:
    values = [found.quantile(share) for share in QUANTILES.values()]
    longest = found.maximum if found.buckets else None
    return tuple(scaled.text(value, space) for value in (*values, longest))


def _late(delay: Delay, lateness: Lateness, summary: LatencySummary, space: str) -> LateCells:
    change = summary.change(delay.setting)
    first = min(late.threshold_ns for late in delay.lateness)
    difference = ""
    if lateness.threshold_ns == first and change is not None and change.late is not None:
        difference = _per_million(change.late, space)
    return LateCells(
        setting=delay.setting,
        threshold=quantity(lateness.threshold_ns, "ns", space),
        late=number(lateness.late, 0, space),
        share=small_share(lateness.share),
        runs=number(lateness.runs, 0, space),
        in_runs=number(lateness.in_runs, 0, space),
        longest=number(lateness.longest, 0, space),
        difference=difference,
    )


def _per_million(difference: Difference, space: str) -> str:
    more = MILLION * difference.effect
    text = f"{'+' if more > 0 else ''}{number(more, 1, space)}"
    if difference.margin is not None:
        text += f" ±{number(MILLION * difference.margin, 1, space)}"
    return text if difference.significant else f"({text})"
