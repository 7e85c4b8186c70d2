# SPDX-License-Identifier: GPL-2.0-or-later
"""Rows by function: where the instructions go that one takes, or one takes and another does not."""

from __future__ import annotations

import contextlib
import math
from collections import Counter
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from skblab.bench import functions as counting
from skblab.bench import measure, plan, programs
from skblab.bench.asked import BATCH, SIDES, A, Asked, B, plan_of, request_of
from skblab.bench.functions import Section, Symbols
from skblab.bench.functions.layout import STRUCTURES, Structure
from skblab.bench.functions.layout import parse as structures
from skblab.bench.kernels import Others, ensure_kernel, identity
from skblab.bench.measure import Line
from skblab.bench.missing import Missing, Of, compared
from skblab.bench.plan import Row
from skblab.bench.run import GAPS
from skblab.knobs.applying import Applied, NotPutBackError, applying, require_set
from skblab.knobs.values import Knobs
from skblab.knobs.values import text as shown
from skblab.lab import kernel, labroot, paths
from skblab.lab.guest.chosen import make_spec
from skblab.lab.guest.errors import GuestError
from skblab.lab.labroot import LabRoot
from skblab.lab.reporter import Reporter
from skblab.machine.device import Device, Machine
from skblab.machine.environment import counting_tools, describe, describe_guest, keep_changes
from skblab.machine.guest import Guest
from skblab.machine.recording import begins, recording
from skblab.machine.transport import TransportError
from skblab.machine.watch import Watch
from skblab.testbeds import netns
from skblab_analysis.base.checked import RefusedError
from skblab_analysis.base.disk import write_whole
from skblab_analysis.base.errors import SkblabError, one_line
from skblab_analysis.formats import bench as records
from skblab_analysis.formats import functions as figures
from skblab_analysis.formats import pprof, stacks
from skblab_analysis.formats.bylayer import by_layer
from skblab_analysis.formats.functions import Side
from skblab_analysis.formats.heard import reason
from skblab_analysis.formats.run import Environment, timings_of
from skblab_analysis.runfolder import RunFolder

# The sections that the benchmark's programs mark: pktgen is told to start, and drain reads.
GENERATE, READ, READ_REMOTE = 0, 1, 2

# Of an older kernel's generator (generator.sh).
SHARED = (
    "pktgen of {} keeps a part in each packet that it sends, and knows no other way: whoever takes "
    "it makes a clone of each, with a copy of its head, and leaves out GRO. A newer kernel's does "
    "not; what differs between the two has that in it."
)

# Of a row's instructions.
MOST_UNNAMED = 0.01
UNNAMED = "{}: of {:.1%} of the instructions it is not known in which function they are."
UNSEEN = (
    "{} does not show where its functions are: nothing tells whether the list of its symbols "
    "is its own."
)
BEHIND = "it was not counted, since of a row before: {}"
ONE_NAME = "Functions of one name in different files are one."
# Where settings are made, and how the path then differs from one without any.
ROUTER = netns.NETNS.machine(1)
RECEIVER = Machine(
    (Device("v0", "receiver", beyond=("198.18.0.2", "2001:db8:0:1::2")),), "receiver", veth=True
)
WITH_NAPI: Mapping[str, str] = {
    "forward": "The router's devices have NAPI and GRO, as in sweeps: the path is longer than in a "
    "profile without settings.",
    "receive": "The receiver's device has NAPI and GRO, as a network card has: the path is longer "
    "than in a profile without settings.",
}

# What two NUMA nodes are here.
ON_NODES: Mapping[str, str] = {
    "forward": "The other node has memory and no CPU, and pktgen takes its packets from there. It "
    "uses the same memory again, which caches hold: a line that a network card has written by DMA "
    "would come from memory each time.",
    "receive": "The guest has one CPU. While the program reads, its accesses go to the caches of a "
    "second CPU, on the other node, and its buffer is there. Its stack in the kernel, the socket "
    "and variables of a CPU stay where the kernel put them: most on the first node. To write to a "
    "line that both caches have is no miss here.",
}

