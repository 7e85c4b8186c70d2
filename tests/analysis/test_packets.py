# SPDX-License-Identifier: GPL-2.0-or-later
"""Records of packets: what the receiver writes is read, and what befalls a file is noticed.

golden/packets.rec is written by `skblab-traffic` itself (runners/traffic/tests/records.rs).
"""

from __future__ import annotations

import re
import struct
import subprocess
import sys
import textwrap
import zlib
from pathlib import Path

import golden_files
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mutated import examples, value_or_line
from skblab_analysis.base.errors import SkblabError
from skblab_analysis.formats.packets import (
    CLOCK_SHIFT,
    CLOCKS,
    MOST_RECORDS,
    RECORD,
    Block,
    Flag,
    Header,
    PacketFile,
    Packets,
    Records,
    Trouble,
    counted,
    load,
)

GOLDEN = golden_files.FOLDER / "packets.rec"
HEADER = GOLDEN.read_bytes()[:128]
BEGUN_NS = 1_800_000_000_000_000_000


def sealed(data: bytes) -> bytes:
    return data + struct.pack("<I", zlib.crc32(data))


def block(first: int, records: bytes) -> bytes:
    count = len(records) // RECORD.itemsize
    head = struct.pack("<8sQII4x", b"pktblock", first, count, zlib.crc32(records))
    return sealed(head) + records


def some(count: int, first: int = 0) -> Records:
    records = np.zeros(count, RECORD)
    records["sequence"] = np.arange(first, first + count)
    return records


def file_of(*blocks: Block) -> tuple[bytes, list[int]]:
    """Return a whole file of blocks, and where each of its parts ends."""
    data, ends, received = HEADER, [len(HEADER)], 0
    for one in blocks:
        data += block(one.first, one.records.tobytes())
        ends.append(len(data))
        received = one.first + len(one.records)
    data += block(received, b"")
    return data, [*ends, len(data)]


@st.composite
def files(draw: st.DrawFn) -> list[Block]:
    blocks, following = [], 0
    for lost, count in draw(st.lists(st.tuples(st.integers(0, 2), st.integers(1, 5)), max_size=5)):
        first = following + lost
        blocks.append(Block(first, some(count, first)))
        following = first + count
    return blocks


def read(folder: Path, data: bytes) -> tuple[list[Block], list[Trouble], int | None]:
    path = folder / "packets.rec"
    path.write_bytes(data)
    file = PacketFile(path)
    parts = list(file.parts())
    blocks = [part for part in parts if isinstance(part, Block)]
    return blocks, [part for part in parts if isinstance(part, Trouble)], file.received


