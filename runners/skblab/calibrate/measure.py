# SPDX-License-Identifier: GPL-2.0-or-later
"""Which trials a calibration makes, in a given time, and what comes of them.

Durations below are those of a calibration of a minute: others have them longer or shorter.
"""

from __future__ import annotations

import functools
import math
import time
from collections.abc import Callable, Sequence
from typing import TypeVar, cast

from skblab.calibrate.result import Largest, Mode, Place, PlaceName, Rate, Spacing, Wakeup
from skblab.calibrate.tester import Programs
from skblab_analysis.base.errors import SkblabError
from skblab_analysis.base.whole import Positive
from skblab_analysis.formats.pathlat import PacketTimes, ReceiverDocument, SenderDocument
from skblab_analysis.formats.traces.document import Times
from skblab_analysis.formats.traffic import EchoDocument, RoundTripDocument, WakeupDocument

MINUTE = 60.0
REALTIME = "fifo:50"
RATES = tuple(10**power for power in range(7))
SPACING_RATE = 1_000
# A percentile of 99.9 needs ten thousand packets.
LATENCY_RATE, LATENCY_S = 5_000, 2.2
WAKEUP_S, SPACING_S, ROUND_TRIP_S, RATE_S, LARGEST_S = 3.0, 3.0, 1.5, 0.5, 0.5
SLOW_S = {1: 2.0, 10: 1.0}
HALVINGS = 6
# From this rate on packets are given to the kernel by so many.
BATCH_FROM, BATCH = 100_000, 64
# What starting and ending two programs takes, on a machine that is not busy.
_START_S = 0.3
_RCVBUF = 16 << 20
_NS = 1_000_000_000
# A sender that reaches less of a rate cannot keep it.
_KEPT = 0.98
T = TypeVar("T")


class Sender(SenderDocument):
    """A sender of today."""

    batch: Positive


class Receiver(ReceiverDocument):
    """A receiver of today; one that cannot tell delays says why."""

    inter_arrival: PacketTimes
    jitter: PacketTimes


