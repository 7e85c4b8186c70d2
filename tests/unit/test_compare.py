# SPDX-License-Identifier: GPL-2.0-or-later
"""Comparing: workloads' files, sides as they are named, figures, and a run without a guest."""

from __future__ import annotations

import json
import shlex
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from here import Here
from hypothesis import given

from conftest import TREE, Skblab
from made_up_kernels import ENVIRONMENT, identity
from mutated import texts, value_or_line
from skblab.bench.comparison import SHARED
from skblab.bench.functions import Section, Symbols, named
from skblab.compare import history, remote, running, sides, workload
from skblab.compare.asked import Asked, fitting
from skblab.compare.counting import DisturbedError, Line, NoFigureError, Shot, figure
from skblab.compare.running import Comparing
from skblab.jobs.element import Result, Run
from skblab.jobs.elsewhere import Elsewhere
from skblab.jobs.model import Campaign, Task
from skblab.jobs.packing import Packing
from skblab.jobs.store import Store
from skblab.knobs.values import Knobs
from skblab.lab.kernel import Kernel
from skblab.lab.kernel.names import Name
from skblab.lab.reporter import Reporter
from skblab_analysis.base.errors import SkblabError, Stopped, UsageError
from skblab_analysis.formats import compare as records
from skblab_analysis.formats.compare import CompareDocument, Figure
from skblab_analysis.formats.memory import KINDS, Misses
from skblab_analysis.formats.run import Environment
from skblab_analysis.load import load

GOOD = """\
# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh
# title: forwarding, IPv4
# quick: yes
# knobs: router

# what: a comment further down is none of the heads
prepare() { lay_out; }

load() { sent_family 4; }
"""


def written(folder: Path, text: str, name: str = "mine.sh") -> Path:
    """Return a workload's file."""
    file = folder / name
    file.write_text(text)
    return file


def test_those_that_are_shipped() -> None:
    found = {one.name: one for one in workload.shipped()}
    for name in ("forward4", "forward4-nft100", "tunnel-wireguard", "tcp-stream4", "xdp-redirect"):
        assert name in found
    assert len({one.title for one in found.values()}) == len(found) >= 30
    quick = [one.name for one in workload.choose([], quick=True)]
    assert 5 <= len(quick) <= 12 and "forward4" in quick
    assert [one.name for one in workload.choose(["veth", "forward6"])] == ["veth", "forward6"]


def test_a_workload_of_the_users(tmp_path: Path) -> None:
    [one] = workload.choose([str(written(tmp_path, GOOD))])
    assert (one.name, one.title, one.unit) == ("mine", "forwarding, IPv4", "packet")
    assert one.quick and one.knobs == "router"
    script = one.script("prepare")
    assert script.endswith("\nprepare") and "lay_out_receiver()" in script and GOOD in script


def test_a_workload_is_named_by_all_that_it_runs(tmp_path: Path) -> None:
    one = workload.read(written(tmp_path, GOOD))
    other = workload.read(written(tmp_path, GOOD + "# more\n"))
    assert one.sha256 != other.sha256 and one.digest != other.digest


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (GOOD.replace("# title: forwarding, IPv4\n", ""), "expected a line `# title: "),
        (GOOD.replace("title: forwarding, IPv4", "title:"), "line 3: title is what is sent"),
        (GOOD.replace("quick: yes", "quick: perhaps"), "quick: perhaps: expected yes or no"),
        (GOOD.replace("knobs: router", "knobs: sink"), "expected whose settings can be made: ro"),
        (GOOD.replace("# quick: yes", "# qick: yes"), "line 4: no such head 'qick'; known are: t"),
        (GOOD.replace("# quick: yes", "# title: again"), "line 4: title was said before"),
        (GOOD.replace("load()", "loads()"), "it has no function load()"),
        (GOOD.replace("forwarding", "f" * 100), "expected 1 to 80 characters"),
    ],
)
def test_a_workload_that_is_none(tmp_path: Path, text: str, said: str) -> None:
    file = written(tmp_path, text)
    with pytest.raises(UsageError, match="mine") as error:
        workload.choose([str(file)])
    assert said in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["foward4"], "no such workload; did you mean forward4?"),
        (["xyzzy"], "no such workload; known are: "),
        (["veth", "veth"], "veth is named twice"),
        (["no/such.sh"], "cannot read the workload no/such.sh"),
    ],
)
def test_a_workload_that_is_not_there(words: list[str], said: str) -> None:
    with pytest.raises(UsageError, match="workload") as error:
        workload.choose(words)
    assert said in str(error.value)


def test_a_name_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="expected a name of at most 40 small letters"):
        workload.read(written(tmp_path, GOOD, "My Workload.sh"))


@given(texts(GOOD))
def test_any_file_is_a_workload_or_one_line(
    tmp_path_factory: pytest.TempPathFactory, text: str
) -> None:
    file = tmp_path_factory.mktemp("any") / "any.sh"
    file.write_text(text)
    value_or_line(lambda: workload.read(file))


# Sides


def test_sides_as_they_are_named() -> None:
    kernel, packaged = sides.parse_all(["6.12+skblab", "debian:6.1"], "6.12", {}, "stock")
    assert str(kernel.kernel) == "6.12+skblab" and str(packaged.kernel) == "debian:6.1"
    one, other = sides.parse_all(
        ["rp_filter=0", "netfilter=nft-forward 100"], "7.3", {"gro": False}, "stock"
    )
    assert str(one.kernel) == str(other.kernel) == "7.3"
    assert one.knobs == {"gro": False, "rp_filter": 0}
    assert other.knobs == {"gro": False, "netfilter": "nft-forward 100"}


