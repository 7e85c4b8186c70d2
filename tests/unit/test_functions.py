# SPDX-License-Identifier: GPL-2.0-or-later
"""Counting by function: symbols, counts, marks, arithmetic, and what is refused."""

from __future__ import annotations

import gzip
import io
import re
import subprocess
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pyarrow.parquet as pq
import pytest
from rich.console import Console
from rich.table import Table

from conftest import TREE, Skblab
from skblab.bench import asked, comparison, given, plan
from skblab.bench import functions as counting
from skblab.bench.comparison import script
from skblab.bench.functions import Section, Symbols
from skblab.bench.measure import Line
from skblab.knobs import applying
from skblab.knobs.base import Knob
from skblab.knobs.values import Knobs, Value
from skblab.lab.guest.console import Finding, Kind
from skblab.lab.guest.errors import GuestError
from skblab.lab.kernel import names
from skblab.lab.kernel.names import Name
from skblab.lab.labroot import LabRoot
from skblab.lab.reporter import Reporter
from skblab.machine.device import Machine
from skblab.machine.transport import LocalTransport, TransportError
from skblab.machine.transport.base import Done
from skblab.machine.watch import Watch
from skblab.sweep.byfunction import settings_of
from skblab_analysis.base.checked import RecordError, RefusedError
from skblab_analysis.base.errors import SkblabError, UsageError
from skblab_analysis.formats import bench, functions, pprof, stacks
from skblab_analysis.formats.bylayer import by_layer
from skblab_analysis.formats.functions import Cost, Counted, Function, Run
from skblab_analysis.formats.run import Plan
from skblab_analysis.functions import view as by_function
from skblab_analysis.functions.flame import flame
from skblab_analysis.functions.flame import total as flame_total
from skblab_analysis.functions.view import of_functions, of_kernels, of_layers, of_settings
from skblab_analysis.load import Run as Loaded
from skblab_analysis.load import load
from skblab_analysis.report import findings
from skblab_analysis.report.page import build_report
from skblab_analysis.runfolder import RunFolder

SYSTEM_MAP = """\
0000000000000000 D __per_cpu_start
0000000000004000 T in_no_code_at_all
ffffffff81000000 T _text
ffffffff81000000 T startup_64
ffffffff81000100 t __pfx_ip_rcv_core
ffffffff81000110 t ip_rcv_core
ffffffff81000200 t ip_stop.isra.0
ffffffff81000280 t twice
ffffffff81000300 t twice
ffffffff81000400 t ip_rcv_core.cold
ffffffff81000480 t ip_stop.isra.0.cold
ffffffff81000500 D data
"""
LOADED = "ffffffffc0000000 t bpf_prog_6d_on_sample\t[bpf]\n"


@pytest.mark.parametrize(
    ("address", "name"),
    [
        (0x4000, None),
        (0xFFFFFFFF80FFFFFF, None),
        (0xFFFFFFFF81000000, "startup_64"),
        (0xFFFFFFFF81000100, "ip_rcv_core"),
        (0xFFFFFFFF810001FF, "ip_rcv_core"),
        (0xFFFFFFFF81000200, "ip_stop"),
        (0xFFFFFFFF81000410, "ip_rcv_core"),
        (0xFFFFFFFF81000500, None),
        (0xFFFFFFFFC0000010, "bpf_prog_6d_on_sample [bpf]"),
    ],
)
def test_functions_by_address(address: int, name: str | None) -> None:
    assert Symbols.parse(SYSTEM_MAP, LOADED).name_of(address) == name


def test_of_two_names_always_the_same_one() -> None:
    two = "ffffffff81000000 T __memset\nffffffff81000000 W memset\nffffffff81000000 T _etext\n"
    turned = "\n".join(reversed(two.splitlines()))
    assert Symbols.parse(two).names == Symbols.parse(turned).names == ("memset",)


def test_a_modules_function_goes_by_its_own_name() -> None:
    symbols = Symbols.parse(LOADED + "ffffffffc0001000 t veth_xmit.isra.0\t[veth]\n")
    assert symbols.name_of(0xFFFFFFFFC0001004) == "veth_xmit"


def test_where_in_a_function() -> None:
    symbols = Symbols.parse(SYSTEM_MAP)
    assert symbols.offset_of(0xFFFFFFFF81000204) == ("ip_stop.isra.0", 4)
    assert symbols.offset_of(0xFFFFFFFF81000500) is None
    # The first one of a list is a function as well, and below it is none.
    loaded = Symbols.parse(LOADED)
    assert loaded.offset_of(0xFFFFFFFFC0000008) == ("bpf_prog_6d_on_sample [bpf]", 8)
    assert loaded.name_of(0xFFFFFFFFC0000008) == "bpf_prog_6d_on_sample [bpf]"
    assert loaded.offset_of(0xFFFFFFFFBFFFFFFF) is None
    assert loaded.name_of(0xFFFFFFFFBFFFFFFF) is None


def test_a_list_of_symbols_that_is_none() -> None:
    with pytest.raises(SkblabError, match="has 'what is this': expected address"):
        Symbols.parse("what is this\n")


COUNTS = """\
section 0 30
ffffffff81000110 10
ffffffff81000115 10
ffffffffa0000000 5
user 3
elsewhere 2
section 1 7
ffffffff81000410 7
"""


def test_counts_by_function() -> None:
    symbols = Symbols.parse(SYSTEM_MAP, LOADED)
    one, two = counting.parse(COUNTS)
    assert (one.number, one.total, two.number, two.total) == (0, 30, 1, 7)
    # Behind the kernel's last symbol there is no code that is known.
    assert one.by_function(symbols) == {"ip_rcv_core": 20, counting.USER: 3, counting.UNKNOWN: 7}
    assert two.by_function(symbols) == {"ip_rcv_core": 7}
    assert counting.parse("") == []


@pytest.mark.parametrize(
    "text", ["ffffffff81000110 10", "section 0", "section 0 1\nxyz 1", "section 0 1\n8 1 1", "\n"]
)
def test_counts_that_are_none(text: str) -> None:
    with pytest.raises(SkblabError, match="the counts have"):
        counting.parse(text)


def test_iterations_of_string_instructions_are_apart() -> None:
    symbols = Symbols.parse(SYSTEM_MAP)
    (one,) = counting.parse("section 0 40\nffffffff81000110 8\nffffffff81000204 32 30\n")
    assert one.by_function(symbols) == {"ip_rcv_core": 8, "ip_stop": 2}
    assert one.again_by_function(symbols) == {"ip_stop": 30}
    with pytest.raises(SkblabError, match="add up to 40 instructions, its head says 41"):
        counting.parse("section 0 41\nffffffff81000110 8\nffffffff81000204 32 30\n")


