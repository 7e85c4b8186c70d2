# SPDX-License-Identifier: GPL-2.0-or-later
"""What a testbed's generator is asked to send, in the terms that all testbeds share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from skblab.testbeds.asked import Stream

# A generator that cannot keep the rate is stopped so long after the trial should have ended. pktgen
# itself takes up to a quarter of a second until it begins.
LATE_SECONDS = 0.5
# On the machine of the generator, of packets whose rate was changed: the numbers of the next packet
# before and after that, and microseconds of its clock then and when it began.
STEP = "/run/skblab-step"
# With one packet a trial would have no rate, and there is no time between two.
LEAST_PACKETS = 2


@dataclass(frozen=True)
class Step:
    """When the rate changed: between packets numbered so (from 0), so long after the begin."""

    before: int
    after: int
    microseconds: int


@dataclass(frozen=True)
class Sent:
    """What a generator says of its packets: sent, refused by its device, and how long it took.

    `received` is what came to the sink, of one that counts that itself.
    """

    sent: int
    refused: int
    microseconds: int
    step: Step | None = None
    received: int | None = None


@dataclass(frozen=True)
class Sending:
    """Packets, `rate` a second (0: at once), for at most `seconds` (0: all of them).

    `tester`: with no router in between. `by_queue`: so that what is attached to the generator's
    device sees them. `then` is the rate from `after` seconds on, without a gap between the two;
    what had been sent by then is told as a Step.
    """

    stream: Stream
    packets: int
    rate: float = 0.0
    seconds: float = 0.0
    tester: bool = False
    by_queue: bool = False
    then: float = 0.0
    after: float = 0.0

    @classmethod
    def timed(
        cls,
        stream: Stream,
        rate: float,
        seconds: float,
        *,
        tester: bool = False,
        by_queue: bool = False,
    ) -> Self:
        """Return a trial of so many seconds at a rate: its packets, and when it is stopped."""
        packets = max(round(rate * seconds), LEAST_PACKETS)
        return cls(stream, packets, rate, seconds + LATE_SECONDS, tester, by_queue)