@pytest.mark.parametrize(
    ("words", "common", "said"),
    [
        (["6.99", "6.12"], {}, "compare 6.99: no such kernel"),
        (["rp_filter=9"], {}, "compare rp_filter=9: "),
        (["no_such_knob=1"], {}, "compare no_such_knob=1: "),
        (["rp_filter=0"], {"rp_filter": 1}, "--set gives rp_filter to all sides"),
        (["load=50", "load=0"], {}, "load=50: load = 50: with --exact"),
    ],
)
def test_sides_that_are_none(words: list[str], common: Knobs, said: str) -> None:
    with pytest.raises(UsageError) as error:
        sides.parse_all(words, "6.12", common, "stock")
    assert said in str(error.value)


def test_a_flavour_that_looks_for_faults_is_measured_by_nobody() -> None:
    with pytest.raises(UsageError, match="--flavour kcsan: its figures say nothing of others"):
        sides.parse_all(["6.12"], "6.12", {}, "kcsan")


def test_the_same_kernel_twice_is_a_comparison_with_itself() -> None:
    a, b = sides.parse_all(["6.12", "6.12"], "6.12", {}, "stock")
    assert a == b


def test_workloads_without_the_machine_of_a_knob_are_left_out() -> None:
    of = sides.parse_all(["qdisc=fq", "qdisc=pfifo"], "6.12", {}, "stock")
    kept = fitting(of, workload.shipped(), named=False)
    assert {one.knobs for one in kept} == {"router"}
    with pytest.raises(UsageError, match="--workload udp-receive4: qdisc cannot be set: a packet"):
        fitting(of, workload.choose(["udp-receive4"]), named=True)
    with pytest.raises(UsageError, match="--workload bridge: qdisc cannot be set: its file has no"):
        fitting(of, workload.choose(["bridge"]), named=True)
    with pytest.raises(UsageError, match="no workload has a machine with these settings"):
        fitting(of, workload.choose(["bridge"]), named=False)


# Figures

SYMBOLS = Symbols.parse(
    "ffffffff81000000 T _stext\nffffffff81000100 T ip_rcv\nffffffff81000200 T pktgen_xmit\n"
)
IP_RCV, PKTGEN = 0xFFFFFFFF81000100, 0xFFFFFFFF81000200


def section(ip_rcv: int, pktgen: int, again: int = 0) -> Section:
    """Return a section with instructions of two functions."""
    by = Counter({IP_RCV: ip_rcv, PKTGEN: pktgen})
    return Section(0, ip_rcv + pktgen + again, by, Counter({IP_RCV: again}))


def line(
    round_: str,
    part: str,
    packets: int,
    nanoseconds: int,
    taken: int | None = None,
    turn: int = 1,
) -> str:
    """Return what `counted` prints."""
    taken = packets if taken is None else taken
    return f"counted {turn} {round_} {part} {packets} {taken} {nanoseconds} 1"


PRINTED = [
    line("warm-up", "tester", 2000, 1, 1999),
    line("few", "tester", 200, 2_100),
    line("few", "whole", 200, 12_600),
    line("many", "tester", 1200, 12_100),
    line("many", "whole", 1200, 72_600),
]
SECTIONS = [
    section(0, 2_100),
    section(8_000, 4_100, 500),
    section(0, 12_100),
    section(48_000, 22_100, 2500),
]


def test_a_figure_is_what_one_packet_more_takes_without_the_tester() -> None:
    found = figure("\n".join(PRINTED), SECTIONS, SYMBOLS)
    # Of 1000 packets more: 40 000 and 18 000, of which the tester takes 10 000; 2 000 iterations.
    assert found.instructions == pytest.approx(40 + 18 - 10)
    assert found.iterations == pytest.approx(2) and found.clock == pytest.approx(50)
    assert found.functions == {"ip_rcv": pytest.approx(40), "pktgen_xmit": pytest.approx(8)}
    assert found.units == 1000


def test_what_is_missed_is_without_the_tester_too() -> None:
    sections = []
    for of, lines in zip(SECTIONS, (200, 800, 1200, 6800), strict=True):
        missed = {kind: Counter({(0, IP_RCV): number * lines}) for number, kind in enumerate(KINDS)}
        sections.append(replace(of, missed=missed))
    found = figure("\n".join(PRINTED), sections, SYMBOLS)
    # Of 1000 packets more 6000 lines, of which the tester misses 1000, times the kind's number.
    assert found.missed == Misses(**{kind: 5.0 * number for number, kind in enumerate(KINDS)})
    assert figure("\n".join(PRINTED), SECTIONS, SYMBOLS).missed is None


def test_of_each_function_the_middle_of_the_turns_counts() -> None:
    """What the kernel does beside the packets in one of the turns is in no figure."""
    printed, sections = [], []
    for turn, beside in enumerate((0, 3_000, 0), 1):
        printed += [
            line("few", "whole", 200, 2_000, turn=turn),
            line("many", "whole", 1200, 12_000 + beside, turn=turn),
        ]
        sections += [section(1_000, 1_000), section(6_000, 6_000 + beside)]
    found = figure("\n".join(printed), sections, SYMBOLS)
    assert found.functions == {"ip_rcv": 5, "pktgen_xmit": 5} and found.instructions == 10
    # Of two turns, half of it.
    assert figure("\n".join(printed[:4]), sections[:4], SYMBOLS).instructions == 11.5


def test_a_turn_in_which_the_kernel_printed_is_left_out() -> None:
    """A line on the console takes as much as fifty packets."""
    names = "ffffffff81000100 T ip_rcv\nffffffff81000200 T pktgen_xmit\n"
    symbols = Symbols.parse(f"{names}ffffffff81000300 T vprintk_emit\nffffffff81000400 T other\n")

    def counted(prints: Sequence[int]) -> Figure:
        printed, sections = [], []
        for turn, of in enumerate(prints, 1):
            printed += [
                line("few", "whole", 200, 2_000, turn=turn),
                line("many", "whole", 1200, 12_000 + of, turn=turn),
            ]
            by = Counter({IP_RCV: 12_000, 0xFFFFFFFF81000300: of})
            sections += [section(1_000, 1_000), Section(0, 12_000 + of, by, Counter())]
        return figure("\n".join(printed), sections, symbols)

    assert counted([0, 5_000, 5_000]).instructions == pytest.approx(10)
    # One that prints with its packets does so in all turns, and that is what it costs.
    assert counted([5_000, 5_000, 5_000]).instructions == pytest.approx(15)


