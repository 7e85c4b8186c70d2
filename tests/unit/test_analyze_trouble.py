# SPDX-License-Identifier: GPL-2.0-or-later
"""`skblab analyze` on files that are not as they should be: right figures or one clear line.

By the command and its real program, as a user meets them.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable
from pathlib import Path

import pytest
from test_analyze import HEADER, STEP_NS, program, write_records

from conftest import Skblab

__all__ = ["program"]
pytestmark = [pytest.mark.labroot, pytest.mark.usefixtures("program")]
PACKETS = 1000
WAIT_NS = 10
MS_NS = 1_000_000


def _records(count: int = PACKETS, number: int = 0, late_ns: int = 0, step_ns: int = 0) -> bytes:
    """Return a file; the receiver's clock is set back by `step_ns` after half of the packets."""
    made = Path("made.rec")
    write_records(
        made,
        [
            (
                (number + at) % 2**64,
                (sent := 10 * MS_NS + at * STEP_NS),
                sent + WAIT_NS + late_ns - (step_ns if 2 * at >= count else 0),
                0,
            )
            for at in range(count)
        ],
        in_block=100,
    )
    return made.read_bytes()


def _doubles(*times: tuple[float, float]) -> bytes:
    return b"".join(struct.pack("<dd", *pair) for pair in times)


def _damaged(whole: bytes) -> bytes:
    return whole[:1000] + b"\xff" + whole[1001:]


PROPER = [(at / 1e6, at / 1e6 + 1e-5) for at in range(1, 9)]


@pytest.mark.parametrize(
    ("name", "make", "status", "words"),
    [
        ("empty.rec", bytes, 2, ["empty.rec: it is empty; expected records of skblab"]),
        ("none.rec", lambda: _records(0), 0, ["0 packets in 0 s"]),
        ("one.rec", lambda: _records(1), 0, ["1 packet in 0 s"]),
        ("cut.rec", lambda: _records()[:-100], 1, ["900 packets", "ends within the block"]),
        ("going.rec", lambda: _records()[:-32], 1, ["1 000 packets", "its writer was stopped"]),
        ("bad.rec", lambda: _damaged(_records()), 1, ["lost, at most", "damaged"]),
        ("version.rec", lambda: HEADER.to_bytes()[:8] + b"\x09" + HEADER.to_bytes()[9:], 2,
         ["its version is not 1"]),
        ("late.rec", lambda: _records(late_ns=MS_NS), 0, ["1 000  100.0 %", "both"]),
        ("wrap.rec", lambda: _records(number=2**64 - 500), 0, ["they began anew, or are wrong"]),
        ("step.rec", lambda: _records(step_ns=5 * MS_NS), 0, ["receiver's clock was set back"]),
        ("early.rec", lambda: _records(late_ns=-100), 0, ["arrive before they are sent"]),
        ("timestamps-none.data", bytes, 0, ["0 packets in 0 s", "the file has no numbers"]),
        ("timestamps-nan.data", lambda: _doubles(*PROPER, (1.0, float("nan"))), 1,
         ["8 packets in", "packets without a valid time: 1;"]),
        ("timestamps-minus.data", lambda: _doubles(*PROPER, (-1.0, 1.0)), 1,
         ["8 packets in", "packets without a valid time: 1;"]),
        ("timestamps-cut.data", lambda: _doubles(*PROPER) + b"1234", 1,
         ["8 packets in", "its last 4 bytes are left out"]),
        ("notes.txt", lambda: b"hello\n", 2, ["it does not begin as records do"]),
    ],
)  # fmt: skip
def test_a_file_that_is_not_as_it_should_be(
    skblab_here: Skblab,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    name: str,
    make: Callable[[], bytes],
    status: int,
    words: list[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / name).write_bytes(make())
    done = skblab_here("analyze", name)
    assert done.returncode == status, done.stderr
    told = " ".join((done.stdout + done.stderr).split())
    for one in words:
        assert " ".join(one.split()) in told
    said = done.stderr.splitlines()
    assert bool(said) == (status != 0)
    assert all(line.startswith("skblab: ") for line in said)
    assert bool(done.stdout) == (status != 2)


@pytest.mark.parametrize(
    ("kind", "said"),
    [("pipe", "no regular file"), ("folder", "no regular"), ("none", "No such file")],
)
def test_what_is_no_file(skblab_here: Skblab, tmp_path: Path, kind: str, said: str) -> None:
    path = tmp_path / kind
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    done = skblab_here("analyze", str(path))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1
    assert said in done.stderr
