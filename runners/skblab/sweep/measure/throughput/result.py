# SPDX-License-Identifier: GPL-2.0-or-later
"""What a search found: for each goal its bounds, its conditional throughput, and who was the limit.

A result is regular when both bounds were found. When the greatest load is still good there is no
upper bound, and when the least one is not there is no lower: this is said, and no bound made up.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from skblab.sweep.measure.throughput import limits
from skblab.sweep.measure.throughput.goals import Goal, SearchRequest
from skblab.sweep.measure.throughput.trial import Trial
from skblab_analysis.throughput.rows import Limit, Outcome


@dataclass(frozen=True)
class GoalResult:
    """What was found for a goal; loads in packets per second.

    `lower` and `upper` are the draft's Relevant Lower and Upper Bound, `throughput` its Conditional
    Throughput: what arrives at the lower bound, in the worst trial that the goal looks at. `trials`
    were those at the two bounds, and `limit` was met in most bad trials at the upper one.
    """

    goal: Goal
    lower: float | None
    upper: float | None
    throughput: float | None
    trials: int
    limit: Limit

    @classmethod
    def found(
        cls,
        goal: Goal,
        bounds: tuple[float | None, float | None],
        throughput: float | None,
        trials: Iterable[Trial],
    ) -> GoalResult:
        """Return the result that has these bounds, with what the search's `trials` say of it."""
        lower, upper = bounds
        at_bounds = [trial for trial in trials if trial.load in bounds]
        limit = limits.most_often(
            trial.limit
            for trial in at_bounds
            if trial.load == upper and trial.loss_ratio > goal.loss_ratio
        )
        return cls(goal, lower, upper, throughput, len(at_bounds), limit)

    @property
    def outcome(self) -> Outcome:
        """Whether there is a regular result, and if not, why."""
        if self.lower is None:
            return "no good load"
        return "regular" if self.upper is not None else "good at the maximum load"

    @property
    def reached(self) -> bool:
        """Whether the bounds are as near to each other as the goal asks."""
        return self.width is not None and self.width <= self.goal.width

    @property
    def width(self) -> float | None:
        """How far the bounds are apart, as part of the upper one."""
        if self.lower is None or self.upper is None:
            return None
        return (self.upper - self.lower) / self.upper


@dataclass(frozen=True)
class SearchResult:
    """What was found for every goal that was asked for, in their order, and by which trials."""

    request: SearchRequest
    goals: tuple[GoalResult, ...]
    trials: tuple[Trial, ...]

    def __getitem__(self, name: str) -> GoalResult:
        """Return what was found for the goal of that name."""
        for result in self.goals:
            if result.goal.name == name:
                return result
        raise KeyError(name)
