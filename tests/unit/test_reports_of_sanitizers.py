# SPDX-License-Identifier: GPL-2.0-or-later
"""Which lines of a tree are ours, which reports are of them, and random netlink messages."""

from __future__ import annotations

import difflib
import random
import struct
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skblab.lab.kernel import Kernel, ownlines
from skblab.lab.labroot import LabRoot
from skblab.soak import reports
from skblab.soak.guest import netlink
from skblab.soak.reports import Line, Place, Report


def patch(name: str, before: list[str], after: list[str]) -> str:
    """Return a patch as git writes it."""
    head = f"From: a\n\nwords\n---\ndiff --git a/{name} b/{name}\nindex 1..2 100644\n"
    lines = difflib.unified_diff(before, after, f"a/{name}", f"b/{name}", lineterm="")
    return head + "".join(f"{line}\n" for line in lines) + "-- \n2.39.5\n"


@settings(deadline=None)
@given(st.integers(0, 40), st.randoms(use_true_random=False), st.integers(1, 6))
def test_lines_of_ours_are_known_after_any_patches(
    length: int, rng: random.Random, edits: int
) -> None:
    """Lines that patches add, move and remove, in a file that they may have made."""
    text = [f"theirs {number}" for number in range(length)]
    patches = []
    for edit in range(edits):
        before = list(text)
        for change in range(rng.randrange(1, 5)):
            at = rng.randrange(len(text) + 1)
            if rng.random() < 0.4:
                del text[at : at + rng.randrange(1, 4)]
            else:
                new = [f"ours {edit} {change} {line}" for line in range(rng.randrange(1, 12))]
                text[at:at] = new
        if text != before:
            patches.append(patch("net/core/a.c", before, text))
    wanted = frozenset(number for number, line in enumerate(text, 1) if line.startswith("ours"))
    assert ownlines.added(patches) == ({"net/core/a.c": wanted} if wanted else {})


def test_a_patch_that_is_cut_off_is_refused() -> None:
    whole = patch("a.c", ["x"] * 3, ["x"] * 3 + ["y"] * 3)
    with pytest.raises(ValueError, match="no hunk of a patch: @@ "):
        ownlines.added([whole.replace("+y\n+y\n", "+y\n*\n")])


CONSOLE = """\
[   61.1] Something else
[   62.100000][   T12] ==================================================================
[   62.100001][   T12] BUG: KCSAN: data-race in net_path_count / net_path_show
[   62.100002][   T12]
[   62.100003][   T12] write to 0xffff88803ec1c000 of 4 bytes by interrupt on cpu 1:
[   62.100004][   T12]  net_path_count+0x12/0x80
[   62.100005][   T12]  ip_rcv+0x1/0x2
[   62.100006][   T12]
[   62.100007][   T12] read to 0xffff88803ec1c000 of 4 bytes by task 77 on cpu 0:
[   62.100008][   T12]  net_path_show+0xff/0x100
[   62.100009][   T12]  seq_read+0x1/0x2
[   62.100010][   T12]
[   62.100011][   T12] value changed: 0x00000001 -> 0x00000002
[   63.000000] BUG: KCSAN: data-race in tick_a / tick_b
[   63.000001]
[   63.000002] read-write (marked) to 0xffffffff81 of 8 bytes by task 3 on cpu 1:
[   63.000003]  tick_a+0x20/0x30
[   63.000004]
[   63.000005] read to 0xffffffff81 of 8 bytes by task 4 on cpu 0:
[   63.000006]  tick_b+0x40/0x50
[   64.000000] BUG: KCSAN: data-race in tick_a / tick_b
"""
FIRST = Report(
    "KCSAN: data-race in net_path_count / net_path_show",
    (("net_path_count", 0x12), ("net_path_show", 0xFF)),
)
SECOND = Report("KCSAN: data-race in tick_a / tick_b", (("tick_a", 0x20), ("tick_b", 0x40)))


