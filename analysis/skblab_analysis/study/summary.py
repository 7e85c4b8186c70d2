# SPDX-License-Identifier: GPL-2.0-or-later
"""Changes of rate and latency by setting, published and ours, and how far they agree.

Of counted instructions our rate is that of a processor that takes as long for each of them: with a
path that is longer by a share s, 1 / (1 + s) of the rate. Two changes agree in their direction if
both are of one sign, or both within `NONE`. The order of settings agrees by Spearman's rank
correlation, in which all changes within `NONE` are one. Figures of latency are compared block by
block, of blocks that kept the rate.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from skblab_analysis.base import certainty
from skblab_analysis.base.certainty import Counts, Difference, Sample
from skblab_analysis.base.comparison import Comparison
from skblab_analysis.exact import view as exact
from skblab_analysis.formats.published_study import (
    PublishedStudy,
    of_parameters,
    threshold_us,
)
from skblab_analysis.latency import summary as latency
from skblab_analysis.latency.summary import Delay, LatencySummary
from skblab_analysis.load import Run, once
from skblab_analysis.throughput import view as throughput

# Measures that say something of rates.
RATES = (exact.VIEW, throughput.VIEW)
LATENCY = "latency"
# A change that is less than that, either way, is none: studies round their rates to about as much.
NONE = 0.01
# Fewer settings that change something have no order to speak of.
LEAST_RANKED = 5


@dataclass(frozen=True)
class Beside:
    """A setting's change of a figure, published and ours, as shares of the baseline's.

    `significant` is whether ours is; None: not known. `figure` is empty of the rate.
    """

    setting: str
    published: float
    ours: float
    significant: bool | None
    figure: str = ""

    @property
    def name(self) -> str:
        """The setting, and which figure of latency."""
        return f"{self.setting}: {self.figure}" if self.figure else self.setting

    @property
    def agrees(self) -> bool:
        """Whether both go in one direction."""
        return direction(self.published) == direction(self.ours)


@dataclass(frozen=True)
class StudySummary:
    """A study beside what one measure says of one traffic, at one rate if it has one.

    `missing` are figures of latency of which our baseline has none, `unknown` those that no block
    of both has.
    """

    study: PublishedStudy
    measure: str
    figure: str
    traffic: str
    rows: tuple[Beside, ...]
    rate: int | None = None
    missing: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()

    @property
    def agreeing(self) -> int:
        """How many rows agree in their direction."""
        return sum(row.agrees for row in self.rows)

    @property
    def rank_correlation(self) -> float | None:
        """Spearman's, from -1 to 1; None of too few settings, or where all changes are alike.

        Figures of latency are of different kinds, and have no order.
        """
        if self.measure == LATENCY:
            return None
        published = [row.published * abs(direction(row.published)) for row in self.rows]
        ours = [row.ours * abs(direction(row.ours)) for row in self.rows]
        changing = sum(change != 0 for change in published)
        if changing < LEAST_RANKED or 1 in (len(set(published)), len(set(ours))):
            return None
        # It takes a while to load, and few runs are of a study.
        from scipy.stats import spearmanr

        return float(spearmanr(published, ours).statistic)


def direction(change: float) -> int:
    """Return 1 of a rise, -1 of a drop, 0 of neither."""
    if abs(change) < NONE:
        return 0
    return 1 if change > 0 else -1


@once
def of(run: Run) -> list[StudySummary]:
    """Return what each measure of rates says of each traffic, in the order of measures."""
    study = of_parameters(run.document.plan.parameters)
    if study is None:
        return []
    found = []
    for comparison in (one for view in RATES for one in view.compared(run)):
        if rows := tuple(_rows(study, comparison)):
            found.append(
                StudySummary(
                    study=study,
                    measure=comparison.measure,
                    figure=comparison.part or comparison.figure,
                    traffic=comparison.traffic,
                    rows=rows,
                )
            )
    return [*found, *_of_latency(study, latency.of(run))]


def _rows(study: PublishedStudy, comparison: Comparison) -> Iterator[Beside]:
    changes = {change.setting: change.difference for change in comparison.others}
    for setting, rate in study.rates.items():
        difference = changes.get(setting)
        ours = None if difference is None else _rate_change(comparison, difference)
        if difference is not None and ours is not None:
            yield Beside(setting, rate.change, ours, difference.significant)


def _rate_change(comparison: Comparison, difference: Difference) -> float | None:
    share = comparison.share(difference)
    if share is None or comparison.more_is_better:
        return share
    return 1 / (1 + share) - 1 if share > -1 else None


def _of_latency(study: PublishedStudy, found: Sequence[LatencySummary]) -> Iterator[StudySummary]:
    """Yield what is published of latency beside ours, of each traffic and rate."""
    for summary in found if study.latency else ():
        if summary.baseline is None:
            continue
        rows: list[Beside] = []
        missing: list[str] = []
        unknown: list[str] = []
        first, *others = summary.delays
        for delay in others:
            for figure, published in study.latency.get(delay.setting, {}).items():
                differs = _difference(first, delay, figure)
                if differs is None:
                    unknown.append(figure)
                elif not differs.of:
                    missing.append(figure)
                else:
                    ours, known = differs.share, differs.significant
                    rows.append(Beside(delay.setting, published.change, ours, known, figure))
        if rows or missing or unknown:
            yield StudySummary(
                study=study,
                measure=LATENCY,
                figure="",
                traffic=summary.traffic,
                rows=tuple(rows),
                rate=summary.rate,
                missing=tuple(dict.fromkeys(missing)),
                unknown=tuple(dict.fromkeys(unknown)),
            )


def _difference(first: Delay, other: Delay, figure: str) -> Difference | None:
    """Return what a figure differs, block by block; None if no block has both."""
    from_us = threshold_us(figure)
    if from_us is not None:
        return certainty.difference_of_shares(
            *(_anomalies(delay, 1000 * from_us) for delay in (first, other))
        )
    times = [_times(delay, figure) for delay in (first, other)]
    shortest = min((time for sample in times for time in sample.values()), default=1.0)
    bounded = any(
        trial.figures["latency"].histogram.bounded
        for delay in (first, other)
        for trial in delay.trials
    )
    # Of times in whole nanoseconds; or of the edges of buckets.
    resolution = latency.RESOLUTION if bounded and figure != "mean" else 1 / shortest
    return certainty.difference(*times, resolution=resolution, relative=True)


def _anomalies(delay: Delay, threshold_ns: int) -> Counts:
    """Return anomalies from that threshold, and packets, of blocks that kept the rate."""
    return {
        trial.block: (late.runs, late.packets)
        for trial in delay.trials
        if trial.kept
        for late in trial.lateness
        if late.threshold_ns == threshold_ns and late.packets
    }


def _times(delay: Delay, figure: str) -> Sample:
    """Return a time in ns by block, of blocks that kept the rate."""
    found = {}
    for trial in delay.trials:
        histogram = trial.figures["latency"].histogram
        if trial.kept and histogram.count:
            times = {"min": histogram.minimum, "mean": histogram.mean, "max": histogram.maximum}
            if time := times[figure]:
                found[trial.block] = float(time)
    return found
