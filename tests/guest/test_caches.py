# SPDX-License-Identifier: GPL-2.0-or-later
"""The simulated memory: closed forms, and a second model, exact; closed forms in a guest."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

import pytest

import cache_model
from conftest import TREE
from skblab.bench import functions as counting
from skblab.bench.functions import caches
from skblab.bench.functions import layout as layouts
from skblab.bench.programs import ensure, gather
from skblab.lab.guest.chosen import make_spec
from skblab.lab.kernel import Kernel
from skblab.lab.labroot import Bind, LabRoot
from skblab.lab.reporter import Reporter
from skblab.machine.guest import Guest

# Of a geometry, a trace, and, of two CPUs, bytes of memory of each one's node.
Replay = Callable[..., tuple[int, ...]]

# 2 sets of 2 ways, then 4 of 4, then 8 of 8, in lines of 64 bytes.
SMALL = "64:256.2:256.2:1024.4:4096.8"
GEOMETRIES = {
    "three levels": SMALL,
    "two levels": "64:256.2:256.2:1024.4:0.0",
    "one level": "64:512.8:512.8:0.0:0.0",
    "sets that are no power of two": "32:96.1:192.2:672.7:1440.3",
    "a processor": caches.named("gx-412tc").words,
}
SOURCE = "/skblab/tree/probes/functions/tests"
COMPILE = f"gcc -O2 -Wall -Wextra -Werror -o /skblab/out/{{0}} {SOURCE}/{{0}}.c"


def compiled(lab: LabRoot, name: str, folder: Path) -> Path:
    """Return the folder that has a program of probes/functions/tests."""
    lab.run(
        ["sh", "-euc", COMPILE.format(name)],
        binds=[Bind(TREE, "tree"), Bind(folder, "out", writable=True)],
        what=f"compiling {name}",
    )
    return folder


@pytest.fixture(scope="module")
def replay(lab: LabRoot, tmp_path_factory: pytest.TempPathFactory) -> Replay:
    """Replay a trace through the plugin's model."""
    folder = compiled(lab, "replay", tmp_path_factory.mktemp("replay"))

    def run(geometry: str, trace: cache_model.Trace, node: int | str = "") -> tuple[int, ...]:
        lines = (f"{kind} {line} {cpu}\n" for kind, line, cpu in trace)
        (folder / "trace").write_text("".join(lines))
        printed = lab.run(
            ["sh", "-euc", f"/skblab/out/replay {geometry} {node} </skblab/out/trace"],
            binds=[Bind(folder, "out")],
            what="replaying a trace",
        )
        return tuple(map(int, printed.split()))

    return run


def alone(kinds: str, lines: Iterable[int]) -> cache_model.Trace:
    """Return a trace of one CPU."""
    return [(kind, line, 0) for kind, line in zip(itertools.cycle(kinds), lines, strict=False)]


@pytest.mark.labroot
def test_closed_forms(replay: Replay) -> None:
    """Accesses, code, data, second, third, written; no other node, no other CPU."""
    none = (0, 0, 0)
    # Three lines of one set of two ways, in turn: each is missed; the second level keeps them.
    assert replay(SMALL, alone("R", (0, 2, 4) * 10)) == (30, 0, 30, 3, 3, 0, *none)
    # Two of them stay.
    assert replay(SMALL, alone("R", (0, 2) * 10)) == (20, 0, 2, 2, 2, 0, *none)
    # The one used last is kept.
    assert replay(SMALL, alone("R", (0, 2, 0, 4, 0))) == (5, 0, 3, 3, 3, 0, *none)
    # Code and data have a first level each, and share the others.
    assert replay(SMALL, alone("FR", (0, 0))) == (1, 1, 1, 1, 1, 0, *none)
    # Nine lines written in turn, of which a set of eight of the last level has no room for all: the
    # ninth makes the first one go. In each further round all are missed, and all go to memory.
    turn = alone("W", range(0, 72, 8))
    assert replay(SMALL, turn) == (9, 0, 9, 9, 9, 1, *none)
    once, twice = replay(SMALL, turn * 11)[5], replay(SMALL, turn * 12)[5]
    assert twice - once == 9
    # What is only read does not go back.
    assert replay(SMALL, alone("R", range(0, 72, 8)) * 10) == (90, 0, 90, 90, 90, 0, *none)


