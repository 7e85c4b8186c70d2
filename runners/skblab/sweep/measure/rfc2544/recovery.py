# SPDX-License-Identifier: GPL-2.0-or-later
"""RFC 2544, section 26.5: how soon a device is well again after an overload.

110 % of the throughput, or the maximum rate where that is less, for at least 60 s; then half of it.
From that step, timestamp A, to the last frame lost, timestamp B, is the recovery time. The traffic
must not stop at the step, and a time is wanted and no count: what runs this is no Measurer, which
stops after every trial, but changes the rate under way and knows when it sent what was lost.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import Protocol

from skblab_analysis.base.errors import UsageError

SECONDS = 60.0
OVERLOAD = 1.1
AFTER = 0.5
REPEATS = 5
# A loss this near the end, as part of the time after the step, says that it went on.
OPEN = 0.1


@dataclass(frozen=True)
class Stepped:
    """What came of a step: seconds until the `last` frame was sent that was lost after it, or None.

    It may be less, by `within`: a generator that was behind catches up at first.
    """

    last: float | None
    within: float = 0.0


class Stepper(Protocol):
    """Sends at two rates, one after the other without a gap."""

    def step(self, first: float, then: float, seconds: float) -> Stepped:
        """Send `first` and `then` packets per second, `seconds` each."""


@dataclass(frozen=True)
class Recovery:
    """What was seen after each overload; loads in packets per second.

    `times` are seconds, 0 where nothing was lost after the step, None where frames were lost until
    the end. Each may be less by as much as `within` has, in seconds. `overload` may be less than
    the RFC's 110 %: a device that carries all that can be sent is never overloaded.
    """

    throughput: float
    overload: float
    times: tuple[float | None, ...]
    within: tuple[float, ...]

    @property
    def overloaded(self) -> bool:
        """Whether more was sent than the device carries."""
        return self.overload > self.throughput

    @property
    def mean(self) -> float | None:
        """The mean time, which is reported; None if the device once did not recover."""
        times = [one for one in self.times if one is not None]
        return statistics.mean(times) if len(times) == len(self.times) else None


def recovery(
    stepper: Stepper,
    throughput: float,
    max_load: float,
    seconds: float = SECONDS,
    repeats: int = REPEATS,
) -> Recovery:
    """Overload the device and look how long it loses frames afterwards, `repeats` times."""
    if not (0 < throughput <= max_load and seconds > 0) or repeats < 1:
        raise UsageError(
            f"system recovery: {repeats} times {seconds} s from a throughput of {throughput} of at "
            f"most {max_load} packets/s; expected at least once, more than 0, and no more than that"
        )
    overload = min(throughput * OVERLOAD, max_load)
    steps = [stepper.step(overload, overload * AFTER, seconds) for _ in range(repeats)]
    times = tuple(_closed(one.last, seconds) for one in steps)
    return Recovery(throughput, overload, times, tuple(one.within for one in steps))


def _closed(last: float | None, seconds: float) -> float | None:
    if last is None:
        return 0.0
    return last if last <= seconds * (1 - OPEN) else None
