# SPDX-License-Identifier: GPL-2.0-or-later
"""Our own file of records: read as one of the formats, and written of packets of the others."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import numpy as np
import numpy.typing as npt

from skblab_analysis.base.disk import explained
from skblab_analysis.formats.packets import (
    CLOCK_SHIFT,
    CLOCKS,
    LACKING,
    MOST_RECORDS,
    RECORD,
    Block,
    Flag,
    Header,
    Lacking,
    PacketFile,
    Records,
    block_bytes,
)
from skblab_analysis.formats.traces.chunk import MOST, Chunk, Origin
from skblab_analysis.formats.traces.document import Written

# What is recorded of a packet whatever the count makes of it; the rest is judged anew.
KEPT = np.uint32(
    int(Flag.OTHER_TRANSMISSION | Flag.FOREIGN | Flag.PKTGEN | Flag.NOT_BY_KERNEL | Flag.CLOCK)
)
_LARGEST = np.uint64(1 << 63)
# The sender's clock is none of those with a name.
_OTHER_CLOCK = len(CLOCKS)


class RecordsSource:
    """A file of records."""

    def __init__(self, path: Path, same_clock: bool) -> None:
        self._file = PacketFile(path)
        header = self._file.header
        self.origin = Origin(
            format="records",
            stamps=header.stamps,
            receiver_clock=header.receiver_clock,
            one_clock=header.one_clock or same_clock,
            delay=header.delay,
            unknown=dict.fromkeys(header.lacking, "the source of this file did not tell it"),
            transmission=header.transmission,
        )
        self._lacking = header.lacking

    def parts(self) -> Iterator[Chunk | str]:
        """Yield packets of the file, and what is damaged or not there."""
        following, waiting, count = 0, list[Records](), 0
        for part in self._file.parts():
            if not isinstance(part, Block):
                yield str(part)
                continue
            if part.first > following:
                yield (
                    f"{part.first - following} packets before number {part.first} are not in the "
                    "file: it was written too slowly, or is damaged there"
                )
            following = part.first + len(part.records)
            waiting.append(part.records)
            count += len(part.records)
            if count + MOST_RECORDS > MOST:
                yield from self._chunks(np.concatenate(waiting))
                waiting, count = [], 0
        if waiting:
            yield from self._chunks(np.concatenate(waiting))
        if (self._file.received or 0) > following:
            yield f"{(self._file.received or 0) - following} packets at the end are not in the file"

    def _chunks(self, records: Records) -> Iterator[Chunk | str]:
        numbers = ("sequence", "sent_ns", "received_ns")
        wrong = np.zeros(len(records), np.bool_)
        for name in numbers:
            wrong |= records[name] >= _LARGEST
        if wrong.any():
            yield f"{np.count_nonzero(wrong)} records have a number of 2^63 or more: left out"
            records = records[~wrong]
        sequence, sent, received = (
            np.ascontiguousarray(records[name]).view(np.int64) for name in numbers
        )
        yield Chunk(
            received_ns=received,
            sent_ns=None if "sent" in self._lacking else sent,
            sequence=None if "sequence" in self._lacking else sequence,
            flow=None if "flow" in self._lacking else records["flow"].copy(),
            payload_bytes=(None if "payload" in self._lacking else records["payload_bytes"].copy()),
            kind=records["flags"] & KEPT,
        )


class RecordsWriter:
    """Writes a file of records: whole, or not at all."""

    def __init__(self, path: Path, origin: Origin) -> None:
        self._path = path
        self._origin = origin
        self._part = path.with_name(f".{path.name}.{os.getpid()}.part")
        self._file: BinaryIO | None = None
        self._waiting = np.empty(0, RECORD)
        self._written = 0

    def __enter__(self) -> RecordsWriter:
        with explained(self._path):
            self._file = self._part.open("wb")
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()
        self._part.unlink(missing_ok=True)

    def add(self, chunk: Chunk, flags: npt.NDArray[np.uint32]) -> None:
        """Add packets, with the flags that the count has given them."""
        self._begin(chunk, flags)
        if chunk.kind is None:
            flags = flags | np.uint32(_OTHER_CLOCK << CLOCK_SHIFT)
        records = np.zeros(len(chunk), RECORD)
        at = self._written + len(self._waiting)
        columns: dict[str, npt.NDArray[np.generic] | None] = {
            "received_ns": chunk.received_ns,
            "sent_ns": chunk.sent_ns,
            "sequence": np.arange(at, at + len(chunk))
            if chunk.sequence is None
            else chunk.sequence,
            "flow": chunk.flow,
            "payload_bytes": chunk.payload_bytes,
            "flags": flags,
        }
        for name, values in columns.items():
            if values is not None:
                records[name] = values
        self._waiting = np.concatenate((self._waiting, records))
        whole = len(self._waiting) - len(self._waiting) % MOST_RECORDS
        self._write(self._waiting[:whole])
        self._waiting = self._waiting[whole:]

    def finish(self) -> Written:
        """Write the rest and the end, and give the file its name."""
        self._begin(None, np.zeros(0, np.uint32))
        self._write(self._waiting)
        with explained(self._path):
            assert self._file is not None
            self._file.writelines(block_bytes(self._written, np.empty(0, RECORD)))
            self._file.flush()
            os.fsync(self._file.fileno())
            size = self._file.tell()
            self._part.replace(self._path)
        return Written(file=str(self._path), kept=self._written, bytes=size)

    def _write(self, records: Records) -> None:
        with explained(self._path):
            assert self._file is not None
            for begin in range(0, len(records), MOST_RECORDS):
                block = records[begin : begin + MOST_RECORDS]
                self._file.writelines(block_bytes(self._written, block))
                self._written += len(block)

    def _begin(self, chunk: Chunk | None, flags: npt.NDArray[np.uint32]) -> None:
        """Write the header, which says what the first packets have."""
        assert self._file is not None
        if self._file.tell():
            return
        origin = self._origin
        columns: dict[Lacking, bool] = {
            "sequence": chunk is None or chunk.sequence is not None,
            "sent": chunk is None or chunk.sent_ns is not None,
            "flow": chunk is None or chunk.flow is not None,
            "payload": chunk is None or chunk.payload_bytes is not None,
        }
        clock = _OTHER_CLOCK
        own = (flags & np.uint32(int(Flag.FOREIGN | Flag.OTHER_TRANSMISSION))) == 0
        if chunk is not None and chunk.kind is not None and own.any():
            clock = int(flags[own][0] & np.uint32(int(Flag.CLOCK))) >> CLOCK_SHIFT
        header = Header(
            begun_ns=int(chunk.received_ns[0]) if chunk is not None and len(chunk) else 0,
            transmission=origin.transmission,
            sender_clock=CLOCKS[clock] if clock < len(CLOCKS) else None,
            receiver_clock=origin.receiver_clock,
            stamps=origin.stamps,
            one_clock=origin.one_clock,
            delay=origin.delay,
            lacking=frozenset(name for name in LACKING if not columns[name]),
        )
        with explained(self._path):
            self._file.write(header.to_bytes())
