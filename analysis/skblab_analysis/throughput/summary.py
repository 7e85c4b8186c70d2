# SPDX-License-Identifier: GPL-2.0-or-later
"""Throughput: what a search found for each of its goals, and by setting over all blocks.

A search is draft-ietf-bmwg-mlrsearch's. Its figure is the conditional throughput, in packets per
second: what arrives at the greatest load that is good by a goal. Each block has one of each
setting. Figures are compared within a goal and a traffic only. A search is sure to its width, and
no better, however well blocks agree: that is the resolution of rates and of their differences.
A setting that has no good load in some block has the rate of its other blocks, and whether that
differs is not known.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import mean

from skblab_analysis.base import certainty
from skblab_analysis.base.certainty import (
    AGAIN,
    Change,
    Difference,
    FalseAlarms,
    Interval,
    Sample,
)
from skblab_analysis.exact.summary import tester_name
from skblab_analysis.load import Run, once
from skblab_analysis.throughput.rows import (
    FoundRow,
    Judgement,
    judge_unmeasured,
)


@dataclass(frozen=True)
class Rate:
    """What passes with one setting by one goal, in packets per second.

    `blocks` has it by block, and `none` is the number of blocks in which no load was good.
    """

    setting: str
    blocks: Mapping[int, float]
    none: int
    interval: Interval | None
    judgement: Judgement | None

    @property
    def of_blocks(self) -> str:
        """In how many of its blocks a load was good: "3", or "2 of 3"."""
        good = len(self.blocks)
        return f"{good} of {good + self.none}" if self.none else str(good)


@dataclass(frozen=True)
class GoalSummary:
    """All settings by one goal, the baseline first, then in the order given.

    Each way of booting has a tester of its own.
    """

    goal: str
    loss_ratio: float
    exceed_ratio: float
    width: float
    baseline: str | None
    rates: tuple[Rate, ...]
    changes: tuple[Change, ...]
    testers: tuple[Rate, ...]

    def rate(self, setting: str) -> Rate | None:
        """Return the rate of a setting; None if it has none."""
        return next((rate for rate in self.rates if rate.setting == setting), None)

    def change(self, setting: str) -> Change | None:
        """Return what a setting differs from the baseline; None of the baseline itself."""
        return next((change for change in self.changes if change.setting == setting), None)

    @property
    def best(self) -> Change | None:
        """The setting with which most passes, significantly more than with the baseline."""
        better = [
            change
            for change in self.changes
            if change.difference.significant
            and change.difference.effect > 0
            and change.setting != AGAIN
        ]
        return max(better, key=lambda change: change.difference.share, default=None)


@dataclass(frozen=True)
class ThroughputSummary:
    """All that was searched with one traffic; the first goal is the one that decides."""

    traffic: str
    goals: tuple[GoalSummary, ...]

    @property
    def main(self) -> GoalSummary:
        """The goal by which settings are compared."""
        return self.goals[0]


@once
def of(run: Run) -> list[ThroughputSummary]:
    """Return what a run's searches for throughput found, of each traffic; none if it has none."""
    return summaries(run.in_order(run.rows(FoundRow)), run.document.plan.baseline)


def summaries(results: Sequence[FoundRow], baseline: str | None) -> list[ThroughputSummary]:
    """Sum up the results of each traffic, in the order given."""
    found = []
    for traffic in dict.fromkeys(result.traffic for result in results if result.part == "whole"):
        ours = [result for result in results if result.traffic == traffic]
        goals = dict.fromkeys(result.goal for result in ours if result.part == "whole")
        found.append(
            ThroughputSummary(
                traffic,
                tuple(
                    _goal([result for result in ours if result.goal == goal], baseline)
                    for goal in goals
                ),
            )
        )
    return found


def false_alarms(found: Sequence[ThroughputSummary]) -> FalseAlarms:
    """Return how often the baseline differed significantly from itself, over all traffic.

    By the main goal only: the others are of the same search, and no comparisons of their own.
    """
    again = [summary.main.change(AGAIN) for summary in found]
    return certainty.false_alarms([change.difference for change in again if change is not None])


def compare(baseline: Sample, other: Sample, width: float) -> Difference | None:
    """Return the difference of two rates by block, of searches of that width."""
    return certainty.difference(baseline, other, resolution=width, relative=True)


def _goal(results: Sequence[FoundRow], baseline: str | None) -> GoalSummary:
    wholes = [result for result in results if result.part == "whole"]
    names = list(dict.fromkeys(result.setting for result in wholes))
    names.sort(key=lambda name: name != baseline)
    width = results[0].width
    testers = [result for result in results if result.part == "tester"]
    boots = dict.fromkeys(result.boot_knobs for result in testers)
    alone = {(result.block, result.boot_knobs) for result in testers}
    judged = [_judged(result, alone) for result in wholes]
    rates = tuple(
        _rate(name, [result for result in judged if result.setting == name], width)
        for name in names
    )
    first = results[0]
    changes = []
    if names[0] == baseline:
        for rate in rates[1:]:
            difference = compare(rates[0].blocks, rate.blocks, width)
            if difference is not None:
                partial = bool(rates[0].none or rate.none)
                changes.append(Change(rate.setting, replace(difference, partial=partial)))
    return GoalSummary(
        goal=first.goal,
        loss_ratio=first.loss_ratio,
        exceed_ratio=first.exceed_ratio,
        width=width,
        baseline=baseline if names[0] == baseline else None,
        rates=rates,
        changes=tuple(changes),
        testers=tuple(
            _rate(
                tester_name(knobs),
                [result for result in testers if result.boot_knobs == knobs],
                width,
            )
            for knobs in boots
        ),
    )


def _judged(result: FoundRow, alone: Collection[tuple[int, str]]) -> FoundRow:
    """Return a result that does not blame a tester which nobody measured, as older versions did.

    `alone` has the boots in which the tester was measured alone.
    """
    if result.judgement != "tester" or (result.block, result.boot_knobs) in alone:
        return result
    judgement = judge_unmeasured(result.lower, result.upper, result.limit)
    return result.model_copy(update={"judgement": judgement})


def _rate(setting: str, results: Sequence[FoundRow], width: float) -> Rate:
    blocks = {
        result.block: result.throughput for result in results if result.throughput is not None
    }
    judged = Counter(result.judgement for result in results if result.judgement is not None)
    return Rate(
        setting=setting,
        blocks=blocks,
        none=len(results) - len(blocks),
        interval=_interval(list(blocks.values()), width) if blocks else None,
        judgement=judged.most_common(1)[0][0] if judged else None,
    )


def _interval(rates: Sequence[float], width: float) -> Interval:
    return certainty.interval(rates, width * mean(rates))
