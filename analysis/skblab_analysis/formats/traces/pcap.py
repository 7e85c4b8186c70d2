# SPDX-License-Identifier: GPL-2.0-or-later
"""Captures, pcap and pcapng, with the stamps of our sender or of pktgen in their UDP payloads.

Read here and not by a library: those that are kept up go packet by packet, which is a hundred times
slower, and give times as doubles, which are no nanoseconds. `frames` takes the packets apart.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np
import numpy.typing as npt

from skblab_analysis.base.errors import SkblabError, UsageError, os_trouble
from skblab_analysis.formats.traces import frames
from skblab_analysis.formats.traces.chunk import MOST, Chunk, Origin
from skblab_analysis.formats.traces.frames import Captured

# First four bytes: order of bytes, nanoseconds of a unit of time.
PCAP = {
    b"\xd4\xc3\xb2\xa1": ("<", 1000),
    b"\xa1\xb2\xc3\xd4": (">", 1000),
    b"\x4d\x3c\xb2\xa1": ("<", 1),
    b"\xa1\xb2\x3c\x4d": (">", 1),
}
PCAPNG = b"\x0a\x0d\x0d\x0a"
_ORDER_MAGIC = 0x1A2B3C4D
# What is held of a file at once; no packet or block is as large.
_AT_ONCE = 1 << 22
_LARGEST = 1 << 20
_PCAP_HEADER = 24
_RECORD = 16
_NS = 1_000_000_000
# Of pcapng.
_INTERFACE, _SIMPLE, _ENHANCED = 1, 3, 6
_TSRESOL, _TSOFFSET = 9, 14
# Bytes of an enhanced packet block before its packet.
_ENHANCED_HEAD = 20
_LATEST_NS = 2**62


class PcapSource:
    """A capture."""

    def __init__(self, path: Path, same_clock: bool, transmission: int | None) -> None:
        self._path = path
        try:
            with path.open("rb") as file:
                head = file.read(_PCAP_HEADER)
        except OSError as error:
            raise UsageError(f"cannot read the capture: {os_trouble(error)}") from error
        if head[:4] not in PCAP and head[:4] != PCAPNG:
            raise UsageError(f"{path} is no capture: it begins neither as pcap nor as pcapng")
        if len(head) < _PCAP_HEADER:
            raise UsageError(f"{path} is no whole capture: it ends within its header")
        self._head = head
        self.origin = Origin(
            format="pcap",
            stamps="capture",
            receiver_clock="CLOCK_REALTIME",
            one_clock=same_clock,
            transmission=transmission,
            unknown={"stamps.not_by_kernel": "a capture does not tell who stamped"},
        )

    def parts(self) -> Iterator[Chunk | str]:
        """Yield the UDP packets of the capture, and what is damaged."""
        reader = frames.Reader(self.origin)
        try:
            with self._path.open("rb") as file:
                window = _Window(file)
                found = _pcapng(window) if self._head[:4] == PCAPNG else _pcap(window, self._head)
                for part in found:
                    if isinstance(part, str):
                        yield part
                    elif len(chunk := reader.chunk(part)):
                        yield chunk
        except OSError as error:
            raise SkblabError(f"cannot read the capture: {os_trouble(error)}") from error
        yield from reader.troubles()


class _Window:
    """What is at hand of a file, from `begin` on; `at` is where in the file that is."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.data = b""
        self.begin = 0
        self.at = 0

    def ensure(self, size: int) -> int:
        """Have `size` bytes at hand if there are as many; return how many there are."""
        if len(self.data) - self.begin < size:
            rest = self.data[self.begin :]
            self.data = rest + self._file.read(_AT_ONCE)
            self.begin = 0
        return len(self.data) - self.begin

    def skip(self, size: int) -> None:
        """Go on by bytes that are at hand."""
        self.begin += size
        self.at += size