def test_a_cost_has_each_string_instruction_once_and_the_clock_all() -> None:
    runs = []
    for packets in (100, 500):
        run = Run(
            row="on",
            repeat=1,
            part="tester",
            packets=packets,
            delivered=packets,
            instructions=packets * 70,
            counted=packets * 70,
        )
        runs.append(Counted(run, {"rx": packets * 20, "memcpy": packets}, {"memcpy": packets * 49}))
    cost = functions.cost(runs, "poll")
    assert (cost.clock, cost.by_name, cost.again) == (
        70.0,
        {"rx": 20.0, "memcpy": 1.0},
        {"memcpy": 49.0},
    )
    more = Cost(60.0, {"rx": 21.0, "memcpy": 1.0}, {"memcpy": 38.0})
    memcpy, rx = sorted(functions.compare(cost, more), key=lambda one: one.name)
    assert (memcpy.difference, memcpy.a_again, memcpy.b_again) == (0.0, 49.0, 38.0)
    assert rx.difference == 1.0
    # One that moves more, and is called as often.
    (longer,) = functions.compare(Cost(10.0, {}, {}), Cost(20.0, {"memcpy": 0.0}, {"memcpy": 10.0}))
    assert (longer.name, longer.difference, longer.b_again) == ("memcpy", 0.0, 10.0)
    whole = functions.total([memcpy, rx], "total")
    assert (whole.a + whole.a_again, whole.b + whole.b_again) == (70.0, 60.0)


def test_counts_that_were_cut_off() -> None:
    with pytest.raises(SkblabError, match="add up to 20 instructions, its head says 30"):
        counting.parse("\n".join(COUNTS.splitlines()[:3]))


QUIET = Reporter(quiet=True)
RAN = """\
ffffffff81000000 T _stext
ffffffff81000110 T ip_rcv
ffffffffa0000000 t of_a_module\t[veth]
"""


def test_what_is_in_no_function_is_noted() -> None:
    made = comparison.Comparison.__new__(comparison.Comparison)
    made.notes = []
    row = bench.Row(name="b", title="6.12", group="patch", kernel="k")
    for unnamed in (1.0, 3.0):
        cost = Cost(200.0, {"ip_rcv": 200.0 - unnamed, counting.UNKNOWN: unnamed})
        made._note_unnamed(comparison._Counted(row, cost))
    assert made.notes == [
        "6.12: of 1.5% of the instructions it is not known in which function they are."
    ]


def test_a_list_of_another_kernel_is_refused(tmp_path: Path) -> None:
    place = tmp_path / "System.map"
    own = RAN.partition("ffffffffa0")[0]
    assert counting.require_same(own + "ffffffff81000999 t ip_rcv\n", RAN, place)
    for hidden in ("", "0000000000000000 T ip_rcv\n"):
        assert not counting.require_same(own, hidden, place)
    shifted = own.replace("81000110", "81000120")
    for listed, seen, told in (
        (shifted, RAN, "has ip_rcv at ffffffff81000110, and this list ffffffff81000120"),
        (own.replace("ip_rcv", "ip6_rcv"), RAN, "at ffffffff81000110, and this list nowhere"),
    ):
        with pytest.raises(SkblabError, match=re.escape(told)) as refused:
            counting.require_same(listed, seen, place)
        assert str(refused.value).endswith(f"remove {tmp_path} and run the command again")


@dataclass(frozen=True)
class Loads(LabRoot):
    """A lab root in which QEMU says something of the plugin."""

    said: str = ""
    versions = {"qemu-system-x86": "1:11.1"}  # noqa: RUF012

    def run(self, argv: Sequence[str], **more: object) -> str:
        """Say it."""
        return self.said if "qemu" in argv[-1] else ""


def test_a_qemu_that_the_plugin_was_not_tested_with_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SKBLAB_CACHE", str(tmp_path))
    other = "count: QEMU's interface for plugins is version 6, and was tested up to 4"
    with pytest.raises(
        SkblabError,
        match=re.escape(f"QEMU 1:11.1 of the lab root cannot count by function: {other}"),
    ):
        counting.ensure(Loads(tmp_path, "key", f"{other}\nqemu: Could not load"), QUIET)
    # Nothing is kept of one that cannot be used.
    assert counting.ensure(Loads(tmp_path, "key", "count: loaded\nqemu: no"), QUIET).is_dir()


def test_the_plugins_argument() -> None:
    assert counting.argument("/p.so", "/out") == "/p.so,out=/out"


def _counted(row: str, part: bench.Part, packets: int, clock: int, **names: int) -> Counted:
    run = Run(
        row=row,
        repeat=1,
        part=part,
        packets=packets,
        delivered=packets,
        instructions=clock,
        counted=sum(names.values()),
    )
    return Counted(run, names)


FORWARD = [
    _counted("on", "tester", 100, 1000 + 400, rx=400, start=1000),
    _counted("on", "tester", 500, 1000 + 2000, rx=2000, start=1000),
    _counted("on", "forward", 100, 1000 + 1100, rx=800, route=300, start=1000),
    _counted("on", "forward", 500, 1000 + 5500, rx=4000, route=1500, start=1000),
]


def test_what_begins_a_run_cancels_and_the_tester_is_taken_off() -> None:
    found = functions.cost(FORWARD, "forward")
    assert found.clock == 11 - 4
    assert found.by_name == {"rx": 4, "route": 3, "start": 0}
    assert functions.cost(FORWARD, "poll").by_name == {"rx": 4, "start": 0}


def test_of_several_runs_the_least_counts() -> None:
    disturbed = _counted("on", "tester", 500, 9000, rx=2000, start=1000, tick=6000)
    assert functions.cost([*FORWARD, disturbed], "poll") == functions.cost(FORWARD, "poll")


def test_what_ran_beside_packets_shows_in_what_each_of_them_took() -> None:
    few = _counted("on", "forward", 400, 2_206_000, rx=1)
    even = _counted("on", "forward", 2000, 11_039_000, rx=1)
    assert functions.uneven([few, even]) == ()
    beside = _counted("on", "forward", 2000, 11_039_000 + 3_547_000, rx=1)
    (found,) = functions.uneven([few, beside, *FORWARD[:1]])
    assert (found.part, found.few, found.many) == ("forward", 400, 2000)
    assert (found.among_few, found.among_many) == (5515, 7293)
    # Whichever of the two it was beside, and only if it was beside all of one size.
    among_few = _counted("on", "forward", 400, 2_206_000 + 50_000, rx=1)
    assert len(functions.uneven([among_few, even])) == 1
    assert functions.uneven([few, beside, even]) == ()


def test_functions_that_do_not_add_up_to_the_clock_are_refused() -> None:
    bad = [*FORWARD[:3], _counted("on", "forward", 500, 1000 + 5505, rx=4000, route=1500, s=1000)]
    with pytest.raises(RefusedError, match=r"row on, forward: .* clock says 11.0, further apart"):
        functions.cost(bad, "forward")
    # One in a thousand is what two boots differ by.
    near = [*FORWARD[:3], _counted("on", "forward", 500, 1000 + 5504, rx=4000, route=1500, s=1000)]
    assert functions.cost(near, "forward").clock == pytest.approx(7.01)


def test_lost_packets_and_a_single_size_are_refused() -> None:
    lost = Counted(FORWARD[0].run.model_copy(update={"delivered": 99}), FORWARD[0].by_name)
    with pytest.raises(RefusedError, match="99 of 100 packets arrived"):
        functions.cost([lost, FORWARD[1]], "poll")
    with pytest.raises(RefusedError, match="tester was run with 1 numbers of packets"):
        functions.cost(FORWARD[:1], "poll")