@pytest.mark.labroot
def test_closed_forms_of_two_cpus(replay: Replay) -> None:
    """Each with a node of 100 lines: accesses and third, then written, and what is between both."""
    node = 64 * 100

    def found(trace: cache_model.Trace) -> tuple[int, ...]:
        accesses, _, _, _, *rest = replay(SMALL, trace, node)
        return accesses, *rest

    # Ten lines of the first node, read by either: the second one has them from there, and then own.
    reads: cache_model.Trace = [("R", line, cpu) for cpu in (0, 1, 1) for line in range(10)]
    # accesses, third, written, remote_accesses, remote, passed
    assert found(reads) == (30, 20, 0, 20, 10, 0)
    # The first one of each node, read by the other; and what is behind both is of the second.
    assert found([("R", 99, 1), ("R", 100, 0), ("R", 250, 1)]) == (3, 3, 0, 2, 2, 0)
    # Written by one, read by the other: passed on, and written to memory, once.
    assert found([("W", 0, 0), ("R", 0, 1), ("R", 0, 1), ("R", 0, 0)]) == (4, 2, 1, 2, 0, 1)
    # Written by either in turn: it never gets to memory; all but the first wait for the other.
    turns: cache_model.Trace = [("W", 0, turn % 2) for turn in range(10)]
    assert found(turns) == (10, 10, 0, 5, 0, 9)
    # What a CPU forgets is in memory, and it is not counted that it went there.
    assert found([("W", 0, 0), ("X", 0, 0), ("R", 0, 1), ("R", 0, 0)]) == (3, 3, 0, 1, 1, 0)
    # A reader loses what is written elsewhere, though both are of their own first level.
    assert found([("R", 0, 1), ("W", 0, 0), ("R", 0, 1)]) == (3, 3, 1, 2, 1, 1)