def test_a_turn_in_which_others_had_the_cpu_is_left_out() -> None:
    """Its functions add up to more than the clock of who sends."""
    printed, sections = [], []
    for turn, others in enumerate((0, 4_000, 0), 1):
        printed += [
            line("few", "whole", 200, 2_000, turn=turn),
            line("many", "whole", 1200, 12_000, turn=turn),
        ]
        sections += [section(1_000, 1_000), section(6_000, 6_000 + others)]
    found = figure("\n".join(printed), sections, SYMBOLS)
    assert found.instructions == 10 and found.clock == 10
    with pytest.raises(
        DisturbedError, match=r"add up to 14\.0 instructions, and the guest's clock"
    ):
        figure("\n".join(printed[:4]), sections[:4], SYMBOLS)


def test_a_line_has_as_many_sections_as_it_says() -> None:
    printed = "\n".join(
        f"counted 1 {of} whole {packets} {packets} {packets * 10} 2"
        for of, packets in (("few", 100), ("many", 600))
    )
    halves = [section(400, 100), section(100, 400), section(2400, 600), section(600, 2400)]
    assert figure(printed, halves, SYMBOLS).instructions == pytest.approx(10)


@pytest.mark.parametrize(
    ("printed", "sections", "said"),
    [
        (PRINTED, SECTIONS[:3], "fewer sections were counted than the workload says"),
        (PRINTED, [*SECTIONS, SECTIONS[0]], "more sections were counted than the workload says"),
        (PRINTED[:4], SECTIONS[:3], "did not say what it counted: whole, many"),
        ([*PRINTED[:3], PRINTED[4]], SECTIONS[:3], "did not say what it counted: tester, many"),
        ([*PRINTED, PRINTED[4]], SECTIONS, "said twice what it counted: whole, many"),
        ([], [], "did not say what it counted: whole, few"),
        (["hello"], [], "the workload printed 'hello': expected nothing but what `counted`"),
        (
            [line("few", "whole", 200, 1), line("many", "whole", 200, 1)],
            [section(1, 0)] * 2,
            "many are 200, which are not more",
        ),
        (
            [PRINTED[2], line("many", "whole", 1200, 80_000)],
            [SECTIONS[1], SECTIONS[3]],
            "the guest was idle meanwhile",
        ),
    ],
)
def test_what_gives_no_figure(printed: list[str], sections: list[Section], said: str) -> None:
    with pytest.raises(SkblabError) as error:
        figure("\n".join(printed), sections, SYMBOLS)
    assert said in str(error.value) and not isinstance(error.value, NoFigureError)


def test_packets_that_got_lost_are_the_kernels() -> None:
    printed = [*PRINTED[:4], line("many", "whole", 1200, 72_600, 1199)]
    with pytest.raises(NoFigureError, match="whole: 1199 of 1200 arrived") as error:
        figure("\n".join(printed), SECTIONS, SYMBOLS)
    assert error.value.cause == "kernel"


@given(texts(PRINTED[1]))
def test_any_line_is_a_line_or_said(text: str) -> None:
    value_or_line(lambda: Line.parse(text))


# A run


def kernel_of(name: str) -> Kernel:
    """Return a kernel that is not there."""
    made = SimpleNamespace(
        path=Path(f"/nowhere/{name}"),
        key=f"key-{name}",
        symbols=None,
        changes=None,
        record=SimpleNamespace(toolchain={"gcc": "13" if name == "7.2" else "14"}, flavour="stock"),
        config=TREE / "kconfig/base.config",
    )
    return made  # type: ignore[return-value]


# What is counted of a workload on a kernel, by the boot.
Counted = Callable[[Shot], Figure]


class Lab:
    """A lab without guests: `count` says what is counted of each shot."""

    def __init__(self, count: Counted) -> None:
        self.count = count
        self.shots: list[Shot] = []
        self.notes: dict[str, None] = {}
        self.lock = threading.Lock()

    def counted(self, shot: Shot) -> tuple[Figure, Environment]:
        """Stand for Counting.count."""
        with self.lock:
            self.shots.append(shot)
        return self.count(shot), ENVIRONMENT


def costs(instructions: float, **functions: float) -> Figure:
    """Return a figure."""
    return Figure(
        instructions=instructions, iterations=0, clock=instructions, units=1, functions=functions
    )


@pytest.fixture
def lab(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[Counted], Lab]:
    """Have comparisons count by a function instead of in guests."""

    @contextmanager
    def shares(*_: object) -> Iterator[list[object]]:
        yield []

    def ensure(request: object, *_: object) -> Kernel:
        return kernel_of(str(request))

    monkeypatch.setenv("SKBLAB_RESULTS", str(tmp_path / "results"))
    root = SimpleNamespace(versions={"qemu-system-x86": "10.0", "gcc": "14"}, key="root")
    monkeypatch.setattr("skblab.compare.running.labroot.ensure", lambda _: root)
    monkeypatch.setattr("skblab.compare.running.kernel.ensure", ensure)
    monkeypatch.setattr(running, "request_of", lambda name, of: f"{name}")
    monkeypatch.setattr(Name, "settled", lambda self, *_: self)
    monkeypatch.setattr("skblab.compare.running.counting.ensure", lambda *_: Path("plugin-key"))
    monkeypatch.setattr("skblab.compare.running.programs.ensure", lambda *_: Path("programs-key"))
    monkeypatch.setattr("skblab.compare.running.programs.shares", shares)
    monkeypatch.setattr(running, "guests_at_once", lambda: 2)
    monkeypatch.setattr(running, "identity", identity)

    def make(count: Counted) -> Lab:
        made = Lab(count)

        def counting(*words: object) -> SimpleNamespace:
            *_, notes, caches = words
            assert caches is None
            assert isinstance(notes, dict)
            made.notes = notes
            return SimpleNamespace(count=made.counted)

        monkeypatch.setattr(running, "Counting", counting)
        return made

    return make