def test_reports_are_read_with_the_place_of_each_access() -> None:
    assert reports.read(CONSOLE) == [FIRST, SECOND, Report(SECOND.title, ())]
    assert reports.read("[    1.0] all is well\n") == []


@given(st.text(st.sampled_from("BUG: KCMSAN \n[]0.1+x/ab of 4 bytes by task on cpu 1:")))
def test_any_console_is_read(text: str) -> None:
    for report in reports.read(text):
        assert report.title


SOURCES: dict[Place, set[Line]] = {
    # Inlined: our line stands for where it came to be.
    ("net_path_count", 0x12): {("include/linux/skbuff.h", 30), ("net/core/dev.c", 7)},
    ("net_path_show", 0xFF): {("net/core/net_path.c", 9)},
    ("tick_a", 0x20): {("kernel/time/a.c", 4)},
    ("tick_b", 0x40): {("kernel/time/a.c", 8)},
}


@pytest.mark.parametrize(
    ("ours", "own"),
    [
        ({"net/core/net_path.c": {9}}, [FIRST.title]),
        ({"net/core/dev.c": {7}}, [FIRST.title]),
        ({"net/core/dev.c": {8}, "kernel/time/a.c": {5}}, []),
        ({"kernel/time/a.c": {8}}, [SECOND.title]),
    ],
)
def test_a_race_is_ours_by_the_line_of_either_access(
    ours: dict[str, set[int]], own: list[str]
) -> None:
    lines = {name: frozenset(numbers) for name, numbers in ours.items()}
    found = reports.split([FIRST, SECOND, SECOND], lambda _: SOURCES, lines)
    assert found == (own, [report.title for report in (FIRST, SECOND) if report.title not in own])


@pytest.mark.parametrize(
    "race",
    [
        Report("KCSAN: x", ()),
        Report("KCSAN: x", SECOND.places[:1]),
        Report("KCSAN: x", (*SECOND.places, ("gone", 1))),
    ],
)
def test_a_race_that_cannot_be_placed_may_be_ours(race: Report) -> None:
    assert reports.split([race], lambda _: SOURCES, {}) == (["KCSAN: x"], [])


LEAK = """\
[ 1583.7] BUG: KMSAN: kernel-infoleak in irqentry_exit+0x30a/0x8a0
[ 1583.7]  irqentry_exit+0x30a/0x8a0
[ 1583.7]  asm_exc_page_fault+0x2b/0x30
[ 1583.7]
[ 1583.7] Uninit was stored to memory at:
[ 1583.7]  copied+0x2b/0x30
[ 1583.7] Local variable new_sa.i.i created at:
[ 1583.7]  made+0xcd/0x3c0
[ 1583.7]
[ 1583.7] Bytes 0-3 of 4 are uninitialized
[ 1583.7] CPU: 1 UID: 0 PID: 73 Comm: python3 Not tainted 7.3.4-skblab-kmsan #1 PREEMPT(lazy)
[ 1583.7] =====================================================
[ 1583.8]  later+0xcd/0x3c0
"""
LEAKING = (("irqentry_exit", 0x30A), ("asm_exc_page_fault", 0x2B), ("copied", 0x2B), ("made", 0xCD))


def test_a_report_of_kmsan_has_the_calls_of_all_its_stacks() -> None:
    title = "KMSAN: kernel-infoleak in irqentry_exit+0x30a/0x8a0"
    assert reports.read(LEAK + CONSOLE)[:2] == [Report(title, LEAKING), FIRST]


def test_a_report_of_kmsan_is_ours_by_the_line_of_any_call() -> None:
    report = Report("KMSAN: x", LEAKING)
    sources = {place: {("net/a.c", line)} for line, place in enumerate(LEAKING)}
    for line in range(len(LEAKING)):
        ours = {"net/a.c": frozenset({line})}
        assert reports.split([report], lambda _: sources, ours) == (["KMSAN: x"], [])
    assert reports.split([report], lambda _: sources, {}) == ([], ["KMSAN: x"])
    # One that says nothing, and one of which a call is unknown.
    for places in ((), (*LEAKING, ("gone", 1))):
        found = reports.split([Report("KMSAN: x", places)], lambda _: sources, {})
        assert found == (["KMSAN: x"], [])