A = Cost(10.0, {"same": 4.0, "more": 1.0, "gone": 5.0, "never": 0.0})
B = Cost(11.5, {"same": 4.2, "more": 3.0, "new": 4.3, "never": 0.0})


def test_the_largest_difference_comes_first() -> None:
    found = functions.compare(A, B)
    assert [function.name for function in found] == ["gone", "new", "more", "same"]
    shown, rest = functions.cut(found, 2.0)
    assert [function.name for function in shown] == ["gone", "new", "more"]
    assert functions.total(rest, "others") == Function(name="others", a=4.0, b=4.2)


def _words(*tables: Table) -> list[list[str]]:
    """Return the words of each line that tables are printed in."""
    file = io.StringIO()
    Console(file=file, width=120, color_system=None).print(*tables)
    return [line.split() for line in file.getvalue().splitlines()]


def test_the_table_has_others_total_and_clock() -> None:
    document = _document(*functions.compare(A, B))
    lines = _words(of_functions(document, 2.0))
    assert ["gone", "5.0", "0.0", "−5.0"] in lines
    assert ["others", "(1)", "4.0", "4.2", "+0.2"] in lines
    assert ["total", "10.0", "11.5", "+1.5"] in lines
    assert ["by", "the", "clock", "10.0", "11.5", "+1.5"] in lines


def test_one_kernel_is_shown_by_its_shares() -> None:
    row = bench.Row(name="b", title="6.12", group="patch", kernel="k")
    identity = functions.Identity(
        name="git:/x@1234",
        release="6.12.1-plain",
        key="abc",
        source="6.12.1",
        revision="1234" * 10,
        source_digest="d",
        config_sha256="c",
        patches=(),
    )
    document = functions.FunctionsDocument(
        again="skblab",
        case="forward",
        family=4,
        b=row,
        kernels={"b": identity},
        clock={"b": B.clock},
        functions=functions.compare(functions.NOTHING, B),
        runs=(),
    )
    lines = _words(of_kernels(document), of_functions(document, 4.0))
    assert ["git:/x@1234", "6.12.1-plain", "6.12.1,", "123412341234", "abc"] in lines
    order = [line[0] for line in lines if line and line[0] in ("same", "new", "more", "others")]
    assert order == ["new", "same", "others"]
    assert ["new", "4.3", "37.4\u202f%"] in lines or ["new", "4.3", "37.4", "%"] in lines
    assert ["by", "the", "clock", "11.5"] in lines


def test_a_profile_says_what_was_set() -> None:
    known = functions.Identity(
        name="6.12",
        release="6.12.1",
        key="abc",
        source="6.12.1",
        source_digest="d",
        config_sha256="c",
        patches=(),
    )
    row = bench.Row(name="b", title="6.12", group="patch", kernel="6.12.1", tool="")
    document = functions.FunctionsDocument(
        again="./skblab profile",
        case="forward",
        family=4,
        a=row.model_copy(update={"name": "a"}),
        b=row,
        kernels={"a": known, "b": known},
        settings={"b": {"netfilter": "nft-forward 1"}},
        clock={"a": 1.0, "b": 2.0},
        functions=(),
        runs=(),
    )
    lines = _words(of_kernels(document))
    assert ["a", "6.12", "6.12.1", "6.12.1", "abc", "as", "the", "kernel", "has", "them"] in lines
    assert ["b", "6.12", "6.12.1", "6.12.1", "abc", "netfilter", "=", "nft-forward", "1"] in lines


def test_a_profile_names_its_kernels_again(tmp_path: Path) -> None:
    (linux := tmp_path / "my linux").mkdir()
    one, two = names.parse("7.3"), Name(folder=linux, revision=None)
    both = asked.profile(one, two, "receive", 6, 2000, 1)
    assert [row.title for row in both.rows] == [str(two), "7.3"]
    assert {row.parts for row in both.rows} == {("receive",)}
    assert both.again == (
        f"./skblab profile --kernel 7.3 --against 'tree:{tmp_path}/my linux+skblab' "
        "--case receive --family 6 --packets 2000 --repeats 1"
    )
    alone = asked.profile(one, None, "forward", 4, 1000, 2)
    assert (alone.a, alone.question) == (
        None,
        "Where do the instructions go that a packet takes on 7.3?",
    )
    assert "--against" not in alone.again and "--flavour" not in alone.again
    rt = asked.profile(one, two, "forward", 4, 1000, 1, "rt")
    assert " --flavour rt " in rt.again
    assert asked.plan_of(rt).parameters["kernel_a"] == str(two)
    # Whether it has our setting is not asked: a tree of the user's may.
    assert script(alone.rows, 0, alone).count("\nrun b any none none tester forward") == 4


def test_a_profile_of_a_setting_is_of_one_kernel_twice() -> None:
    knobs = given.parse(["netfilter=nft-forward 1", "gro=true"], "--set")
    alone = asked.profile(names.parse("6.12"), None, "forward", 4, 1000, 1, knobs=knobs)
    assert [(row.name, row.kernel) for row in alone.rows] == [("a", "b"), ("b", "b")]
    assert [row.title for row in alone.rows] == [
        "6.12 as it comes",
        "6.12 with netfilter=nft-forward 1, gro=on",
    ]
    assert "--kernel 6.12 --set 'netfilter=nft-forward 1' --set gro=true --case" in alone.again
    assert "--against" not in alone.again
    assert set(alone.settings) == {"b"}
    # Of two kernels both have it: what they differ by is not the setting.
    kernels = names.parse("7.3"), names.parse("6.12")
    both = asked.profile(*kernels, "forward", 4, 1000, 1, knobs=knobs)
    assert [row.kernel for row in both.rows] == ["a", "b"]
    assert both.settings["a"] == both.settings["b"] == knobs
    assert "--against 6.12 --set" in both.again
    # The namespaces are laid out once; the rows that come after find them.
    first = script(alone.rows[:1], 0, alone)
    second = script(alone.rows[1:], 0, alone, laid_out=True)
    assert "laid_out=yes" not in first and "laid_out=yes" in second
    assert "run a any" in first and "run b any" not in first


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--set", "rp=1"), "--set rp=1: no such knob; the nearest is `rps`"),
        (("--set", "rp_filter"), "--set rp_filter: expected NAME=VALUE"),
        (("--set", "rp_filter=9"), "--set rp_filter=9: 9: expected 0 or 1 or 2"),
        (("--set", "gro=true", "--set", "gro=false"), "gro has a value already"),
        (("--set", "selinux=enforcing"), "only a boot sets it; count it by skblab sweep --exact"),
        (("--set", "ring_rx=512"), "--set ring_rx=512: the router's devices are veth"),
        (("--set", "load=50"), "its own work would be counted"),
        (("--set", "gro=true", "--case", "poll"), "--case poll counts generator and sink"),
        (("--set", "vlan=7", "--case", "receive"), "--set vlan=7: a packet that is received here"),
        (("--set", "ring_rx=512", "--case", "receive"), "the receiver's device is a veth"),
        (("--against", "6.12+skblab"), "--against 6.12+skblab: the kernel itself"),
        (("--against", "5.4"), "--against 5.4: no such kernel; expected 6.12, 7.3, tree:DIR"),
        (("--kernel", "5.4"), "--kernel 5.4: no such kernel"),
        (("--case", "send"), "--case send: no such case; known are: forward, receive, poll"),
        (("--family", "5"), "--family 5: expected 4 or 6"),
        (("--packets", "1500"), "--packets 1500: expected whole thousands"),
        (("--flavour", "real"), "unknown kernel flavour 'real'"),
        (("--flavour", "debug"), "--flavour debug: its figures say nothing of others"),
    ],
)
def test_a_profile_of_nothing_is_one_line(
    words: tuple[str, ...], told: str, skblab_here: Skblab, monkeypatch: pytest.MonkeyPatch
) -> None:
    def nothing(*_: object) -> None:
        raise AssertionError("there was nothing to make")

    monkeypatch.setattr("skblab.bench.comparison.labroot.ensure", nothing)
    done = skblab_here("profile", *words)
    assert done.returncode == 2
    assert told in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def _line(part: bench.Part, packets: int, repeat: int, aside: str = "") -> Line:
    return Line(aside, "on", repeat, part, 4, packets, packets, 1)


