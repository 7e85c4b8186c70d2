# SPDX-License-Identifier: GPL-2.0-or-later
"""How RFC 2544's other tests take part in a search: they follow it, at the rate that it found."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from skblab.sweep.measure.base import TRIAL_SECONDS, Part, Program, Sections
from skblab.sweep.measure.latency import PKTSINK, watching
from skblab.sweep.measure.rfc2544 import back_to_back
from skblab.sweep.measure.rfc2544.section import Rfc2544
from skblab.sweep.measure.rfc2544.tests import examples
from skblab.sweep.measure.throughput.section import Throughput
from skblab.sweep.planned import Measurement
from skblab.testbeds import Kind
from skblab_analysis.rfc2544.rows import CLEAN

# For the estimate: what a tester sends, about, for the number of bursts that are tried.
PACKETS_PER_SECOND = 1e5


class OtherTests(Part):
    """The Part. Its trials are those of a search of a setting, and of no tester."""

    name = "rfc2544"
    section = Rfc2544

    def faults(self, asked: Sections) -> Sequence[str]:
        """Return that no strict rate is searched for, if so it is."""
        throughput = asked.get(Throughput)
        if throughput is not None and "strict" in throughput.goals:
            return ()
        return (
            "rfc2544 is measured at the strict rate: expected measure.throughput with strict "
            "among its goals",
        )

    def programs(self, asked: Sections) -> Sequence[Program]:
        """Return what times packets, if any are timed."""
        return (PKTSINK,) if asked[Rfc2544].times else ()

    def joins(self, measurement: Measurement) -> bool:
        """Return whether it is a search that finds a setting's throughput."""
        return measurement.recorded_as == "throughput"

    def seconds(self, asked: Sections, measurement: Measurement) -> float:
        """Return about how long all tests take."""
        return _seconds(asked[Rfc2544])

    def commands(
        self, asked: Sections, measurement: Measurement, kind: Kind, cpus: int
    ) -> Iterator[str]:
        """Yield one of each test as if the search's first load were the result."""
        rate = asked[Throughput].request().max_load
        for name, watched, sending in examples(asked[Rfc2544], measurement.stream, rate):
            yield f"# RFC 2544, {name}, here as if {rate:g} packets/s were the throughput"
            if watched is not None:
                yield watching(watched.at(kind))
            yield kind.offering(sending, cpus)


RFC2544 = OtherTests()


def _seconds(asked: Rfc2544) -> float:
    found = 0.0
    if asked.latency_seconds is not None:
        # Once more, of the tester alone.
        found += (asked.latency_repeats + 1) * (asked.latency_seconds + TRIAL_SECONDS)
    if asked.frame_loss_seconds is not None:
        # Half of the loads, about, lose something.
        loads = 0.5 / asked.frame_loss_step + CLEAN
        found += loads * (asked.frame_loss_seconds + TRIAL_SECONDS)
    if asked.burst_seconds is not None:
        # The first burst is the longest, and those after it are shorter by halves.
        halves = math.log2(2 + asked.burst_seconds * PACKETS_PER_SECOND)
        found += asked.burst_repeats * (2 * asked.burst_seconds + 1.5 * halves * TRIAL_SECONDS)
        found += back_to_back.STARTS * TRIAL_SECONDS
    if asked.recovery_seconds is not None:
        found += asked.recovery_repeats * (2 * asked.recovery_seconds + TRIAL_SECONDS)
    return found
