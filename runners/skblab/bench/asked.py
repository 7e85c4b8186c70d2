# SPDX-License-Identifier: GPL-2.0-or-later
"""What is to be counted by function, as it is asked for: rows of the benchmark, kernels, settings.

wanted = asked.profile(names.parse("tree:linux"), None, "forward", 4, 10_000, 1)
wanted.again                    # the command that asks for it
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import get_args

from skblab.bench import given, plan
from skblab.bench.functions import Chosen
from skblab.bench.kernels import Others, already, finished
from skblab.bench.plan import Row
from skblab.knobs.boot import STOCK
from skblab.knobs.registry import KNOBS, Catalogue
from skblab.knobs.values import Knobs
from skblab.knobs.values import words as in_words
from skblab.lab import kernel
from skblab.lab.kernel import lines
from skblab.lab.kernel.model import CHECKING, flavour
from skblab.lab.kernel.names import Name
from skblab.lab.labroot import LabRoot
from skblab.lab.reporter import Reporter
from skblab.testbeds import netns
from skblab_analysis.base.errors import UsageError
from skblab_analysis.formats import bench as records
from skblab_analysis.formats import functions as figures
from skblab_analysis.formats.functions import Side
from skblab_analysis.formats.run import Plan

# The sides of a profile: the kernel itself, and that to compare it with.
A: Side = "a"
B: Side = "b"
SIDES = (A, B)

# Runs have whole batches of packets.
BATCH = 1000


@dataclass(frozen=True)
class Settings:
    """The settings of an experiment by name, beside its baseline; `named` is how it was named."""

    named: str
    baseline: Knobs
    others: Mapping[str, Knobs]
    # What knobs there are, its own among them, if not skblab's alone.
    catalogue: Catalogue | None = field(default=None, repr=False)


@dataclass(frozen=True)
class Asked:
    """What was asked for, checked."""

    b: Row
    a: Row | None
    case: figures.Case
    family: records.Family
    packets: int
    repeats: int
    line: lines.Line = lines.DEFAULT
    # The kernels of a profile, by row; a benchmark builds its own.
    kernels: Mapping[str, Name] = field(default_factory=dict)
    flavour: str = STOCK
    # What the router has set, by row.
    settings: Mapping[str, Knobs] = field(default_factory=dict)
    catalogue: Catalogue | None = field(default=None, repr=False)
    # Rows beside b that are compared with a, too, and the experiment that all are of.
    more: tuple[Row, ...] = ()
    of: str = ""
    # What is simulated beside it, and where packets go.
    caches: Chosen | None = None
    destinations: figures.Destinations = "fixed"
    # Whether the guest has two NUMA nodes.
    numa: bool = False

    def settled(self, root: LabRoot, reporter: Reporter) -> Asked:
        """Return the same with names that stand for nothing else later."""
        known = {side: name.settled(root, reporter) for side, name in self.kernels.items()}
        if known == self.kernels:
            return self
        if self.of:
            return replace(self, kernels=known)
        rows = _sides(known, self.settings)
        found = replace(self, b=rows[B], a=rows.get(A), kernels=known)
        return _on_nodes(found) if self.numa else found

    @property
    def remote(self) -> frozenset[str]:
        """Rows whose packets come from the other NUMA node, or with receive are read there."""
        between = self.numa and not self.settings and len(self.kernels) == 1
        return frozenset({B} if between else SIDES if self.numa else ())

    @property
    def rows(self) -> tuple[Row, ...]:
        """The rows, that to compare with first, with the parts of the case alone."""
        words = {"forward": ("tester", "forward"), "receive": ("receive",), "poll": ("tester",)}
        rows = (self.b,) if self.a is None else (self.a, self.b, *self.more)
        return tuple(replace(row, parts=words[self.case]) for row in rows)

    @property
    def experiment(self) -> str:
        """The name of its run folder."""
        return "profile" if self.kernels else "bench-functions"

    @property
    def question(self) -> str:
        """What it answers."""
        if self.of:
            return f"Which functions do the settings of {self.of} cost?"
        if self.a is None:
            return f"Where do the instructions go that a packet takes on {self.b.title}?"
        if self.numa and self.remote == {B}:
            return f"What does it cost when a packet is not {_NODES[self.case][0]}?"
        b, a = (self.b.title, self.a.title) if self.kernels else (self.b.name, self.a.name)
        return f"Where do the instructions go that {b} takes and {a} does not?"

    @property
    def again(self) -> str:
        """The command that asks for it."""
        if self.kernels:
            words = ["./skblab profile", f"--kernel {shlex.quote(str(self.kernels[B]))}"]
            words += [f"--against {shlex.quote(str(self.kernels[A]))}"] if A in self.kernels else []
            words += [f"--experiment {shlex.quote(self.of)}"] if self.of else []
            words += [
                f"--set {shlex.quote(given.word(knob, value))}"
                for knob, value in self.settings.get(B, {}).items()
                if not self.of
            ]
            words += [f"--flavour {self.flavour}"] if self.flavour != STOCK else []
            words += [f"--caches {shlex.quote(self.caches.word)}"] if self.caches else []
            if self.destinations != "fixed":
                words += [f"--destinations {self.destinations}"]
            words += ["--numa"] if self.numa else []
        else:
            assert self.a is not None
            words = [f"./skblab bench functions --row {self.b.name} --against {self.a.name}"]
        words += [
            f"--case {self.case} --family {self.family} --packets {self.packets} "
            f"--repeats {self.repeats}"
        ]
        return " ".join([*words, *self.line.words])


def benchmark(
    row: str,
    against: str,
    case: str,
    family: int,
    packets: int,
    repeats: int,
    others: Others,
    line: lines.Line = lines.DEFAULT,
) -> Asked:
    """Check what was asked for; UsageError in one line for what cannot be."""
    known = {row.name: row for row in plan.choose([], others)}
    for option, name in (("--row", row), ("--against", against)):
        if name not in known:
            raise UsageError(f"{option} {name}: no such row; known are: {', '.join(known)}")
    if row == against:
        raise UsageError(f"--against {against}: the row itself; name another one to compare with")
    chosen, of = _checked(case, family, packets)
    for name in (row, against):
        if known[name].group == "napi" and case != "poll":
            raise UsageError(f"--case {case}: row {name} counts polls; give --case poll")
    plan.require_stamps((known[row], known[against]), line, already(others))
    return Asked(known[row], known[against], chosen, of, packets, repeats, line)


def profile(
    kernel: Name,
    against: Name | None,
    case: str,
    family: int,
    packets: int,
    repeats: int,
    of: str = STOCK,
    knobs: Knobs | None = None,
) -> Asked:
    """Check what was asked for of a kernel, or of two; UsageError in one line for what cannot be.

    `of` is their flavour. With `knobs` both have them set; one kernel alone is compared with itself
    as it comes.
    """
    check_flavour(of)
    if kernel == against:
        raise UsageError(f"--against {against}: the kernel itself; name another one, or none")
    chosen, version = _checked(case, family, packets)
    named: dict[str, Name] = {B: kernel} if against is None else {A: against, B: kernel}
    for name in named.values():
        # What cannot be had is refused before anything is compiled.
        request_of(name, of)
    settings = {side: dict(knobs) for side in named} if knobs else {}
    for knob, value in (knobs or {}).items():
        said = f"--set {given.word(knob, value)}"
        if case == "poll":
            raise UsageError(
                f"{said}: --case poll counts generator and sink, which have no settings; give "
                "--case forward or receive"
            )
        if why := unable(knob, chosen):
            raise UsageError(f"{said}: {why}")
    rows = _sides(named, settings)
    return Asked(
        *(rows[B], rows.get(A), chosen, version, packets, repeats),
        kernels=named,
        flavour=of,
        settings=settings,
    )


def experiment(
    kernel: Name, settings: Settings, family: int, packets: int, repeats: int, of: str = STOCK
) -> Asked:
    """Check what was asked for of the settings of an experiment; UsageError for what cannot be.

    Each is compared with the baseline, all on one kernel of flavour `of`.
    """
    check_flavour(of)
    request_of(kernel, of)
    chosen, version = _checked("forward", family, packets)
    if not settings.others:
        raise UsageError(f"--experiment {settings.named}: no setting of it can be counted so")
    rows: list[Row] = []
    knobs: dict[str, Knobs] = {A: settings.baseline}
    for number, (name, wanted) in enumerate(settings.others.items(), 1):
        row = str(B) if number == 1 else f"{B}{number}"
        rows.append(Row(row, name, B, trace=plan.ANY))
        knobs[row] = wanted
    return Asked(
        *(rows[0], Row(A, figures.BASELINE, B, trace=plan.ANY), chosen, version, packets, repeats),
        kernels={B: kernel},
        flavour=of,
        settings=knobs,
        catalogue=settings.catalogue,
        more=tuple(rows[1:]),
        of=settings.named,
    )


def beside(asked: Asked, caches: Chosen | None, destinations: str, *, numa: bool = False) -> Asked:
    """Return the same with caches simulated, if any, and packets to such destinations.

    With `numa` the guest has two nodes. UsageError for what cannot be had.
    """
    known: dict[str, figures.Destinations] = {name: name for name in get_args(figures.Destinations)}
    if destinations not in known:
        raise UsageError(f"--destinations {destinations}: expected {' or '.join(known)}")
    if destinations != "fixed" and asked.case != "forward":
        raise UsageError(
            f"--destinations {destinations}: with --case {asked.case} nothing is routed; give "
            "--case forward"
        )
    if numa and caches is None:
        raise UsageError(
            "--numa: which node a line comes from is known of simulated caches alone; add "
            "--caches, such as --caches epyc-7763"
        )
    if numa and asked.case == "poll":
        raise UsageError("--numa: --case poll counts no path; give --case forward or receive")
    if numa and asked.of:
        raise UsageError(
            "--numa: --experiment compares the settings of its file; give one of them by --set"
        )
    found = replace(asked, caches=caches, destinations=known[destinations], numa=numa)
    return _on_nodes(found) if numa else found


# Of the two nodes, by case: where the packets of row a are, and those of row b.
_NODES: Mapping[str, tuple[str, str]] = {
    "forward": ("on the node of the CPU", "on the other node"),
    "receive": ("read on its own node", "read on the other node"),
}


def _on_nodes(asked: Asked) -> Asked:
    """Return the same with rows that say where packets come from; of one kernel there are two."""
    own, other = _NODES[asked.case]
    b = replace(asked.b, title=f"{asked.b.title}, {other}")
    if asked.a is None:
        return replace(asked, a=replace(asked.b, name=A, title=f"{asked.b.title}, {own}"), b=b)
    return replace(asked, a=replace(asked.a, title=f"{asked.a.title}, {other}"), b=b)


# Whose settings they are, by case: what is no network card.
_VETH: Mapping[str, str] = {
    "forward": "the router's devices are veth, which have",
    "receive": "the receiver's device is a veth, which has",
}
# Nothing of it is on the way of a packet that is received; a tag would be the generator's, too.
NOT_RECEIVED = frozenset({"vlan", "routes", "routes6", "xps", "qdisc", "ip_forward"})


def unable(knob: str, case: figures.Case = "forward") -> str | None:
    """Return why a knob cannot be set in a profile, in words; None if it can."""
    if case == "receive" and knob in NOT_RECEIVED:
        return "a packet that is received here does not pass it; give --case forward"
    if (known := KNOBS.find(knob)) and known.boot:
        return "only a boot sets it; count it by skblab sweep --exact"
    if knob in netns.OF_NICS:
        return f"{_VETH[case]} nothing like it"
    return None


def check_flavour(of: str) -> None:
    """Raise UsageError for a flavour that nothing is measured on."""
    if flavour(of) in CHECKING:
        raise UsageError(f"--flavour {of}: its figures say nothing of others; expected stock or rt")


def _sides(kernels: Mapping[str, Name], settings: Mapping[str, Knobs]) -> dict[str, Row]:
    """Return the rows of a profile; of one kernel with settings, itself without them is a."""
    titles = {side: str(name) for side, name in kernels.items()}
    boots = {side: side for side in kernels}
    if settings and A not in kernels:
        titles[A], boots[A] = f"{titles[B]} as it comes", B
    for side, knobs in settings.items():
        titles[side] += f" with {in_words(knobs)}"
    return {
        side: Row(side, titles[side], boots[side], trace=plan.ANY)
        for side in (A, B)
        if side in titles
    }


def request_of(name: Name, of: str) -> kernel.Request:
    """Return what to build or fetch; a package is of the flavour that it is."""
    return name.request(STOCK if name.packaged else of)


def _checked(case: str, family: int, packets: int) -> tuple[figures.Case, records.Family]:
    if case not in figures.CASES:
        raise UsageError(f"--case {case}: no such case; known are: {', '.join(figures.CASES)}")
    if family not in records.FAMILIES:
        raise UsageError(f"--family {family}: expected 4 or 6")
    if packets % BATCH:
        raise UsageError(f"--packets {packets}: expected whole thousands, such as 10000")
    return case, family


def built(options: list[str]) -> dict[str, kernel.Kernel]:
    """Return the kernels of --built by name."""
    names = (plan.PLAIN, plan.OFF, plan.PATCHED)
    found = {}
    for text in options:
        name, equals, place = text.partition("=")
        if not equals or name not in names:
            raise UsageError(
                f"--built {text}: expected NAME=FOLDER, NAME one of {', '.join(names)}"
            )
        found[name] = finished(place, f"--built {text}")
    return found


def plan_of(asked: Asked) -> Plan:
    """Return the plan of its run."""
    more: dict[str, str] = {}
    if asked.kernels:
        more = {"flavour": asked.flavour}
        more |= {f"kernel_{side}": str(name) for side, name in asked.kernels.items()}
        more |= {
            f"settings_{side}": in_words(knobs) for side, knobs in asked.settings.items() if knobs
        }
        more |= {"caches": asked.caches.word} if asked.caches else {}
        if asked.destinations != "fixed":
            more |= {"destinations": asked.destinations}
        more |= {"numa": "2"} if asked.numa else {}
    return Plan(
        experiment=asked.experiment,
        question=asked.question,
        seed=0,
        packets=asked.packets,
        baseline=asked.rows[0].name,
        again=asked.again,
        parameters={
            "case": asked.case,
            "family": asked.family,
            "repeats": asked.repeats,
            **more,
        },
    )
