# SPDX-License-Identifier: GPL-2.0-or-later
"""RFC 2544's other tests in a testbed, at the throughput that a search has found.

The maximum rate, that the RFC has of the medium, is what the tester itself was found to carry. A
figure that the tester has a part in is none: its reason is recorded instead.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial

from skblab.lab.guest.errors import GuestError
from skblab.machine.transport import TransportError
from skblab.sweep.measure.latency import PKTSINK
from skblab.sweep.measure.rfc2544.back_to_back import applies, back_to_back, buffer_seconds
from skblab.sweep.measure.rfc2544.frame_loss import frame_loss, percent
from skblab.sweep.measure.rfc2544.latency import LatencyTrial
from skblab.sweep.measure.rfc2544.recovery import AFTER, OVERLOAD, Stepped, overload, recovery
from skblab.sweep.measure.rfc2544.section import Rfc2544
from skblab.sweep.measure.throughput.limits import Tolerances, missed
from skblab.sweep.measure.throughput.trial import Measurer, Trial
from skblab.testbeds import Sending, Testbed
from skblab.testbeds.asked import Stream
from skblab.testbeds.base import Offered, sink
from skblab.testbeds.sending import LATE_SECONDS
from skblab.testbeds.sink import Sink, counting
from skblab_analysis.base.errors import SkblabError, one_line
from skblab_analysis.formats.pktsink import NUMBERS_KNOWN, ArrivalsDocument
from skblab_analysis.rfc2544.rows import Figure, Test
from skblab_analysis.throughput.rows import Limit

# Numbers of packets are looked at, and not their times.
NUMBERS = replace(sink(tester=False), stamper=None)
# All that are sent in so long from the tagged frame on are timed: the one of the RFC may be the one
# that an interrupt comes for, or not.
TAGGED_SECONDS = 0.02
# Two of the clock's ticks, by which the rate's change is told.
STEP_SECONDS = 0.02
SLOW = "the tester did not keep the rate"


class UntoldError(SkblabError):
    """There is no figure, and this is why."""


@dataclass(frozen=True)
class Tests:
    """What is asked for, of which traffic, in a testbed; rates in packets per second.

    `throughput` was found with `width`, with `limit` as who was the limit above it. `most` is what
    the tester carries. `alone`: the tester can be timed by itself at the throughput.
    """

    asked: Rfc2544
    testbed: Testbed
    stream: Stream
    measurer: Measurer
    throughput: float
    limit: Limit
    most: float
    alone: bool
    width: float

    def run(self) -> Iterator[Figure]:
        """Run them, in the RFC's order; what goes wrong in one is its figure's reason."""
        asked = self.asked
        tests: tuple[tuple[Test, float | None, Callable[[float], Iterator[Figure]]], ...] = (
            ("latency", asked.latency_seconds, self._latency),
            ("frame loss", asked.frame_loss_seconds, self._frame_loss),
            ("back-to-back", asked.burst_seconds, self._back_to_back),
            ("recovery", asked.recovery_seconds, self._recovery),
        )
        for test, seconds, figures in tests:
            if seconds is None:
                continue
            try:
                yield from figures(seconds)
            except (GuestError, TransportError):
                raise
            except SkblabError as error:
                yield Figure(
                    test=test,
                    repeat=0,
                    load=self.most,
                    seconds=seconds,
                    reason=one_line(str(error)),
                )

    def _latency(self, seconds: float) -> Iterator[Figure]:
        trial = LatencyTrial.of(self.throughput, seconds)
        floor = None
        if self.alone:
            # Where it is none, the figures say for themselves what is wrong with the tester.
            with contextlib.suppress(UntoldError):
                floor = self._delay(trial, tester=True)
        for number in range(self.asked.latency_repeats):
            made = Figure(
                test="latency",
                repeat=number,
                load=trial.load,
                seconds=seconds,
                floor_ns=floor,
            )
            yield _told(made, "latency_ns", partial(self._delay, trial, tester=False))

    def _delay(self, trial: LatencyTrial, *, tester: bool) -> float:
        """Return the mean latency of the tagged frames, in ns."""
        document, offered = self._watched(*timing(self.stream, trial, tester=tester))
        took = max(trial.seconds, offered.microseconds / 1e6)
        wanted = Tolerances(generator=self.width / 2)
        if missed(round(trial.load * took), offered.tried, wanted):
            raise UntoldError(SLOW)
        if doubts := list(document.doubts()):
            raise UntoldError("; ".join(doubts))
        times = document.latency
        if not times.count:
            raise UntoldError("no tagged packet came")
        return times.sum / times.count

    def _frame_loss(self, seconds: float) -> Iterator[Figure]:
        trials = frame_loss(self.measurer, self.most, seconds, self.asked.frame_loss_step)
        for number, trial in enumerate(trials):
            made = Figure(
                test="frame loss",
                repeat=number,
                load=trial.load,
                share=trial.load / self.most,
                seconds=trial.seconds,
                limit=trial.limit,
            )
            yield _told(made, "loss_percent", partial(_percent, trial))

    def _back_to_back(self, seconds: float) -> Iterator[Figure]:
        made = Figure(test="back-to-back", repeat=0, load=self.most, seconds=seconds)
        if not applies(self.throughput, self.most, self.width):
            why = "the tester is not faster than the router (RFC 9004)"
            yield made.model_copy(update={"limit": "generator", "reason": why})
            return
        repeats = self.asked.burst_repeats
        found = back_to_back(self.measurer, self.most, repeats, longest_seconds=seconds)
        for number, (burst, limit) in enumerate(zip(found.bursts, found.limits, strict=True)):
            more: dict[str, object] = {"repeat": number, "limit": limit}
            if limit in ("generator", "sink"):
                why = SLOW if limit == "generator" else "the sink lost packets"
                more["reason"] = f"{why} in bursts"
            else:
                more |= {"burst": burst, "open": limit == "none"}
                # Of a throughput that is the tester's nobody knows what was forwarded meanwhile.
                if self.limit in ("device", "none"):
                    more["buffer_s"] = buffer_seconds(burst, self.most, self.throughput)
            yield made.model_copy(update=more)

    def _recovery(self, seconds: float) -> Iterator[Figure]:
        load = overload(self.throughput, self.most)
        made = Figure(
            test="recovery",
            repeat=0,
            load=load,
            share=load / self.throughput,
            seconds=seconds,
        )
        for number in range(self.asked.recovery_repeats):
            more: dict[str, object] = {"repeat": number}
            try:
                if load < self.throughput * (1 + self.width):
                    raise UntoldError("the tester carries no more than the router")
                found = recovery(self, load, seconds)
            except UntoldError as why:
                yield made.model_copy(update={**more, "reason": str(why)})
                continue
            if found.seconds is None:
                more |= {"open": True, "reason": "packets were lost until the end"}
            else:
                more |= {"recovery_s": found.seconds, "within_s": found.within}
            yield made.model_copy(update=more)

    def step(self, first: float, then: float, seconds: float) -> Stepped:
        """Be a Stepper: send at two rates, by one count of packets.

        What was lost last is told by its number, and so is when it was sent. UntoldError where that
        is not known, or the router was not overloaded.
        """
        sending = stepping(self.stream, first, then, seconds)
        document, offered = self._watched(NUMBERS, sending)
        step = offered.step
        assert step is not None
        before, after = step.before, step.after
        if after < first * seconds * (1 - self.width):
            raise UntoldError(SLOW)
        last = _last_lost(document, offered, after)
        behind = max(step.microseconds / 1e6 - after / first, 0.0)
        # It catches up at full speed: what is sent meanwhile is taken for as many at the new rate.
        within = STEP_SECONDS + (after - before) / first + behind * first / then
        return Stepped((last - after) / then if last > after else None, within)

    def _watched(self, watched: Sink, sending: Sending) -> tuple[ArrivalsDocument, Offered]:
        """Return how packets arrived, and how many were sent."""
        program = self.testbed.program(PKTSINK.name)
        with counting(self.testbed.tester, program, watched.at(self.testbed)) as attached:
            offered = self.testbed.offer(sending)
            return attached.end(), offered


def _told(made: Figure, name: str, find: Callable[[], float]) -> Figure:
    """Return a figure with what is found, or with why it is not."""
    try:
        return made.model_copy(update={name: find()})
    except UntoldError as why:
        return made.model_copy(update={"reason": str(why)})


def _percent(trial: Trial) -> float:
    """Return the router's frame loss rate, in per cent of what was sent (26.3)."""
    if trial.limit == "generator":
        raise UntoldError("the tester did not keep the load")
    return percent(trial)


