# SPDX-License-Identifier: GPL-2.0-or-later
"""RFC 2544, section 26.5: how soon a device is well again after an overload.

110 % of the throughput, or the maximum rate where that is less, for at least 60 s; then half of it.
From that step, timestamp A, to the last frame lost, timestamp B, is the recovery time. The traffic
must not stop at the step, and a time is wanted and no count: what runs this is no Measurer, which
stops after every trial, but changes the rate under way and knows when it sent what was lost.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

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
    """How long frames were lost after an overload: `seconds`, which may be less by `within`.

    0 is where none was after the step, None where some were until the end.
    """

    seconds: float | None
    within: float


def overload(throughput: float, most: float) -> float:
    """Return what to overload a device with that carries `throughput`; `most` can be sent."""
    return min(throughput * OVERLOAD, most)


def recovery(stepper: Stepper, load: float, seconds: float) -> Recovery:
    """Overload the device with a load and look how long it loses frames afterwards."""
    found = stepper.step(load, load * AFTER, seconds)
    last = found.last or 0.0
    return Recovery(last if last <= seconds * (1 - OPEN) else None, found.within)