def test_each_line_gets_its_sections() -> None:
    lines = [
        # Nobody counts what stands aside.
        *(_line("queue", 2000, 2, "warm-up"), _line("read", 2000, 2, "warm-up")),
        *(_line("tester", 2000, 2), _line("forward", 2000, 2)),
        *(_line("queue", 2000, 2), _line("read", 2000, 2)),
        *(_line("queue", 300, 1), _line("read", 300, 1)),
    ]
    numbers = [0, 0, *(0, 1, 0, 1), *(0, 1, 0, 1)]
    sections = [Section(number, total) for total, number in enumerate(numbers)]
    found = [[s.total for s in own] for _, own in comparison.attribute(lines, sections)]
    assert found == [[0], [1], [2, 4], [3, 5], [6, 8], [7, 9]]
    for wrong in (sections[:-1], sections[1:], [*sections, Section(0, 1)]):
        with pytest.raises(comparison.SectionsError, match=r"sections? "):
            list(comparison.attribute(lines, wrong))
    with pytest.raises(
        SkblabError, match=r"row on, 2000 packets: a section of marks 0 was to come"
    ):
        list(comparison.attribute(lines, []))


def _asked(**more: object) -> asked.Asked:
    given = {"row": "on", "against": "off", "case": "forward", "family": 4, "packets": 2000}
    return asked.benchmark(**{**given, "repeats": 2, "others": {}, **more})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"row": "onn"}, "--row onn: no such row; known are: unpatched, "),
        ({"against": "of"}, "--against of: no such row"),
        ({"against": "on"}, "--against on: the row itself"),
        ({"case": "away"}, "--case away: no such case; known are: forward, receive, poll"),
        ({"family": 5}, "--family 5: expected 4 or 6"),
        ({"packets": 1500}, "--packets 1500: expected whole thousands"),
        ({"row": "napi-sample"}, "row napi-sample counts polls; give --case poll"),
    ],
)
def test_bad_requests_are_one_line_and_usage_errors(more: dict[str, object], words: str) -> None:
    with pytest.raises(UsageError) as caught:
        _asked(**more)
    assert words in str(caught.value)
    assert caught.value.exit_code == 2


@pytest.mark.parametrize("text", ["plain", "other=/tmp", "=x"])
def test_kernels_need_a_known_name(text: str) -> None:
    with pytest.raises(UsageError, match="expected NAME=FOLDER, NAME one of plain, off, patched"):
        asked.built([text])


def test_the_script_runs_few_packets_and_many() -> None:
    wanted = _asked(case="receive")
    lines = comparison.script(wanted.rows, 1, wanted).splitlines()
    runs = [line for line in lines if line.startswith(("run ", "repeat="))]
    assert runs[:6] == [
        "repeat=1 packets=400 batch=200",
        "run on 1 none debugfs receive",
        "run off 0 none debugfs receive",
        "repeat=2 packets=2000 batch=1000",
        "run on 1 none debugfs receive",
        "run off 0 none debugfs receive",
    ]
    assert runs[6:8] == ["repeat=3 packets=400 batch=200", "run off 0 none debugfs receive"]
    # And once more, those in which something else ran.
    assert [line for line in lines if "uneven)" in line] == ["again=$(uneven)"] * 3
    assert 'case " $again " in *" off "*) run off 0 none debugfs receive ;; esac' in lines
    assert "families=4" in lines
    assert plan.request(plan.PLAIN).patches is False


@pytest.mark.parametrize(
    ("lines", "rows"),
    [
        ("a 1 forward 4 400 400 2206000\na 2 forward 4 2000 2000 11039000\n", []),
        ("a 1 forward 4 400 400 2206000\na 2 forward 4 2000 2000 14586000\n", ["a"]),
        ("a 1 tester 4 400 400 9\nb 1 tester 4 400 400 1\nb 2 tester 4 2000 2000 5\n", []),
        ("b 1 read 6 400 400 500\nb 2 read 6 2000 2000 2000\n", ["b"]),
        # Of each size the least.
        ("a 1 read 4 4 4 50\na 2 read 4 20 20 200\na 3 read 4 4 4 40\na 4 read 4 20 20 210\n", []),
    ],
)
def test_the_guest_finds_the_rows_beside_which_something_ran(
    tmp_path: Path, lines: str, rows: list[str]
) -> None:
    kept = tmp_path / "kept"
    kept.write_text(lines)
    whole = (resources.files("skblab.bench") / "bench.sh").read_text()
    function = whole[whole.index("uneven() {") :].partition("\n}\n")[0]
    script = f"kept={kept} most_uneven={functions.MOST_UNEVEN}\n{function}\n}}\nuneven"
    done = subprocess.run(
        ["sh", "-euc", script], check=True, capture_output=True, text=True, timeout=60
    )
    assert done.stdout.split() == rows


def test_instructions_name_function_and_offset() -> None:
    once = {"ffffffff81000204": 1.5, "ffffffff81000208": 0.0, "(user space)": 2.0}
    cost = Cost(12.5, once, {"ffffffff81000204": 9.0})
    assert comparison.instructions(cost, Symbols.parse(SYSTEM_MAP)).splitlines() == [
        "address\tfunction\tper_packet\tagain",
        "(user space)\t(unknown)\t2.000\t0.000",
        "ffffffff81000204\tip_stop.isra.0+0x4\t1.500\t9.000",
    ]


def _report(tmp_path: Path, document: functions.FunctionsDocument) -> Loaded:
    folder = RunFolder.create(tmp_path, "profile", Plan(experiment="p", seed=1, again="./skblab p"))
    (folder.path / functions.FILE).write_text(document.model_dump_json(by_alias=True))
    return load(folder.path)


