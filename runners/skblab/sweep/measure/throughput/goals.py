# SPDX-License-Identifier: GPL-2.0-or-later
"""What is searched for: goals, as draft-ietf-bmwg-mlrsearch has them, and the three we report.

All goals of a search have trials of one length, which is each goal's final trial duration and its
initial one: short trials that hint at the result of long ones gave a wrong NDR where losses come in
rare bursts, which short trials miss.

Strict knows of no stall that is rarer than its trials are long, all together: of stalls that come
every `t` seconds on average it misses exp(-trials * seconds / t), at each of the ten loads or so
that it decides on. With 21 trials of 1 s and a stall every 4 s that is 1 in 190, with 31 1 in 2300.
"""

from __future__ import annotations

from dataclasses import dataclass

from skblab_analysis.base.errors import UsageError

# CSIT's: an odd number, so that half of the trials is never in doubt.
TRIALS = 21
SECONDS = 1.0
# Not less than PDR's loss ratio, as the draft recommends.
WIDTH = 0.005


@dataclass(frozen=True)
class Goal:
    """A goal: of all trials at a load, at most `exceed_ratio` may lose more than `loss_ratio`.

    `width` is how far the bounds may be apart at the end, as part of the upper one.
    """

    name: str
    loss_ratio: float
    exceed_ratio: float
    width: float = WIDTH

    def __post_init__(self) -> None:
        for what, value, least in (
            ("loss ratio", self.loss_ratio, 0.0),
            ("exceed ratio", self.exceed_ratio, 0.0),
            # Below, the integer grid of loads becomes finer than any generator.
            ("width", self.width, 1e-5),
        ):
            if not least <= value < 1:
                raise UsageError(
                    f"goal {self.name}: {what} {value}, expected at least {least} and less than 1"
                )


STRICT = Goal("strict", loss_ratio=0.0, exceed_ratio=0.0)
NDR = Goal("NDR", loss_ratio=0.0, exceed_ratio=0.5)
PDR = Goal("PDR", loss_ratio=0.005, exceed_ratio=0.5)


@dataclass(frozen=True)
class SearchRequest:
    """What a search is asked for; loads in packets per second.

    `seconds` is the length of every trial and `trials` how many decide on a load, unless fewer do:
    the draft's Goal Final Trial Duration, and its Goal Duration Sum as a number of trials.
    """

    min_load: float
    max_load: float
    goals: tuple[Goal, ...] = (STRICT, NDR, PDR)
    seconds: float = SECONDS
    trials: int = TRIALS

    def __post_init__(self) -> None:
        if not self.goals or len({goal.name for goal in self.goals}) < len(self.goals):
            raise UsageError("a search's goals: expected at least one, and each name once")
        if not self.seconds > 0 or self.trials < 1:
            raise UsageError(
                f"{self.trials} trials of {self.seconds} s, expected at least 1 and more than 0 s"
            )
        if not 0 < self.min_load < self.max_load < float("inf"):
            raise UsageError(
                f"loads from {self.min_load} to {self.max_load} packets/s, "
                "expected more than 0, and a greater one"
            )
        if self.min_load * self.seconds < 1:
            raise UsageError(
                f"{self.min_load} packets/s for {self.seconds} s is no packet; expected a greater "
                f"load or longer trials"
            )
        widest = max(goal.width for goal in self.goals)
        if 1 - self.min_load / self.max_load <= widest:
            # There would be nothing to search, and MLRsearch would look for its grid for ever.
            raise UsageError(
                f"loads from {self.min_load} to {self.max_load} packets/s are no wider than a "
                f"goal's width, {widest}; expected a smaller least load or a smaller width"
            )