def same(left: list[Block], right: list[Block]) -> bool:
    return len(left) == len(right) and all(
        one.first == other.first and one.records.tobytes() == other.records.tobytes()
        for one, other in zip(left, right, strict=True)
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("packets")


def says(folder: Path, data: bytes) -> str:
    with pytest.raises(SkblabError) as caught:
        read(folder, data)
    said = str(caught.value)
    assert "\n" not in said
    return said


def test_what_the_receiver_writes() -> None:
    packets = load(GOLDEN)
    assert packets.header == Header(BEGUN_NS, 77, "CLOCK_TAI", "CLOCK_REALTIME", "kernel")
    assert (packets.received, packets.troubles, len(packets.records)) == (100, (), 100)
    number = np.arange(100)
    expected = np.zeros(100, RECORD)
    expected["sequence"] = number + 2**40
    expected["sent_ns"] = BEGUN_NS + 37_000_000_000 + number * 1000
    expected["received_ns"] = BEGUN_NS + number * 1001 + 500
    expected["flow"] = number % 7
    expected["payload_bytes"] = 18 + number
    tai = CLOCKS.index("CLOCK_TAI") << CLOCK_SHIFT
    expected["flags"] = np.where(number % 10 == 9, Flag.DUPLICATE, 0) | tai
    assert packets.records.tobytes() == expected.tobytes()
    assert counted(packets.records)["sequence"].tolist() == [
        2**40 + n for n in range(100) if n % 10 != 9
    ]
    parts = list(PacketFile(GOLDEN).parts())
    assert [(part.first, len(part.records)) for part in parts if isinstance(part, Block)] == [
        (0, 60),
        (60, 40),
    ]


def test_the_page_prints_what_it_says() -> None:
    page = (Path(__file__).parents[2] / "results-schema" / "packets.md").read_text()
    found = re.search(r"<<'END'\n(.*?)\n    END\n\nIt prints `(.*?)`", page, re.DOTALL)
    assert found
    command = [sys.executable, "-c", textwrap.dedent(found[1]), str(GOLDEN)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == found[2] + "\n"


def test_a_file_of_no_packet(folder: Path) -> None:
    (folder / "none.rec").write_bytes(file_of()[0])
    packets = load(folder / "none.rec")
    assert isinstance(packets, Packets)
    assert (len(packets.records), packets.received, packets.troubles) == (0, 0, ())
    assert packets.records.dtype == RECORD


def test_large_blocks_need_no_more_than_two_of_them(folder: Path) -> None:
    blocks = [Block(n * MOST_RECORDS, some(MOST_RECORDS, n * MOST_RECORDS)) for n in range(7)]
    data, ends = file_of(*blocks)
    assert same(read(folder, data)[0], blocks)
    wrong = bytearray(data)
    wrong[ends[2] + 1000] ^= 1
    found, troubles, received = read(folder, bytes(wrong))
    assert same(found, [*blocks[:2], *blocks[3:]])
    assert troubles == [Trouble(ends[2], ends[3] - ends[2], "damaged")]
    assert received == 7 * MOST_RECORDS


def test_a_header_that_says_something_else(folder: Path) -> None:
    for at, words in [
        (0, "it does not begin as one"),
        (8, "its version is "),
        (14, "the sizes of its parts are "),
        (70, "clocks b'CLOCK_\\x14AI'"),
        (97, "clocks b'CLOCK_TAI' and b'CLOCK_REALTIME', stamps b'k%rnel' are"),
    ]:
        wrong = bytearray(HEADER[:-4])
        wrong[at] ^= 0x40
        assert f"packets.rec is no file of packet records: {words}" in says(
            folder, sealed(bytes(wrong))
        )
    assert "its header is damaged" in says(folder, HEADER[:-1] + b"\0")
    assert "it has 0 bytes, and its header would have 128" in says(folder, b"")


def test_an_unknown_transmission(folder: Path) -> None:
    head = bytearray(HEADER[:-4])
    head[20], head[64:80] = 0, b"unknown".ljust(16, b"\0")
    (folder / "unknown.rec").write_bytes(sealed(bytes(head)) + block(0, b""))
    header = load(folder / "unknown.rec").header
    assert (header.transmission, header.sender_clock) == (None, None)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(SkblabError, match=r"cannot read records of packets: .*No such file"):
        load(tmp_path / "packets.rec")
    path = tmp_path / "gone.rec"
    path.write_bytes(HEADER)
    file = PacketFile(path)
    path.unlink()
    with pytest.raises(SkblabError, match="No such file"):
        list(file.parts())


def test_a_claim_of_many_records_is_not_believed(folder: Path) -> None:
    head = struct.pack("<8sQII4x", b"pktblock", 0, 2**32 - 1, 0)
    found, troubles, received = read(folder, HEADER + sealed(head))
    assert (found, received) == ([], None)
    assert [str(trouble) for trouble in troubles] == [
        "32 bytes from byte 128: damaged",
        "the file has no end: its writer was stopped",
    ]


def test_nothing_is_behind_the_end(folder: Path) -> None:
    data, ends = file_of(Block(0, some(2)))
    found, troubles, received = read(folder, data + data)
    assert (len(found), received) == (1, 2)
    assert troubles == [Trouble(ends[-1], len(data), "behind the end")]


def test_a_block_twice_is_read_once(folder: Path) -> None:
    one = block(0, some(3).tobytes())
    found, troubles, _ = read(folder, HEADER + one + one + block(3, b""))
    assert same(found, [Block(0, some(3))])
    assert troubles == [Trouble(128 + len(one), len(one), "damaged")]


@examples
@given(files())
def test_round_trip(folder: Path, blocks: list[Block]) -> None:
    found, troubles, received = read(folder, file_of(*blocks)[0])
    assert same(found, blocks)
    assert (troubles, received) == (
        [],
        blocks[-1].first + len(blocks[-1].records) if blocks else 0,
    )


@examples
@given(files(), st.data())
def test_a_cut_leaves_whole_blocks(folder: Path, blocks: list[Block], data: st.DataObject) -> None:
    whole, ends = file_of(*blocks)
    at = data.draw(st.integers(ends[0], len(whole) - 1))
    found, troubles, received = read(folder, whole[:at])
    assert same(found, blocks[: sum(end <= at for end in ends) - 1])
    assert received is None
    begins = max(end for end in ends if end <= at)
    [trouble] = troubles
    assert (trouble.at, trouble.size) == (begins, at - begins)


@examples
@given(files(), st.data(), st.integers(1, 255))
def test_a_wrong_byte_is_noticed(
    folder: Path, blocks: list[Block], data: st.DataObject, flip: int
) -> None:
    whole, ends = file_of(*blocks)
    at = data.draw(st.integers(0, len(whole) - 1))
    wrong = bytearray(whole)
    wrong[at] ^= flip
    result = value_or_line(lambda: read(folder, bytes(wrong)))
    if at < ends[0]:
        assert result is None
        return
    assert result is not None
    found, troubles, _ = result
    hit = sum(end <= at for end in ends) - 1
    assert same(found, blocks[:hit] + blocks[hit + 1 :])
    assert troubles[0] == Trouble(ends[hit], ends[hit + 1] - ends[hit], "damaged")


@examples
@given(files(), st.lists(st.tuples(st.integers(0, 2**16), st.integers(0, 2**16)), max_size=5))
def test_pieces_in_any_order(
    folder: Path, blocks: list[Block], pieces: list[tuple[int, int]]
) -> None:
    whole, _ = file_of(*blocks)
    torn = HEADER
    for pair in pieces:
        begin, end = sorted(at % len(whole) for at in pair)
        torn += whole[begin:end]
    found, _, _ = read(folder, torn)
    firsts = [one.first for one in found]
    assert firsts == sorted(set(firsts))
    written = {one.first: one for one in blocks}
    assert same(found, [written[first] for first in firsts])


@examples
@given(st.binary(max_size=500))
def test_any_bytes(folder: Path, data: bytes) -> None:
    assert value_or_line(lambda: read(folder, data)) is None
    found, troubles, received = read(folder, HEADER + data)
    assert (found, received) == ([], None)
    assert sum(trouble.size for trouble in troubles) == len(data)