def _document(*found: Function, **more: object) -> functions.FunctionsDocument:
    row = bench.Row(name="b", title="7.3", group="patch", kernel="7.3.1", tool="")
    whole = {side: sum(getattr(one, side) for one in found) for side in "ab"}
    return functions.FunctionsDocument.model_validate(
        {
            "again": "./skblab profile",
            "case": "forward",
            "family": 4,
            "a": row.model_copy(update={"name": "a", "title": "6.12"}).model_dump(),
            "b": row.model_dump(),
            "clock": whole,
            "functions": [one.model_dump() for one in found],
            "notes": ("A note.",),
            "runs": (),
            **more,
        }
    )


def test_a_report_of_a_profile_has_its_finding(tmp_path: Path) -> None:
    found = [Function(name="ip_rcv", a=100, b=130), Function(name="old", a=9, b=0)]
    run = _report(tmp_path, _document(*found))
    said = "7.3 against 6.12, by function: +21 instructions a packet"
    assert findings.headline(run).startswith(said)
    assert "ip_rcv() +30 and old() −9" in findings.headline(run)
    assert findings.unseen(run) == ["A note."]
    page = build_report(run.folder, None).read_text()
    # The first table is of a, and says so.
    assert "The functions that take most on 6.12" in page
    for total in ("by the clock", "others (0)"):
        assert total in page
    assert "counts once, whatever it moves" in page


def test_many_small_differences_are_not_called_none(tmp_path: Path) -> None:
    found = [Function(name=f"f{number}", a=1, b=3) for number in range(80)]
    run = _report(tmp_path, _document(*found))
    assert "+160 instructions a packet; no function differs by 3.2 or more" in (
        findings.headline(run)
    )


def test_what_an_old_plugin_counted_is_said_to_have_iterations(tmp_path: Path) -> None:
    document = _document(Function(name="f", a=1, b=3), schema="skblab.functions/2")
    page = build_report(_report(tmp_path, document).folder, None).read_text()
    assert "counts once for each iteration" in page


def test_a_report_of_one_kernel_names_it(tmp_path: Path) -> None:
    document = _document(Function(name="f", a=0, b=3), a=None, clock={"b": 3.0})
    run = _report(tmp_path, document)
    assert findings.headline(run) == "Forwarding, IPv4, on 7.3: 3.0 instructions a packet"
    assert "The functions that take most on 7.3" in build_report(run.folder, None).read_text()


FRAMES = (
    COUNTS.replace(
        "section 1 7\n",
        "frame 1 0 ffffffff81000205\n"
        "frame 2 1 ffffffff81000400\n"
        "at 2 ffffffff81000110 15\n"
        "at 1 ffffffff81000300 7\n"
        "at 0 ffffffff81000110 5\n"
        "at 0 40 3\n"
        "section 1 7\n",
    )
    + "at 2 ffffffff81000410 7\n"
)


def test_counts_by_who_called_whom() -> None:
    symbols = Symbols.parse(SYSTEM_MAP, LOADED)
    one, two = counting.parse(FRAMES)
    assert one.by_stack(symbols) == {
        # A call may be the last instruction of its function: 1 before where it returns to.
        ("ip_stop", "twice", "ip_rcv_core"): 15,
        ("ip_stop", "twice"): 7,
        ("ip_rcv_core",): 5,
        (counting.USER,): 3,
    }
    # A frame is told once for all sections.
    assert two.by_stack(symbols) == {("ip_stop", "twice", "ip_rcv_core"): 7}
    # What the plugin's table had no place for.
    (full,) = counting.parse("section 0 5\nelsewhere 5\nat 0 0 5\n")
    assert full.by_stack(symbols) == {("(unknown)",): 5}


@pytest.mark.parametrize(
    "line",
    [
        "frame 1 0 zz",
        "frame 1 2 ffffffff81000205",
        "frame 0 0 ffffffff81000205",
        "frame 1 0",
        "frame 1 1 8",
        "at 7 ffffffff81000205 1",
        "at 0 8",
        "at",
    ],
)
def test_frames_that_are_none(line: str) -> None:
    with pytest.raises(SkblabError, match="the counts have"):
        counting.parse(f"section 0 0\n{line}\n")
    with pytest.raises(SkblabError, match="the counts have"):
        counting.parse("at 0 ffffffff81000205 1\n")


STACKS = {"recv;deliver;recv": 10, "recv;deliver": 5, "recv": 2, "idle": 4}


def test_what_a_function_takes_with_all_that_it_calls() -> None:
    # Once where it calls itself.
    assert stacks.inclusive(STACKS) == {"recv": 17, "deliver": 15, "idle": 4}


def test_who_only_calls_is_told_and_who_has_no_stacks_is_not() -> None:
    # do_softirq() itself takes the same of a packet that is forwarded as of one that is not.
    found = functions.compare(A, B, {"calls": 10.0, "same": 4.0}, {"calls": 17.0, "noise": 0.04})
    (calls,) = [one for one in found if one.name == "calls"]
    assert (calls.a, calls.b, calls.inclusive_difference) == (0, 0, 7.0)
    assert not [one for one in found if one.name == "noise"]
    table = _words(of_functions(_document(*found), 100.0))
    assert [line[1] for line in table if line[:1] == ["others"]] == ["(4)"]
    row = plan.Row("b", "6.12", "k")
    parts: dict[bench.Part, int] = {"tester": 4, "forward": 10}
    whole = [
        _counted("b", part, packets, each * packets, ip=each * packets)
        for part, each in parts.items()
        for packets in (100, 500)
    ]
    double = [Counted(one.run, {"rx;ip": 2 * one.run.instructions}) for one in whole]
    made = comparison._Counted.of(row, "k", "forward", comparison._Found(whole, whole, double), {})
    assert (made.stacks, made.inclusive) == ({}, None)
    assert "the functions add up to" in made.refused
    stacked = [Counted(one.run, {"rx;ip": one.run.instructions}) for one in whole]
    made = comparison._Counted.of(row, "k", "forward", comparison._Found(whole, whole, stacked), {})
    assert (made.stacks, made.inclusive) == ({"rx;ip": 10.0}, {"rx": 6.0, "ip": 6.0})


def test_a_layer_is_of_the_innermost_function_that_begins_one() -> None:
    below = "net_rx_action;__napi_poll;process_backlog;__netif_receive_skb_one_core"
    out = "ip_output;ip_finish_output2"
    found = by_layer(
        {
            f"{below};ip_rcv;ip_rcv_finish_core;ip_route_input_noref": 7.0,
            f"{below};ip_forward;nf_hook_slow;nft_do_chain": 100.0,
            f"{below};{out};__dev_queue_xmit;dev_hard_start_xmit;veth_xmit": 3.0,
            f"{below};{out}": 4.0,
            # Back in what called it.
            f"{below}": 2.0,
            "net_rx_action;__napi_poll": 1.0,
            "net_rx_action": 5.0,
            "pktgen_xmit;veth_xmit": -3.0,
        }
    )
    assert {name: value for name, value in found.items() if value} == {
        "stack": 1.0,
        "ip": 2.0,
        "route": 7.0,
        "forward": 100.0,
        "queue": 4.0,
        "done": 3.0,
        "around": 2.0,
    }
    # In the order of the path, and by the catalogue's names.
    catalogue = tomllib.loads((TREE / "probes" / "catalogue.toml").read_text())
    names_of_points = {point["name"] for point in catalogue["point"]}
    assert set(found) - {"around"} < names_of_points
    document = _document(Function(name="x", a=1.0, b=101.0)).model_copy(
        update={"layers": comparison._layers({"forward": 1.0}, found)}
    )
    lines = _words(of_layers(document))
    assert ["forward", "1.0", "100.0", "+99.0"] in lines
    assert not [line for line in lines if line[:1] == ["local"]]


