# SPDX-License-Identifier: GPL-2.0-or-later
"""Rows by function: where the instructions go that one takes, or one takes and another does not."""

from __future__ import annotations

import math
import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from skblab.bench import functions as counting
from skblab.bench import given, measure, plan, programs
from skblab.bench.functions import Section, Symbols
from skblab.bench.kernels import Others, already, ensure_kernel, finished
from skblab.bench.measure import Line
from skblab.bench.plan import Row
from skblab.bench.run import GAPS
from skblab.knobs.applying import Applied, NotPutBackError, applying
from skblab.knobs.boot import STOCK
from skblab.knobs.registry import KNOBS
from skblab.knobs.values import Knobs
from skblab.knobs.values import text as shown
from skblab.knobs.values import words as in_words
from skblab.lab import kernel, labroot, paths
from skblab.lab.guest.chosen import make_spec
from skblab.lab.kernel import lines
from skblab.lab.kernel.model import CHECKING, flavour
from skblab.lab.kernel.names import Name
from skblab.lab.labroot import LabRoot
from skblab.lab.reporter import Reporter
from skblab.machine.environment import describe, describe_guest
from skblab.machine.guest import Guest
from skblab.machine.recording import begins, recording
from skblab.machine.watch import Watch
from skblab.testbeds import netns
from skblab_analysis.base.checked import RefusedError
from skblab_analysis.base.disk import write_whole
from skblab_analysis.base.errors import SkblabError, UsageError
from skblab_analysis.formats import bench as records
from skblab_analysis.formats import functions as figures
from skblab_analysis.formats import stacks
from skblab_analysis.formats.run import Environment, Plan, Timing
from skblab_analysis.runfolder import RunFolder

# The sides of a profile: the kernel itself, and that to compare it with.
Side = Literal["a", "b"]
A: Side = "a"
B: Side = "b"
SIDES = (A, B)

# The sections that the benchmark's programs mark: pktgen is told to start, and drain reads.
GENERATE, READ = 0, 1

# Of an older kernel's generator (generator.sh).
SHARED = (
    "pktgen of {} keeps a part in each packet that it sends, and knows no other way: the router "
    "makes a clone of each, with a copy of its head. A newer kernel's does not; what differs "
    "between the two has that in it."
)

ONE_NAME = "Functions of one name in different files are one."
WITH_NAPI = (
    "The router's devices have NAPI and GRO, as in sweeps: the path is longer than in a profile "
    "without --set."
)

SAME = "{0} was {1} already: nothing was changed by it."
ONE_DESTINATION = (
    "Each packet goes to the same destination, in a network that the router is in itself."
)

# A run with few packets and one with many have the same number of batches (bench.sh), so that
# what begins and ends a batch cancels.
BATCH = 1000
FEWER = 5


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

    def settled(self, root: LabRoot, reporter: Reporter) -> Asked:
        """Return the same with names that stand for nothing else later."""
        known = {side: name.settled(root, reporter) for side, name in self.kernels.items()}
        if known == self.kernels:
            return self
        rows = _sides(known, self.settings)
        return replace(self, b=rows[B], a=rows.get(A), kernels=known)

    @property
    def rows(self) -> tuple[Row, ...]:
        """The rows, that to compare with first, with the parts of the case alone."""
        words = {"forward": ("tester", "forward"), "receive": ("receive",), "poll": ("tester",)}
        rows = (self.b,) if self.a is None else (self.a, self.b)
        return tuple(replace(row, parts=words[self.case]) for row in rows)

    @property
    def experiment(self) -> str:
        """The name of its run folder."""
        return "profile" if self.kernels else "bench-functions"

    @property
    def question(self) -> str:
        """What it answers."""
        if self.a is None:
            return f"Where do the instructions go that a packet takes on {self.b.title}?"
        b, a = (self.b.title, self.a.title) if self.kernels else (self.b.name, self.a.name)
        return f"Where do the instructions go that {b} takes and {a} does not?"

    @property
    def again(self) -> str:
        """The command that asks for it."""
        if self.kernels:
            words = ["./skblab profile", f"--kernel {shlex.quote(str(self.kernels[B]))}"]
            words += [f"--against {shlex.quote(str(self.kernels[A]))}"] if A in self.kernels else []
            words += [
                f"--set {shlex.quote(given.word(knob, value))}"
                for knob, value in self.settings.get(B, {}).items()
            ]
            words += [f"--flavour {self.flavour}"] if self.flavour != STOCK else []
        else:
            assert self.a is not None
            words = [f"./skblab bench functions --row {self.b.name} --against {self.a.name}"]
        words += [
            f"--case {self.case} --family {self.family} --packets {self.packets} "
            f"--repeats {self.repeats}"
        ]
        return " ".join([*words, *self.line.words])


