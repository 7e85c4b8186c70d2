# SPDX-License-Identifier: GPL-2.0-or-later
"""What two machines' clocks differ by during a trial, from comparisons before and after it.

`skblab-traffic clock` bounds how far the receiver's clock is ahead of the sender's at a moment: it
is never outside of these bounds, however long packets take each way. Between two such moments both
clocks run evenly, so straight lines join the bounds of both. The receiver is told a line before the
trial, from what is known until then, and takes it off its delays; once the clocks were compared
again, `off_by` says by how much that line can be wrong. Moon, Skelly and Towsley (INFOCOM 1999)
take drift out of one-way delays by such lines.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from skblab_analysis.formats.traffic import ClockDocument

NANOSECONDS = 1_000_000_000
# Crystals change with the temperature: what is older says nothing of how fast clocks drift now.
OLDEST_NS = 600 * NANOSECONDS
# Of two clocks that nobody sets: crystals are within 100 millionths of what they say, and what
# keeps them right turns them by no more than 500 (NTP, RFC 5905). clock_offset.rs has the same.
MOST_DRIFT_PPB = 600_000


@dataclass(frozen=True)
class Bound:
    """The receiver's clock is ahead by no more, or no less: ns, at ns of the sender's clock."""

    at_ns: int
    ahead_ns: int


@dataclass(frozen=True)
class Compared:
    """Two clocks at a moment; `speeds_ppb` is how fast each kernel was told to run its own."""

    most: Bound
    least: Bound
    speeds_ppb: tuple[int, int]

    @classmethod
    def of(cls, document: ClockDocument) -> Compared | None:
        """Return what a document says; None if it does not know."""
        if document.ahead is None or not (document.most and document.least and document.far):
            return None
        return cls(
            most=Bound(document.most.at_ns, document.most.ahead_ns),
            least=Bound(document.least.at_ns, document.least.ahead_ns),
            speeds_ppb=(document.near.frequency_ppb, document.far.frequency_ppb),
        )

    @property
    def at_ns(self) -> int:
        """The moment, by the sender's clock."""
        return (self.most.at_ns + self.least.at_ns) // 2

    @property
    def ahead_ns(self) -> int:
        """By how much the receiver's clock is ahead: the middle of the bounds."""
        return (self.most.ahead_ns + self.least.ahead_ns) // 2


@dataclass(frozen=True)
class Line:
    """The receiver's clock is ahead by `ahead_ns` at `at_ns` of the sender's, and drifts."""

    ahead_ns: int
    at_ns: int
    drift_ppb: int

    def at(self, now_ns: int) -> int:
        """Return by how much it is ahead at a time of the sender's clock, ns."""
        return self.ahead_ns + (now_ns - self.at_ns) * self.drift_ppb // NANOSECONDS

    @property
    def received_at_ns(self) -> int:
        """The same moment by the receiver's clock."""
        return self.at_ns + self.ahead_ns


def line(known: Sequence[Compared]) -> Line:
    """Return the line through what is known until now, of which the last is the newest.

    Clocks drift as far as comparisons show it: a drift that may as well be none is taken for none.
    """
    newest = known[-1]
    recent = [one for one in known if newest.at_ns - one.at_ns <= OLDEST_NS]
    return Line(newest.ahead_ns, newest.at_ns, _drift(recent[0], newest))


def _drift(oldest: Compared, newest: Compared) -> int:
    apart = newest.at_ns - oldest.at_ns
    if apart <= 0:
        return 0
    most = newest.most.ahead_ns - oldest.least.ahead_ns
    least = newest.least.ahead_ns - oldest.most.ahead_ns
    if least <= 0 <= most:
        return 0
    return (most + least) * NANOSECONDS // (2 * apart)


def off_by(told: Line, before: Compared, after: Compared) -> int | None:
    """Return by how much a line may be wrong between two comparisons, ns; None: a clock was set.

    Bounds are joined by straight lines, so both ends are enough. A clock that was made to run at
    another speed meanwhile bends them by a quarter of what that makes over the whole time. A turn
    that was taken back before the end is not seen.
    """
    lasted = after.at_ns - before.at_ns
    bounds = (before.most, before.least, after.most, after.least)
    off = max(abs(bound.ahead_ns - told.at(bound.at_ns)) for bound in bounds)
    turned = _turned(before, after)
    return None if was_set(before, after) else off + lasted * turned // (4 * NANOSECONDS)


def _turned(before: Compared, after: Compared) -> int:
    """Return by how much kernels were told to run the clocks faster or slower, ppb."""
    pairs = zip(before.speeds_ppb, after.speeds_ppb, strict=True)
    return sum(abs(now - then) for then, now in pairs)


def was_set(before: Compared, after: Compared) -> bool:
    """Return whether the clocks came apart, or together, by more than a drift can."""
    lasted = after.at_ns - before.at_ns
    if lasted < 0:
        return True
    drifted = lasted * (MOST_DRIFT_PPB + _turned(before, after)) // NANOSECONDS
    least = after.least.ahead_ns - before.most.ahead_ns
    most = after.most.ahead_ns - before.least.ahead_ns
    return least > drifted or most < -drifted