@pytest.mark.parametrize(("name", "flavour"), [("6.12", "rt"), ("debian:6.12", "stock")])
def test_a_package_is_of_the_flavour_that_it_is(name: str, flavour: str) -> None:
    assert asked.request_of(names.parse(name), "rt").flavour == flavour


def test_a_file_for_flame_graphs(tmp_path: Path) -> None:
    text = stacks.folded({"a;b c [bpf]": 1.2345, "a": 0.5, "gone": -3.0, "nothing": 0.0004})
    assert text == "a 500\na;b c [bpf] 1234\n"
    (file := tmp_path / stacks.file_of("b")).write_text(text)
    assert stacks.read(file) == {"a": 0.5, "a;b c [bpf]": 1.234}


def test_a_file_for_pprof_has_the_same_stacks() -> None:
    written = {"a;b;c [bpf]": 1.2345, "a;b": 2.0, "gone": -3.0, "nothing": 0.0004}
    content = pprof.encoded(written, "6.12: ./skblab profile")
    assert content == pprof.encoded(dict(reversed(written.items())), "6.12: ./skblab profile")
    read = pprof.profile()
    read.ParseFromString(gzip.decompress(content))
    text = read.string_table
    names = {one.id: text[one.name] for one in read.function}
    assert names == {one.id: text[one.system_name] for one in read.function}
    lines = {one.id: names[one.line[0].function_id] for one in read.location}
    found = {
        tuple(lines[number] for number in one.location_id): list(one.value) for one in read.sample
    }
    # The innermost comes first.
    assert found == {("c [bpf]", "b", "a"): [1234], ("b", "a"): [2000]}
    (kind,) = read.sample_type
    assert (text[kind.type], text[kind.unit]) == ("instructions_per_1000_packets", "count")
    assert (text[0], text[read.comment[0]]) == ("", "6.12: ./skblab profile")


@pytest.mark.parametrize(
    "line", ["a", "a b", "a -1", "a 1.5", " 3", "a;" * 300 + "b 1", "a 1\na 2"]
)
def test_a_file_of_stacks_that_is_none(line: str, tmp_path: Path) -> None:
    (file := tmp_path / "x.folded").write_text(f"{line}\n")
    with pytest.raises(RecordError, match=r"line [12]: .* expected a stack"):
        stacks.read(file)
    file.write_bytes(b"\xff\xfe")
    with pytest.raises(RecordError, match="cannot be read"):
        stacks.read(file)


def test_a_flame_graph_has_callees_on_their_callers() -> None:
    before = {"rx;ip;fib": 10.0, "rx;ip": 30.0, "rx;gone": 40.0, "tx": 20.0}
    after = {"rx;ip;fib": 90.0, "rx;ip": 30.0, "tx": 20.0, "rare": 0.01}
    drawn = flame("with rp_filter", after, flame_total(after), before)
    boxes = {box.name: box for box in drawn.boxes}
    assert list(boxes) == ["rx", "ip", "fib", "tx"]
    assert drawn.rows == 3
    assert [boxes[name].row for name in ("rx", "ip", "fib", "tx")] == [0, 1, 2, 0]
    whole = flame_total(after)
    assert boxes["fib"].width == pytest.approx(100 * 90 / whole)
    # A sibling begins where the one before it ends.
    assert boxes["tx"].left == pytest.approx(boxes["rx"].left + boxes["rx"].width)
    assert [boxes[name].change for name in ("rx", "ip", "fib", "tx")] == [
        *("more-above", "more-above", "more", "same")
    ]
    assert boxes["fib"].told.endswith("+80.0")
    # Of what was before: what becomes of it.
    was = {box.name: box for box in flame("", before, whole, after, before=True).boxes}
    assert (was["gone"].change, was["gone"].told[-5:]) == ("less", "−40.0")
    assert was["fib"].change == "more"
    assert flame("nothing", {}, 1.0).rows == 0


def test_functions_with_all_that_they_call_are_shown_by_that() -> None:
    inclusive = {"same": 10.0, "gone": 5.0}, {"same": 17.3, "new": 4.3}
    document = _document(*functions.compare(A, B, *inclusive))
    lines = _words(of_functions(document, 4.5, inclusive=True))
    assert ["function", "a", "b", "difference", "inclusive"] in lines
    at = lines.index(["same", "4.0", "4.2", "+0.2", "+7.3"])
    assert lines[at + 1] == ["gone", "5.0", "0.0", "−5.0", "−5.0"]
    assert lines[at + 2][:2] == ["others", "(2)"]
    assert Function(name="x", a=1.0, b=2.0).inclusive_difference == 0


def test_a_report_draws_who_calls_whom_before_and_after(tmp_path: Path) -> None:
    found = [
        Function(name="ip_rcv", a=100, b=100, a_inclusive=100, b_inclusive=140),
        Function(name="fib", a=0, b=40, b_again=8, a_inclusive=0, b_inclusive=40),
    ]
    run = _report(tmp_path, _document(*found))
    assert 'class="flame"' not in build_report(run.folder, None).read_text()
    (run.folder / stacks.file_of("a")).write_text("ip_rcv 100000\n")
    (run.folder / stacks.file_of("b")).write_text("ip_rcv 100000\nip_rcv;fib 40000\n")
    page = build_report(run.folder, None).read_text()
    before, after = page.split('class="flame"')[1:]
    # Both on one scale: what takes 100 is narrower than what takes 140.
    assert "left:0.000%;width:71.429%;bottom:0.00rem" in before
    assert "width:100.000%" in after and "width:28.571%;bottom:1.15rem" in after
    assert '<div class="more-above"' in before and '<div class="more"' in after
    assert "fib: 40.0 instructions a packet, +40.0" in after
    assert '<a href="../stacks-b.folded">' in after
    rows = pq.read_table(run.folder / "functions.parquet").to_pylist()
    assert [(row["row"], row["function"], row["instructions"]) for row in rows] == [
        *(("a", "ip_rcv", 100), ("b", "ip_rcv", 100), ("b", "fib", 40)),
    ]
    assert (rows[2]["again"], rows[1]["inclusive"], rows[1]["kernel"]) == (8, 140, "7.3.1")
    (run.folder / stacks.file_of("b")).write_text("what is this\n")
    with pytest.raises(RecordError, match=r"stacks-b\.folded, line 1: 'what is this'"):
        build_report(run.folder, None)


def _settings(tmp_path: Path, text: str, family: int = 4) -> tuple[asked.Settings, tuple[str, ...]]:
    (file := tmp_path / "few.toml").write_text(f'name = "few"\nquestion = "?"\n{text}')
    return settings_of(str(file), family)


FEW = """
baseline = { rp_filter = 0 }
[[setting]]
name = "strict"
knobs = { rp_filter = 1 }
[[setting]]
name = "SELinux"
knobs = { selinux = "enforcing" }
[[setting]]
name = "busy"
knobs = { load = 50 }
[[setting]]
name = "no GRO"
knobs = { gro = false }
"""


