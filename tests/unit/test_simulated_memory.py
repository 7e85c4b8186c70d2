# SPDX-License-Identifier: GPL-2.0-or-later
"""Simulated caches: which there are, what the plugin is told and answers, what is shown."""

from __future__ import annotations

import io
import json
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console
from test_functions import SYSTEM_MAP

from conftest import TREE, Skblab
from skblab.bench import asked, comparison, given, missing
from skblab.bench import functions as counting
from skblab.bench.functions import Symbols, caches, layout
from skblab.bench.measure import Line
from skblab.lab.kernel import names
from skblab_analysis.base.errors import SkblabError, UsageError
from skblab_analysis.formats import bench, functions, memory
from skblab_analysis.formats.functions import Function, FunctionsDocument, Run
from skblab_analysis.formats.memory import LABEL, Misses
from skblab_analysis.formats.run import Plan
from skblab_analysis.functions.view import of_functions, of_memory
from skblab_analysis.load import load
from skblab_analysis.report import findings
from skblab_analysis.report.page import build_report
from skblab_analysis.runfolder import RunFolder

OWN = """
[box]
title = "a box"
source = "its manual"
line = 32
code = { kib = 16, ways = 2 }
data = { kib = 8, ways = 4 }
"""


def test_processors_have_names_sources_and_whole_sets() -> None:
    known = tomllib.loads((TREE / caches.FILE).read_text())
    assert len(known) >= 3
    for name in known:
        chosen = caches.named(name)
        assert chosen.geometry.source
        assert chosen.described.levels.keys() >= {"code", "data", "second"}
    # 48 KiB are 48 * 1024 bytes, and so on.
    assert caches.named("xeon-8380").words == "64:32768.8:49152.12:1310720.20:62914560.12"


def test_a_file_of_ones_own(tmp_path: Path) -> None:
    (tmp_path / "my.toml").write_text(OWN)
    chosen = caches.named(f"{tmp_path}/my.toml:box")
    assert chosen.words == "32:16384.2:8192.4:0.0:0.0"
    assert list(chosen.described.levels) == ["code", "data"]
    told = f"/p.so,out=/out,caches={chosen.words}"
    assert counting.argument("/p.so", "/out", chosen) == told
    assert counting.argument("/p.so", "/out", chosen, "/layout") == f"{told},layout=/layout"
    assert counting.argument("/p.so", "/out", chosen, node=4096) == f"{told},node=4096"


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (("line = 32", "line = 48"), "line = 48: expected a power of two"),
        (("ways = 4 }", "ways = 3 }"), "data: 8 KiB are no whole sets of 3 ways of 32 bytes"),
        (("ways = 4 }", "ways = 0 }"), "greater than 0"),
        (("source", "sauce"), "sauce: there is no such key"),
        (
            ("data =", "third = { kib = 8, ways = 1 }\ndata ="),
            "a third level and no second",
        ),
        (("[box]", "[bx]"), "no such processor in"),
        (("[box]", "[box"), "is no TOML: "),
        ((OWN, "box = 3\n"), "my.toml:1: box: "),
    ],
)
def test_a_file_that_is_none(tmp_path: Path, change: tuple[str, str], told: str) -> None:
    (tmp_path / "my.toml").write_text(OWN.replace(*change))
    with pytest.raises(UsageError, match=r"my\.toml") as refused:
        caches.named(f"{tmp_path}/my.toml:box")
    assert told in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_name_that_is_none(skblab_here: Skblab) -> None:
    done = skblab_here("profile", "--caches", "pentium")
    assert done.returncode == 2
    assert "--caches pentium: no such processor in" in done.stderr
    assert "epyc-7763" in done.stderr
    done = skblab_here("profile", "--caches", "/nowhere.toml:pentium")
    assert done.returncode == 2
    assert "/nowhere.toml: No such file" in done.stderr


