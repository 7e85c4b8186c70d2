# SPDX-License-Identifier: GPL-2.0-or-later
"""Throughput: what a search found for each of its goals, and by setting over all blocks.

A search is draft-ietf-bmwg-mlrsearch's. Its figure is the conditional throughput, in packets per
second: what arrives at the greatest load that is good by a goal. Each block has one of each
setting. Figures are compared within a goal and a traffic only. A search is sure to its width, and
no better: a difference smaller than that is not told from none, however well blocks agree.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    NonNegativeFloat,
    PositiveFloat,
    model_validator,
)

from skblab_analysis.base import certainty
from skblab_analysis.base.certainty import AGAIN, Difference, FalseAlarms, Interval
from skblab_analysis.base.offered import offered_rate
from skblab_analysis.base.whole import Whole
from skblab_analysis.exact.summary import Part, Setting, tester_name

# Of a trial: who lost packets, or did not send them.
Limit = Literal["none", "generator", "device", "sink"]
# Of a search: what its result is the result of.
Judgement = Literal["device", "tester", "maximum load", "no good load"]
Outcome = Literal["regular", "good at the maximum load", "no good load"]

# What a trial was for.
Purpose = Literal["search", "confirmation", "rfc2544"]

Ratio = Annotated[float, Field(ge=0, le=1)]


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Load(_Part):
    """One trial of a search, or (`purpose`) one after it: counts in packets, times in s."""

    load: PositiveFloat
    seconds: PositiveFloat
    took: NonNegativeFloat
    sent: Whole
    forwarded: Whole | None
    received: Whole
    loss_ratio: Ratio
    limit: Limit
    purpose: Purpose = "search"

    @property
    def offered_rate(self) -> float:
        """Packets per second that the generator really put out."""
        return offered_rate(self.sent, self.seconds, self.took)


class Found(_Part):
    """What a search found for one goal; rates in packets per second.

    `judgement` is what it is the result of, None of the tester itself. `confirmed` says whether a
    last trial of `confirm_seconds` at the lower bound lost nothing; None if there was none.
    """

    goal: str
    loss_ratio: Ratio
    exceed_ratio: Ratio
    width: PositiveFloat
    lower: PositiveFloat | None
    upper: PositiveFloat | None
    throughput: PositiveFloat | None
    trials: Whole
    limit: Limit
    outcome: Outcome
    reached: bool
    judgement: Judgement | None = None
    confirmed: bool | None = None
    confirm_seconds: PositiveFloat | None = None

    @model_validator(mode="after")
    def _confirmed_in_seconds(self) -> Self:
        if self.confirmed is not None and self.confirm_seconds is None:
            raise ValueError("confirmed, in how many seconds is not said")
        return self


class Result(Found):
    """What a search found for one goal, and of what it was."""

    setting: Setting
    part: Part
    boot: Whole
    boot_knobs: str
    traffic: str


class Search(_Part):
    """A search: of which setting and traffic, in which block, all its trials and all it found.

    `boot_knobs` says how it was booted, if there is a choice.
    """

    setting: Setting
    part: Part = "whole"
    boot: Whole
    boot_knobs: str = ""
    traffic: str
    loads: tuple[Load, ...]
    goals: Annotated[tuple[Found, ...], Field(min_length=1)]


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


@dataclass(frozen=True)
class Change:
    """What a setting differs from the baseline."""

    setting: str
    difference: Difference


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
        return next((one for one in self.rates if one.setting == setting), None)

    def change(self, setting: str) -> Change | None:
        """Return what a setting differs from the baseline; None of the baseline itself."""
        return next((one for one in self.changes if one.setting == setting), None)

    @property
    def best(self) -> Change | None:
        """The setting with which most passes, if that is more than with the baseline for sure.

        One with which no load was good in some block is none, however good its other blocks are.
        """
        better = [
            one
            for one in self.changes
            if one.difference.seen and one.difference.interval.mean > 0 and one.setting != AGAIN
            if (rate := self.rate(one.setting)) is not None and not rate.none
        ]
        return max(better, key=lambda one: one.difference.share, default=None)

    @property
    def widest(self) -> float | None:
        """The widest interval's half, as part of its mean; None if some setting has none yet."""
        shares = [one.interval.share if one.interval else None for one in self.rates]
        known = [one for one in shares if one is not None]
        return max(known) if known and len(known) == len(shares) else None


@dataclass(frozen=True)
class ThroughputSummary:
    """All that was searched with one traffic; the first goal is the one that decides."""

    traffic: str
    goals: tuple[GoalSummary, ...]

    @property
    def main(self) -> GoalSummary:
        """The goal by which settings are compared."""
        return self.goals[0]


def summaries(results: Sequence[Result], baseline: str | None) -> list[ThroughputSummary]:
    """Sum up the results of each traffic, in the order given."""
    found = []
    for traffic in dict.fromkeys(one.traffic for one in results if one.part == "whole"):
        ours = [one for one in results if one.traffic == traffic]
        goals = dict.fromkeys(one.goal for one in ours if one.part == "whole")
        found.append(
            ThroughputSummary(
                traffic,
                tuple(_goal([one for one in ours if one.goal == goal], baseline) for goal in goals),
            )
        )
    return found


def false_alarms(found: Sequence[ThroughputSummary]) -> FalseAlarms:
    """Return how often the baseline was told from itself, over all traffic.

    By the main goal only: the others are of the same search, and no comparisons of their own.
    """
    again = [one.main.change(AGAIN) for one in found]
    return certainty.false_alarms([one.difference for one in again if one is not None])


def widest(found: Sequence[ThroughputSummary]) -> float | None:
    """Return the widest interval's half, as part of its mean; None if one is missing."""
    shares = [goal.widest for one in found for goal in one.goals]
    known = [one for one in shares if one is not None]
    return max(known) if known and len(known) == len(shares) else None


def _goal(results: Sequence[Result], baseline: str | None) -> GoalSummary:
    wholes = [one for one in results if one.part == "whole"]
    names = list(dict.fromkeys(one.setting for one in wholes))
    names.sort(key=lambda name: name != baseline)
    rates = tuple(_rate(name, [one for one in wholes if one.setting == name]) for name in names)
    testers = [one for one in results if one.part == "tester"]
    boots = dict.fromkeys(one.boot_knobs for one in testers)
    first = results[0]
    changes = []
    if names[0] == baseline:
        for rate in rates[1:]:
            difference = certainty.difference(rate.blocks, rates[0].blocks, first.width)
            if difference is not None:
                changes.append(Change(rate.setting, difference))
    return GoalSummary(
        goal=first.goal,
        loss_ratio=first.loss_ratio,
        exceed_ratio=first.exceed_ratio,
        width=first.width,
        baseline=baseline if names[0] == baseline else None,
        rates=rates,
        changes=tuple(changes),
        testers=tuple(
            _rate(tester_name(knobs), [one for one in testers if one.boot_knobs == knobs])
            for knobs in boots
        ),
    )


def _rate(setting: str, results: Sequence[Result]) -> Rate:
    blocks = {one.boot: one.throughput for one in results if one.throughput is not None}
    judged = Counter(one.judgement for one in results if one.judgement is not None)
    return Rate(
        setting=setting,
        blocks=blocks,
        none=len(results) - len(blocks),
        interval=certainty.interval(list(blocks.values())) if blocks else None,
        judgement=judged.most_common(1)[0][0] if judged else None,
    )