def asked(*words: str, workloads: tuple[str, ...] = ("forward4", "veth")) -> Asked:
    """Return what is asked for."""
    return Asked(sides.parse_all(words, "6.12", {}, "stock"), workload.choose(workloads))


def compared(what: Asked) -> tuple[Path, CompareDocument]:
    """Return the run's folder, and what was found."""
    folder, document = Comparing(what, Reporter(quiet=True)).recorded()
    return folder.path, document


def by_kernel(**instructions: float) -> Counted:
    """Return what counts so many on each kernel, by its line."""

    def count(shot: Shot) -> Figure:
        name = shot.kernel.path.name.replace(".", "_")
        return costs(instructions[f"v{name}"], ip_rcv=instructions[f"v{name}"])

    return count


def test_a_then_b_then_a_again(lab: Callable[[Counted], Lab]) -> None:
    made = lab(by_kernel(v6_12=1000.0, v7_3=1100.0))
    folder, document = compared(asked("6.12", "7.3"))
    assert Counter((shot.workload.name, shot.kernel.key, shot.boot) for shot in made.shots) == {
        (name, key, boot): 1
        for name in ("forward4", "veth")
        for boot, key in enumerate(("key-6.12", "key-7.3", "key-6.12"))
    }
    assert [(one.workload, one.judged, one.over) for one in document.verdicts] == [
        ("forward4", "more", True),
        ("veth", "more", True),
    ]
    assert json.loads((folder / "compare.json").read_text()) == document.model_dump(
        mode="json", by_alias=True
    )
    # Figures of another run compare only where all of this is the same.
    instrument = dict(document.instrument)
    assert instrument.pop("machine") and instrument.pop("memory").endswith(" MiB")
    assert instrument == {
        "emulator": "10.0",
        "lab root": "root",
        "plugin": "plugin-key",
        "programs": "programs-key",
    }
    run = load(folder)
    assert run.document.state == "finished" and "compare 6.12 7.3" in run.document.plan.again


def test_settings_are_on_one_kernel(lab: Callable[[Counted], Lab]) -> None:
    made = lab(lambda shot: costs(1000.0 + 500 * int(shot.knobs["rp_filter"])))  # type: ignore[arg-type]
    _, document = compared(asked("rp_filter=0", "rp_filter=1", workloads=("forward4",)))
    assert {shot.kernel.key for shot in made.shots} == {"key-6.12"}
    assert document.verdicts[0].difference == pytest.approx(500)
    assert [one.settings for one in document.sides] == [{"rp_filter": "0"}, {"rp_filter": "1"}]


def test_one_side_alone_has_two_boots(lab: Callable[[Counted], Lab]) -> None:
    made = lab(by_kernel(v6_12=1000.0))
    _, document = compared(asked("6.12"))
    assert sorted({shot.boot for shot in made.shots}) == [0, 1]
    assert document.verdicts == ()


def test_a_stored_run_is_not_measured_again(lab: Callable[[Counted], Lab]) -> None:
    lab(by_kernel(v6_12=1000.0))
    folder, _ = compared(asked("6.12"))
    made = lab(by_kernel(v7_3=1100.0))
    other, document = compared(asked(str(folder), "7.3"))
    assert {shot.kernel.key for shot in made.shots} == {"key-7.3"}
    assert [one.judged for one in document.verdicts] == ["more", "more"]
    assert document.sides[0].stored == str(folder) and document.sides[0].name == "6.12"
    # Two stored ones take no guest at all, and a run of two has two sides.
    made = lab(by_kernel())
    _, document = compared(asked(f"{other}@1", f"{other}@2"))
    assert made.shots == []
    assert [one.difference for one in document.verdicts] == [100.0, 100.0]


def test_packets_that_the_generator_shares_are_told_of(lab: Callable[[Counted], Lab]) -> None:
    """Of an old kernel, whose figures have a clone in them; also where they are of a stored run."""

    def count(shot: Shot) -> Figure:
        if shot.kernel.path.name == "6.12":
            # As all of these are called.
            made.notes[SHARED.format("r")] = None
        return costs(1000.0)

    made = lab(count)
    folder, document = compared(asked("6.12", "6.12"))
    shared = [one for one in document.notes if one.startswith("pktgen of ")]
    assert len(shared) == 1 and "leaves out GRO" in shared[0]
    made = lab(count)
    _, document = compared(asked(str(folder), "7.3"))
    assert [one for one in document.notes if one.startswith("pktgen of ")] == shared
    # The side that is not shared has no note.
    _, document = compared(asked("7.3", "7.3"))
    assert not any(one.startswith("pktgen of ") for one in document.notes)


def test_what_a_stored_run_has_not_is_failed(lab: Callable[[Counted], Lab]) -> None:
    lab(by_kernel(v6_12=1000.0, v7_3=1000.0))
    folder, _ = compared(asked("6.12", workloads=("veth",)))
    _, document = compared(asked(str(folder), "7.3"))
    found = {one.workload: one for one in document.verdicts}
    assert found["veth"].judged == "same" and found["forward4"].judged == "failed"
    assert "has nothing of it" in found["forward4"].why and not found["forward4"].fault


def test_one_boot_of_a_stored_a_gives_no_verdict(lab: Callable[[Counted], Lab]) -> None:
    """As a run has it that was killed, or of its second side."""
    lab(by_kernel(v6_12=1000.0, v7_3=1100.0))
    folder, document = compared(asked("6.12", "7.3"))
    with pytest.raises(UsageError, match="that side was booted once, and A needs two boots"):
        compared(asked(f"{folder}@2", "6.12"))
    cut = tuple(one for one in document.measured if (one.workload, one.boot) != ("veth", 2))
    document = document.model_copy(update={"measured": cut})
    (folder / "compare.json").write_text(document.model_dump_json(by_alias=True))
    _, document = compared(asked(str(folder), "7.3"))
    forward, veth = document.verdicts
    assert forward.judged == "more"
    assert veth.judged == "failed" and "has no second boot of it" in veth.why


