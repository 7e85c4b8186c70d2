# SPDX-License-Identifier: GPL-2.0-or-later
"""Records of single packets, as `skblab-traffic receive --record FILE` and imports write them.

results-schema/packets.md has the format. `PacketFile` reads a file block by block, in the memory of
two blocks, `load` all of it. What is damaged or cut off is a `Trouble` between the blocks that are
whole: no record of a block with a wrong checksum is ever read.

    file = PacketFile(path)
    for part in file.parts():
        if isinstance(part, Block):
            print(part.first, part.records["received_ns"].max())
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntFlag
from pathlib import Path
from typing import BinaryIO, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from skblab_analysis.base.errors import SkblabError, UsageError, os_trouble

RECORD = np.dtype(
    [
        ("sequence", "<u8"),
        ("sent_ns", "<u8"),
        ("received_ns", "<u8"),
        ("flow", "<u2"),
        ("payload_bytes", "<u2"),
        ("flags", "<u4"),
    ]
)
Records: TypeAlias = npt.NDArray[np.void]
ClockName = Literal["CLOCK_REALTIME", "CLOCK_TAI", "CLOCK_MONOTONIC"]
CLOCKS: tuple[ClockName, ...] = ("CLOCK_REALTIME", "CLOCK_TAI", "CLOCK_MONOTONIC")
# Who stamped: the kernel, who captured, or a generator that stamps what it gets back.
Stamps = Literal["kernel", "capture", "tester"]
STAMPS: tuple[Stamps, ...] = ("kernel", "capture", "tester")
Delay = Literal["one way", "round trip"]
# What the source of an imported file may not say of its packets, by the bit in the header.
Lacking = Literal["sequence", "sent", "flow", "payload"]
LACKING: dict[Lacking, int] = {
    "sequence": 1 << 8,
    "sent": 1 << 9,
    "flow": 1 << 10,
    "payload": 1 << 11,
}

MOST_RECORDS = 4096
_VERSION = 1
_FILE_MAGIC = b"skbpkts\n"
_BLOCK_MAGIC = b"pktblock"
# Magic, version, bytes of both headers and of a record, most records, what is known, when begun,
# transmission, the clocks of sender and receiver, who stamped, and the checksum.
_FILE = struct.Struct("<8sHHHHIIQH30x16s16s16s12xI")
# Magic, number of the first record, how many, their checksum and the header's.
_BLOCK = struct.Struct("<8sQII4xI")
_CRC_BYTES = 4
_SIZES = (_FILE.size, _BLOCK.size, RECORD.itemsize, MOST_RECORDS)
_TRANSMISSION_KNOWN = 1
_ONE_CLOCK = 1 << 1
_ROUND_TRIP = 1 << 2
# All parts begin at a multiple of it.
_STEP = 32
_UNKNOWN = "unknown"
_MOST_BLOCK = _BLOCK.size + MOST_RECORDS * RECORD.itemsize


class Flag(IntFlag):
    """What a record's `flags` say; the sender's clock is in the bits of `CLOCK`."""

    DUPLICATE = 1 << 0
    TOO_OLD = 1 << 1
    BEYOND = 1 << 2
    OTHER_TRANSMISSION = 1 << 3
    FOREIGN = 1 << 4
    REORDERED = 1 << 8
    PKTGEN = 1 << 9
    NOT_BY_KERNEL = 1 << 10
    CLOCK = 3 << 16


CLOCK_SHIFT = 16
# With one of these a packet counts in no figure of time.
NOT_COUNTED = Flag.DUPLICATE | Flag.TOO_OLD | Flag.BEYOND | Flag.OTHER_TRANSMISSION | Flag.FOREIGN


@dataclass(frozen=True, slots=True)
class Header:
    """What a file says of all its records.

    `sender_clock` is that of the first packet; None if none had come before the first block was
    written, and so is `transmission`. Of an imported file both clocks may be unknown, and `lacking`
    says what its source does not tell. `one_clock`: sent and received are by one clock.
    """

    begun_ns: int
    transmission: int | None
    sender_clock: ClockName | None
    receiver_clock: ClockName | None
    stamps: Stamps
    one_clock: bool = False
    delay: Delay = "one way"
    lacking: frozenset[Lacking] = frozenset()

    def to_bytes(self) -> bytes:
        """Return it as it is in a file."""
        known = 0 if self.transmission is None else _TRANSMISSION_KNOWN
        known |= _ONE_CLOCK if self.one_clock else 0
        known |= _ROUND_TRIP if self.delay == "round trip" else 0
        known |= sum(LACKING[name] for name in self.lacking)
        clocks = (name or _UNKNOWN for name in (self.sender_clock, self.receiver_clock))
        head = _FILE.pack(
            *(_FILE_MAGIC, _VERSION, *_SIZES, known, self.begun_ns, self.transmission or 0),
            *(name.encode() for name in (*clocks, self.stamps)),
            0,
        )
        return _sealed(head[:-_CRC_BYTES])


@dataclass(frozen=True, slots=True)
class Block:
    """Records of successive datagrams, of which `first` is the number of the first, from 0."""

    first: int
    records: Records


@dataclass(frozen=True, slots=True)
class Trouble:
    """`size` bytes from byte `at` on are not read, and why; 0 bytes where the end is missing."""

    at: int
    size: int
    why: str

    def __str__(self) -> str:
        return f"{self.size} bytes from byte {self.at}: {self.why}" if self.size else self.why


@dataclass(frozen=True, slots=True)
class Packets:
    """All records of a file.

    `received`: datagrams that were received, kept or not; None if the file has no end.
    """

    header: Header
    records: Records
    received: int | None
    troubles: tuple[Trouble, ...]


def counted(records: Records) -> Records:
    """Return the packets that were new: those whose times count."""
    new: Records = records[(records["flags"] & int(NOT_COUNTED)) == 0]
    return new


def load(path: Path) -> Packets:
    """Return all of a file: 32 bytes of memory for each datagram, twice that while it is read."""
    file = PacketFile(path)
    blocks, troubles = [], []
    for part in file.parts():
        if isinstance(part, Block):
            blocks.append(part.records)
        else:
            troubles.append(part)
    records = np.concatenate(blocks) if blocks else np.empty(0, RECORD)
    return Packets(file.header, records, file.received, tuple(troubles))


class PacketFile:
    """A file of records: its header, and its blocks by `parts`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        # Known when `parts` has come to the end of a file that has one.
        self.received: int | None = None
        try:
            with path.open("rb") as file:
                data = file.read(_FILE.size)
        except OSError as error:
            raise UsageError(f"cannot read records of packets: {os_trouble(error)}") from error
        try:
            self.header = _header(data)
        except ValueError as error:
            raise UsageError(f"{path} is no file of packet records: {error}") from None

    def parts(self) -> Iterator[Block | Trouble]:
        """Yield every whole block, and what is wrong between them and at the end."""
        self.received = None
        try:
            with self.path.open("rb") as file:
                file.seek(_FILE.size)
                yield from self._parts(_Window(file, _FILE.size))
        except OSError as error:
            raise SkblabError(f"cannot read records of packets: {os_trouble(error)}") from error

    def _parts(self, window: _Window) -> Iterator[Block | Trouble]:
        following = 0
        damaged_from: int | None = None
        while True:
            found = _block(window, following)
            if found == "nothing":
                damaged_from = window.at if damaged_from is None else damaged_from
                window.skip(min(_STEP, window.ensure(_STEP)))
                continue
            if damaged_from is not None:
                yield Trouble(damaged_from, window.at - damaged_from, "damaged")
                damaged_from = None
            if found == "cut":
                yield Trouble(window.at, window.rest(), "the file ends within this block")
                return
            if found == "end":
                yield Trouble(window.at, 0, "the file has no end: its writer was stopped")
                return
            window.skip(_BLOCK.size + found.records.nbytes)
            following = found.first + len(found.records)
            if len(found.records):
                yield found
                continue
            self.received = found.first
            at = window.at
            if behind := window.rest():
                yield Trouble(at, behind, "behind the end")
            return