def test_the_settings_of_an_experiment_are_each_compared_with_its_baseline(tmp_path: Path) -> None:
    settings, notes = _settings(tmp_path, FEW)
    assert settings.others == {
        "strict": {"rp_filter": 1},
        "no GRO": {"rp_filter": 0, "gro": False},
    }
    assert [note.split(":")[0] for note in notes[1:]] == [
        *("SELinux is left out", "busy is left out")
    ]
    found = asked.experiment(names.parse("6.12"), settings, 4, 2000, 1)
    assert [(row.name, row.title, row.kernel) for row in found.rows] == [
        ("a", "baseline", "b"),
        ("b", "strict", "b"),
        ("b2", "no GRO", "b"),
    ]
    assert found.settings["b2"] == {"rp_filter": 0, "gro": False}
    assert f"--experiment {tmp_path}/few.toml --case forward" in found.again
    assert "--set" not in found.again
    assert asked.plan_of(found).parameters["settings_b2"] == "rp_filter=0, gro=off"
    # What a name of a kernel stands for is found out later, and changes no setting's name.
    assert "Which functions do the settings of" in found.question
    nothing = asked.Settings("few.toml", {}, {})
    with pytest.raises(UsageError, match=r"few\.toml: no setting of it can be counted"):
        asked.experiment(names.parse("6.12"), nothing, 4, 2000, 1)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("router-setings",), "router-setings: no such file, and no experiment of this name"),
        (("first", "--set", "rp_filter=1"), "--set: --experiment says what is compared"),
        (("first", "--against", "debian:6.12"), "--against: --experiment says what is compared"),
        (("first", "--case", "receive"), "--case: --experiment says what is compared"),
        (("first", "--inclusive"), "--inclusive: --experiment prints a line for each setting"),
        (("first", "--least", "3"), "--least: --experiment prints a line for each setting"),
        (("first", "--family", "6"), "--family 6: the packets of first are of IPv4; give --family"),
    ],
)
def test_an_experiment_that_cannot_be_counted_is_one_line(
    words: tuple[str, ...], told: str, skblab_here: Skblab
) -> None:
    done = skblab_here("profile", "--experiment", *words)
    assert done.returncode == 2
    assert told in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_a_report_of_settings_has_each_and_what_explains_it(tmp_path: Path) -> None:
    def one(name: str, title: str, *found: Function) -> functions.FunctionsDocument:
        document = _document(*found)
        assert document.a is not None
        return document.model_copy(
            update={
                "a": document.a.model_copy(update={"title": functions.BASELINE}),
                "b": document.b.model_copy(update={"name": name, "title": title}),
            }
        )

    rx = Function(name="rx", a=1000, b=1000)
    strict = one("b", "strict", rx, Function(name="fib", a=0, b=90), Function(name="x", a=0, b=0.5))
    less = one("b2", "no GRO", Function(name="rx", a=1000, b=990))
    run = _report(tmp_path, strict)
    (run.folder / functions.file_of(2)).write_text(less.model_dump_json(by_alias=True))
    assert findings.headline(run).startswith("strict, by function: +90 instructions a packet")
    lines = _words(of_settings([strict, less]))
    assert ["baseline", "1", "000.0", "baseline"] in lines
    assert ["strict", "1", "090.5", "+90.5", "99", "%", "fib", "+90"] in lines
    overview = "What each setting adds, in instructions per packet"
    # Of so little no share says anything.
    assert ["no", "GRO", "990.0", "−10.0", "rx", "−10"] in lines
    page = build_report(run.folder, None).read_text()
    assert page.count("The functions that take most on") == 1
    assert page.count(overview) == 1
    assert 'id="functions-2"' in page and 'href="../functions-2.json"' in page
    found = pq.read_table(run.folder / "functions.parquet").to_pylist()
    assert [row["title"] for row in found if row["function"] == "rx"] == [
        *("baseline", "strict", "no GRO")
    ]


def _counted_comparison(
    tmp_path: Path, lost: tuple[str, ...], settings: asked.Settings
) -> comparison.Comparison:
    """Return one whose guests have run: in rows of `lost` a packet did not arrive."""
    wanted = asked.experiment(names.parse("6.12"), settings, 4, 1000, 1)
    made = object.__new__(comparison.Comparison)
    made.asked, made.notes, made.refused, made.found, made.layouts = wanted, [], set(), {}, {}
    made.death = None
    made.kernels, made.environments = {}, {}
    made.reporter = SimpleNamespace(timings={})  # type: ignore[assignment]
    made.root = SimpleNamespace(versions={})  # type: ignore[assignment]
    made._kernel = lambda _: SimpleNamespace(release="k", changes=None)  # type: ignore[assignment, return-value]
    made._guest = lambda *_: None  # type: ignore[method-assign]
    for row in wanted.rows:
        counts = [
            _counted(row.name, "tester", 100, 400, rx=400),
            _counted(row.name, "tester", 500, 2000, rx=2000),
            _counted(row.name, "forward", 100, 1000, rx=1000),
            _counted(row.name, "forward", 500, 5000, rx=5000),
        ]
        if row.name in lost:
            last = counts[-1]
            counts[-1] = Counted(last.run.model_copy(update={"delivered": 499}), last.by_name)
        made.found[row.name] = comparison._Found(counts, counts, counts)
    return made


def test_a_setting_that_is_refused_costs_no_others_figures(tmp_path: Path) -> None:
    settings = asked.Settings("few", {}, {"strict": {"rp_filter": 1}, "no GRO": {"gro": False}})
    folder = RunFolder.create(tmp_path, "profile", Plan(experiment="p", seed=1, again="./skblab p"))
    for lost, left in (("b", "no GRO"), ("b2", "strict")):
        made = _counted_comparison(tmp_path, (lost,), settings)
        [document] = made.go(folder)
        assert (document.b.title, document.clock) == (left, {"a": 6.0, "b": 6.0})
        [note] = document.notes
        assert "is left out: row b" in note and "499 of 500 packets arrived" in note
    with pytest.raises(RefusedError, match="nothing can be compared: baseline is left out"):
        _counted_comparison(tmp_path, ("a",), settings).go(folder)
    with pytest.raises(RefusedError, match="no row could be counted: strict is left out"):
        _counted_comparison(tmp_path, ("b", "b2"), settings).go(folder)
    # Where there is only one, that is the answer.
    alone = asked.Settings("few", {}, {"strict": {"rp_filter": 1}})
    with pytest.raises(RefusedError, match=r"row b, forward: 499 of 500"):
        _counted_comparison(tmp_path, ("b",), alone).go(folder)


@dataclass
class Content:
    """A knob that is a file's content, whose kernel refuses `no` and never takes `first` again."""

    file: Path

    def get(self, _: Machine) -> str:
        return f"cat {self.file}"

    def state(self, printed: str) -> str:
        return printed.strip()

    def fits(self, printed: str, value: Value) -> None:
        assert printed.strip() and value

    def likely(self, _: Machine) -> str:
        return ""

    def wanted(self, _: Machine, value: Value, before: str) -> str:
        return str(value) or before

    def restore(self, _: Machine, state: str) -> str:
        refused = state == "no" or (self.file.name == "sticky" and state == "first")
        return "exit 3" if refused else f"echo {state} >{self.file}"