def test_a_stored_side_has_its_configuration_compared(
    lab: Callable[[Counted], Lab], tmp_path: Path
) -> None:
    lab(by_kernel(v6_12=1000.0, v7_3=1000.0))
    folder, _ = compared(asked("6.12"))
    (folder / "config-key-6.12").write_text("CONFIG_A=y\nCONFIG_B=y\n# CONFIG_C is not set\n")
    other, document = compared(asked(str(folder), "7.3"))
    assert "A: y -> none" in document.configurations["1"]
    assert not any(one.startswith("C:") for one in document.configurations["1"])
    assert (other / "config-key-6.12").read_text().startswith("CONFIG_A=y")


def test_kernels_of_two_compilers_are_not_compared(lab: Callable[[Counted], Lab]) -> None:
    lab(by_kernel(v6_12=1000.0, v7_2=1000.0))
    folder, document = compared(asked("6.12"))
    stale = document.sides[0].model_copy(update={"toolchain": {"gcc": "12"}})
    document = document.model_copy(update={"sides": (stale,)})
    (folder / "compare.json").write_text(document.model_dump_json(by_alias=True))
    with pytest.raises(UsageError, match=r"were built by different tools \(gcc 12 and 14"):
        compared(asked(str(folder), "7.3"))


def test_a_setting_of_all_sides_is_the_stored_ones_too(lab: Callable[[Counted], Lab]) -> None:
    lab(by_kernel(v6_12=1000.0))
    folder, _ = compared(asked("6.12", workloads=("forward4",)))
    common: Knobs = {"rp_filter": 1}
    words = sides.parse_all([str(folder), "6.12"], "6.12", common, "stock")
    with pytest.raises(UsageError, match="rp_filter: as the kernel has it there, 1 here"):
        compared(Asked(words, workload.choose(["forward4"]), common=common))
    # A setting that is named is what is compared.
    compared(asked(str(folder), "gro=off", workloads=("forward4",)))
    with pytest.raises(UsageError, match="flavour: stock there, rt here"):
        compared(Asked(asked(str(folder), "6.12").sides, workload.choose(["veth"]), flavour="rt"))


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"packets": 24000}, "packets: 24000 there, 5000 here"),
        ({"instrument": {"emulator": "9.0"}}, "emulator: 9.0 there, 10.0 here"),
        ({"workloads": (), "verdicts": ()}, ""),
    ],
)
def test_a_stored_run_that_cannot_be_compared(
    lab: Callable[[Counted], Lab], changed: dict[str, object], said: str
) -> None:
    lab(by_kernel(v6_12=1000.0, v7_3=1000.0))
    folder, document = compared(asked("6.12"))
    document = document.model_copy(update=changed)
    (folder / "compare.json").write_text(document.model_dump_json(by_alias=True))
    if not said:
        compared(asked(str(folder), "7.3"))
        return
    with pytest.raises(UsageError, match="its figures cannot be compared") as error:
        compared(asked(str(folder), "7.3"))
    assert said in str(error.value) and "measure it again: ./skblab compare" in str(error.value)


def test_a_workload_that_has_changed_is_not_compared(
    lab: Callable[[Counted], Lab], tmp_path: Path
) -> None:
    lab(by_kernel(v6_12=1000.0, v7_3=1000.0))
    file = written(tmp_path, GOOD)
    folder, _ = compared(asked("6.12", workloads=(str(file),)))
    written(tmp_path, GOOD + "# changed\n")
    with pytest.raises(UsageError, match="workload mine: its file or its scripts have changed"):
        compared(asked(str(folder), "7.3", workloads=(str(file),)))


def test_a_folder_that_is_no_run(tmp_path: Path, lab: Callable[[Counted], Lab]) -> None:
    with pytest.raises(UsageError, match=r"has no compare\.json; expected the folder of a run"):
        asked(str(tmp_path), "6.12")
    lab(by_kernel(v6_12=1000.0))
    folder, _ = compared(asked("6.12"))
    with pytest.raises(UsageError, match="that run has sides 1 to 1"):
        asked(f"{folder}@2", "6.12")
    with pytest.raises(UsageError, match="a stored run alone"):
        asked(str(folder))


def test_a_workload_that_fails_costs_no_other(lab: Callable[[Counted], Lab]) -> None:
    def count(shot: Shot) -> Figure:
        if shot.workload.name == "veth" and shot.kernel.key == "key-7.3":
            raise NoFigureError("guest panic: sysrq", "kernel")
        return costs(1000.0)

    lab(count)
    _, document = compared(asked("6.12", "7.3"))
    assert [(one.workload, one.judged, one.fault) for one in document.verdicts] == [
        ("forward4", "same", False),
        ("veth", "failed", True),
    ]
    assert records.status(document) == 1


def test_a_kernel_that_does_not_come_up_is_tried_once(
    lab: Callable[[Counted], Lab], monkeypatch: pytest.MonkeyPatch
) -> None:
    def count(shot: Shot) -> Figure:
        if shot.kernel.key == "key-7.3":
            raise NoFigureError("guest panic: no init", "kernel", up=False)
        return costs(1000.0)

    monkeypatch.setattr(running, "guests_at_once", lambda: 1)
    made = lab(count)
    _, document = compared(asked("6.12", "7.3"))
    assert sum(shot.kernel.key == "key-7.3" for shot in made.shots) == 1
    assert all(one.fault and one.why == "guest panic: no init" for one in document.verdicts)


def test_a_guest_that_the_kernel_did_not_end_is_tried_again(
    lab: Callable[[Counted], Lab], monkeypatch: pytest.MonkeyPatch
) -> None:
    def count(shot: Shot) -> Figure:
        if len(made.shots) == 1:
            raise NoFigureError("the guest was killed", "other", up=False)
        return costs(1000.0)

    monkeypatch.setattr(running, "guests_at_once", lambda: 1)
    made = lab(count)
    _, document = compared(asked("6.12", "7.3"))
    assert [one.judged for one in document.verdicts] == ["failed", "same"]
    assert len(made.shots) == 6 and records.status(document) == 3