@pytest.mark.labroot
@pytest.mark.parametrize("cpus", [1, 2])
@pytest.mark.parametrize("name", GEOMETRIES)
def test_a_second_model_says_the_same(name: str, cpus: int, replay: Replay) -> None:
    geometry = GEOMETRIES[name]
    line_bytes = int(geometry.partition(":")[0])
    for seed in range(8):
        chance = random.Random(seed)
        room = chance.choice((8, 40, 300, 100_000))
        # Places near each other, as of a program, and far ones.
        start = [chance.randrange(room) for _ in range(4)]
        trace = [
            (
                chance.choice("X" if chance.random() < 0.001 else "FFRRW"),
                chance.choice(start) + chance.randrange(1 + room // 8),
                chance.randrange(cpus),
            )
            for _ in range(20_000)
        ]
        node = 1 + room // 2
        expected = cache_model.missed(geometry, trace, node if cpus == 2 else None)
        assert replay(geometry, trace, node * line_bytes if cpus == 2 else "") == expected
        assert all(expected[:3])
        assert all(expected[6:8]) is (cpus == 2)
        # Of 100,000 lines hardly any is used twice.
        assert room > 300 or bool(expected[8]) is (cpus == 2)


@pytest.mark.guest
def test_a_program_misses_what_it_must(lab: LabRoot, stock: Kernel, tmp_path: Path) -> None:
    """By a guest's physical addresses: all of 1024 lines in each of 100 rounds, or none."""
    rounds = 100
    programs = compiled(lab, "strides", tmp_path)
    # A way of 4 KiB: which pages of memory the program has says nothing about its sets. In the
    # 16 KiB of this processor's own cache of code, two of four pages may have sets to themselves.
    chosen = caches.named("gx-412tc")
    even = chosen.geometry.model_copy(update={"code": chosen.geometry.data})
    plugin = counting.argument(
        f"/skblab/build/{counting.NAME}",
        "/skblab/out/counts",
        replace(chosen, geometry=even),
        "/skblab/out/layout",
    )
    made = [counting.ensure(lab, Reporter()), ensure(lab, Reporter())]
    folder = gather(made, tmp_path / "build")
    shares = [Bind(folder, "build"), Bind(programs, "out", writable=True)]
    spec = make_spec(exact=True).model_copy(update={"plugin": plugin})
    with Guest.boot(spec, stock, lab, shares=shares) as guest:
        asking = [f"/skblab/build/{counting.LAYOUT}", "file", "no_such_structure"]
        layout = guest.transport.run(asking).check("layout").stdout
        (programs / "layout").write_text(layout)
        guest.transport.run(["/skblab/out/strides", str(rounds)]).check("strides")
        slabs = guest.transport.run(["cat", "/proc/slabinfo"]).check("slabinfo").stdout
        assert guest.console.warnings() == []
    sections = counting.parse((programs / "counts").read_text())
    assert [section.number for section in sections] == [0, 1, 2, 3, 4, 5]
    lines = 1024 * rounds
    # Of the program itself: what the kernel has to do meanwhile is no closed form.
    found = [
        {
            kind: sum(count for (_, address), count in of.items() if address < 1 << 63)
            for kind, of in section.missed.items()
        }
        for section in sections
    ]
    reads, writes, crosses, stays, code, _ = found
    # It takes lines of the program's.
    noise = 0.02 * lines
    for one in found[:2]:
        assert one["accesses"] == pytest.approx(lines, abs=noise)
        assert one["data"] == pytest.approx(lines, abs=noise)
    # 64 KiB are a thirty-second of the second level.
    assert all(one["second"] < noise for one in found)
    # A line more in each round: the one behind the last.
    assert crosses["accesses"] == pytest.approx(2 * lines, abs=noise)
    assert crosses["data"] == pytest.approx(lines, abs=noise + rounds)
    assert stays["accesses"] == pytest.approx(lines, abs=noise)
    assert stays["data"] < noise
    assert all(one["code"] < noise for one in found[:4])
    assert code["code"] == pytest.approx(lines, abs=noise)
    assert code["data"] < noise
    assert reads["written"] == writes["written"] == 0
    # Each access is of a type; those of the program are its own pages'.
    for section in sections:
        counted = sum(of.missed["accesses"] for of in section.types.values())
        assert counted == section.missed["accesses"].total()
    assert sections[0].types["(programs)"].missed["accesses"] == pytest.approx(lines, abs=64)
    # Slab caches are those that the kernel tells of, with their objects' sizes, rounded up.
    sizes = {words[0]: int(words[3]) for line in slabs.splitlines()[2:] if (words := line.split())}
    seen = {name: of.size for section in sections for name, of in section.types.items() if of.size}
    assert all(0 <= sizes[name] - size < 64 for name, size in seen.items())
    # An open file is an object of this cache, and what is accessed of it are its own words.
    file = sections[5].types["filp"]
    assert file.missed["accesses"] >= 10 * rounds
    assert max(file.words) * 8 < file.size
    assert sum(count >= rounds for count in file.words.values()) >= 5
    [known] = layouts.parse(layout).values()
    assert (known.name, known.size) == ("file", file.size)
    often = [word * 8 for word, count in file.words.items() if count >= rounds]
    fields = {name for place in often for name in known.at(place, place + 8)}
    assert {"f_op", "f_mode", "f_path.mnt", "f_path.dentry"} <= fields
    # Nothing else is done in it.
    assert reads["accesses"] == pytest.approx(lines, abs=64)