class Calibrating:
    """Trials of one calibration, of `seconds` in all."""

    def __init__(
        self, tester: Programs, seconds: float, told: Callable[[float, str], None] | None = None
    ) -> None:
        self._tester = tester
        self._share = seconds / MINUTE
        self._begun = time.monotonic()
        self._until = self._begun + seconds
        self._told = told
        self._modes: list[Mode] = ["normal"]
        self.skipped = list[str]()

    def run(self) -> tuple[tuple[Wakeup, ...], tuple[Place, ...]]:
        """Make all trials; what fails or has no time is in `skipped`."""
        if self._tester.without_veth:
            self.skipped.append(f"veth: {self._tester.without_veth}")
        try:
            self._tester.alone(WakeupDocument, "wakeup", "--seconds", 0.01, "--realtime", REALTIME)
            self._modes.append("real time")
        except SkblabError as error:
            self.skipped.append(f"real time: {str(error).removeprefix('skblab-traffic: ')}")
        wakeup = self._each("wakeup", WAKEUP_S, self._wakeup, self._modes)
        places = [self._place(cast(PlaceName, name)) for name in self._tester.places]
        return wakeup, tuple(places)

    def _each(
        self, what: str, seconds: float, trial: Callable[[Mode], T], modes: Sequence[Mode]
    ) -> tuple[T, ...]:
        tried = (
            self._try(f"{what}, {mode}", seconds, functools.partial(trial, mode)) for mode in modes
        )
        return tuple(one for one in tried if one is not None)

    def _try(self, what: str, seconds: float, trial: Callable[[], T]) -> T | None:
        """Make a trial if there is time for it."""
        now = time.monotonic()
        if self._told:
            self._told(now - self._begun, what)
        if now + self._lasting(seconds) + _START_S > self._until:
            self.skipped.append(f"{what}: there was no time left")
            return None
        try:
            return trial()
        except SkblabError as error:
            self.skipped.append(f"{what}: {error}")
            return None

    def _lasting(self, seconds: float) -> float:
        return round(seconds * self._share, 3)

    def _wakeup(self, mode: Mode) -> Wakeup:
        found = self._tester.alone(
            WakeupDocument,
            *("wakeup", "--rate", SPACING_RATE, "--seconds", self._lasting(WAKEUP_S)),
            *_as_asked(mode),
        )
        return Wakeup(mode=mode, late=_times(found.late), missed=found.missed)

    def _place(self, name: PlaceName) -> Place:
        latency = self._try(f"{name}: latency", LATENCY_S, lambda: self._latency(name))
        trips = self._try(f"{name}: round trips", ROUND_TRIP_S, lambda: self._round_trip(name))
        spacing = self._each(
            f"{name}: times between packets",
            SPACING_S,
            functools.partial(self._spacing, name),
            self._modes,
        )
        rates = (
            self._try(
                f"{name}: {rate} packets per second",
                SLOW_S.get(rate, RATE_S),
                functools.partial(self._rate, name, rate),
            )
            for rate in RATES
        )
        known = [rate for rate in rates if rate is not None]
        return Place(
            name=name,
            latency_rate=LATENCY_RATE,
            latency=_times(latency.delay) if latency else None,
            jitter=_times(latency.jitter) if latency else None,
            round_trip=trips,
            spacing=spacing,
            rates=tuple(known),
            largest=self._try(
                f"{name}: the largest rate", LARGEST_S, lambda: self._largest(name, known)
            ),
        )

    def _pair(
        self,
        place: PlaceName,
        rate: int,
        seconds: float,
        mode: Mode = "normal",
        count: int | None = None,
        batch: int = 0,
    ) -> tuple[Sender, Receiver]:
        """Send at a rate, 0 for as fast as possible; return what the sender and receiver say."""
        lasting = self._lasting(seconds)
        if rate and count is None:
            count = max(round(rate * lasting), 2)
        # What is not there half a second after it could have been is lost.
        idle = 0.5 + (2 / rate if rate else 0)
        batch = batch or (BATCH if rate >= BATCH_FROM else 1)
        limit = lasting if not rate else 2 * lasting + 1
        return self._tester.pair(
            place,
            (Sender, Receiver),
            (
                *("receive", "--bind", "ADDRESS", "--same-clock", "--rcvbuf", _RCVBUF),
                *("--idle", idle, "--linger", 0.02, "--seconds", limit + 5),
                *(("--expect", count) if count else ()),
                *_as_asked(mode),
            ),
            (
                *("send", "--to", "ADDRESS", "--rate", rate, "--batch", batch),
                *("--seconds", limit, *(("--count", count) if count else ())),
                *_as_asked(mode),
            ),
        )

    def _latency(self, place: PlaceName) -> Receiver:
        _, received = self._pair(place, LATENCY_RATE, LATENCY_S)
        return received

    def _round_trip(self, place: PlaceName) -> Times:
        sender, _ = self._tester.pair(
            place,
            (RoundTripDocument, EchoDocument),
            ("echo", "--bind", "ADDRESS"),
            (
                *("rtt", "--to", "ADDRESS", "--rate", SPACING_RATE, "--wait", 0.2),
                *("--seconds", self._lasting(ROUND_TRIP_S)),
            ),
        )
        return _times(sender.round_trip)

    def _spacing(self, place: PlaceName, mode: Mode) -> Spacing:
        sent, received = self._pair(place, SPACING_RATE, SPACING_S, mode)
        between = _times(received.inter_arrival)
        if sent.late is None:
            raise SkblabError("the sender does not say how late it was")
        return Spacing(
            mode=mode,
            inter_arrival=between,
            error_sd_ns=_error(between, _NS / SPACING_RATE),
            late_packets=sent.late.count,
        )

    def _rate(self, place: PlaceName, rate: int) -> Rate:
        # Of one packet a second three, to have two times between them.
        count = 1 + math.ceil(SLOW_S[1]) if rate == 1 and self._share >= 1 else None
        sent, received = self._pair(place, rate, SLOW_S.get(rate, RATE_S), count=count)
        reached = sent.rate_reached
        return Rate(
            asked=rate,
            reached=reached,
            off_percent=None if reached is None else (reached / rate - 1) * 100,
            batch=sent.batch,
            sent=sent.sent,
            lost=max(sent.sent - received.distinct, 0),
        )

    def _largest(self, place: PlaceName, known: Sequence[Rate]) -> Largest:
        """Find the largest rate without loss: as fast as possible, then by halves.

        What is known of other rates is believed. A loss at a rate that is no larger than one
        without is the machine's, which did something else, and bounds nothing.
        """
        good = max((rate.reached or 0.0 for rate in known if not rate.lost), default=0.0)
        bad = None
        asked = 0
        for step in range(1 + HALVINGS):
            if step and time.monotonic() + self._lasting(LARGEST_S) + _START_S > self._until:
                self.skipped.append(f"{place}: the largest rate, more exactly: no time was left")
                break
            sent, received = self._pair(place, asked, LARGEST_S, batch=BATCH)
            reached = sent.rate_reached or 0.0
            if received.distinct >= sent.sent and not sent.unsent:
                good = max(good, reached)
                # It cannot send faster.
                if not asked or reached < asked * _KEPT:
                    break
            else:
                bad = min(bad or math.inf, reached)
            if bad is not None and bad <= good:
                bad = None
            if bad is None or bad - good < 1:
                break
            asked = max(round((good + bad) / 2), 1)
        return Largest(without_loss=good or None, least_with_loss=bad, batch=sent.batch)


def _as_asked(mode: Mode) -> tuple[str, ...]:
    return () if mode == "normal" else ("--realtime", REALTIME)


def _times(found: PacketTimes | None) -> Times:
    if found is None:
        raise SkblabError("the receiver gives no delay")
    return Times.model_validate(found.model_dump(include=set(Times.model_fields)))


def _error(between: Times, planned_ns: float) -> float | None:
    """Return the root of the mean square of how far times are from what was planned."""
    if between.mean_ns is None or between.sd_ns is None:
        return None
    return math.hypot(between.sd_ns, between.mean_ns - planned_ns)