def test_where_nothing_could_be_measured_it_says_why(lab: Callable[[Counted], Lab]) -> None:
    def count(shot: Shot) -> Figure:
        raise SkblabError("no guest today")

    lab(count)
    with pytest.raises(SkblabError, match="no workload could be measured: no guest today"):
        compared(asked("6.12", "7.3"))


def test_what_was_counted_stays_when_the_user_stops_it(
    lab: Callable[[Counted], Lab], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def count(shot: Shot) -> Figure:
        if shot.workload.name == "veth":
            raise Stopped(2)
        return costs(1000.0)

    monkeypatch.setattr(running, "guests_at_once", lambda: 1)
    lab(count)
    with pytest.raises(Stopped):
        compared(asked("6.12", "7.3"))
    [folder] = (tmp_path / "results").iterdir()
    document = CompareDocument.model_validate_json((folder / "compare.json").read_text())
    assert [one.workload for one in document.verdicts] == ["forward4"]
    run = load(folder)
    assert run.document.state == "failed" and run.document.reason == "stopped by a signal"


def test_the_threshold_knows_what_boots_differed_by_before(
    lab: Callable[[Counted], Lab], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    [one] = workload.choose(["veth"])
    boots = history.Boots(digest=one.digest, instructions=tuple(float(of * 20) for of in range(9)))
    file = tmp_path / "history.json"
    file.write_text(history.History(workloads={"veth": boots}).model_dump_json())
    monkeypatch.setattr(history, "path", lambda: file)
    lab(by_kernel(v6_12=1000.0, v7_3=1050.0))
    _, document = compared(asked("6.12", "7.3"))
    found = {one.workload: one for one in document.verdicts}
    assert found["veth"].because == "history" and found["veth"].judged == "same"
    assert found["forward4"].because == "instructions" and found["forward4"].judged == "more"
    [note] = document.notes
    assert note.startswith("There are fewer than 30 differences of A and A again of: forward4;")


def test_a_history_is_of_the_file_as_it_is_now(tmp_path: Path) -> None:
    one = workload.read(written(tmp_path, GOOD))
    boots = history.Boots(digest=one.digest, instructions=(1.0, 2.0, 4.0))
    known = history.History(workloads={"mine": boots})
    assert sorted(known.of(one, 5000)) == [1.0, 2.0, 3.0]
    assert known.of(workload.read(written(tmp_path, GOOD + "#\n")), 5000) == []


def test_the_history_that_is_shipped_is_of_the_workloads() -> None:
    """A workload whose file has changed, or that is new, has none until it is measured."""
    known = history.read()
    there = {one.name: one for one in workload.shipped()}
    for name, boots in known.workloads.items():
        assert name in there and len(boots.instructions) <= history.BOOTS
        assert len(boots.instructions) * (len(boots.instructions) - 1) / 2 >= records.LEAST_HISTORY


def test_a_history_of_a_run(lab: Callable[[Counted], Lab]) -> None:
    lab(lambda shot: costs(1000.0 + shot.boot))
    what = asked("6.12", "6.12")
    _, document = compared(what)
    made = history.of_run(document, workload.shipped())
    assert made.workloads["veth"].instructions == (1000.0, 1001.0, 1002.0)
    assert made.kernel == "6.12" and made.workloads.keys() == {"forward4", "veth"}


def test_a_history_is_kept_of_one_kernel_alone(
    lab: Callable[[Counted], Lab], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "history.json"
    monkeypatch.setattr(history, "path", lambda: file)
    lab(by_kernel(v6_12=1000.0, v7_3=1000.0))
    folder, _ = compared(asked("6.12", "6.12"))
    history.main(folder / "compare.json")
    assert history.read(file).workloads["veth"].instructions == (1000.0,) * 3
    # Of other workloads it stays.
    one, forward = workload.choose(["bridge", "forward4"])
    lab(by_kernel(v6_12=2000.0, v7_3=1.0))
    folder, document = compared(replace(asked("6.12", "6.12"), workloads=(one, forward)))
    history.main(folder / "compare.json")
    found = history.read(file).workloads
    assert {name: of.instructions[0] for name, of in found.items()} == {
        "bridge": 2000.0,
        "forward4": 2000.0,
        "veth": 1000.0,
    }
    # What gave no figure takes nothing away, and of a workload that is gone nothing is kept.
    known = history.read(file)
    lost = document.model_copy(
        update={
            "measured": tuple(
                one.model_copy(update={"figure": None, "cause": "kernel"})
                for one in document.measured
            )
        }
    )
    made = history.of_run(lost, workload.shipped())
    assert made.workloads == {}
    assert history.merged(known, made, [*found]) == known
    assert "veth" not in history.merged(known, made, ["bridge"]).workloads
    # Of another kernel's boots nothing is kept.
    folder, _ = compared(asked("7.3", "7.3"))
    history.main(folder / "compare.json")
    assert history.read(file).kernel == "7.3" and "bridge" not in history.read(file).workloads
    folder, _ = compared(asked("6.12", "7.3"))
    with pytest.raises(UsageError, match="expected boots of one kernel, and it has "):
        history.main(folder / "compare.json")


# The command


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "nothing to compare; name two kernels, such as 6.12 7.3"),
        (["6.12", "7.3", "--json", "--csv"], "--json and --csv: name one form only"),
        (["6.12", "7.3", "--quick", "--workload", "veth"], "--quick and --workload: name one of"),
        (["6.12", "7.3", "--packets", "12345"], "--packets 12345: expected whole thousands"),
        (["6.12", "7.3", "--workload", "foward4"], "did you mean forward4?"),
        ([f"6.{number}" for number in range(11)], "11 sides; expected at most 10"),
        (["6.12", "rp_filter=1", "--workload", "veth"], "--workload veth: rp_filter cannot be"),
        (["6.12", "7.3", "--budget", "inf"], "--budget inf: expected a number"),
    ],
)
def test_bad_usage(skblab_here: Skblab, words: list[str], said: str) -> None:
    done = skblab_here("compare", *words)
    assert done.returncode == 2
    assert said in done.stderr and len(done.stderr.strip().splitlines()) == 1