class _Window:
    """What is at hand of a file: never more than two blocks."""

    def __init__(self, file: BinaryIO, at: int) -> None:
        self._file = file
        self._held = b""
        self._begin = 0
        self.at = at

    def ensure(self, size: int) -> int:
        """Have `size` bytes at hand if the file has as many; return how many there are."""
        if len(self._held) - self._begin < size:
            rest = self._held[self._begin :]
            self._held = rest + self._file.read(2 * _MOST_BLOCK - len(rest))
            self._begin = 0
        return len(self._held) - self._begin

    def bytes(self, begin: int, size: int) -> bytes:
        """Return bytes from here on, which are at hand."""
        return self._held[self._begin + begin : self._begin + begin + size]

    def skip(self, size: int) -> None:
        """Go on."""
        self._begin += size
        self.at += size

    def rest(self) -> int:
        """Go to the file's end; return how many bytes that were."""
        begun = self.at
        while there := self.ensure(1):
            self.skip(there)
        return self.at - begun


def _block(window: _Window, following: int) -> Block | Literal["nothing", "cut", "end"]:
    """Return the block that begins here, with a number of at least `following`."""
    there = window.ensure(_BLOCK.size)
    if there < _BLOCK.size:
        return "cut" if there else "end"
    head = window.bytes(0, _BLOCK.size)
    magic, first, count, crc, own_crc = _BLOCK.unpack(head)
    if magic != _BLOCK_MAGIC or count > MOST_RECORDS or not _is_sealed(head, own_crc):
        return "nothing"
    size = count * RECORD.itemsize
    if window.ensure(_BLOCK.size + size) < _BLOCK.size + size:
        return "cut"
    data = window.bytes(_BLOCK.size, size)
    if zlib.crc32(data) != crc or first < following or first + count >= 2**64:
        return "nothing"
    return Block(first, np.frombuffer(data, RECORD))


