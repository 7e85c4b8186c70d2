# SPDX-License-Identifier: GPL-2.0-or-later
"""Latency at given rates: how packets of a latency trial arrived, and by setting over all blocks.

One-way latency is from a packet's stamp at the generator to its arrival at the sink, on one clock.
Settings are compared within a traffic and a rate only, block by block: by the 99th percentile, and
by how many packets were late or lost. A block in which the generator did not keep the rate is in
the figures of its setting, and in no comparison: what it tells is of another rate.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce

from skblab_analysis.base import certainty
from skblab_analysis.base.certainty import AGAIN, Counts, Difference, FalseAlarms, Sample
from skblab_analysis.base.histogram import SUB_BUCKETS, Histogram
from skblab_analysis.base.offered import AtRate
from skblab_analysis.exact.summary import tester_name
from skblab_analysis.latency.rows import COMPARED, LateRow
from skblab_analysis.layers.series import Series
from skblab_analysis.load import Run, once
from skblab_analysis.trials.rows import Part

# The resolution of a percentile: a bucket's width.
RESOLUTION = 1 / SUB_BUCKETS


@dataclass(frozen=True)
class Lateness:
    """How many packets were late by a threshold, and in how many runs of `in_a_row` or more."""

    threshold_ns: int
    in_a_row: int
    packets: int
    late: int
    runs: int
    in_runs: int
    longest: int

    @property
    def share(self) -> float:
        """Late packets, of those whose latency is known."""
        return self.late / self.packets if self.packets else 0.0


@dataclass(frozen=True)
class Arrived(AtRate):
    """A good latency trial, as it was recorded."""

    setting: str
    part: Part
    block: int
    boot_knobs: str
    traffic: str
    tried: int
    lost: int
    figures: Mapping[str, Series]
    lateness: tuple[Lateness, ...]


@dataclass(frozen=True)
class Delay:
    """A setting at a rate: its trials, one in each block."""

    setting: str
    trials: tuple[Arrived, ...]

    @property
    def tried(self) -> int:
        """Packets that the generator put out in all blocks."""
        return sum(trial.tried for trial in self.trials)

    @property
    def lost(self) -> int:
        """Packets lost in all blocks."""
        return sum(trial.lost for trial in self.trials)

    def histogram(self, figure: str = "latency") -> Histogram:
        """Return a figure's histogram over all blocks."""
        return reduce(
            Histogram.merge,
            (trial.figures[figure].histogram for trial in self.trials),
            Histogram({}),
        )

    @cached_property
    def latency(self) -> Histogram:
        """One-way latency over all blocks, in ns."""
        return self.histogram()

    @property
    def lateness(self) -> tuple[Lateness, ...]:
        """By threshold, over all blocks."""
        by_threshold: dict[int, list[Lateness]] = {}
        for trial in self.trials:
            for late in trial.lateness:
                by_threshold.setdefault(late.threshold_ns, []).append(late)
        return tuple(_sum(by_threshold[threshold]) for threshold in sorted(by_threshold))

    def compared(self) -> dict[int, float]:
        """Return the percentile that settings are compared by, in ns, of blocks that have it."""
        found = {
            trial.block: trial.figures["latency"].histogram.quantile(COMPARED)
            for trial in self.trials
            if trial.kept
        }
        return {block: value for block, value in found.items() if value is not None}

    def late_by_block(self) -> Counts:
        """Return late packets by the first threshold, and all, of blocks that kept the rate."""
        first = {
            trial.block: min(trial.lateness, key=lambda late: late.threshold_ns)
            for trial in self.trials
            if trial.kept and trial.lateness
        }
        return {block: (late.late, late.packets) for block, late in first.items() if late.packets}

    def lost_by_block(self) -> Counts:
        """Return lost packets, and all that were tried, of blocks that kept the rate."""
        return {
            trial.block: (trial.lost, trial.tried)
            for trial in self.trials
            if trial.kept and trial.tried
        }


@dataclass(frozen=True)
class Change:
    """What a setting differs from the baseline: 99th percentile (ns), share of late and lost ones.

    None where no block has both.
    """

    setting: str
    compared: Difference | None
    late: Difference | None
    lost: Difference | None


@dataclass(frozen=True)
class LatencySummary:
    """All settings at one rate of one traffic, the baseline first, then in the order given.

    Each way of booting has a tester of its own: the floor, which is in every figure.
    """

    traffic: str
    rate: int
    baseline: str | None
    delays: tuple[Delay, ...]
    changes: tuple[Change, ...]
    testers: tuple[Delay, ...]

    def change(self, setting: str) -> Change | None:
        """Return what a setting differs from the baseline; None of the baseline itself."""
        return next((change for change in self.changes if change.setting == setting), None)