SAME = "{0} was {1} already: nothing was changed by it."
ONE_DESTINATION = (
    "Each packet goes to the same destination, in a network that the router is in itself; "
    "--destinations random sends each to another one."
)

# The repeat that fills simulated caches, and is not counted.
COLD = 0
# A run with few packets and one with many have the same number of batches (bench.sh), so that
# what begins and ends a batch cancels.
FEWER = 5
# What else the guest does, its ssh server too, goes before pktgen, which gives way to it: rows in
# which a packet takes more among many than among few are run so often again.
MORE_ROUNDS = 3
KEPT = "/tmp/counted"
UNEVEN = (
    "{}, {}: {:.0f} instructions a packet among {}, and {:.0f} among {}: something else ran beside "
    "them, and is in its figures; run it again with more --repeats."
)


def script(
    rows: Sequence[Row], boot: int, asked: Asked, symbols: str = "loaded", *, laid_out: bool = False
) -> str:
    """Return what a guest runs: every row with few packets and with many, in every round.

    Rows that are uneven are run again. It keeps the `symbols` of what is loaded, or all.
    `laid_out`: the namespaces are there.
    """
    more = {"laid_out": "yes"} if laid_out else {}
    more |= {"napi": "yes"} if asked.settings else {}
    more |= {"destinations": asked.destinations} if asked.destinations != "fixed" else {}
    lines = measure.head(boot, asked.packets, families=str(asked.family), symbols=symbols, **more)
    if asked.caches:
        # Caches that nothing is in would be part of what the first run takes.
        lines.append(f"repeat={COLD} packets={BATCH} batch={BATCH}")
        lines += [_run(row, asked) for row in rows]
    lines.append(f"kept={KEPT} most_uneven={figures.MOST_UNEVEN}; : >$kept")
    sizes = ((asked.packets // FEWER, BATCH // FEWER), (asked.packets, BATCH))
    for round_ in range(asked.repeats + MORE_ROUNDS):
        more_of = round_ >= asked.repeats
        if more_of:
            lines.append("again=$(uneven)")
        for size, (packets, batch) in enumerate(sizes):
            lines.append(f"repeat={2 * round_ + size + 1} packets={packets} batch={batch}")
            order = rows if round_ % 2 else tuple(reversed(rows))
            runs = [_run(row, asked) for row in order]
            if more_of:
                named = zip(order, runs, strict=True)
                runs = [f'case " $again " in *" {row.name} "*) {run} ;; esac' for row, run in named]
            lines += runs
    lines.append(f'[ ! -e /run/skblab-shared ] || : >"$out/{shared(boot)}"')
    return "\n".join(lines) + "\n"


def _run(row: Row, asked: Asked) -> str:
    """Return the line that runs a row."""
    run = f"run {' '.join(row.words())}"
    if not asked.numa:
        return run
    other, receives = row.name in asked.remote, asked.case == "receive"
    remote = "remote" if other and receives else ""
    return f"node={int(other and not receives)} remote={remote}; {run}"


def shared(boot: int) -> str:
    """Return the file that a guest leaves whose generator can only share its packets."""
    return f"shared-{boot}"


MIB = 1 << 20
# With --numa.
NODES = 2

# Of objects of one size the kernel would put those of several types into one cache.
UNMERGED = "slab_nomerge"


class SectionsError(SkblabError):
    """What the plugin counted is not what the script ran."""


def attribute(
    lines: Sequence[Line],
    sections: Sequence[Section],
    *,
    whole: bool = True,
    remote: Container[str] = (),
) -> Iterator[tuple[Line, list[Section]]]:
    """Give each line of the script its sections, in the order that the script made them.

    Lines that stand aside have none, and are left out. Raises SectionsError if there are others
    than the lines need; of a script that did not run to its end (not `whole`) there may be some.
    Of `remote` rows packets are read on another node.
    """
    left = iter(sections)

    def take(number: int, line: Line) -> Section:
        section = next(left, None)
        if section is None or section.number != number:
            found = f"the next is of marks {section.number}" if section else "there is none more"
            raise SectionsError(
                f"row {line.row}, {line.packets} packets: a section of marks {number} was to come, "
                f"and {found}: one was never ended, or a mark was missed"
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
            into.append(take(GENERATE, line))
            if line.part == "queue":
                out_of.append(take(READ_REMOTE if line.row in remote else READ, line))
        yield line, into
    if whole and next(left, None) is not None:
        raise SectionsError("more sections were counted than the benchmark ran")


@dataclass
class _Found:
    """The runs of one row: by function, and by address."""

    by_function: list[figures.Counted] = field(default_factory=list)
    by_address: list[figures.Counted] = field(default_factory=list)
    by_stack: list[figures.Counted] = field(default_factory=list)
    missed: Missing = field(default_factory=Missing)

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
        self.missed.add(run, sections, symbols)

    def inclusive(self, case: figures.Case) -> Mapping[str, float]:
        """Return what a packet takes in each function and in all that it called."""
        runs = [figures.Counted(one.run, stacks.inclusive(one.by_name)) for one in self.by_stack]
        # One instruction is of many functions there.
        return figures.cost(runs, case, agreement=math.inf).by_name


@dataclass(frozen=True)
class _Counted:
    """What a packet takes in one row: by function, by stack, in functions with what they call.

    There are no stacks, and `refused` says why, where they do not add up to the clock.
    """

    row: records.Row
    cost: figures.Cost
    stacks: Mapping[str, float] = field(default_factory=dict)
    inclusive: Mapping[str, float] | None = None
    layers: Mapping[str, float] | None = None
    refused: str = ""
    missed: Of = field(default_factory=Of)

    @classmethod
    def of(
        cls,
        row: Row,
        release: str,
        case: figures.Case,
        found: _Found,
        layout: Mapping[str, Structure],
    ) -> _Counted:
        """Return it by the runs of the row, on the kernel of that release."""
        described = records.Row(
            name=row.name, title=row.title, group=row.group, kernel=release, tool=row.tool
        )
        cost = figures.cost(found.by_function, case)
        missed = Of(found.missed.of(case), found.missed.types(case), layout)
        try:
            # As flame graphs have them: with who sends the packets and takes them.
            whole = figures.cost(found.by_stack, case, tester=True)
        except RefusedError as refused:
            return cls(described, cost, refused=str(refused), missed=missed)
        layers = by_layer(figures.cost(found.by_stack, case).by_name)
        inclusive = found.inclusive(case)
        return cls(described, cost, whole.by_name, inclusive, layers, missed=missed)


def _layers(
    a: Mapping[str, float] | None, b: Mapping[str, float] | None
) -> tuple[figures.Layer, ...]:
    """Return the layers that a packet passes in either row."""
    before, after = a or {}, b or {}
    found = (
        figures.Layer(name=name, a=before.get(name, 0.0), b=after.get(name, 0.0)) for name in after
    )
    return tuple(one for one in found if round(one.a, 1) or round(one.b, 1))


def _in_hex(counts: Mapping[int, int]) -> dict[str, int]:
    return {f"{address:x}": count for address, count in counts.items()}


def _as_wanted(was_set: list[Applied], row: Row) -> list[Applied]:
    """Return the readings; RefusedError if the row does not have a setting."""
    try:
        require_set(was_set)
    except RefusedError as refused:
        raise RefusedError(f"row {row.name}: {refused}") from refused
    return was_set


def _undo(folder: RunFolder, row: Row) -> Path:
    return folder.path / f"undo-{row.name}"


@dataclass
class _Ran:
    """What the scripts of one guest have printed.

    `rows` ran to the end of theirs, and `whole` says whether the last one did; `running` is the row
    whose script was begun last.
    """

    printed: str = ""
    rows: list[Row] = field(default_factory=list)
    running: Row | None = None
    whole: bool = True


class Comparison:
    """One comparison: its guests, one after the other, and what they gave."""

    def __init__(
        self, asked: Asked, others: Others, reporter: Reporter, notes: Sequence[str] = ()
    ) -> None:
        self.others, self.reporter = others, reporter
        self.root: LabRoot = labroot.ensure(reporter)
        self.asked = asked.settled(self.root, reporter)
        self.environments: dict[str, Environment] = {}
        self.last: Environment | None = None
        self.found: dict[str, _Found] = {}
        self.kernels: dict[Side, figures.Identity] = {}
        # Structures of each kernel, by its name in the plan.
        self.layouts: dict[str, dict[str, Structure]] = {}
        self.refused: set[str] = set()
        # Of a guest that did not come to all of its rows.
        self.death: GuestError | None = None
        self.notes: list[str] = [
            *([WITH_NAPI[asked.case]] if asked.settings else []),
            *([ON_NODES[asked.case]] if asked.numa else []),
            *notes,
        ]

    def recorded(self) -> tuple[RunFolder, tuple[figures.FunctionsDocument, ...]]:
        """Run its rows and have all of it in a folder: a document for each row but the first."""
        folder = RunFolder.create(paths.results(), self.asked.experiment, plan_of(self.asked))
        with recording(folder, lambda: self.last, self.reporter):
            documents = self.written(folder)
        assert self.last is not None
        gaps = (*(GAPS[1:] if self.asked.settings else GAPS), ONE_NAME)
        timings, versions = self.reporter.timings, documents[0].versions
        folder.finish(self.last, timings, versions=versions, commands=[], gaps=gaps)
        return folder, documents

    def end(self) -> None:
        """Raise the death of a guest, if there was one: what was counted is written and shown."""
        if self.death is not None:
            raise self.death

    def written(self, folder: RunFolder) -> tuple[figures.FunctionsDocument, ...]:
        """Run its rows, and have the documents in a run's folder."""
        documents = self.go(folder)
        for number, document in enumerate(documents, 1):
            text = document.model_dump_json(indent=1, by_alias=True)
            write_whole(folder.path / figures.file_of(number), text + "\n")
        return documents

    def go(self, folder: RunFolder) -> tuple[figures.FunctionsDocument, ...]:
        """Run its rows; return the documents, or raise what refuses them.

        Of several rows that are compared with one, those that are refused are left out, and noted.
        """
        rows = self.asked.rows
        counted: dict[str, _Counted] = {}
        # All of them before the first is counted: one that cannot be had costs no other's time.
        kernels = {name: self._kernel(name) for name in plan.kernels(rows)}
        for boot, (name, built) in enumerate(kernels.items()):
            own = [row for row in rows if row.kernel == name]
            keep_changes(folder, built)
            folder.journal("attempt", kernel=built.release, rows=[row.name for row in own])
            self._guest(folder, boot, name, built, own)
            for row in own:
                if row.name in self.refused:
                    continue
                with self._refusal(row):
                    counted[row.name] = _Counted.of(
                        row,
                        built.release,
                        self.asked.case,
                        self.found[row.name],
                        self.layouts.get(name, {}),
                    )
                    self._note_unnamed(counted[row.name])
                    self.notes += [
                        UNEVEN.format(row.title, one.part, one.among_few, one.few, *of)
                        for one in figures.uneven(self.found[row.name].by_function)
                        for of in [(one.among_many, one.many)]
                    ]
                    self._write_stacks(folder, counted[row.name])
        first = None if self.asked.a is None else counted.pop(self.asked.a.name, None)
        if self.asked.a and first is None:
            self.end()
            raise RefusedError(f"nothing can be compared: {'; '.join(self.notes)}")
        if not counted:
            self.end()
            raise RefusedError(f"no row could be counted: {'; '.join(self.notes)}")
        return tuple(
            self._document(first, counted[row.name]) for row in rows if row.name in counted
        )

    @contextlib.contextmanager
    def _refusal(self, row: Row) -> Iterator[None]:
        """Have a row be left out for what went wrong with it, if there are others."""
        try:
            yield
        except (TransportError, GuestError):
            raise
        except SkblabError as refused:
            if not self.asked.more:
                raise
            self.refused.add(row.name)
            self.notes.append(f"{row.title} is left out: {refused}")

    def _document(self, a: _Counted | None, b: _Counted) -> figures.FunctionsDocument:
        """Return what row b takes, compared with row a if there is one."""
        pairs: tuple[tuple[Side, _Counted], ...] = ((B, b),) if a is None else ((A, a), (B, b))
        # What one has and the other has not would look like a difference.
        whole = not any(counted.refused for _, counted in pairs)
        inclusive = ({} if a is None else a.inclusive, b.inclusive) if whole else (None, None)
        return figures.FunctionsDocument(
            again=self.asked.again,
            case=self.asked.case,
            family=self.asked.family,
            destinations=self.asked.destinations,
            a=a.row if a else None,
            b=b.row,
            kernels=self.kernels,
            settings={
                side: {knob: shown(value) for knob, value in knobs.items()}
                for side, counted in pairs
                if (knobs := self.asked.settings.get(counted.row.name))
            },
            clock={side: counted.cost.clock for side, counted in pairs},
            functions=figures.compare(
                *(a.cost if a else figures.NOTHING, b.cost),
                *inclusive,
            ),
            layers=_layers(None if a is None else a.layers, b.layers) if whole else (),
            memory=compared(
                *(self.asked.caches, Of() if a is None else a.missed, b.missed),
                whole=whole,
                nodes=NODES if self.asked.numa else 1,
            ),
            notes=tuple(self.notes),
            runs=tuple(
                one.run for _, counted in pairs for one in self.found[counted.row.name].by_function
            ),
            versions=counting_tools(self.root),
            environments=self.environments,
            timings=timings_of(self.reporter.timings),
        )

    def _write_stacks(self, folder: RunFolder, counted: _Counted) -> None:
        """Write what flame graphs are made of."""
        if counted.refused:
            self.notes.append(f"No stacks are kept, since they are not whole: {counted.refused}")
            return
        row = counted.row
        write_whole(folder.path / stacks.file_of(row.name), stacks.folded(counted.stacks))
        as_pprof = pprof.encoded(counted.stacks, f"{row.title} ({row.kernel}): {self.asked.again}")
        write_whole(folder.path / pprof.file_of(row.name), as_pprof)

    def _kernel(self, name: str) -> kernel.Kernel:
        """Return the kernel of that name in the plan: a side of a profile, or a benchmark's."""
        named = self.asked.kernels.get(name)
        if named is None:
            return ensure_kernel(name, self.others, self.root, self.reporter, self.asked.line)
        built = kernel.ensure(request_of(named, self.asked.flavour), self.root, self.reporter)
        known = identity(named, built)
        self.kernels |= {side: known for side in SIDES if self._boots(side) == name}
        return built

    def _boots(self, side: Side) -> str | None:
        row = self.asked.a if side == A else self.asked.b
        return row.kernel if row else None

    def _guest(
        self, folder: RunFolder, boot: int, name: str, built: kernel.Kernel, rows: Sequence[Row]
    ) -> None:
        """Run the rows of one kernel in a guest whose instructions are counted."""
        kinds = {row.tool for row in rows}
        plugins = [counting.ensure(self.root, self.reporter)]
        counts, layout = (folder.logs / f"{what}-{name}.txt" for what in ("counts", "layout"))
        spec = make_spec(exact=True)
        if self.asked.numa:
            spec = spec.model_copy(update={"memory_nodes": NODES - 1})
        plugin = counting.argument(
            *(f"/skblab/build/{counting.NAME}", f"{measure.OUT}/{counts.name}"),
            self.asked.caches,
            f"{measure.OUT}/{layout.name}",
            spec.memory * MIB // NODES if self.asked.numa else 0,
        )
        if self.asked.caches:
            spec = spec.model_copy(update={"arguments": (*spec.arguments, UNMERGED)})
        with programs.shares(
            kinds, built, self.root, self.reporter, folder.logs, plugins
        ) as shares:
            self.reporter.say(
                f"counting by function on {built.release}: {', '.join(row.name for row in rows)}"
            )
            watch, ran = Watch(), _Ran()
            try:
                with (
                    self.reporter.step(f"functions: {name}"),
                    Guest.boot(
                        spec.model_copy(update={"plugin": plugin, "sample": boot}),
                        built,
                        self.root,
                        shares=shares,
                        log=folder.logs / f"console-{name}.log",
                    ) as guest,
                ):
                    begins(folder, watch, guest=guest.console)
                    self.last = describe(built, {"exact": describe_guest(guest)})
                    self.environments[name if self.asked.kernels else built.release] = self.last
                    if self.asked.caches:
                        self._tell_layout(guest, name, layout)
                    symbols = "loaded" if built.symbols else "all"
                    self._count(folder, guest, name, boot, rows, symbols, watch, ran)
            except GuestError as death:
                self._died(death, folder, rows, ran)
                # That is why it died.
                watch.look()
        watch.refuse(f"{', '.join(row.name for row in rows)}, on kernel {name}")
        sections = counting.parse(counts.read_text())
        if name in self.layouts and not any(section.sized for section in sections):
            self.notes.append(f"Objects have no types: no slab of {built.release} could be read")
        try:
            self._read(folder, boot, built, rows, ran, sections)
        except SectionsError as error:
            raise SkblabError(
                f"on kernel {built.release}: {error}; what was counted: {counts}"
            ) from error
        if (folder.logs / shared(boot)).exists():
            self.notes.append(SHARED.format(built.release))

    def _tell_layout(self, guest: Guest, name: str, layout: Path) -> None:
        """Have the plugin know where the kernel has what tells an object's type, if it can be."""
        done = guest.transport.run([f"/skblab/build/{counting.LAYOUT}", *STRUCTURES.values()])
        if done.status:
            said = one_line(done.stderr.strip() or f"exit {done.status}")
            self.notes.append(f"Objects have no types: {said}")
            return
        layout.write_text(done.stdout)
        try:
            self.layouts[name] = structures(done.stdout)
        except SkblabError as error:
            self.notes.append(f"Objects have no fields: {error}")

    def _count(
        self,
        folder: RunFolder,
        guest: Guest,
        name: str,
        boot: int,
        rows: Sequence[Row],
        symbols: str,
        watch: Watch,
        ran: _Ran,
    ) -> None:
        """Run the rows in a guest: first those as the kernel comes. `ran` says how far it came."""

        def run(of: Sequence[Row], called: str, *, laid_out: bool) -> str:
            text = script(of, boot, self.asked, symbols, laid_out=laid_out)
            (folder.logs / f"bench-{called}.sh").write_text(text)
            running = guest.transport.start(["sh", "-euc", text])
            kept = folder.logs / f"bench-{called}.txt"
            try:
                done = running.wait(measure.SECONDS)
            except SkblabError:
                # A guest that dies has counted what its script has said until then.
                kept.write_text("".join([*running.take_lines(), running.take_errors()]))
                raise
            kept.write_text(done.stdout + done.stderr)
            return done.check(f"the benchmark on kernel {name}").stdout

        plain = [row for row in rows if not self.asked.settings.get(row.name)]
        ran.printed += run(plain, name, laid_out=False)
        watch.refuse(f"{', '.join(row.name for row in plain) or 'the set-up'}, on kernel {name}")
        stopped = ""
        for row in rows:
            knobs = self.asked.settings.get(row.name)
            if not knobs:
                continue
            if stopped:
                self._leave_out(row, BEHIND.format(stopped))
                continue
            ran.running = row
            machine = RECEIVER if self.asked.case == "receive" else ROUTER
            undo = _undo(folder, row)
            was_set: list[Applied] = []
            try:
                # A row that is left out puts its settings back, too.
                with (
                    applying(guest.transport, machine, undo, self.asked.catalogue) as applier,
                    self._refusal(row),
                ):
                    was_set = _as_wanted(applier.apply(knobs), row)
                    ran.whole = False
                    ran.printed += run([row], f"{row.name}-set", laid_out=True)
                    ran.whole = True
                    _as_wanted(applier.look(was_set), row)
            except NotPutBackError as left:
                # The guest ends behind its rows, and its settings with it.
                stopped = str(left)
                self.reporter.say(stopped)
            undo.unlink(missing_ok=True)
            if row.name not in self.refused:
                ran.rows.append(row)
            if not ran.whole:
                stopped = "its script failed"
            if heard := watch.look():
                # The kernel is not what it was.
                stopped = reason(heard)
                self._leave_out(row, stopped)
            self._note(row, knobs, was_set)

    def _died(self, death: GuestError, folder: RunFolder, rows: Sequence[Row], ran: _Ran) -> None:
        """Leave out the rows that the end of their guest cost; raise it where none is left."""
        if ran.running is not None:
            # They went with their guest.
            _undo(folder, ran.running).unlink(missing_ok=True)
        compared = [row for row in ran.rows if row != self.asked.a]
        if not (self.asked.more and compared and ran.running):
            raise death
        self.death = death
        self._leave_out(ran.running, one_line(str(death)))
        for row in rows[rows.index(ran.running) + 1 :]:
            self._leave_out(row, BEHIND.format("its guest has died"))

    def _leave_out(self, row: Row, why: str) -> None:
        """Have a row be left out, if there are others and it is not left out already."""
        if row.name not in self.refused:
            with self._refusal(row):
                raise RefusedError(why)

    def _note_unnamed(self, counted: _Counted) -> None:
        """Note what is in no function that the kernel lists, where it is more than a hundredth."""
        by_name = counted.cost.by_name
        unnamed, whole = by_name.get(counting.UNKNOWN, 0.0), sum(by_name.values())
        if unnamed > MOST_UNNAMED * whole:
            self.notes.append(UNNAMED.format(counted.row.title, unnamed / whole))

    def _note(self, row: Row, knobs: Knobs, was_set: Sequence[Applied]) -> None:
        """Note what is to be known of a row's settings."""
        if not self.asked.of:
            self.notes += [
                SAME.format(reading.knob, shown(reading.value))
                for reading in was_set
                if reading.before == reading.wanted
            ]
        one = self.asked.destinations == "fixed"
        if one and knobs.keys() & {"routes", "routes6"} and ONE_DESTINATION not in self.notes:
            self.notes.append(ONE_DESTINATION)

    def _read(
        self,
        folder: RunFolder,
        boot: int,
        built: kernel.Kernel,
        rows: Sequence[Row],
        ran: _Ran,
        sections: Sequence[Section],
    ) -> None:
        """Take in what one guest left; RefusedError for a row that did not do its work."""
        trials = measure.Found()
        measure.read(ran.printed, rows, boot, folder.logs, trials)
        for row in (row for row in rows if row.name not in self.refused):
            if reasons := records.faults(row.name, trials.trials, trials.proofs):
                self._leave_out(row, f"row {row.name}: {'; '.join(reasons[:3])}")
        listed = built.symbols.read_text() if built.symbols else ""
        maps: dict[str, Symbols] = {}
        lines = [Line.parse(line) for line in ran.printed.splitlines()]
        for line, of in attribute(lines, sections, whole=ran.whole, remote=self.asked.remote):
            if line.repeat == COLD:
                continue
            stem = f"{line.row}-{boot}-{line.repeat}"
            if stem not in maps:
                more = (folder.logs / f"symbols-{stem}.txt").read_text()
                first = not maps
                maps[stem] = Symbols.parse(listed, more)
                if (
                    first
                    and built.symbols
                    and not counting.require_same(listed, more, built.symbols)
                ):
                    self.notes.append(UNSEEN.format(built.release))
            self.found.setdefault(line.row, _Found()).add(line, of, maps[stem])
        for row in (row for row in rows if row.name not in self.refused):
            with self._refusal(row):
                cost = figures.cost(self.found[row.name].by_address, self.asked.case)
                stem = next(stem for stem in maps if stem.startswith(f"{row.name}-{boot}-"))
                text = instructions(cost, maps[stem])
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