def _header(data: bytes) -> Header:
    """Return what a file says of its records; ValueError says why it is no such file."""
    if len(data) < _FILE.size:
        raise ValueError(f"it has {len(data)} bytes, and its header would have {_FILE.size}")
    magic, version, *sizes, known, begun_ns, transmission, sender, receiver, stamps, crc = (
        _FILE.unpack(data)
    )
    if magic != _FILE_MAGIC:
        raise ValueError("it does not begin as one")
    if version != _VERSION:
        raise ValueError(f"its version is {version}, and expected is {_VERSION}")
    if not _is_sealed(data, crc):
        raise ValueError("its header is damaged")
    if tuple(sizes) != _SIZES:
        raise ValueError(f"the sizes of its parts are {sizes}, and expected {[*_SIZES]}")
    clocks: dict[bytes, ClockName] = {name.encode(): name for name in CLOCKS}
    sender, receiver, stamps = (name.rstrip(b"\0") for name in (sender, receiver, stamps))
    known_stamps: dict[bytes, Stamps] = {name.encode(): name for name in STAMPS}
    names = {*clocks, _UNKNOWN.encode()}
    if sender not in names or receiver not in names or stamps not in known_stamps:
        raise ValueError(f"clocks {sender!r} and {receiver!r}, stamps {stamps!r} are not known")
    return Header(
        begun_ns=begun_ns,
        transmission=transmission if known & _TRANSMISSION_KNOWN else None,
        sender_clock=clocks.get(sender),
        receiver_clock=clocks.get(receiver),
        stamps=known_stamps[stamps],
        one_clock=bool(known & _ONE_CLOCK),
        delay="round trip" if known & _ROUND_TRIP else "one way",
        lacking=frozenset(name for name, bit in LACKING.items() if known & bit),
    )


def block_bytes(first: int, records: Records) -> Iterator[bytes]:
    """Yield the parts of a block, whose first record has this number; without any, of the last."""
    data = records.tobytes()
    head = _BLOCK.pack(_BLOCK_MAGIC, first, len(records), zlib.crc32(data), 0)
    yield _sealed(head[:-_CRC_BYTES])
    yield data


def _sealed(data: bytes) -> bytes:
    return data + zlib.crc32(data).to_bytes(_CRC_BYTES, "little")


def _is_sealed(data: bytes, crc: int) -> bool:
    """Return whether the checksum at the end of a header is that of the bytes before it."""
    return zlib.crc32(data[:-_CRC_BYTES]) == crc
