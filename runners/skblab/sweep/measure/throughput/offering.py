# SPDX-License-Identifier: GPL-2.0-or-later
"""The Measurer of a testbed: traffic of one kind at a load, counted on its way."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from skblab.sweep.measure.throughput.limits import Tolerances
from skblab.sweep.measure.throughput.trial import Trial
from skblab.testbeds import Offered, Sending, Testbed
from skblab.testbeds.asked import Stream

# Times that a trial is run before it is believed that its counts contradict each other.
TRIES = 3


@dataclass(frozen=True)
class Offering:
    """A Measurer: sends one kind of traffic in a testbed; `tester`: with no router in between."""

    testbed: Testbed
    stream: Stream
    tester: bool
    tolerances: Tolerances
    # Is told of each trial that is run again, for its counts contradict each other.
    again: Callable[[Offered], None] = lambda _: None

    def measure(self, load: float, seconds: float) -> Trial:
        """Send `load` packets a second for `seconds`, and count once nothing more comes."""
        sending = Sending.timed(self.stream, load, seconds, tester=self.tester)
        offered = self.testbed.offer(sending)
        for _ in range(TRIES - 1):
            if 0 <= offered.received <= self._forwarded(offered) <= offered.tried:
                break
            # A kernel now and then sends a packet of its own, which would hide a loss.
            self.again(offered)
            offered = self.testbed.offer(sending)
        return Trial(
            load,
            seconds,
            offered.tried,
            self._forwarded(offered),
            offered.received,
            self.tolerances,
            took=offered.microseconds / 1e6,
        )

    def _forwarded(self, offered: Offered) -> int:
        # With nothing in between, all that is missing is the sink's.
        return offered.tried if self.tester else offered.forwarded