ADDRESSES = {"net_path_count": 0x1000, "net_path_show": 0x2000, "tick_a": 0x3000}


class Symbolising(LabRoot):
    """A lab root whose addr2line knows two places: one inlined twice, one without a line."""

    def run(self, argv: Sequence[str], **_: object) -> str:
        said = {
            0x1011: "/skblab/src/./include/linux/skbuff.h:30 (discriminator 2)\n"
            "/skblab/src/net/core/dev.c:7",
            0x301F: "??:0",
        }
        asked = [int(word, 16) for word in argv if word.startswith("0x")]
        return "".join(f"0x{one:016x}\n{said.get(one, '??:?')}\n" for one in asked)


def test_places_have_the_lines_that_they_were_inlined_into(tmp_path: Path) -> None:
    listed = (f"{address:016x} t {name}\n" for name, address in ADDRESSES.items())
    (tmp_path / "System.map").write_text("".join(listed) + "0000000000003000 t another_name\n")
    lines = reports.resolver(Kernel(tmp_path, "key"), Symbolising(tmp_path, "key"))
    places = frozenset({*FIRST.places, *SECOND.places, ("another_name", 0x20)})
    # No line is no place: such a report may be one of ours.
    assert lines(places) == {("net_path_count", 0x12): SOURCES["net_path_count", 0x12]}


def test_the_same_random_numbers_make_the_same_messages() -> None:
    def some(seed: int) -> list[bytes]:
        rng = random.Random(seed)
        made = [netlink.encoded(netlink.random_message(rng, [7, 8]), 30, n) for n in range(200)]
        return [netlink.damaged(rng, one) for one in made]

    assert some(1) == some(1)
    assert some(1) != some(2)


def test_messages_are_of_each_kind_and_none_starves_the_guest() -> None:
    rng = random.Random(3)
    known, unknown, wrong_length, commands = set(), 0, 0, set()
    for number in range(5000):
        whole = netlink.encoded(netlink.random_message(rng, [7]), 30, number)
        size, family, _, sequence = struct.unpack_from("=IHHI", whole)
        assert (size, family, sequence) == (len(whole), 30, number)
        commands.add(whole[16])
        for kind, payload in netlink.attributes(netlink.damaged(rng, whole)[16:]):
            known |= {kind} & {*netlink.ATTRIBUTES, netlink.ID, netlink.IFINDEX}
            unknown += kind not in (*netlink.ATTRIBUTES, netlink.ID, netlink.IFINDEX)
            wrong_length += kind == netlink.NICE and len(payload) != 4
            if kind == netlink.THREADED:
                assert payload[:4] != struct.pack("=I", netlink.BUSY_POLL)
    assert known == {*netlink.ATTRIBUTES, netlink.ID, netlink.IFINDEX}
    assert unknown and wrong_length and commands == set(netlink.COMMANDS)


def test_answers_are_read_back() -> None:
    message = netlink.Message(netlink.NAPI_GET, 1, ((netlink.ID, struct.pack("=I", 9)),))
    whole = netlink.encoded(message, 30, 1)
    found = list(netlink.answers(whole + whole + b"\1"))
    assert [kind for kind, _ in found] == [30, 30]
    assert list(netlink.attributes(found[1][1])) == [(netlink.ID, struct.pack("=I", 9))]


@given(st.binary(max_size=200))
def test_any_answer_is_read(data: bytes) -> None:
    for _, body in netlink.answers(data):
        assert all(isinstance(kind, int) for kind, _ in netlink.attributes(body))