def test_the_workloads_are_listed(skblab_here: Skblab) -> None:
    done = skblab_here("compare", "--list")
    assert done.returncode == 0
    assert (
        "forward4-nft100        quick  forwarding, IPv4, past 100 rules of nftables" in done.stdout
    )
    assert len(done.stdout.splitlines()) == len(workload.shipped())


@pytest.mark.parametrize(("more", "status"), [(0.0, 0), (4.0, 0), (100.0, 1)])
def test_the_status_says_whether_it_is_worse(
    skblab_here: Skblab,
    lab: Callable[[Counted], Lab],
    monkeypatch: pytest.MonkeyPatch,
    more: float,
    status: int,
) -> None:
    lab(by_kernel(v6_12=1000.0, v7_3=1000.0 + more))
    monkeypatch.setattr("skblab.commands.compare.gnuplot", lambda _: None)
    done = skblab_here("compare", "6.12", "7.3", "--workload", "forward4")
    assert done.returncode == status, done.stderr
    assert f"{more:+.1f}".replace("+0.0", "0.0") in done.stdout and "Report: " in done.stdout


@pytest.mark.parametrize(
    "error", [SkblabError("the disk is full"), OSError(28, "the disk is full"), KeyError("disk")]
)
def test_what_goes_wrong_is_no_verdict(
    skblab_here: Skblab,
    lab: Callable[[Counted], Lab],
    monkeypatch: pytest.MonkeyPatch,
    error: Exception,
) -> None:
    def ensure(*_: object) -> Kernel:
        raise error

    lab(by_kernel())
    monkeypatch.setattr("skblab.compare.running.kernel.ensure", ensure)
    done = skblab_here("compare", "6.12", "7.3", "--workload", "forward4")
    assert done.returncode == 3 and "disk" in done.stderr


def test_the_command_that_is_kept_runs_it_again(
    skblab_here: Skblab, lab: Callable[[Counted], Lab], monkeypatch: pytest.MonkeyPatch
) -> None:
    lab(lambda shot: costs(1000.0))
    monkeypatch.setattr("skblab.commands.compare.gnuplot", lambda _: None)
    words = ("rp_filter=0", "netfilter=nft-forward 100", "--workload", "forward4")
    more = ("--set", "gro=off", "--kernel", "7.3", "--budget", "2", "--packets", "1000")
    said = json.loads(skblab_here("compare", *words, *more, "--json").stdout)["again"]
    first, *again = shlex.split(said)
    assert first == "./skblab" and again[0] == "compare"
    assert json.loads(skblab_here(*again, "--json").stdout)["again"] == said
    for word in (*words, *more):
        assert word in again


@pytest.mark.parametrize(
    ("of_boot", "status"), [((1000.0, 1001.0), 0), ((1000.0, 1500.0), 3), ((1000.0, None), 3)]
)
def test_one_side_alone_says_whether_it_repeats(
    skblab_here: Skblab,
    lab: Callable[[Counted], Lab],
    monkeypatch: pytest.MonkeyPatch,
    of_boot: tuple[float | None, ...],
    status: int,
) -> None:
    def count(shot: Shot) -> Figure:
        value = of_boot[shot.boot]
        if value is None:
            raise NoFigureError("guest panic: sysrq", "kernel")
        return costs(value)

    lab(count)
    monkeypatch.setattr("skblab.commands.compare.gnuplot", lambda _: None)
    done = skblab_here("compare", "6.12", "--workload", "forward4", "--markdown")
    assert done.returncode == status and "forward4" in done.stdout