@dataclass
class Counting:
    """A guest that runs scripts here, but for the benchmark's, of which those of `fails` fail.

    Its kernel warns while it runs those of `warns`, and it dies of those of `kills`.
    """

    files: dict[str, Content]
    fails: tuple[str, ...] = ()
    warns: tuple[str, ...] = ()
    kills: tuple[str, ...] = ()
    findings: list[Finding] = field(default_factory=list)
    found: dict[str, str] = field(default_factory=dict)

    def script(self, text: str, *, seconds: float = 600) -> Done:
        return LocalTransport().script(text, seconds=seconds)

    def start(self, argv: Sequence[str]) -> SimpleNamespace:
        row = argv[-1].partition("run ")[2].split()[0]
        self.found[row] = "".join(knob.file.read_text()[0] for knob in self.files.values())
        done = Done(int(row in self.fails), f"{row}\n", "no memory", 1)
        if row in self.warns:
            self.findings.append(Finding(Kind.WARNING, f"WARNING: CPU: 0 in {row}"))
        if row in self.kills:
            return SimpleNamespace(wait=self._die, take_lines=lambda: [row], take_errors=str)
        return SimpleNamespace(wait=lambda _: done)

    def poll(self) -> None:
        pass

    def _die(self, _: float) -> Done:
        raise TransportError("the connection is gone")


def _three(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, second: Knobs
) -> tuple[comparison.Comparison, dict[str, Content], RunFolder]:
    """Return a comparison of three settings, of which the first and the third are in order."""
    files = {name: Content(tmp_path / name) for name in ("plain", "sticky")}
    for content in files.values():
        content.file.write_text("first\n")
    monkeypatch.setattr(applying, "KNOBS", cast(dict[str, Knob], files))
    three: dict[str, Knobs] = {"first": {"plain": "x"}, "second": second, "third": {"plain": "y"}}
    made = _counted_comparison(tmp_path, (), asked.Settings("three", {}, three))
    made.reporter = SimpleNamespace(say=lambda _: None)  # type: ignore[assignment]
    monkeypatch.setattr(comparison, "script", lambda rows, *_, **__: f"run {rows[0].name} x")
    folder = RunFolder.create(tmp_path, "profile", Plan(experiment="p", seed=1, again="./skblab p"))
    return made, files, folder


def _count(made: comparison.Comparison, folder: RunFolder, guest: Counting) -> comparison._Ran:
    """Run its rows, as in a guest whose connection goes with it."""
    running: Any = SimpleNamespace(transport=guest)
    ran = comparison._Ran()
    watch = Watch({"guest": guest})
    try:
        made._count(folder, running, "b", 0, made.asked.rows, "all", watch, ran)
    except TransportError:
        made._died(GuestError("guest panic: it is dead"), folder, made.asked.rows, ran)
    return ran


@pytest.mark.parametrize(
    ("knob", "value", "fails", "counted", "why"),
    [
        ("plain", "x", (), {"b": "xf", "b2": "xf", "b3": "yf"}, ""),
        # It costs no other row anything.
        ("plain", "no", (), {"b": "xf", "b3": "yf"}, "second is left out: not set: plain: exit"),
        # What comes behind it would be counted with its setting.
        (
            "sticky",
            "x",
            (),
            {"b": "xf", "b2": "fx"},
            "third is left out: it was not counted, since",
        ),
        ("plain", "x", ("b2",), {"b": "xf", "b2": "xf"}, "third is left out: it was not counted"),
    ],
)
def test_what_fails_of_one_setting_is_in_no_others_figures(
    knob: str,
    value: str,
    fails: tuple[str, ...],
    counted: dict[str, str],
    why: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made, files, folder = _three(tmp_path, monkeypatch, {knob: value})
    guest = Counting(files, fails)
    ran = _count(made, folder, guest)
    assert guest.found.pop("a") == "ff"
    assert guest.found == counted
    well = [row for row in counted if row not in fails]
    assert (ran.printed.split(), ran.whole) == (["a", *well], not fails)
    assert made.refused == {"b2", "b3"} - set(well)
    assert why in " ".join(made.notes)
    made.end()
    assert (files["plain"].file.read_text(), list(folder.path.glob("undo*"))) == ("first\n", [])


def test_a_warning_of_one_row_is_in_no_others_figures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a kernel does after it has warned is not what was asked for."""
    made, files, folder = _three(tmp_path, monkeypatch, {"plain": "z"})
    ran = _count(made, folder, Counting(files, warns=("b2",)))
    assert (ran.printed.split(), ran.whole) == (["a", "b", "b2"], True)
    assert made.refused == {"b2", "b3"}
    told = "kernel warning (guest): WARNING: CPU: 0 in b2"
    assert made.notes[-2:] == [
        f"second is left out: {told}",
        f"third is left out: it was not counted, since of a row before: {told}",
    ]
    made, files, folder = _three(tmp_path, monkeypatch, {"plain": "z"})
    with pytest.raises(RefusedError, match="a, on kernel b: kernel warning"):
        _count(made, folder, Counting(files, warns=("a",)))


def test_the_death_of_a_guest_costs_no_row_before_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, files, folder = _three(tmp_path, monkeypatch, {"plain": "z"})
    ran = _count(made, folder, Counting(files, kills=("b2",)))
    assert (ran.printed.split(), ran.whole) == (["a", "b"], False)
    assert made.refused == {"b2", "b3"}
    assert made.notes[-2:] == [
        "second is left out: guest panic: it is dead",
        "third is left out: it was not counted, since of a row before: its guest has died",
    ]
    # Its settings went with it; what its script had printed is kept.
    assert list(folder.path.glob("undo*")) == []
    assert (folder.logs / "bench-b2-set.txt").read_text() == "b2"
    # Also where no figure of the rows before is any good.
    made.refused.add("b")
    made._guest = lambda *_: None  # type: ignore[method-assign]
    with pytest.raises(GuestError, match="it is dead"):
        made.go(folder)
    # Where no row is left that can be compared, that is the answer.
    for first in ("a", "b"):
        made, files, folder = _three(tmp_path, monkeypatch, {"plain": "z"})
        with pytest.raises(GuestError, match="it is dead"):
            _count(made, folder, Counting(files, kills=(first,)))
        assert list(folder.path.glob("undo*")) == []


def test_the_picture_of_two_rows_has_before_and_after() -> None:
    row = bench.Row(name="b", title="6.12", group="patch", kernel="k")
    document = functions.FunctionsDocument(
        again="skblab",
        case="forward",
        family=4,
        a=row.model_copy(update={"name": "a"}),
        b=row,
        kernels={},
        clock={"a": A.clock, "b": B.clock},
        functions=functions.compare(A, B),
        runs=(),
    )
    [drawn] = by_function._pictures(document, document, "")
    assert "(before → after)" in drawn.title
    assert '"−5.0 (5.0 → 0.0)"' in drawn.data