def _pcap(window: _Window, head: bytes) -> Iterator[Captured | str]:
    order, unit_ns = PCAP[head[:4]]
    # Upper bits of the link type may say how long a checksum at the end of frames is.
    link = struct.unpack_from(order + "I", head, 20)[0] & 0x0FFFFFFF
    if link not in frames.LINKS:
        raise UsageError(f"link type {link} of the capture is not known: {frames.KNOWN_LINKS}")
    window.ensure(_PCAP_HEADER)
    window.skip(_PCAP_HEADER)
    record = struct.Struct(order + "IIII")
    while there := window.ensure(_RECORD):
        at = _offsets(window, record)
        if len(at):
            yield _captured(window.data, at, order, unit_ns, link)
            end = int(at[-1]) + _RECORD + record.unpack_from(window.data, int(at[-1]))[2]
            window.skip(end - window.begin)
            continue
        if there < _RECORD:
            yield f"the capture ends within a packet's header, at byte {window.at}"
            return
        size = record.unpack_from(window.data, window.begin)[2]
        if size > _LARGEST:
            yield (
                f"byte {window.at} of the capture: a packet of {size} bytes: damaged, and from "
                "there on nothing is read"
            )
            return
        if window.ensure(_RECORD + size) < _RECORD + size:
            yield f"the capture ends within the packet that begins at byte {window.at}"
            return


