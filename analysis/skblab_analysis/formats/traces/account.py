# SPDX-License-Identifier: GPL-2.0-or-later
"""Counts packets as `skblab-traffic receive` does: numbers, times, and what is foreign."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from skblab_analysis.formats.packets import CLOCK_SHIFT, CLOCKS, Flag
from skblab_analysis.formats.traces import times
from skblab_analysis.formats.traces.chunk import Chunk, Origin
from skblab_analysis.formats.traces.document import ForeignPackets, StampsSaid, Stream
from skblab_analysis.formats.traces.times import Nanoseconds, TimesCount
from skblab_analysis.formats.traces.tracking import Tracker

_NS = 1_000_000_000
_TAI = CLOCKS.index("CLOCK_TAI")
_MONOTONIC = CLOCKS.index("CLOCK_MONOTONIC")
_NOT_SAID = "the clocks of sender and receiver may differ; if both are one, give --same-clock"
_OTHER_CLOCK = (
    "the sender's stamps are of CLOCK_MONOTONIC, those of arrival are not, and their difference is "
    "not known to a nanosecond"
)
_NOT_SENT = "it does not say when packets were sent"


@dataclass(slots=True)
class _Last:
    """The last new packet: when it came, how long it took, and the sender's clock."""

    received_ns: Nanoseconds
    took_ns: Nanoseconds | None
    clock: npt.NDArray[np.uint32] | None