def _last_lost(document: ArrivalsDocument, offered: Offered, step: int) -> int:
    """Return the number of the last packet that the router lost, of which some were before `step`.

    UntoldError if that is not known.
    """
    packets, gaps = document.packets, document.gaps
    if offered.refused:
        raise UntoldError("packets were lost before they had left the tester, and have no number")
    if offered.received < offered.forwarded:
        raise UntoldError("the sink lost packets, too")
    if packets.merged or packets.too_old:
        raise UntoldError("; ".join(document.doubts()) or "numbers of packets are not known")
    if not packets.missing(offered.sent):
        raise UntoldError("the router was not overloaded: it lost nothing")
    if packets.highest < offered.sent:
        last = offered.sent
    elif packets.last_lost or not packets.reordered:
        # Where none is reordered, what was left out never came.
        last = packets.last_lost or (gaps.last.sequence - 1 if gaps.last else 0)
    elif packets.highest - NUMBERS_KNOWN <= step:
        return step
    else:
        raise UntoldError(
            f"packets were reordered: of those before the last {NUMBERS_KNOWN} nobody knows which "
            "were lost"
        )
    if last > step and not any(gap.sequence <= step for gap in gaps.recorded):
        raise UntoldError("the router was not overloaded: it lost nothing until the change of rate")
    return last


def examples(
    asked: Rfc2544, stream: Stream, rate: float
) -> Iterator[tuple[str, Sink | None, Sending]]:
    """Yield each test's name, what looks at packets, and what is sent first, at a throughput."""
    if asked.latency_seconds is not None:
        trial = LatencyTrial.of(rate, asked.latency_seconds)
        yield "latency", *timing(stream, trial, tester=False)
    if asked.frame_loss_seconds is not None:
        yield "frame loss", None, Sending.timed(stream, rate, asked.frame_loss_seconds)
    if asked.burst_seconds is not None:
        yield "back-to-back", None, Sending.timed(stream, rate, asked.burst_seconds)
    if asked.recovery_seconds is not None:
        over = rate * OVERLOAD
        yield "recovery", NUMBERS, stepping(stream, over, over * AFTER, asked.recovery_seconds)


def timing(stream: Stream, trial: LatencyTrial, *, tester: bool) -> tuple[Sink, Sending]:
    """Return what a stream of 26.2 is looked at by, and what is sent."""
    first = max(round(trial.load * trial.tag_after), 1)
    last = first + max(round(trial.load * TAGGED_SECONDS), 1) - 1
    watched = replace(sink(tester=tester), first=first, last=last)
    return watched, Sending.timed(stream, trial.load, trial.seconds, tester=tester, by_queue=True)


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