def test_a_profile_that_asks_for_it_says_so() -> None:
    wanted = asked.profile(names.parse("6.12"), None, "forward", 4, 1000, 1)
    chosen = asked.beside(wanted, caches.named("epyc-7763"), "random")
    assert " --caches epyc-7763 --destinations random " in chosen.again
    assert asked.plan_of(chosen).parameters["destinations"] == "random"
    assert asked.plan_of(chosen).parameters["caches"] == "epyc-7763"
    assert "caches" not in asked.plan_of(wanted).parameters


COUNTS = """\
section {0} 30
ffffffff81000110 30
frame {0} 0 ffffffff81000205
at {0} ffffffff81000110 {1} {2}
at 0 ffffffff81000410 4 9 1 2 3 4 5 6 7 8
at 0 40 3 1 0 1 0 0 0 0 0 0
"""


def test_lines_of_counts_have_what_was_missed() -> None:
    symbols = Symbols.parse(SYSTEM_MAP)
    (one,) = counting.parse(COUNTS.format(1, 20, "10 6 5 4 3 2 9 1 2"))
    found = one.missed_by_stack(symbols)
    assert list(found) == list(memory.KINDS)
    stack = ("ip_stop", "ip_rcv_core")
    assert {kind: of[stack] for kind, of in found.items()} == {
        **{"accesses": 10, "code": 6, "data": 5, "second": 4, "third": 3, "written": 2},
        **{"remote_accesses": 9, "remote": 1, "passed": 2},
    }
    assert found["data"][(counting.USER,)] == 1
    # Without caches there is nothing.
    (none,) = counting.parse("section 0 0\nat 0 ffffffff81000110 5\n")
    assert none.missed_by_stack(symbols) == {}


@pytest.mark.parametrize(
    "numbers",
    ["1", "1 2 3 4 5 6 7 8", "1 2 3 4 5 6 7 8 9 0", "1 2 3 4 5 6 7 8 x", "1 2 3 4 5 6 7 8 -9"],
)
def test_lines_of_counts_that_are_none(numbers: str) -> None:
    with pytest.raises(SkblabError, match="the counts have"):
        counting.parse(COUNTS.format(1, 20, numbers))


TYPES = """\
type 0 30 9 8 7 6 5 4 3 - (stacks and vmalloc)
type 240 20 5 4 3 2 19 1 2 -,0:12,7:2,8:1,29:5 skbuff_head_cache
"""


def test_lines_of_types() -> None:
    (one,) = counting.parse(f"{COUNTS.format(1, 20, '10 6 5 4 3 2 9 1 2')}{TYPES}")
    stacks, buffers = one.types["(stacks and vmalloc)"], one.types["skbuff_head_cache"]
    assert (stacks.size, stacks.words, stacks.missed["accesses"]) == (0, {}, 30)
    assert (buffers.size, buffers.words) == (240, {0: 12, 7: 2, 8: 1, 29: 5})
    (two,) = counting.parse(
        f"{COUNTS.format(1, 20, '10 6 5 4 3 2 9 1 2')}{TYPES}"
        "type 240 1 1 0 0 0 0 0 0 -,8:3 skbuff_head_cache\n"
    )
    # Of two caches of one name it is both.
    assert two.types["skbuff_head_cache"].words == {0: 12, 7: 2, 8: 4, 29: 5}
    assert two.types["skbuff_head_cache"].missed["accesses"] == 21
    assert buffers.missed == {
        **{"accesses": 20, "data": 5, "second": 4, "third": 3, "written": 2},
        **{"remote_accesses": 19, "remote": 1, "passed": 2},
    }


@pytest.mark.parametrize(
    "line",
    [
        "type 240 20 5 4 3 2 1 0 -,0:1 skb",
        "type 240 20 5 4 3 2 1 0 0 -,0:1",
        "type 240 20 5 4 3 2 1 0 0 -,0 skb",
        "type 240 20 5 4 3 2 1 0 0 -,x:1 skb",
        "type 240 20 5 4 3 2 1 0 0 -,0:-1 skb",
        "type 240 20 5 4 3 2 1 0 -2 - skb",
        "type -1 20 5 4 3 2 1 0 0 - skb",
    ],
)
def test_lines_of_types_that_are_none(line: str) -> None:
    with pytest.raises(SkblabError, match="the counts have"):
        counting.parse(f"{COUNTS.format(1, 20, '10 6 5 4 3 2 9 1 2')}{TYPES}{line}\n")