def _offsets(window: _Window, record: struct.Struct) -> npt.NDArray[np.int64]:
    """Return where whole packets begin that are at hand; at most a chunk of them."""
    data, at = window.data, window.begin
    end = len(data)
    found = list[npt.NDArray[np.int64]]()
    count = 0
    while count < MOST and end - at >= _RECORD:
        size = record.unpack_from(data, at)[2]
        step = _RECORD + size
        if size > _LARGEST or end - at < step:
            break
        alike = _alike(data, at, step, min((end - at) // step, MOST - count))
        found.append(np.arange(at, at + alike * step, step))
        count += alike
        at += alike * step
    return np.concatenate(found) if found else np.zeros(0, np.int64)


def _alike(data: bytes, at: int, step: int, most: int) -> int:
    """Return how many packets in a row have as many bytes as the first."""
    if most < 2 or data[at + 8 : at + 12] != data[at + step + 8 : at + step + 12]:
        return 1
    rows = np.frombuffer(data, np.uint8, most * step, at).reshape(most, step)
    same = (rows[:, 8:12] == rows[0, 8:12]).all(axis=1)
    return most if same.all() else int(np.argmin(same))


def _captured(
    data: bytes, at: npt.NDArray[np.int64], order: str, unit_ns: int, link: int
) -> Captured:
    held = np.frombuffer(data, np.uint8)
    seconds, parts, size = (frames.four(held, at + where, order) for where in (0, 4, 8))
    return Captured(held, seconds * _NS + parts * unit_ns, at + _RECORD, size, link)


@dataclass(frozen=True, slots=True)
class _Interface:
    """An interface of a section: its link type, units of time in a second, and its offset."""

    link: int
    per_second: int
    offset_s: int


def _pcapng(window: _Window) -> Iterator[Captured | str]:
    order = "<"
    interfaces = list[_Interface]()
    waiting = _Waiting()
    end = ""
    while there := window.ensure(12):
        if there < 12:
            end = f"the capture ends within a block, at byte {window.at}"
            break
        if window.data[window.begin : window.begin + 4] == PCAPNG:
            [magic] = struct.unpack_from("<I", window.data, window.begin + 8)
            order = "<" if magic == _ORDER_MAGIC else ">"
            interfaces = []
        kind, size = struct.unpack_from(order + "II", window.data, window.begin)
        sound = 12 <= size <= _LARGEST and size % 4 == 0
        if sound and window.ensure(size) < size:
            end = f"the capture ends within the block that begins at byte {window.at}"
            break
        if not sound or _last_size(window, size, order) != size:
            end = (
                f"byte {window.at} of the capture: a damaged block, and from there on nothing is "
                "read"
            )
            break
        if waiting.data is not window.data:
            yield from waiting.flush()
            waiting.data = window.data
        body = window.data[window.begin + 8 : window.begin + size - 4]
        if kind == _INTERFACE:
            interfaces.append(_interface(body, order))
        elif kind in (_ENHANCED, _SIMPLE):
            waiting.add(kind, body, (window.begin + 8, window.at), order, interfaces)
        window.skip(size)
        if waiting.full:
            yield from waiting.flush()
    yield from waiting.flush()
    yield from waiting.troubles()
    if end:
        yield end


def _last_size(window: _Window, size: int, order: str) -> int:
    """Return what the end of a block says of its size, as its begin does."""
    found: tuple[int] = struct.unpack_from(order + "I", window.data, window.begin + size - 4)
    return found[0]


def _interface(body: bytes, order: str) -> _Interface:
    if len(body) < 8:
        return _Interface(-1, 1_000_000, 0)
    [link] = struct.unpack_from(order + "H", body)
    per_second, offset, at = 1_000_000, 0, 8
    while at + 4 <= len(body):
        code, size = struct.unpack_from(order + "HH", body, at)
        value = body[at + 4 : at + 4 + size]
        if code == _TSRESOL and len(value) == 1:
            base = 2 if value[0] & 0x80 else 10
            per_second = base ** (value[0] & 0x7F)
        elif code == _TSOFFSET and len(value) == 8:
            [offset] = struct.unpack(order + "q", value)
        if code == 0:
            break
        at += 4 + -(-size // 4) * 4
    return _Interface(link, per_second, offset)


class _Waiting:
    """Packets of pcapng until there are enough for a chunk, all of one link type, in `data`."""

    def __init__(self) -> None:
        self.data = b""
        self._link = -1
        self._times = list[int]()
        self._at = list[int]()
        self._sizes = list[int]()
        # By why packets are left out, how many, and at which byte the first.
        self._faults: dict[str, tuple[int, int]] = {}

    @property
    def full(self) -> bool:
        """Whether there are enough."""
        return len(self._at) >= MOST

    def add(
        self,
        kind: int,
        body: bytes,
        place: tuple[int, int],
        order: str,
        interfaces: list[_Interface],
    ) -> None:
        """Add the packet of a block whose body is at this place of `data`, and of the file."""
        try:
            time_ns, size, link = _packet(kind, body, order, interfaces)
            if self._link not in (-1, link):
                raise ValueError(f"of link type {link}, after those of {self._link}")
        except ValueError as error:
            count, first = self._faults.get(str(error), (0, place[1]))
            self._faults[str(error)] = count + 1, first
            return
        self._link = link
        self._times.append(time_ns)
        self._at.append(place[0] + _ENHANCED_HEAD)
        self._sizes.append(size)

    def flush(self) -> Iterator[Captured]:
        """Yield those that wait."""
        if self._at:
            at, sizes, times = (
                np.array(numbers, np.int64) for numbers in (self._at, self._sizes, self._times)
            )
            yield Captured(np.frombuffer(self.data, np.uint8), times, at, sizes, self._link)
        self._times, self._at, self._sizes = [], [], []

    def troubles(self) -> Iterator[str]:
        """Yield what was left out, and why."""
        for why, (count, first) in self._faults.items():
            yield f"{count} packets left out, the first at byte {first} of the capture: {why}"


def _packet(
    kind: int, body: bytes, order: str, interfaces: list[_Interface]
) -> tuple[int, int, int]:
    """Return time, size and link type of a block's packet; ValueError says why it has none."""
    if kind == _SIMPLE:
        raise ValueError("without a time (a simple packet block)")
    if len(body) < _ENHANCED_HEAD:
        raise ValueError("too short a block")
    number, high, low, size = struct.unpack_from(order + "IIII", body)
    if number >= len(interfaces):
        raise ValueError("of an interface that is not described")
    interface = interfaces[number]
    if interface.link not in frames.LINKS:
        raise ValueError(f"of link type {interface.link}; {frames.KNOWN_LINKS}")
    if size > len(body) - _ENHANCED_HEAD:
        raise ValueError("longer than its block")
    ticks = (high << 32) | low
    time_ns = ticks * _NS // interface.per_second + interface.offset_s * _NS
    if not 0 <= time_ns < _LATEST_NS:
        raise ValueError("no time of this age")
    return time_ns, size, interface.link
