# SPDX-License-Identifier: GPL-2.0-or-later
"""Records for other programs: CSV, Parquet, or a capture of made-up frames with our header.

Of a capture the payload is true: header, number, send time and length. MAC and IP addresses are
made up (192.0.2.0/24), a flow is a source port, and checksums of UDP are 0, which means none.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Literal, get_args

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import csv

from skblab_analysis.base.disk import explained
from skblab_analysis.formats.packets import (
    CLOCK_SHIFT,
    CLOCKS,
    Block,
    Flag,
    Header,
    PacketFile,
    Records,
)
from skblab_analysis.formats.traces import target
from skblab_analysis.formats.traces.frames import LEN

ExportName = Literal["csv", "parquet", "pcap"]
EXPORTS: tuple[ExportName, ...] = get_args(ExportName)
# Columns: numbers with their units, then what the flags say, a column each.
_FLAGS = {
    "duplicate": Flag.DUPLICATE,
    "too_old": Flag.TOO_OLD,
    "beyond": Flag.BEYOND,
    "other_transmission": Flag.OTHER_TRANSMISSION,
    "foreign": Flag.FOREIGN,
    "reordered": Flag.REORDERED,
    "pktgen": Flag.PKTGEN,
    "not_by_kernel": Flag.NOT_BY_KERNEL,
}
SCHEMA = pa.schema(
    [
        ("number", pa.uint64()),
        ("sequence", pa.uint64()),
        ("sent_ns", pa.uint64()),
        ("received_ns", pa.uint64()),
        ("flow", pa.uint16()),
        ("payload_bytes", pa.uint16()),
        ("sender_clock", pa.string()),
        *((name, pa.bool_()) for name in _FLAGS),
    ]
)
_COLUMN_OF = {"sent": "sent_ns", "payload": "payload_bytes"}
_PCAP_HEADER = struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 0x40000, 1)
_RECORD_BYTES, _ETHERNET, _IP, _UDP = 16, 14, 20, 8
_HEADERS = _RECORD_BYTES + _ETHERNET + _IP + _UDP
_FIRST_PORT = 1024
_NS = 1_000_000_000
_PKTGEN_MAGIC = 0xBE9BE955


def run(path: Path, output: Path, to: ExportName) -> tuple[int, list[str]]:
    """Write records as another format; return how many, and what of them could not be read."""
    target.check(output, path)
    file = PacketFile(path)
    with _whole(output) as opened:
        writer = _WRITERS[to](opened, file)
        count, troubles = 0, []
        for part in file.parts():
            if isinstance(part, Block):
                with explained(output):
                    writer(part)
                count += len(part.records)
            else:
                troubles.append(str(part))
        with explained(output):
            writer(None)
    return count, troubles


Writer = Callable[[Block | None], None]


@contextmanager
def _whole(path: Path) -> Iterator[BinaryIO]:
    """Write a file by another name first: whole, or not at all."""
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with explained(path):
            file = part.open("wb")
        with file:
            yield file
            with explained(path):
                file.flush()
                os.fsync(file.fileno())
        with explained(path):
            part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def table(block: Block, file: PacketFile) -> pa.Table:
    """Return the records of a block by columns; what the source did not tell is null."""
    records, header = block.records, file.header
    flags = records["flags"]
    lacking = {_COLUMN_OF.get(name, name) for name in header.lacking}
    foreign = (flags & int(Flag.FOREIGN)) != 0
    clocks = np.array([*CLOCKS, ""])[(flags & int(Flag.CLOCK)) >> CLOCK_SHIFT]
    found: dict[str, pa.Array] = {
        "number": pa.array(np.arange(block.first, block.first + len(records), dtype=np.uint64)),
        # Without a sender's stamp there is no clock of it.
        "sender_clock": pa.array(clocks.astype(object), pa.string(), mask=foreign | (clocks == "")),
    }
    for name in ("sequence", "sent_ns", "received_ns", "flow", "payload_bytes"):
        of_header = name in ("sequence", "sent_ns", "flow")
        mask = np.full(len(records), name in lacking) | (foreign & of_header)
        found[name] = pa.array(np.ascontiguousarray(records[name]), mask=mask)
    for name, flag in _FLAGS.items():
        found[name] = pa.array((flags & int(flag)) != 0)
    return pa.table([found[name] for name in SCHEMA.names], SCHEMA)


def _tables(
    open_writer: Callable[[BinaryIO], csv.CSVWriter | pq.ParquetWriter],
) -> Callable[[BinaryIO, PacketFile], Writer]:
    def begin(target: BinaryIO, file: PacketFile) -> Writer:
        writer = open_writer(target)
        waiting = list[pa.Table]()

        def write(block: Block | None) -> None:
            if block is not None:
                waiting.append(table(block, file))
            if waiting and (block is None or len(waiting) == _BLOCKS_AT_ONCE):
                writer.write_table(pa.concat_tables(waiting))
                waiting.clear()
            if block is None:
                writer.close()

        return write

    return begin


# A row group of Parquet has so many: half a million packets.
_BLOCKS_AT_ONCE = 128


def _pcap(target: BinaryIO, file: PacketFile) -> Writer:
    header = file.header
    target.write(_PCAP_HEADER)

    def write(block: Block | None) -> None:
        if block is not None:
            target.write(captured(block.records, header))

    return write


def captured(records: Records, header: Header) -> bytes:
    """Return a capture's records of packets: headers, and of each payload what it begins with."""
    flags = records["flags"]
    foreign = (flags & int(Flag.FOREIGN)) != 0
    pktgen = (flags & int(Flag.PKTGEN)) != 0
    size = records["payload_bytes"].astype(np.int64)
    # A source that did not tell sizes has at least the header; a foreign one was as it was.
    size = np.where(foreign, size, np.maximum(size, LEN))
    kept = np.minimum(size, LEN)
    rows = np.zeros((len(records), _HEADERS + LEN), np.uint8)
    received = records["received_ns"].astype(np.int64)
    frame = _ETHERNET + _IP + _UDP
    for at, values in (
        (0, received // _NS),
        (4, received % _NS),
        (8, frame + kept),
        (12, frame + size),
    ):
        rows[:, at : at + 4] = _big(values, 4)[:, ::-1]
    ethernet = _RECORD_BYTES
    rows[:, ethernet : ethernet + _ETHERNET] = _octets("0200000000020200000000010800")
    ip = ethernet + _ETHERNET
    rows[:, ip : ip + _IP] = _octets("450000000000400040110000c0000201c0000202")
    # The length of what is larger than a packet cannot be said.
    length = np.minimum(size + _UDP, 0xFFFF)
    rows[:, ip + 2 : ip + 4] = _big(np.minimum(length + _IP, 0xFFFF), 2)
    rows[:, ip + 10 : ip + 12] = _big(_checksums(rows[:, ip : ip + _IP]), 2)
    udp = ip + _IP
    # More flows than ports have the same ones again.
    port = _FIRST_PORT + records["flow"].astype(np.int64) % (0x10000 - _FIRST_PORT)
    rows[:, udp : udp + 2] = _big(port, 2)
    rows[:, udp + 2 : udp + 4] = _big(np.full(len(records), 5000), 2)
    rows[:, udp + 4 : udp + 6] = _big(length, 2)
    rows[:, udp + _UDP :] = _payloads(records, header, foreign, pktgen)
    if (kept == LEN).all():
        return rows.tobytes()
    there = np.arange(rows.shape[1]) < (_HEADERS + kept)[:, None]
    return rows[there].tobytes()


def _payloads(
    records: Records,
    header: Header,
    foreign: npt.NDArray[np.bool_],
    pktgen: npt.NDArray[np.bool_],
) -> npt.NDArray[np.uint8]:
    sequence, sent = (records[name].astype(np.int64) for name in ("sequence", "sent_ns"))
    flags = records["flags"]
    clock = ((flags & int(Flag.CLOCK)) >> CLOCK_SHIFT).astype(np.int64)
    # A clock without a number on the wire: that of arrival, or one of which nothing is known.
    instead = CLOCKS.index("CLOCK_REALTIME" if header.one_clock else "CLOCK_MONOTONIC")
    clock = np.where(clock < len(CLOCKS), clock, instead)
    transmission = header.transmission or 0
    other = (flags & int(Flag.OTHER_TRANSMISSION)) != 0
    found = np.zeros((len(records), LEN), np.uint8)
    found[:, 0] = 0x5B
    found[:, 1] = 0x20 | clock
    found[:, 2:4] = _big(np.where(other, transmission ^ 1, transmission), 2)
    found[:, 4:10] = _big(sequence, 6)
    found[:, 10:16] = _big(sent, 6)
    words = ((_PKTGEN_MAGIC, 0), (sequence + 1, 4), (sent // _NS, 8), (sent % _NS // 1000, 12))
    for values, at in words:
        found[pktgen, at : at + 4] = _big(np.broadcast_to(values, len(records))[pktgen], 4)
    found[foreign] = 0
    return found


def _big(values: npt.NDArray[np.int64], size: int) -> npt.NDArray[np.uint8]:
    """Return the lower bytes of numbers, the highest first."""
    octets: npt.NDArray[np.uint8] = (
        values.astype(">i8").view(np.uint8).reshape(-1, 8)[:, 8 - size :]
    )
    return octets


def _octets(text: str) -> npt.NDArray[np.uint8]:
    return np.frombuffer(bytes.fromhex(text), np.uint8)


def _checksums(headers: npt.NDArray[np.uint8]) -> npt.NDArray[np.int64]:
    """Return the checksum of each IPv4 header, which has 0 in its place."""
    words = headers[:, ::2].astype(np.int64) * 256 + headers[:, 1::2]
    total = words.sum(axis=1)
    for _ in range(2):
        total = (total & 0xFFFF) + (total >> 16)
    checksums: npt.NDArray[np.int64] = ~total & 0xFFFF
    return checksums


_WRITERS: dict[ExportName, Callable[[BinaryIO, PacketFile], Writer]] = {
    "csv": _tables(lambda target: csv.CSVWriter(target, SCHEMA)),
    "parquet": _tables(lambda target: pq.ParquetWriter(target, SCHEMA)),
    "pcap": _pcap,
}
