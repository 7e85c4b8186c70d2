# SPDX-License-Identifier: GPL-2.0-or-later
"""Frames of a capture: the UDP payloads in them, and the header of our sender or of pktgen there.

Ethernet with up to three VLAN tags, and Linux's cooked captures; IPv4 with options, and IPv6 with
extension headers. All packets of a chunk at once: each step looks at the same place of all.
runners/traffic/src/header.rs has the headers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from skblab_analysis.formats.packets import CLOCK_SHIFT, CLOCKS, Flag
from skblab_analysis.formats.traces.chunk import Chunk, Origin
from skblab_analysis.formats.traces.numbering import Flows, Whole, nearest, unfolded

# By number of the link type, where its type of protocol and its next header are; None: it is IP.
LINKS: dict[int, tuple[int | None, int]] = {
    1: (12, 14),
    101: (None, 0),
    113: (14, 16),
    228: (None, 0),
    229: (None, 0),
    276: (0, 20),
}
KNOWN_LINKS = "expected Ethernet, raw IP, or Linux's cooked capture"
_VLANS = (0x8100, 0x88A8, 0x9100)
_IPV4, _IPV6 = 0x0800, 0x86DD
_UDP = 17
# Hop-by-hop options, routing, fragment and destination options.
_EXTENSIONS = (0, 43, 44, 60)
_FRAGMENT = 44
_MOST_EXTENSIONS = 4
LEN = 16
_MAGIC, _VERSION = 0x5B, 2
_PKTGEN = 0xBE9BE955
_BITS = 48
_PKTGEN_BITS = 32
# Of the first word of a source's address, and its port.
_KEY_BITS = 48
_KEY_WORDS = 5
_MONOTONIC = CLOCKS.index("CLOCK_MONOTONIC")

Octets = npt.NDArray[np.uint8]
Which = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Captured:
    """Packets of a capture: bytes that hold them, and when, where and how long each is."""

    held: Octets
    received_ns: Whole
    at: Whole
    size: Whole
    link: int


def number(held: Octets, at: Whole, size: int, order: str = ">") -> Whole:
    """Return the number of so many bytes at each place; what is beyond the end is 0."""
    found = np.zeros(len(at), np.int64)
    last = len(held) - 1
    for place in range(size):
        octet = held[np.minimum(at + place, last)].astype(np.int64)
        found |= octet << (8 * (size - 1 - place if order == ">" else place))
    return found


def four(held: Octets, at: Whole, order: str) -> Whole:
    """Return the 32 bits at each place."""
    return number(held, at, 4, order)


@dataclass(frozen=True, slots=True)
class _Payloads:
    """UDP payloads: where each begins, its bytes, and how many of these were captured."""

    at: Whole
    size: Whole
    captured: Whole
    # Version of IP, place of its source address, and the port.
    version: Whole
    source_at: Whole
    port: Whole


class Reader:
    """Makes chunks of captured packets."""

    def __init__(self, origin: Origin) -> None:
        self._origin = origin
        self._flows = Flows()
        self._highest = 0
        # Of CLOCK_MONOTONIC: when the first was sent and came.
        self._first: tuple[int, int] | None = None
        self._others = 0
        origin.foreign.update(short=0, magic=0, version=0)

    def troubles(self) -> Iterator[str]:
        """Yield what was left out."""
        if self._others:
            yield f"{self._others} packets of the capture are no whole UDP packets: left out"

    def chunk(self, captured: Captured) -> Chunk:
        """Return the UDP packets among some."""
        payloads, which = _payloads(captured)
        self._others += len(which) - int(np.count_nonzero(which))
        received = captured.received_ns[which]
        count = len(received)
        held, at, room = captured.held, payloads.at, np.minimum(payloads.captured, payloads.size)
        kind = np.zeros(count, np.uint32)
        ours = (room >= 1) & (number(held, at, 1) == _MAGIC)
        second = number(held, at + 1, 1)
        short = (room < 1) | (ours & (room < 2)) | (~ours & (room < 4))
        unreadable = (second >> 4 != _VERSION) | ((second & 15) >= len(CLOCKS))
        version = ours & ~short & unreadable
        pktgen = ~ours & ~short & (number(held, at, 4) == _PKTGEN)
        magic = ~ours & ~short & ~pktgen
        short |= ((ours & ~version) | pktgen) & (room < LEN)
        foreign = version | short | magic
        for name, found in (("short", short), ("magic", magic), ("version", version)):
            self._origin.foreign[name] += int(np.count_nonzero(found))
        kind[foreign] |= np.uint32(int(Flag.FOREIGN))
        known = ~foreign
        pktgen &= known
        own = ours & known
        kind[pktgen] |= np.uint32(int(Flag.PKTGEN))
        clock = np.where(own, second & 15, 0)
        kind |= clock.astype(np.uint32) << np.uint32(CLOCK_SHIFT)
        transmission = np.where(own, number(held, at + 2, 2), 0)
        if self._origin.transmission is None and known.any():
            self._origin.transmission = int(transmission[np.argmax(known)])
        other = known & (transmission != (self._origin.transmission or 0))
        kind[other] |= np.uint32(int(Flag.OTHER_TRANSMISSION))
        return Chunk(
            received_ns=received,
            sent_ns=self._sent(held, at, received, (own, pktgen, clock)),
            sequence=self._sequence(held, at, (own, pktgen, known & ~other)),
            flow=self._flow(held, payloads, known),
            payload_bytes=np.minimum(payloads.size, 0xFFFF).astype(np.uint16),
            kind=kind,
        )

    def _sequence(self, held: Octets, at: Whole, which: tuple[Which, Which, Which]) -> Whole:
        own, pktgen, counted = which
        low = np.where(own, number(held, at + 4, 6), 0)
        # pktgen counts from 1.
        low = np.where(pktgen, (number(held, at + 4, 4) - 1) & ((1 << _PKTGEN_BITS) - 1), low)
        found = low
        if counted.any():
            # A transmission is of one of both.
            bits = _PKTGEN_BITS if pktgen[counted].any() else _BITS
            found[counted] = unfolded(low[counted], bits, self._highest)
            self._highest = max(self._highest, int(found[counted].max()))
        return found

    def _sent(
        self, held: Octets, at: Whole, received: Whole, which: tuple[Which, Which, Whole]
    ) -> Whole:
        own, pktgen, clock = which
        low = np.where(own, number(held, at + 10, 6), 0)
        micros = number(held, at + 8, 4) * 1_000_000_000 + number(held, at + 12, 4) * 1000
        low = np.where(pktgen, micros & ((1 << _BITS) - 1), low)
        near = received
        monotonic = own & (clock == _MONOTONIC)
        if monotonic.any():
            if self._first is None:
                at_first = int(np.argmax(monotonic))
                self._first = int(low[at_first]), int(received[at_first])
            sent, came = self._first
            near = np.where(monotonic, sent + np.maximum(received - came, 0), received)
        found = nearest(low, _BITS, near)
        found[~(own | pktgen)] = 0
        return found

    def _flow(self, held: Octets, payloads: _Payloads, known: Which) -> npt.NDArray[np.uint16]:
        flows = np.zeros(len(known), np.uint16)
        if not known.any():
            return flows
        source, port = payloads.source_at[known], payloads.port[known]
        six = payloads.version[known] == 6
        words = [(number(held, source, 4) << 16) | port, six.astype(np.int64)]
        if six.any():
            words += [np.where(six, number(held, source + at, 4), 0) for at in (4, 8, 12)]
        inverse = np.zeros(len(port), np.int64)
        for word in words:
            # The number of all words before, and this one: at most 15 and 48 bits.
            _, first, inverse = np.unique(
                (inverse << _KEY_BITS) | word, return_index=True, return_inverse=True
            )
        found = np.zeros((len(first), _KEY_WORDS), np.int64)
        for at, word in enumerate(words):
            found[:, at] = word[first]
        flows[known] = self._flows.of([tuple(key) for key in found.tolist()], inverse)
        return flows


def _payloads(captured: Captured) -> tuple[_Payloads, Which]:
    """Return the UDP payloads of some packets, and which of these have one."""
    held, end = captured.held, captured.at + captured.size
    where, begin = LINKS[captured.link]
    at = captured.at + begin
    if where is None:
        nibble = number(held, at, 1) >> 4
        kind = np.where(nibble == 4, _IPV4, np.where(nibble == 6, _IPV6, 0))
    else:
        kind = number(held, captured.at + where, 2)
        for _ in range(3):
            tagged = np.isin(kind, _VLANS)
            if not tagged.any():
                break
            kind = np.where(tagged, number(held, at + 2, 2), kind)
            at = np.where(tagged, at + 4, at)
    first = number(held, at, 1)
    four_ = (kind == _IPV4) & (first >> 4 == 4) & (first & 15 >= 5) & (at + 20 <= end)
    # Only the first of some fragments has the UDP header.
    four_ &= (number(held, at + 9, 1) == _UDP) & (number(held, at + 6, 2) & 0x1FFF == 0)
    six = (kind == _IPV6) & (first >> 4 == 6) & (at + 40 <= end)
    udp = np.where(four_, at + (first & 15) * 4, at + 40)
    following = number(held, at + 6, 1)
    for _ in range(_MOST_EXTENSIONS):
        more = six & np.isin(following, _EXTENSIONS)
        if not more.any():
            break
        fragment = more & (following == _FRAGMENT)
        six &= ~(fragment & (number(held, udp + 2, 2) & 0xFFF8 != 0))
        size = np.where(fragment, 8, (number(held, udp + 1, 1) + 1) * 8)
        following = np.where(more, number(held, udp, 1), following)
        udp = np.where(more, udp + size, udp)
    six &= following == _UDP
    which = (four_ | six) & (udp + 8 <= end)
    at, udp, end = at[which], udp[which], end[which]
    six = six[which]
    size = number(held, udp + 4, 2) - 8
    return (
        _Payloads(
            at=udp + 8,
            # 0 stands for more than a packet has; what is less than a header is none.
            size=np.where(size >= 0, size, 0),
            captured=end - udp - 8,
            version=np.where(six, 6, 4),
            source_at=at + np.where(six, 8, 12),
            port=number(held, udp, 2),
        ),
        which,
    )
