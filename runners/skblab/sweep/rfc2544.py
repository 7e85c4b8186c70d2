# SPDX-License-Identifier: GPL-2.0-or-later
"""RFC 2544's other tests in a testbed, at the throughput that a search has found.

The maximum rate, that the RFC has of the medium, is what the tester itself was found to carry.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from skblab.errors import SkblabError
from skblab.sweep.arriving import PROGRAM
from skblab.sweep.experiment import Rfc2544, Stream
from skblab.sweep.testbeds import Sending, Testbed
from skblab.sweep.testbeds.base import counts, sink
from skblab.sweep.testbeds.sending import LATE_SECONDS, STEP
from skblab.sweep.testbeds.sink import Sink, counting
from skblab.sweep.throughput import latency
from skblab.sweep.throughput.back_to_back import applies, back_to_back
from skblab.sweep.throughput.frame_loss import frame_loss
from skblab.sweep.throughput.recovery import AFTER, OVERLOAD, recovery
from skblab.sweep.throughput.trial import Measurer
from skblab_analysis.arrivals import ArrivalsDocument
from skblab_analysis.rfc2544 import Figure

# Numbers of packets are looked at, and not their times.
NUMBERS = replace(sink(tester=False), stamper=None)
# For so long from the moment at which a frame is tagged all that arrive are looked at: the one of
# the RFC may be the one that an interrupt comes for, or not.
TAGGED_SECONDS = 0.02


class NotOverloadedError(SkblabError):
    """The generator did not send what was to be too much."""


@dataclass(frozen=True)
class Tests:
    """What is asked for, of which traffic, in a testbed; rates in packets per second.

    `throughput` was found with `width`, and `most` is what the tester carries.
    """

    asked: Rfc2544
    testbed: Testbed
    stream: Stream
    measurer: Measurer
    throughput: float
    most: float
    width: float

    def run(self) -> Iterator[Figure]:
        """Run them, in the RFC's order."""
        if self.asked.latency_seconds is not None:
            yield from self._latency(self.asked.latency_seconds)
        if self.asked.frame_loss_seconds is not None:
            yield from self._frame_loss(self.asked.frame_loss_seconds)
        if self.asked.burst_seconds is not None:
            yield from self._back_to_back(self.asked.burst_seconds)
        if self.asked.recovery_seconds is not None:
            yield from self._recovery(self.asked.recovery_seconds)

    def _latency(self, seconds: float) -> Iterator[Figure]:
        trials = latency.trials(self.throughput, seconds, self.asked.latency_repeats)
        for number, one in enumerate(trials):
            document, _ = self._watched(*timing(self.stream, one))
            # Without a time where the frame did not come, or its stamp is not to be trusted.
            times = document.latency
            known = times.count and not list(document.doubts())
            yield Figure(
                test="latency",
                repeat=number,
                load=one.load,
                seconds=one.seconds,
                latency_ns=times.sum / times.count if known else None,
            )

    def _frame_loss(self, seconds: float) -> Iterator[Figure]:
        found = frame_loss(self.measurer, self.most, seconds, self.asked.frame_loss_step)
        for number, (one, percent) in enumerate(zip(found.trials, found.percent, strict=True)):
            yield Figure(
                test="frame loss",
                repeat=number,
                load=one.load,
                share=one.load / self.most,
                seconds=one.seconds,
                loss_percent=percent,
                limit=one.limit,
            )

    def _back_to_back(self, seconds: float) -> Iterator[Figure]:
        repeats, found = self.asked.burst_repeats, None
        if applies(self.throughput, self.most, self.width):
            found = back_to_back(self.measurer, self.most, repeats, longest_seconds=seconds)
        if found is None or found.limit == "generator":
            yield Figure(
                test="back-to-back", repeat=0, load=self.most, seconds=seconds, limit="generator"
            )
            return
        for number, burst in enumerate(found.bursts):
            yield Figure(
                test="back-to-back",
                repeat=number,
                load=found.rate,
                seconds=seconds,
                burst=burst,
                buffer_s=burst / found.rate * (1 - self.throughput / found.rate),
                open=burst == found.longest,
                limit=found.limit,
            )

    def _recovery(self, seconds: float) -> Iterator[Figure]:
        # All that the tester carries is no less than what the router does.
        most = max(self.most, self.throughput)
        try:
            if most < self.throughput * (1 + self.width):
                raise NotOverloadedError("the tester carries no more than the router")
            found = recovery(self, self.throughput, most, seconds, self.asked.recovery_repeats)
        except NotOverloadedError:
            yield Figure(test="recovery", repeat=0, load=most, seconds=seconds, limit="generator")
            return
        for number, time in enumerate(found.times):
            yield Figure(
                test="recovery",
                repeat=number,
                load=found.overload,
                share=found.overload / self.throughput,
                seconds=seconds,
                recovery_s=time,
                open=time is None,
            )

    def step(self, first: float, then: float, seconds: float) -> float | None:
        """Be a Stepper: send at two rates, by one count of packets.

        What was lost last is told by its number, and so is when it was sent. NotOverloadedError if
        fewer were sent until the step than the width allows.
        """
        sending = stepping(self.stream, first, then, seconds)
        document, sent = self._watched(NUMBERS, sending)
        told = self.testbed.tester.run(["cat", STEP]).check("the generator's change of rate")
        [before] = counts("the generator", told.stdout, ["number of the next packet"])
        if before < first * seconds * (1 - self.width):
            raise NotOverloadedError(f"{before} packets were sent of {first * seconds:.0f}")
        last = document.gaps.last.sequence - 1 if document.gaps.last else 0
        if document.packets.highest < sent:
            last = sent
        return (last - before) / then if last > before else None

    def _watched(self, watched: Sink, sending: Sending) -> tuple[ArrivalsDocument, int]:
        """Return how packets arrived, and how many were sent."""
        program = self.testbed.program(PROGRAM)
        with counting(self.testbed.tester, program, watched) as attached:
            offered = self.testbed.offer(sending)
            return attached.end(), offered.sent


def examples(
    asked: Rfc2544, stream: Stream, rate: float
) -> Iterator[tuple[str, Sink | None, Sending]]:
    """Yield each test's name, what looks at packets, and what is sent first, at a throughput."""
    if asked.latency_seconds is not None:
        yield "latency", *timing(stream, latency.trials(rate, asked.latency_seconds)[0])
    if asked.frame_loss_seconds is not None:
        yield "frame loss", None, Sending.timed(stream, rate, asked.frame_loss_seconds)
    if asked.burst_seconds is not None:
        yield "back-to-back", None, Sending.timed(stream, rate, asked.burst_seconds)
    if asked.recovery_seconds is not None:
        over = rate * OVERLOAD
        yield "recovery", NUMBERS, stepping(stream, over, over * AFTER, asked.recovery_seconds)


def timing(stream: Stream, one: latency.LatencyTrial) -> tuple[Sink, Sending]:
    """Return what a stream of 26.2 is looked at by, and what is sent."""
    until = one.tag_after + max(TAGGED_SECONDS, 2 / one.load)
    watched = replace(sink(tester=False), begin=one.tag_after, end=until)
    return watched, Sending.timed(stream, one.load, one.seconds, by_queue=True)


def stepping(stream: Stream, first: float, then: float, seconds: float) -> Sending:
    """Return what is sent in 26.5: `seconds` at one rate, and as long at another."""
    return Sending(
        stream,
        round((first + then) * seconds),
        first,
        2 * seconds + LATE_SECONDS,
        then=then,
        after=seconds,
    )