class Account:
    """What came, chunk by chunk, of one source."""

    def __init__(self, origin: Origin, expect: int | None) -> None:
        self._origin = origin
        self._tracker = Tracker(expect)
        self._inter_arrival = TimesCount()
        self._jitter = TimesCount()
        self._delay = TimesCount()
        self._last: _Last | None = None
        # First and largest time of those of the transmission.
        self._span: tuple[int, int] | None = None
        self._counted = 0
        self._received = 0
        self._bytes = 0
        self._foreign = 0
        self._other = 0
        self._not_by_kernel = 0
        self._unlike = 0
        # Until a packet comes: all that the source does not say it lacks.
        self._has = {
            name: name not in origin.unknown for name in ("sequence", "sent", "flow", "payload")
        } | {"kind": origin.format != "timestamps"}

    def take(self, chunk: Chunk) -> npt.NDArray[np.uint32]:
        """Take packets in; return their flags as records have them."""
        count = len(chunk)
        flags = np.zeros(count, np.uint32) if chunk.kind is None else chunk.kind.copy()
        self._received += count
        self._has = {
            "sequence": chunk.sequence is not None,
            "sent": chunk.sent_ns is not None,
            "flow": chunk.flow is not None,
            "payload": chunk.payload_bytes is not None,
            "kind": chunk.kind is not None,
        }
        own = self._own(chunk, flags)
        if not len(own):
            return flags
        self._counted += len(own)
        first, last = int(own.received_ns[0]), int(own.received_ns.max())
        self._span = (self._span[0], max(self._span[1], last)) if self._span else (first, last)
        if own.payload_bytes is not None:
            self._bytes += int(own.payload_bytes.sum(dtype=np.int64))
        if own.sequence is None:
            self._observe(own)
            return flags
        flows = np.zeros(len(own), np.uint16) if own.flow is None else own.flow
        verdicts = self._tracker.observe(own.sequence, flows)
        flags[_is_own(flags)] |= verdicts
        new = (verdicts & ~np.uint32(int(Flag.REORDERED))) == 0
        self._observe(own if new.all() else _part(own, new))
        return flags

    def _own(self, chunk: Chunk, flags: npt.NDArray[np.uint32]) -> Chunk:
        """Return what is of the transmission, and count what is not."""
        if chunk.kind is None:
            return chunk
        self._not_by_kernel += _count(flags, Flag.NOT_BY_KERNEL)
        self._foreign += _count(flags, Flag.FOREIGN)
        self._other += _count(flags, Flag.OTHER_TRANSMISSION)
        own = _is_own(flags)
        return chunk if own.all() else _part(chunk, own)

    def _observe(self, new: Chunk) -> None:
        """Take in the times of packets that were seen for the first time."""
        if not len(new):
            return
        clock = None if new.kind is None else new.kind & np.uint32(int(Flag.CLOCK))
        took = None if new.sent_ns is None else new.received_ns - new.sent_ns
        last = self._last
        received = new.received_ns
        if last is not None:
            received = np.concatenate((last.received_ns, received))
        self._inter_arrival.add(received[1:] - received[:-1])
        if took is not None:
            both, clocks = took, clock
            if last is not None and last.took_ns is not None:
                both = np.concatenate((last.took_ns, took))
                if last.clock is not None and clock is not None:
                    clocks = np.concatenate((last.clock, clock))
            differ = np.abs(both[1:] - both[:-1])
            if clocks is not None and (clocks != clocks[0]).any():
                differ = differ[clocks[1:] == clocks[:-1]]
            self._jitter.add(differ)
            if self._origin.one_clock:
                self._add_delay(took, clock)
        self._last = _Last(
            new.received_ns[-1:].copy(),
            None if took is None else took[-1:].copy(),
            None if clock is None else clock[-1:].copy(),
        )

    def _add_delay(self, took: Nanoseconds, clock: npt.NDArray[np.uint32] | None) -> None:
        receiver = self._origin.receiver_clock
        if clock is None or receiver != "CLOCK_REALTIME":
            self._delay.add(took)
            return
        number = clock >> np.uint32(CLOCK_SHIFT)
        self._unlike += int(np.count_nonzero(number == _MONOTONIC))
        tai = number == _TAI
        took = took + _tai_offset_ns() * tai if tai.any() else took
        self._delay.add(took[number != _MONOTONIC])

    def stream(self) -> Stream:
        """Return all figures."""
        numbered = self._has.get("sequence", False)
        counts, tracker, origin = self._tracker.counts, self._tracker, self._origin
        seconds = (self._span[1] - self._span[0]) / _NS if self._span else 0.0
        has_sent = self._has.get("sent", False)
        unknown = self._delay_unknown(has_sent)
        return Stream(
            name=None,
            transmission=origin.transmission,
            expected=tracker.expect,
            received=self._received,
            bytes=self._bytes if self._has.get("payload") else None,
            distinct=counts.distinct if numbered else None,
            duplicates=counts.duplicates if numbered else None,
            reordered=counts.reordered if numbered else None,
            reordered_in_flow=(
                counts.reordered_in_flow if numbered and self._has.get("flow") else None
            ),
            lost=tracker.lost if numbered else None,
            too_old=counts.too_old if numbered else None,
            beyond=counts.beyond if numbered else None,
            foreign=self._foreign_said(),
            flows=tracker.flows if numbered and self._has.get("flow") else None,
            seconds=seconds,
            rate=(self._counted - 1) / seconds if self._counted > 1 and seconds > 0 else None,
            stamps=StampsSaid(
                clock=origin.receiver_clock,
                kind=origin.stamps,
                not_by_kernel=self._not_by_kernel if origin.stamps == "kernel" else None,
            ),
            inter_arrival=self._inter_arrival.report(),
            jitter=self._jitter.report() if has_sent else None,
            delay=None if unknown else self._delay.report(),
            delay_of=None if unknown else origin.delay,
            delay_unknown=unknown,
            percentile_error=times.ERROR,
        )

    def _foreign_said(self) -> ForeignPackets | None:
        origin = self._origin
        if not self._has.get("kind"):
            return None
        return ForeignPackets(
            total=self._foreign + self._other,
            short=origin.foreign.get("short"),
            magic=origin.foreign.get("magic"),
            version=origin.foreign.get("version"),
            other_transmission=self._other,
        )

    def _delay_unknown(self, has_sent: bool) -> str | None:
        if not has_sent:
            return self._origin.delay_unknown or _NOT_SENT
        if not self._origin.one_clock:
            return _NOT_SAID
        return _OTHER_CLOCK if self._unlike else None


def _count(flags: npt.NDArray[np.uint32], flag: Flag) -> int:
    return int(np.count_nonzero(flags & np.uint32(int(flag))))


def _is_own(flags: npt.NDArray[np.uint32]) -> npt.NDArray[np.bool_]:
    own: npt.NDArray[np.bool_] = (
        flags & np.uint32(int(Flag.FOREIGN | Flag.OTHER_TRANSMISSION))
    ) == 0
    return own


def _part(chunk: Chunk, which: npt.NDArray[np.bool_]) -> Chunk:
    return Chunk(
        received_ns=chunk.received_ns[which],
        sent_ns=None if chunk.sent_ns is None else chunk.sent_ns[which],
        sequence=None if chunk.sequence is None else chunk.sequence[which],
        flow=None if chunk.flow is None else chunk.flow[which],
        payload_bytes=None if chunk.payload_bytes is None else chunk.payload_bytes[which],
        kind=None if chunk.kind is None else chunk.kind[which],
    )


def _tai_offset_ns() -> int:
    """Return by how much CLOCK_TAI is ahead of real time: whole seconds, of this machine."""
    ahead = time.clock_gettime_ns(time.CLOCK_TAI) - time.clock_gettime_ns(time.CLOCK_REALTIME)
    return round(ahead / _NS) * _NS