def in_order(kinds: Sequence[tuple[str, int]]) -> list[tuple[str, int]]:
    """Return each traffic and rate once: traffic as it comes first, rates from the lowest."""
    traffic = list(dict.fromkeys(name for name, _ in kinds))
    return sorted(set(kinds), key=lambda kind: (traffic.index(kind[0]), kind[1]))


@once
def of(run: Run) -> list[LatencySummary]:
    """Return how a run's packets arrived at given rates, of each traffic and rate."""
    late: dict[int, list[Lateness]] = {}
    for row in run.rows(LateRow):
        late.setdefault(row.trial, []).append(
            Lateness(
                threshold_ns=row.threshold,
                in_a_row=row.in_a_row,
                packets=row.packets,
                late=row.late,
                runs=row.anomalies,
                in_runs=row.in_anomalies,
                longest=row.longest,
            )
        )
    arrived = [
        Arrived(
            setting=row.setting,
            part=row.part,
            block=row.block,
            boot_knobs=row.boot_knobs,
            traffic=row.traffic,
            rate=row.rate,
            offered_rate=row.send_rate or 0.0,
            tried=row.tried or 0,
            lost=row.lost or 0,
            figures={figure.layer: figure for figure in figures},
            lateness=tuple(late.get(row.trial, ())),
        )
        for row in run.trials
        if (figures := [series for series in run.of_trial(row.trial) if series.kind == "arrival"])
        if row.rate is not None
    ]
    return summaries(run.in_order(arrived), run.document.plan.baseline)


def summaries(trials: Sequence[Arrived], baseline: str | None) -> list[LatencySummary]:
    """Sum up the trials of each traffic, in the order given, and of each rate."""
    kinds = in_order([(trial.traffic, trial.rate) for trial in trials if trial.part == "whole"])
    return [
        _summary(
            traffic,
            rate,
            [trial for trial in trials if (trial.traffic, trial.rate) == (traffic, rate)],
            baseline,
        )
        for traffic, rate in kinds
    ]


def false_alarms(found: Sequence[LatencySummary]) -> FalseAlarms:
    """Return how often the baseline differed significantly from itself, by the percentile."""
    again = [change for summary in found if (change := summary.change(AGAIN)) is not None]
    return certainty.false_alarms(
        [change.compared for change in again if change.compared is not None]
    )


def compare(baseline: Sample, other: Sample) -> Difference | None:
    """Return the difference of two percentiles by block."""
    return certainty.difference(baseline, other, resolution=RESOLUTION, relative=True)


def _summary(
    traffic: str, rate: int, trials: Sequence[Arrived], baseline: str | None
) -> LatencySummary:
    wholes = [trial for trial in trials if trial.part == "whole"]
    names = list(dict.fromkeys(trial.setting for trial in wholes))
    names.sort(key=lambda name: name != baseline)
    delays = tuple(
        Delay(name, tuple(trial for trial in wholes if trial.setting == name)) for name in names
    )
    testers = [trial for trial in trials if trial.part == "tester"]
    known = names[0] == baseline
    return LatencySummary(
        traffic=traffic,
        rate=rate,
        baseline=baseline if known else None,
        delays=delays,
        changes=tuple(_change(delay, delays[0]) for delay in delays[1:]) if known else (),
        testers=tuple(
            Delay(
                tester_name(knobs), tuple(trial for trial in testers if trial.boot_knobs == knobs)
            )
            for knobs in dict.fromkeys(trial.boot_knobs for trial in testers)
        ),
    )


def _change(delay: Delay, baseline: Delay) -> Change:
    return Change(
        delay.setting,
        compare(baseline.compared(), delay.compared()),
        certainty.difference_of_shares(baseline.late_by_block(), delay.late_by_block()),
        certainty.difference_of_shares(baseline.lost_by_block(), delay.lost_by_block()),
    )


def _sum(found: Sequence[Lateness]) -> Lateness:
    first = found[0]
    return Lateness(
        threshold_ns=first.threshold_ns,
        in_a_row=first.in_a_row,
        packets=sum(late.packets for late in found),
        late=sum(late.late for late in found),
        runs=sum(late.runs for late in found),
        in_runs=sum(late.in_runs for late in found),
        longest=max(late.longest for late in found),
    )
