# SPDX-License-Identifier: GPL-2.0-or-later
"""The search for throughput: MLRsearch of FD.io CSIT behind our own words, and nothing else.

The published package and its later source share the number 1.2.1 and name a trial's counts in two
ways. What is used here is common to both: offered and lost packets. It starts from the forwarding
rate at the maximum load, halves on an integer grid of logarithms of loads, and goals share trials.

A search does not end by the clock, which would make its result depend on it: whoever wants it to
end raises from the Measurer. It has no warm-up either; a caller runs that before.
"""

from __future__ import annotations

from MLRsearch import (
    AbstractMeasurer,
    Config,
    MeasurementResult,
    MultipleLossRatioSearch,
    SearchGoal,
)
from MLRsearch.search_goal_tuple import SearchGoalTuple

from skblab.sweep.measure.throughput.goals import Goal, SearchRequest
from skblab.sweep.measure.throughput.result import GoalResult, SearchResult
from skblab.sweep.measure.throughput.trial import Measurer, Recorder, Trial
from skblab_analysis.base.errors import SkblabError

# Thirty years.
NEVER = 1e9


# To the package every trial is this long: all are of one length, and what adds up to a duration
# sum are whole numbers. Twenty-one times 0.3 s, added up, is less than 6.3 s, and one trial more
# would be run.
UNIT = 1.0


class _Adapted(AbstractMeasurer):
    """A Measurer as the package wants it."""

    def __init__(self, measurer: Measurer, seconds: float) -> None:
        self._measurer = measurer
        self._seconds = seconds

    def measure(self, intended_duration: float, intended_load: float) -> MeasurementResult:
        """Run a trial."""
        if intended_duration != UNIT:
            raise SkblabError(f"MLRsearch wants {intended_duration} trials in one, expected {UNIT}")
        return measurement(self._measurer.measure(intended_load, self._seconds))


def measurement(trial: Trial) -> MeasurementResult:
    """Return the trial in the package's words."""
    return MeasurementResult(
        intended_duration=UNIT,
        intended_load=trial.load,
        offered_count=trial.expected,
        loss_count=trial.expected - trial.received,
    )


def search_goal(goal: Goal, request: SearchRequest) -> SearchGoal:
    """Return the goal in the package's words."""
    return SearchGoal(
        loss_ratio=goal.loss_ratio,
        exceed_ratio=goal.exceed_ratio,
        relative_width=goal.width,
        initial_trial_duration=UNIT,
        final_trial_duration=UNIT,
        duration_sum=UNIT * request.trials,
        # A device without a good load is a result, and not an error.
        fail_fast=False,
    )


def search(measurer: Measurer, request: SearchRequest) -> SearchResult:
    """Search for all goals of the request.

    What the Measurer raises comes through; with a Recorder for it the trials until then are kept.
    """
    recorder = Recorder(measurer)
    goals = {goal.name: search_goal(goal, request) for goal in request.goals}
    config = Config()
    # The order matters: each is checked against the other as it is set.
    config.min_load = min(request.min_load, config.min_load)
    config.max_load = request.max_load
    config.min_load = request.min_load
    # Goals that differ by their name alone are one to the package.
    config.goals = SearchGoalTuple(tuple(dict.fromkeys(goals.values())))
    config.search_duration_max = NEVER
    config.warmup_duration = 0.0
    found = MultipleLossRatioSearch(config).search(
        _Adapted(recorder, request.seconds), debug=_silent
    )
    results = []
    for goal in request.goals:
        bound = found[goals[goal.name]]
        lower, upper = bound.relevant_lower_bound, bound.relevant_upper_bound
        throughput = bound.conditional_throughput
        bounds = (
            None if lower is None else float(lower),
            None if upper is None else float(upper),
        )
        rate = None if throughput is None else float(throughput)
        results.append(GoalResult.found(goal, bounds, rate, recorder.trials))
    return SearchResult(request, tuple(results), tuple(recorder.trials))


def confirm(measurer: Measurer, found: GoalResult, seconds: float) -> Trial | None:
    """Run one trial of full length at the lower bound; None where there is none.

    RFC 2544, section 26.1: a search of short trials finds the rate; that it holds for a minute is
    another claim. Section 24 asks for at least 60 s.
    """
    return None if found.lower is None else measurer.measure(found.lower, seconds)


def _silent(text: str) -> None:
    """Take what the package says at every step; the trials say it as well."""