@pytest.fixture
def elsewhere(
    lab: Callable[[Counted], Lab], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Callable[[Counted], tuple[Elsewhere, list[str]]]:
    """Have boots counted by a function that stands for nodes; a list has what they counted."""

    def make(count: Counted) -> tuple[Elsewhere, list[str]]:
        lab(count)
        monkeypatch.setattr(remote, "tools", lambda *_: ())
        monkeypatch.setattr("skblab.compare.remote.first.ensure", lambda _: Path("first-key"))
        monkeypatch.setattr("skblab.jobs.artefacts.pack", lambda *_: None)
        monkeypatch.setattr("skblab.jobs.artefacts.take", lambda *_: None)
        begun: list[str] = []

        @contextmanager
        def begin(given: Campaign, _: Reporter) -> Iterator[Run]:
            counts: Any = given.context["instrument"]
            monkeypatch.setattr(remote, "counting_with", lambda *_: dict(counts))
            monkeypatch.setattr(remote, "Kernel", lambda _, key: kernel_of(key.partition("-")[2]))
            node = SimpleNamespace(count=lambda shot: (count(shot), ENVIRONMENT))
            monkeypatch.setattr(remote, "Counting", lambda *_: node)
            with remote.begin(given, Reporter(quiet=True)) as run:

                def noted(task: Task, folder: Path) -> Result:
                    begun.append(f"{task.does['workload']} {task.does['boot']}")
                    return run(task, folder)

                yield noted

        @contextmanager
        def submitting(*_: object) -> Iterator[Here]:
            yield Here({"compare": begin})

        store = Store.open(tmp_path / "store", make=True)
        return Elsewhere(store, "slurm", submitting, Packing()), begun

    return make


def compared_elsewhere(what: Asked, place: Elsewhere) -> CompareDocument:
    """Return what nodes found."""
    _, document = Comparing(what, Reporter(quiet=True), place).recorded()
    return document


Nodes = Callable[[Counted], tuple[Elsewhere, list[str]]]


def test_nodes_find_what_this_machine_finds(elsewhere: Nodes) -> None:
    count = by_kernel(v6_12=1000.0, v7_3=1100.0)
    place, begun = elsewhere(count)
    what = asked("6.12", "7.3", "rp_filter=1", workloads=("forward4",))
    _, here = compared(what)
    there = compared_elsewhere(what, place)
    assert there.model_dump(exclude={"timings"}) == here.model_dump(exclude={"timings"})
    # Those of one kernel come together.
    assert begun == ["forward4 0", "forward4 3", "forward4 1", "forward4 2"]


def test_what_the_store_has_is_counted_once_for_all(elsewhere: Nodes) -> None:
    place, begun = elsewhere(by_kernel(v6_12=1000.0, v7_3=1100.0))
    compared_elsewhere(asked("6.12", "7.3"), place)
    assert len(begun) == 6
    compared_elsewhere(asked("6.12", "7.3"), place)
    assert len(begun) == 6
    # The base of another comparison.
    compared_elsewhere(asked("6.12", "rp_filter=1"), place)
    assert begun[6:] == ["forward4 1", "veth 1"]


def test_a_kernel_that_dies_on_a_node_is_a_result(elsewhere: Nodes) -> None:
    def count(shot: Shot) -> Figure:
        if shot.kernel.key == "key-7.3":
            raise NoFigureError("guest panic: no init", "kernel", up=False)
        return costs(1000.0)

    place, _ = elsewhere(count)
    document = compared_elsewhere(asked("6.12", "7.3"), place)
    assert all(one.fault and one.why == "guest panic: no init" for one in document.verdicts)
    # It is no failed try.
    assert {name.rpartition(".")[2] for name in place.store.noted()} == {"1"}
    comparing = Comparing(asked("6.12", "7.3"), Reporter(quiet=True), place)
    comparing.recorded()
    assert comparing.boots(0) and not comparing.boots(1)


def test_what_a_kernel_lacks_is_a_result(elsewhere: Nodes) -> None:
    def count(shot: Shot) -> Figure:
        if shot.workload.name == "veth":
            raise NoFigureError("it has no veth", "lacking")
        return costs(1000.0)

    place, begun = elsewhere(count)
    document = compared_elsewhere(asked("6.12", "7.3"), place)
    assert [one.judged for one in document.verdicts] == ["same", "lacking"]
    assert len(begun) == 6


def test_what_goes_wrong_three_times_has_failed(elsewhere: Nodes) -> None:
    def count(shot: Shot) -> Figure:
        if shot.workload.name == "veth" and shot.boot == 1:
            raise NoFigureError("the guest was killed", "other")
        return costs(1000.0)

    place, begun = elsewhere(count)
    document = compared_elsewhere(asked("6.12", "7.3"), place)
    assert begun.count("veth 1") == 3
    [failed] = [one for one in document.measured if one.figure is None]
    assert failed.cause == "other" and "killed (the last of 3 tries)" in failed.why
    assert records.status(document) == 3


def test_a_node_that_counts_in_another_way_is_refused(
    elsewhere: Nodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, _ = elsewhere(by_kernel(v6_12=1000.0))
    what = asked("6.12", "rp_filter=1")
    comparing = Comparing(what, Reporter(quiet=True))
    common = remote.campaign(what, comparing.instrument, comparing.root)
    monkeypatch.setattr(
        remote, "counting_with", lambda *_: comparing.instrument | {"emulator": "9"}
    )
    with (
        pytest.raises(SkblabError, match=r"this node's emulator is 9, and the client's 10\.0"),
        remote.begin(common, Reporter(quiet=True)),
    ):
        pass
    assert place.store.recorded() == set()


def keys(what: Asked, **instrument: str) -> set[str]:
    """Return the keys of what is asked for."""
    kernels = {number: kernel_of(str(side.kernel)) for number, side in enumerate(what.sides)}
    return {task.key for task in remote.tasks(what, instrument, kernels).values()}


def test_a_key_is_of_all_that_the_figure_depends_on(tmp_path: Path) -> None:
    base = asked("6.12", "rp_filter=1", workloads=("forward4",))
    assert keys(base) == keys(base) and len(keys(base)) == 3
    mine = written(tmp_path, GOOD, "forward4.sh")
    for other in (
        replace(base, packets=10_000),
        replace(base, workloads=workload.choose(["veth"])),
        replace(base, workloads=(workload.read(mine),)),
        replace(base, caches=named("epyc-7763")),
        asked("7.3", "7.3", workloads=("forward4",)),
    ):
        assert keys(base).isdisjoint(keys(other)), other
    assert keys(base).isdisjoint(keys(base, emulator="11"))
    # Only B differs.
    other = asked("6.12", "rp_filter=0", workloads=("forward4",))
    assert len(keys(base) & keys(other)) == 2
    # What is allowed changes no figure.
    assert keys(base) == keys(replace(base, budget=records.Budget(share=1)))


def test_nodes_have_the_workloads_and_caches_of_the_client(tmp_path: Path) -> None:
    mine = workload.read(written(tmp_path, GOOD))
    what = replace(asked("6.12", "7.3"), workloads=(mine,), caches=named("epyc-7763"))
    root = SimpleNamespace(key="root", versions={})
    made = remote.campaign(what, {"emulator": "10"}, root)  # type: ignore[arg-type]
    again = Campaign.model_validate_json(made.model_dump_json())
    common = remote.Common.model_validate_json(json.dumps(again.context))
    assert common.workload("mine") == mine and common.chosen() == what.caches


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--on", "slurm"], "--on: expected --store"),
        (["--sbatch", "--partition=x"], "--sbatch: expected --store"),
        (["--store", "/proc/self/status"], "expected a store"),
        (["--store", "{}", "--sbatch", "--partition=x"], "expected --on slurm"),
    ],
)
def test_bad_usage_of_a_store(
    skblab_here: Skblab, tmp_path: Path, words: list[str], said: str
) -> None:
    filled = [word.format(tmp_path / "store") for word in words]
    ran = skblab_here("compare", "6.12", "7.3", *filled)
    assert ran.returncode == 2 and said in ran.stderr
    assert not (tmp_path / "store").exists()