def asked(
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
    if flavour(of) in CHECKING:
        raise UsageError(f"--flavour {of}: its figures say nothing of others; expected stock or rt")
    if kernel == against:
        raise UsageError(f"--against {against}: the kernel itself; name another one, or none")
    chosen, version = _checked(case, family, packets)
    named: dict[str, Name] = {B: kernel} if against is None else {A: against, B: kernel}
    for name in named.values():
        # What cannot be had is refused before anything is compiled.
        _request(name, of)
    settings = {side: dict(knobs) for side in named} if knobs else {}
    for knob, value in (knobs or {}).items():
        said = f"--set {given.word(knob, value)}"
        if case != "forward":
            raise UsageError(f"{said}: it is the router's, which --case {case} has none of")
        if KNOBS[knob].boot:
            raise UsageError(f"{said}: only a boot sets it; count it by skblab sweep --exact")
        if knob in netns.OF_NICS:
            raise UsageError(f"{said}: the router's devices are veth, which have nothing like it")
    rows = _sides(named, settings)
    return Asked(
        *(rows[B], rows.get(A), chosen, version, packets, repeats),
        kernels=named,
        flavour=of,
        settings=settings,
    )


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


def _request(name: Name, of: str) -> kernel.Request:
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


def kernels(options: list[str]) -> dict[str, kernel.Kernel]:
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


def _plan(asked: Asked) -> Plan:
    more: dict[str, str] = {}
    if asked.kernels:
        more = {"flavour": asked.flavour}
        more |= {f"kernel_{side}": str(name) for side, name in asked.kernels.items()}
        more |= {
            f"settings_{side}": in_words(knobs) for side, knobs in asked.settings.items() if knobs
        }
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


def script(
    rows: Sequence[Row], boot: int, asked: Asked, symbols: str = "loaded", *, laid_out: bool = False
) -> str:
    """Return what a guest runs: every row with few packets and with many, in every round.

    It keeps the `symbols` of what is loaded, or all. `laid_out`: the namespaces are there.
    """
    more = {"laid_out": "yes"} if laid_out else {}
    more |= {"napi": "yes"} if asked.settings else {}
    lines = measure.head(boot, asked.packets, families=str(asked.family), symbols=symbols, **more)
    sizes = ((asked.packets // FEWER, BATCH // FEWER), (asked.packets, BATCH))
    for round_ in range(asked.repeats):
        for size, (packets, batch) in enumerate(sizes):
            lines.append(f"repeat={2 * round_ + size + 1} packets={packets} batch={batch}")
            order = rows if round_ % 2 else tuple(reversed(rows))
            lines += [f"run {' '.join(row.words())}" for row in order]
    lines.append(f'[ ! -e /run/skblab-shared ] || : >"$out/{shared(boot)}"')
    return "\n".join(lines) + "\n"


def shared(boot: int) -> str:
    """Return the file that a guest leaves whose generator can only share its packets."""
    return f"shared-{boot}"


def attribute(
    lines: Sequence[Line], sections: Sequence[Section]
) -> Iterator[tuple[Line, list[Section]]]:
    """Give each line of the script its sections, in the order that the script made them.

    Lines that stand aside have none, and are left out. Raises SkblabError if there are others than
    the lines need.
    """
    left = iter(sections)

    def take(number: int) -> Section:
        section = next(left, None)
        if section is None or section.number != number:
            raise SkblabError(
                "the sections that were counted are not those that the benchmark ran: "
                f"expected one of marks {number}, found {section and section.number}"
            )
        return section

    into: list[Section] = []
    out_of: list[Section] = []
    for line in lines:
        if line.aside:
            continue
        if line.part == "read":
            yield line, out_of
            continue
        into, out_of = [], []
        # Rows with few packets have the odd numbers.
        batch = BATCH // FEWER if line.repeat % 2 else BATCH
        for _ in range(-(-line.packets // batch) if line.part == "queue" else 1):
            into.append(take(GENERATE))
            if line.part == "queue":
                out_of.append(take(READ))
        yield line, into
    if next(left, None) is not None:
        raise SkblabError("more sections were counted than the benchmark ran")


@dataclass
class _Found:
    """The runs of one row: by function, and by address."""

    by_function: list[figures.Counted] = field(default_factory=list)
    by_address: list[figures.Counted] = field(default_factory=list)
    by_stack: list[figures.Counted] = field(default_factory=list)

    def add(self, line: Line, sections: Sequence[Section], symbols: Symbols) -> None:
        """Add a run of the row."""
        names: Counter[str] = Counter()
        again: Counter[str] = Counter()
        addresses: Counter[str] = Counter()
        again_at: Counter[str] = Counter()
        by_stack: Counter[str] = Counter()
        for section in sections:
            names.update(section.by_function(symbols))
            again.update(section.again_by_function(symbols))
            addresses.update(section.others)
            addresses.update(_in_hex(section.by_address))
            again_at.update(_in_hex(section.again))
            for stack, count in section.by_stack(symbols).items():
                by_stack[stacks.joined(stack)] += count
        run = figures.Run(
            row=line.row,
            repeat=line.repeat,
            part=line.part,
            packets=line.packets,
            delivered=line.delivered,
            instructions=line.nanoseconds,
            counted=names.total() + again.total(),
        )
        self.by_function.append(figures.Counted(run, names, again))
        self.by_address.append(figures.Counted(run, addresses, again_at))
        self.by_stack.append(figures.Counted(run, by_stack, again))

    def inclusive(self, case: figures.Case) -> Mapping[str, float]:
        """Return what a packet takes in each function and in all that it called."""
        runs = [figures.Counted(one.run, stacks.inclusive(one.by_name)) for one in self.by_stack]
        # One instruction is of many functions there.
        return figures.cost(runs, case, agreement=math.inf).by_name


def _in_hex(counts: Mapping[int, int]) -> dict[str, int]:
    return {f"{address:x}": count for address, count in counts.items()}


def _as_wanted(was_set: list[Applied], row: Row) -> list[Applied]:
    """Return the readings; RefusedError if the row does not have a setting."""
    for reading in was_set:
        if reading.invalid:
            raise RefusedError(
                f"row {row.name}: {reading.knob} was to be {reading.wanted}, "
                f"and was {reading.after}"
            )
    return was_set


class Comparison:
    """One comparison: its guests, one after the other, and what they gave."""

    def __init__(self, asked: Asked, others: Others, reporter: Reporter) -> None:
        self.others, self.reporter = others, reporter
        self.root: LabRoot = labroot.ensure(reporter)
        self.asked = asked.settled(self.root, reporter)
        self.environments: dict[str, Environment] = {}
        self.last: Environment | None = None
        self.found: dict[str, _Found] = {}
        self.kernels: dict[Side, figures.Identity] = {}
        self.notes: list[str] = [WITH_NAPI] if asked.settings else []

    def recorded(self) -> tuple[RunFolder, figures.FunctionsDocument]:
        """Run its rows and have all of it in a folder."""
        folder = RunFolder.create(paths.results(), self.asked.experiment, _plan(self.asked))
        with recording(folder, lambda: self.last, self.reporter):
            document = self.written(folder)
        assert self.last is not None
        gaps = (*(GAPS[1:] if self.asked.settings else GAPS), ONE_NAME)
        timings, versions = self.reporter.timings, document.versions
        folder.finish(self.last, timings, versions=versions, commands=[], gaps=gaps)
        return folder, document

    def written(self, folder: RunFolder) -> figures.FunctionsDocument:
        """Run its rows, and have the document in a run's folder."""
        document = self.go(folder)
        text = document.model_dump_json(indent=1, by_alias=True)
        write_whole(folder.path / figures.FILE, text + "\n")
        return document

    def go(self, folder: RunFolder) -> figures.FunctionsDocument:
        """Run its rows; return the document, or raise what refuses it."""
        rows = self.asked.rows
        costs: dict[str, figures.Cost] = {}
        inclusive: dict[str, Mapping[str, float]] = {}
        described: dict[str, records.Row] = {}
        # All of them before the first is counted: one that cannot be had costs no other's time.
        kernels = {name: self._kernel(name) for name in plan.kernels(rows)}
        for boot, (name, built) in enumerate(kernels.items()):
            own = [row for row in rows if row.kernel == name]
            folder.journal("attempt", kernel=built.release, rows=[row.name for row in own])
            self._guest(folder, boot, name, built, own)
            for row in own:
                found = self.found[row.name]
                costs[row.name] = figures.cost(found.by_function, self.asked.case)
                inclusive[row.name] = found.inclusive(self.asked.case)
                self._write_stacks(folder, row.name)
                described[row.name] = records.Row(
                    name=row.name,
                    title=row.title,
                    group=row.group,
                    kernel=built.release,
                    tool=row.tool,
                )
        b = costs[self.asked.b.name]
        a = costs[self.asked.a.name] if self.asked.a else None
        return figures.FunctionsDocument(
            again=self.asked.again,
            case=self.asked.case,
            family=self.asked.family,
            a=described[self.asked.a.name] if self.asked.a else None,
            b=described[self.asked.b.name],
            kernels=self.kernels,
            settings={
                side: {knob: shown(value) for knob, value in knobs.items()}
                for side, knobs in self.asked.settings.items()
            },
            clock={"b": b.clock} if a is None else {"a": a.clock, "b": b.clock},
            functions=figures.compare(
                a or figures.NOTHING,
                b,
                inclusive[self.asked.a.name] if self.asked.a else {},
                inclusive[self.asked.b.name],
            ),
            notes=tuple(self.notes),
            runs=tuple(counted.run for row in rows for counted in self.found[row.name].by_function),
            versions={
                package: version
                for package, version in self.root.versions.items()
                if package in ("qemu-system-x86", "gcc")
            },
            environments=self.environments,
            timings=tuple(
                Timing(step=step, seconds=seconds)
                for step, seconds in self.reporter.timings.items()
            ),
        )

    def _write_stacks(self, folder: RunFolder, row: str) -> None:
        """Write what flame graphs are made of: the case with its generator and its sink."""
        try:
            whole = figures.cost(self.found[row].by_stack, self.asked.case, tester=True)
        except RefusedError as refused:
            self.notes.append(f"No stacks are kept, since they are not whole: {refused}")
            return
        text = stacks.folded(whole.by_name)
        write_whole(folder.path / stacks.file_of(row), text)

    def _kernel(self, name: str) -> kernel.Kernel:
        """Return the kernel of that name in the plan: a side of a profile, or a benchmark's."""
        named = self.asked.kernels.get(name)
        if named is None:
            return ensure_kernel(name, self.others, self.root, self.reporter, self.asked.line)
        built = kernel.ensure(_request(named, self.asked.flavour), self.root, self.reporter)
        record = built.record
        known = figures.Identity(
            name=str(named),
            release=built.release,
            key=built.key,
            source=record.source_version,
            revision=record.revision,
            source_digest=record.source_digest,
            config_sha256=record.config_sha256,
            patches=tuple(patch.name for patch in record.patches),
            lacking=record.lacking,
        )
        self.kernels |= {side: known for side in SIDES if self._boots(side) == name}
        return built

    def _boots(self, side: Side) -> str | None:
        row = self.asked.a if side == A else self.asked.b
        return row.kernel if row else None

    def _guest(
        self, folder: RunFolder, boot: int, name: str, built: kernel.Kernel, rows: Sequence[Row]
    ) -> None:
        """Run the rows of one kernel in a guest whose instructions are counted."""
        listed = built.symbols.read_text() if built.symbols else ""
        kinds = {row.tool for row in rows}
        plugins = [counting.ensure(self.root, self.reporter)]
        counts = folder.logs / f"counts-{name}.txt"
        plugin = counting.argument(f"/skblab/build/{counting.NAME}", f"{measure.OUT}/{counts.name}")
        with programs.shares(
            kinds, built, self.root, self.reporter, folder.logs, plugins
        ) as shares:
            self.reporter.say(
                f"counting by function on {built.release}: {', '.join(row.name for row in rows)}"
            )
            watch = Watch()
            with (
                self.reporter.step(f"functions: {name}"),
                Guest.boot(
                    make_spec(exact=True).model_copy(update={"plugin": plugin}),
                    built,
                    self.root,
                    shares=shares,
                    log=folder.logs / f"console-{name}.log",
                ) as guest,
            ):
                begins(folder, watch, guest=guest.console)
                self.last = describe(built, {"exact": describe_guest(guest)})
                self.environments[name if self.asked.kernels else built.release] = self.last
                symbols = "loaded" if listed else "all"
                printed = self._count(folder, guest, name, boot, rows, symbols)
        watch.refuse(f"{', '.join(row.name for row in rows)}, on kernel {name}")
        self._read(folder, boot, rows, printed, counts.read_text(), listed)
        if (folder.logs / shared(boot)).exists():
            self.notes.append(SHARED.format(built.release))

    def _count(
        self,
        folder: RunFolder,
        guest: Guest,
        name: str,
        boot: int,
        rows: Sequence[Row],
        symbols: str,
    ) -> str:
        """Run the rows in a guest: first those as the kernel comes; return what it printed."""

        def run(of: Sequence[Row], called: str, *, laid_out: bool) -> str:
            text = script(of, boot, self.asked, symbols, laid_out=laid_out)
            (folder.logs / f"bench-{called}.sh").write_text(text)
            done = guest.transport.start(["sh", "-euc", text]).wait(measure.SECONDS)
            (folder.logs / f"bench-{called}.txt").write_text(done.stdout + done.stderr)
            return done.check(f"the benchmark on kernel {name}").stdout

        printed = run(
            [row for row in rows if not self.asked.settings.get(row.name)], name, laid_out=False
        )
        for row in rows:
            if knobs := self.asked.settings.get(row.name):
                machine, undo = netns.NETNS.machine(1), folder.path / f"undo-{row.name}"
                try:
                    with applying(guest.transport, machine, undo) as applier:
                        was_set = _as_wanted(applier.apply(knobs), row)
                        printed += run([row], f"{name}-set", laid_out=True)
                        _as_wanted(applier.look(was_set), row)
                except NotPutBackError as left:
                    # The guest ends here, and its settings with it.
                    self.reporter.say(str(left))
                undo.unlink(missing_ok=True)
                self.notes += [
                    SAME.format(reading.knob, shown(reading.value))
                    for reading in was_set
                    if reading.before == reading.wanted
                ]
                self.notes += [ONE_DESTINATION] if knobs.keys() & {"routes", "routes6"} else []
        return printed

    def _read(
        self,
        folder: RunFolder,
        boot: int,
        rows: Sequence[Row],
        output: str,
        counts: str,
        listed: str,
    ) -> None:
        """Take in what one guest left; RefusedError for a row that did not do its work."""
        trials = measure.Found()
        measure.read(output, rows, boot, folder.logs, trials)
        for row in rows:
            if reasons := records.faults(row.name, trials.trials, trials.proofs):
                raise RefusedError(f"row {row.name}: {'; '.join(reasons[:3])}")
        maps: dict[str, Symbols] = {}
        lines = [Line.parse(line) for line in output.splitlines()]
        for line, sections in attribute(lines, counting.parse(counts)):
            stem = f"{line.row}-{boot}-{line.repeat}"
            if stem not in maps:
                more = (folder.logs / f"symbols-{stem}.txt").read_text()
                maps[stem] = Symbols.parse(listed, more)
            self.found.setdefault(line.row, _Found()).add(line, sections, maps[stem])
        for row in rows:
            cost = figures.cost(self.found[row.name].by_address, self.asked.case)
            symbols = next(m for stem, m in maps.items() if stem.startswith(f"{row.name}-{boot}-"))
            text = instructions(cost, symbols)
            write_whole(folder.path / f"instructions-{row.name}.tsv", text)


def instructions(cost: figures.Cost, symbols: Symbols) -> str:
    """Return a line an instruction: address, function and offset, how often a packet takes it.

    And, of a string instruction, how many further iterations that makes.
    """
    lines = []
    for name, value in sorted(cost.by_name.items()):
        try:
            found = symbols.offset_of(int(name, 16))
        except ValueError:
            found = None
        where = f"{found[0]}+{found[1]:#x}" if found else counting.UNKNOWN
        again = cost.again.get(name, 0.0)
        if max(abs(value), abs(again)) >= 0.0005:
            lines.append(f"{name}\t{where}\t{value:.3f}\t{again:.3f}")
    return "address\tfunction\tper_packet\tagain\n" + "\n".join(lines) + "\n"
