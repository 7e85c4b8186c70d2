# SPDX-License-Identifier: GPL-2.0-or-later
"""RFC 2544, section 26.4, as RFC 9004 updates it: the longest burst that loses nothing.

A burst is a trial at the maximum rate. Its length is searched by halves; a burst that loses is
tried again before it counts, for one loss may be an accident: binary search with loss verification,
of ETSI TST009. Every repetition is a search of its own.

What is wanted is the device's buffer, so the tester has to be faster than the device: where the
throughput is the maximum rate there is nothing to be measured (`applies`). While a burst comes in
the device forwards, too: the corrected buffer time leaves that out. The RFC waits 2 s for buffers
to empty; a Measurer waits until nothing more comes.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import dataclass, replace

from skblab.sweep.measure.throughput.goals import WIDTH
from skblab.sweep.measure.throughput.limits import most_often
from skblab.sweep.measure.throughput.trial import Measurer, Trial
from skblab_analysis.base.errors import UsageError
from skblab_analysis.throughput.rows import Limit

REPEATS = 50
ATTEMPTS = 2
# Of a burst, at most. The bound is ours: what holds for so long is a throughput, and no burst.
LONGEST_SECONDS = 30.0
# A generator needs a while to begin and to end, however many packets it sends: that is no lateness
# of theirs. It is what bursts of so few take too long, by the median of so many.
FEWEST, STARTS = 2, 5


@dataclass(frozen=True)
class BackToBack:
    """The longest burst of each repetition, in frames.

    `limits` has who was the limit of the shortest that failed in each; none where nothing did: that
    burst is the longest that was tried, and no limit was met.
    """

    bursts: tuple[int, ...]
    limits: tuple[Limit, ...]


def buffer_seconds(burst: float, rate: float, throughput: float) -> float:
    """Return RFC 9004's corrected buffer time: how long a burst takes to arrive at a rate.

    What was forwarded meanwhile is left out; rates in frames per second.
    """
    return burst / rate * (1 - throughput / rate)


def applies(throughput: float, rate: float, width: float = WIDTH) -> bool:
    """Return whether the device is slower than the maximum rate, by more than a search's width."""
    return throughput < rate * (1 - width)


def back_to_back(
    measurer: Measurer,
    rate: float,
    repeats: int = REPEATS,
    attempts: int = ATTEMPTS,
    longest_seconds: float = LONGEST_SECONDS,
) -> BackToBack:
    """Search for the longest burst at the maximum rate, `repeats` times."""
    longest = int(rate * longest_seconds)
    if repeats < 1 or attempts < 1 or longest < 1:
        raise UsageError(
            f"back-to-back: {repeats} repetitions of {attempts} attempts, bursts of up to "
            f"{longest} frames; expected at least one of each"
        )
    few = [measurer.measure(rate, FEWEST / rate) for _ in range(STARTS)]
    start = statistics.median(trial.lasted - trial.seconds for trial in few)

    def fails(frames: int) -> Limit:
        limits: list[Limit] = []
        for _ in range(attempts):
            trial = _without(start, measurer.measure(rate, frames / rate))
            if trial.loss_ratio == 0:
                return "none"
            limits.append(trial.limit)
        return most_often(limits)

    found = [_greatest(longest, fails) for _ in range(repeats)]
    bursts, limits = zip(*found, strict=True)
    return BackToBack(bursts, limits)


def _without(start: float, trial: Trial) -> Trial:
    return replace(trial, took=max(trial.took - start, 0.0))


def _greatest(longest: int, fails: Callable[[int], Limit]) -> tuple[int, Limit]:
    """Return the greatest number up to `longest` that does not fail, 0 where all do.

    And why the next one does: "none" where no number did.
    """
    limit = fails(longest)
    if limit == "none":
        return longest, limit
    good, bad = 0, longest
    while bad - good > 1:
        middle = (good + bad) // 2
        if (failed := fails(middle)) == "none":
            good = middle
        else:
            bad, limit = middle, failed
    return good, limit