def test_what_a_packet_accesses_by_type() -> None:
    """What begins a run cancels; a line that fewer than every second packet touches is none."""
    found = missing.Missing()
    symbols = Symbols.parse(SYSTEM_MAP)
    parts: dict[bench.Part, int] = {"tester": 1, "forward": 3}
    for part, each in parts.items():
        for packets in (100, 500):
            count = each * packets
            words = f"-,0:{count},8:{count // 5},9:{7 + count // 2},29:{50 + packets // 10}"
            (section,) = counting.parse(
                "section 0 30\nffffffff81000110 30\n"
                f"type 240 {50 + count} {2 * count} 0 0 0 0 0 0 {words} skb\n"
            )
            found.add(run(part, packets), [section], symbols)
    [(name, skb)] = found.types("forward").items()
    assert (name, skb.size, skb.missed) == ("skb", 240, Misses(accesses=2, data=4))
    assert skb.words[0] == 2 and skb.words[9] == pytest.approx(1)
    # Words 0 to 7 are its first line, 8 to 15 the second, 29 is of the last.
    assert skb.lines(64) == 2
    assert skb.lines(128) == 1


LAYOUT = """\
page 40
memory_end 7ffe0000
struct skb 240
field next 0 8
field list 0 16
field len 64 68
field data_len 68 72
field hash 72 76
field users 232 236
struct box 8
field lid 0 8
"""


def test_fields_of_a_structure() -> None:
    found = layout.parse(LAYOUT)
    assert {name: one.size for name, one in found.items()} == {"skb": 240, "box": 8}
    assert found["skb"].at(0, 8) == ["next", "list"]
    assert found["skb"].at(8, 16) == ["list"]
    assert found["skb"].at(64, 72) == ["len", "data_len"]
    assert found["skb"].at(120, 128) == []


@pytest.mark.parametrize(
    "line",
    ["struct a", "struct a -1", "field a 0 9", "field a 3 3", "field a", "struct", "field a x 4"],
)
def test_a_layout_that_is_none(line: str) -> None:
    with pytest.raises(SkblabError, match="the layout of the kernel's structures"):
        layout.parse(f"struct box 8\n{line}\n")


