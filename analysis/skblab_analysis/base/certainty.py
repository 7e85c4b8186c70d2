# SPDX-License-Identifier: GPL-2.0-or-later
"""How sure a figure is that was taken once in each of some blocks, and a difference of two.

A block is a repeat of everything, in a fresh boot: what changes from boot to boot is in the
intervals. They are Student's, of 95 %, for the mean of all blocks there could be. A difference is
taken block by block first, so that what a whole block has in common cancels.

A/A: the baseline runs under two names. A difference between these is none, so the share of them
that is seen is the false alarm rate of this suite, on this testbed, in this run.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from statistics import mean, stdev

CONFIDENCE = 0.95
# The baseline under another name.
AGAIN = "baseline again"


@dataclass(frozen=True)
class Interval:
    """A mean of `count` values, and half of its interval's length; None of a single value."""

    mean: float
    half: float | None
    count: int

    @property
    def low(self) -> float | None:
        """The interval's lower end."""
        return None if self.half is None else self.mean - self.half

    @property
    def high(self) -> float | None:
        """The interval's upper end."""
        return None if self.half is None else self.mean + self.half

    @property
    def share(self) -> float | None:
        """Half of the interval, as part of the mean; None of a single value, or a mean of 0."""
        return None if self.half is None or not self.mean else self.half / abs(self.mean)


@dataclass(frozen=True)
class Difference:
    """What one thing differs from another, whose mean is `of`, in the blocks that have both.

    `seeable` is the smallest difference that could have been seen: half of the interval, but not
    less than what a figure itself is sure to; None of a single block.
    """

    interval: Interval
    of: float
    seeable: float | None

    @property
    def seen(self) -> bool | None:
        """Whether there is a difference; None of a single block."""
        return None if self.seeable is None else abs(self.interval.mean) > self.seeable

    @property
    def share(self) -> float:
        """The difference as part of the other's mean."""
        return self.interval.mean / self.of

    @property
    def half_share(self) -> float | None:
        """Half of the interval, as part of the other's mean; None of a single block."""
        return None if self.interval.half is None else self.interval.half / self.of

    @property
    def seeable_share(self) -> float | None:
        """The smallest that could have been seen, as part of the other's mean."""
        return None if self.seeable is None else self.seeable / self.of


@dataclass(frozen=True)
class FalseAlarms:
    """Of comparisons of the baseline with itself, how many saw a difference."""

    comparisons: int
    alarms: int


def interval(values: Sequence[float]) -> Interval:
    """Return mean and interval of at least one value."""
    if len(values) < 2:
        return Interval(mean(values), None, len(values))
    half = _student(len(values) - 1) * stdev(values) / math.sqrt(len(values))
    return Interval(mean(values), half, len(values))


def difference(
    ours: Mapping[int, float], theirs: Mapping[int, float], sure: float = 0.0
) -> Difference | None:
    """Return ours less theirs, both by block; None if no block has both.

    `sure` is what each figure is sure to by itself, as part of it.
    """
    blocks = sorted(ours.keys() & theirs.keys())
    if not blocks:
        return None
    found = interval([ours[block] - theirs[block] for block in blocks])
    other = mean(theirs[block] for block in blocks)
    seeable = None if found.half is None else max(found.half, sure * other)
    return Difference(found, other, seeable)


def false_alarms(found: Sequence[Difference]) -> FalseAlarms:
    """Return how many of the differences of one thing from itself were seen."""
    known = [one.seen for one in found if one.seen is not None]
    return FalseAlarms(len(known), sum(known))


def widest(found: Iterable[Sequence[float]]) -> float | None:
    """Return the widest interval's half, as part of its mean, of one that each of these has.

    None if there are none, or one has no interval yet.
    """
    shares = [interval(values).share if values else None for values in found]
    known = [share for share in shares if share is not None]
    return max(known) if known and len(known) == len(shares) else None


def by_chance(samples: Sequence[tuple[float, int]]) -> float:
    """Return how far a sum and difference of samples' means is from none in 95 % of all cases.

    Of each sample its standard deviation and how many values it has, two or more. Student's t with
    Welch's degrees of freedom (B. L. Welch, Biometrika 34, 1947), for one setting may well repeat
    worse than another.
    """
    parts = [(deviation**2 / count, count - 1) for deviation, count in samples]
    variance = sum(one for one, _ in parts)
    if not variance:
        return 0.0
    freedom = variance**2 / sum(one**2 / own for one, own in parts)
    return _student(freedom) * math.sqrt(variance)


@cache
def _student(freedom: float) -> float:
    """Return how many standard errors the interval reaches to each side."""
    # It takes half a second to load, which every command would pay for.
    from scipy.special import stdtrit

    return float(stdtrit(freedom, (1 + CONFIDENCE) / 2))