def test_lines_of_a_structure_have_its_fields(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(missing, "STRUCTURES", {"skbuff_head_cache": "skb"})
    known = layout.parse(LAYOUT)
    # Of word 9 every fourth packet accesses something.
    before, after = types(accesses=3, words={0: 3}), types(accesses=5, words={0: 4, 8: 1, 9: 0.25})
    document = missing.compared(
        caches.named("epyc-7763"), missing.Of({}, before), missing.Of({}, after, known), whole=True
    )
    assert document is not None
    [skb] = document.structures
    assert (skb.name, skb.cache, skb.size) == ("skb", "skbuff_head_cache", 240)
    assert [(one.number, one.a, one.b, one.fields) for one in skb.lines] == [
        (0, 3, 4, ("next", "list")),
        (1, 0, 1.25, ("len", "data_len")),
    ]


def test_a_line_that_is_touched_no_more_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """A field was moved to a line that is touched anyway: in the other kernel it is elsewhere."""
    monkeypatch.setattr(missing, "STRUCTURES", {"skbuff_head_cache": "skb"})
    old = layout.parse("struct skb 240\nfield mark 192 196\nfield len 64 68\n")
    new = layout.parse("struct skb 240\nfield mark 72 76\nfield len 64 68\n")
    before, after = types(accesses=3, words={24: 1, 8: 2}), types(accesses=3, words={9: 1, 8: 2})
    document = missing.compared(
        caches.named("epyc-7763"),
        missing.Of({"f": Misses()}, before, old),
        missing.Of({"f": Misses()}, after, new),
        whole=True,
    )
    assert document is not None
    # Before those that differ by accesses alone.
    assert (document.types[0].name, document.types[0].b_lines) == ("skbuff_head_cache", 1)
    [skb] = document.structures
    assert [(one.number, one.a, one.b, one.before, one.fields) for one in skb.lines] == [
        (1, 2, 3, ("len",), ("len", "mark")),
        (3, 1, 0, ("mark",), ()),
    ]
    # Of a kernel that does not tell its types there is no difference.
    lacking = missing.compared(
        caches.named("epyc-7763"),
        missing.Of({"f": Misses()}),
        missing.Of({"f": Misses()}, after, new),
        whole=True,
    )
    assert lacking is not None and not (lacking.types or lacking.structures)


def run(part: bench.Part, packets: int) -> Run:
    return Run(
        **{"row": "b", "repeat": 1, "part": part, "packets": packets, "delivered": packets},
        **{"instructions": 30 * packets, "counted": 30 * packets},
    )


def test_what_a_packet_misses_by_function_and_by_layer() -> None:
    """What begins a run cancels, and the tester is taken off."""
    symbols = Symbols.parse(SYSTEM_MAP)
    found = missing.Missing()
    parts: dict[bench.Part, int] = {"tester": 1, "forward": 3}
    for part, each in parts.items():
        for packets in (100, 500):
            lines = " ".join(str(50 + each * packets * kind) for kind in range(1, 10))
            (section,) = counting.parse(
                f"section 0 30\nffffffff81000110 30\nat 0 ffffffff81000110 1 {lines}\n"
            )
            found.add(run(part, packets), [section], symbols)
    missed = found.of("forward")
    expected = Misses(
        **{"accesses": 2, "code": 4, "data": 6, "second": 8, "third": 10, "written": 12},
        **{"remote_accesses": 14, "remote": 16, "passed": 18},
    )
    assert missed == {"ip_rcv_core": expected}
    chosen = caches.named("epyc-7763")
    document = missing.compared(chosen, missing.Of(), missing.Of(missed), whole=True)
    assert document is not None
    assert document.total.b == expected
    assert document.total.difference == expected
    assert [(one.name, one.b) for one in document.layers] == [("route", expected)]
    broken = missing.compared(chosen, missing.Of(missed), missing.Of(missed), whole=False)
    assert broken is not None
    assert broken.layers == ()
    assert broken.total.difference == Misses()
    assert missing.compared(None, missing.Of(), missing.Of(), whole=True) is None


def types(*, accesses: float, words: dict[int, float]) -> dict[str, missing.Object]:
    return {
        "(stacks and vmalloc)": missing.Object(0, {}, Misses(accesses=7)),
        "skbuff_head_cache": missing.Object(240, words, Misses(accesses=accesses, data=1)),
    }


SK_BUFF = layout.parse("struct sk_buff 240\nfield next 0 8\nfield len 64 68\n")


def a_document(*, alone: bool) -> FunctionsDocument:
    rows = {
        name: bench.Row(name=name, title=title, group="patch", kernel="k", tool="")
        for name, title in (("a", "6.12"), ("b", "7.3"))
    }
    before = {f"f{number}": Misses(data=number) for number in range(20)}
    after = {**before, "fib": Misses(accesses=9, code=1.5, data=2, second=3, third=0.25)}
    chosen = caches.named("epyc-7763")
    return FunctionsDocument(
        again="./skblab profile",
        case="forward",
        family=4,
        a=None if alone else rows["a"],
        b=rows["b"],
        clock={"b": 3.0} if alone else {"a": 1.0, "b": 3.0},
        functions=(Function(name="f", a=0.0 if alone else 1.0, b=3.0),),
        memory=missing.compared(
            chosen,
            missing.Of() if alone else missing.Of(before, types(accesses=3, words={0: 3})),
            missing.Of(after, types(accesses=5, words={0: 4, 8: 1}), SK_BUFF),
            whole=True,
        ),
        runs=(),
    )


def printed(document: FunctionsDocument) -> list[list[str]]:
    file = io.StringIO()
    Console(file=file, width=120, color_system=None).print(*of_memory([document]))
    return [line.split() for line in file.getvalue().splitlines()]


def report(tmp_path: Path, document: FunctionsDocument) -> RunFolder:
    folder = RunFolder.create(tmp_path, "profile", Plan(experiment="p", seed=1, again="./skblab p"))
    (folder.path / functions.FILE).write_text(document.model_dump_json(by_alias=True))
    return folder


def test_one_kernel_is_shown_by_what_it_misses(tmp_path: Path) -> None:
    document = a_document(alone=True)
    lines = printed(document)
    assert ["7.3", "9.0", "1.5", "192.0", "3.0", "0.2", "0.0"] in lines
    assert ["fib", "9.0", "1.5", "2.0", "3.0", "0.2", "0.0"] in lines
    assert ["total", "9.0", "1.5", "192.0", "3.0", "0.2", "0.0"] in lines
    levels = ["L1 code", "L1 data", "L2", "L3"]
    by_row, by_function, by_type, _ = of_memory([document])
    for table, first, kinds in (
        (by_row, "row", [*levels, "written back"]),
        (by_function, "function", [*levels, "written back"]),
        (by_type, "slab cache", [*levels[1:], "lines"]),
    ):
        assert [str(column.header) for column in table.columns] == [first, "accesses", *kinds]
    # By type: no code, and lines of an object.
    assert ["skbuff_head_cache", "5.0", "1.0", "0.0", "0.0", "2", "of", "4"] in lines
    assert ["(stacks", "and", "vmalloc)", "7.0", "0.0", "0.0", "0.0", "–"] in lines
    assert ["64–127", "1.0", "len"] in lines
    said = "Simulated caches of AMD EPYC 7763 (Zen 3, 2021), one core complex: 7.3 misses"
    (found,) = [
        one for one in findings.sentences(load(report(tmp_path, document).path)) if "caches" in one
    ]
    assert found.startswith(f"{said} 193.5 lines a packet in the first level, 0.2 in all levels")


def test_of_two_what_differs_is_shown(tmp_path: Path) -> None:
    document = a_document(alone=False)
    lines = printed(document)
    # The first as it is, the second by what it adds.
    assert ["6.12", "0.0", "0.0", "190.0", "0.0", "0.0", "0.0"] in lines
    assert ["7.3", "+9.0", "+1.5", "+2.0", "+3.0", "+0.2", "0.0"] in lines
    assert ["f7", "0.0", "0.0", "0.0", "0.0", "0.0", "0.0"] in lines or any(
        line[:1] == ["others"] for line in lines
    )
    added = ["skbuff_head_cache", "+2.0", "0.0", "0.0", "0.0", "2", "of", "4", "(+1)"]
    assert added in lines
    # It does not differ.
    assert not any(line[:1] == ["(stacks"] for line in lines)
    folder = report(tmp_path, document)
    page = build_report(folder.path, None).read_text()
    assert LABEL[1:] in page
    assert "What differs by type of object" in page
    assert "Lines of sk_buff: accesses per packet, and fields" in page
    assert ["64–127", "0.0", "1.0", "len"] in lines
    assert "What differs by function, in lines per packet, simulated" in page
    assert json.loads((folder.path / functions.FILE).read_text())["memory"]["named"] == "epyc-7763"


def test_a_document_without_caches_shows_none(tmp_path: Path) -> None:
    document = a_document(alone=True).model_copy(update={"memory": None})
    assert of_memory([document]) == []
    assert (
        "Cache lines missed" not in build_report(report(tmp_path, document).path, None).read_text()
    )


def test_two_nodes_of_one_kernel_are_two_rows() -> None:
    """Of two kernels, or with a setting, all packets come from the other node."""

    def wanted(case: str, against: str | None = None, *set_: str) -> asked.Asked:
        other = None if against is None else names.parse(against)
        knobs = given.parse(list(set_), "--set")
        one = asked.profile(names.parse("6.12"), other, case, 4, 1000, 1, knobs=knobs)
        return asked.beside(one, caches.named("epyc-7763"), "fixed", numa=True)

    forward, receive = wanted("forward"), wanted("receive")
    assert [row.title for row in forward.rows] == [
        "6.12, on the node of the CPU",
        "6.12, on the other node",
    ]
    assert [row.kernel for row in forward.rows] == ["b", "b"]
    assert " --caches epyc-7763 --numa " in forward.again
    assert asked.plan_of(forward).parameters["numa"] == "2"
    assert forward.remote == receive.remote == {"b"}
    asks = "What does it cost when a packet is not read on its own node?"
    assert receive.question == asks
    lines = [
        [line for line in comparison.script(of.rows, 0, of).splitlines() if "; run " in line][:2]
        for of in (forward, receive)
    ]
    assert [line.partition(";")[0] for line in lines[0]] == ["node=0 remote=", "node=1 remote="]
    assert [line.partition(";")[0] for line in lines[1]] == [
        *("node=0 remote=", "node=0 remote=remote")
    ]
    for two in (wanted("forward", "7.3"), wanted("receive", None, "rp_filter=1")):
        assert two.remote == {"a", "b"}
        assert all(row.title.endswith("on the other node") for row in two.rows)


def test_what_is_read_elsewhere_is_another_section() -> None:
    line = Line("", "b", 2, "queue", 4, 1000, 1000, 5)
    lines = [line, replace(line, part="read")]
    sections = [counting.Section(number, 5) for number in (0, 2)]
    found = list(comparison.attribute(lines, sections, remote={"b"}))
    assert [[section.number for section in of] for _, of in found] == [[0], [2]]
    with pytest.raises(comparison.SectionsError, match="a section of marks 1 was to come"):
        list(comparison.attribute(lines, sections))


def test_two_nodes_have_columns_of_their_own(tmp_path: Path) -> None:
    document = a_document(alone=False)
    away = Misses(accesses=9, data=2, remote_accesses=8, remote=1.5, passed=0.5)
    known = missing.compared(
        caches.named("epyc-7763"),
        missing.Of({"ip_rcv": Misses(), "near": Misses(remote_accesses=0.01)}),
        missing.Of({"ip_rcv": away, "near": Misses()}),
        whole=True,
        nodes=2,
    )
    assert known is not None and known.processor.nodes == 2
    document = document.model_copy(update={"memory": known})
    lines = printed(document)
    row = ["+9.0", "0.0", "+2.0", "0.0", "0.0", "0.0", "+8.0", "+1.5", "+0.5"]
    assert ["7.3", *row] in lines
    assert ["ip_rcv", *row] in lines
    # A row of zeros is none.
    assert ["others", "(1)", *9 * ["0.0"]] in lines
    (said,) = [
        one for one in findings.sentences(load(report(tmp_path, document).path)) if "caches" in one
    ]
    assert "+1.5 of them from the other node's memory and +0.5 from the other CPU" in said
    page = build_report(report(tmp_path / "again", document).path, None).read_text()
    assert "7.3: 0.0 cache lines a packet missed in all levels, +0.5 of them passed on by" in page


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--numa",), "--numa: which node a line comes from is known of simulated caches alone"),
        (
            ("--numa", "--caches", "epyc-7763", "--case", "poll"),
            "--numa: --case poll counts no path",
        ),
        (
            ("--numa", "--caches", "epyc-7763", "--experiment", "router-settings"),
            "--numa: --experiment compares the settings of its file",
        ),
        (("--destinations", "many"), "--destinations many: expected fixed or random"),
        (
            ("--destinations", "random", "--case", "receive"),
            "--destinations random: with --case receive nothing is routed; give --case forward",
        ),
    ],
)
def test_what_cannot_be_had_beside_it(
    words: tuple[str, ...], told: str, skblab_here: Skblab
) -> None:
    done = skblab_here("profile", *words)
    assert done.returncode == 2
    assert told in done.stderr


def test_a_table_says_that_destinations_are_random() -> None:
    document = a_document(alone=True).model_copy(update={"destinations": "random"})
    assert "random destinations" in str(of_functions(document, 1.0).title)
