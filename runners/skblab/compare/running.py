# SPDX-License-Identifier: GPL-2.0-or-later
"""A comparison: each workload on A, B and A again, in fresh boots, and the verdicts.

Guests are side by side: what they count does not depend on how busy a machine is. What was measured
is in the run's folder as soon as all sides have been through a workload.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from skblab.bench import functions as counting
from skblab.bench import programs
from skblab.bench.asked import request_of
from skblab.bench.kernels import identity
from skblab.compare import history, remote, stored
from skblab.compare.asked import Asked
from skblab.compare.counting import Counting, NoFigureError, Shot
from skblab.compare.instrument import instrument
from skblab.compare.remote import Counted, Wanted
from skblab.compare.workload import Workload
from skblab.jobs.elsewhere import Elsewhere
from skblab.jobs.model import Task
from skblab.knobs.values import text as shown
from skblab.lab import kernel, labroot, paths
from skblab.lab.kernel import config
from skblab.lab.kernel.blame import SourceError
from skblab.lab.labroot import LabRoot
from skblab.lab.reporter import Reporter, Update
from skblab.machine.environment import counting_tools, keep_changes
from skblab.machine.guest import Guest
from skblab.machine.recording import recording
from skblab.sweep.measure.exact import guests_at_once
from skblab.sweep.parallel import side_by_side
from skblab_analysis.base.checked import parse
from skblab_analysis.base.disk import write_whole
from skblab_analysis.base.errors import SkblabError, one_line
from skblab_analysis.formats import compare as records
from skblab_analysis.formats.compare import FIRST, CompareDocument, Measured, Verdict
from skblab_analysis.formats.run import Environment, Plan, timings_of
from skblab_analysis.runfolder import RunFolder

NAME = "compare"
MISSES = "Instructions say nothing of cache misses and mispredicted branches."
SIMULATED = (
    "Instructions say nothing of mispredicted branches; simulated caches are no processor's."
)
GAPS = (
    "One flow, one frame size, one CPU, and veth or dummy devices: no hardware, no interrupts of a "
    "device, no other CPU.",
    MISSES,
    "What sends the packets is among the figures of what is received or sent.",
    "Work that the kernel does seldom, such as once in ten thousand packets, is in no figure: a "
    "function's is the median of three turns.",
    "Before XDP, veth copies each packet of the generator's to make room in front of it: a card's "
    "driver does not.",
)
TELLS_NOTHING = (
    "There are fewer than {} differences of A and A again of: {}; for these the threshold is "
    "{:.1%} of the figure, and at least {:.0f} instructions."
)


class NoKernelError(SkblabError):
    """The kernel of a side cannot be had, since its source makes none."""

    def __init__(self, said: str, side: int) -> None:
        super().__init__(said)
        self.side = side


class Comparing:
    """One comparison: its guests, two or more at once, and what they gave."""

    def __init__(
        self, asked: Asked, reporter: Reporter, elsewhere: Elsewhere | None = None
    ) -> None:
        self.asked, self.reporter, self.elsewhere = asked, reporter, elsewhere
        self.root: LabRoot = labroot.ensure(reporter)
        # As they are now: whoever changes them meanwhile changes nothing here.
        self.instrument = instrument(self.root, reporter)
        self.past = history.read()
        self.kernels: dict[int, kernel.Kernel] = {}
        self.sides: dict[int, records.Side] = {}
        self.measured: list[Measured] = []
        self.environments: dict[int, Environment] = {}
        # What guests and stored runs say of their kernels.
        self.notes: dict[str, None] = {}
        # By side, the options of its kernel.
        self.configurations: dict[int, dict[str, str]] = {}
        # Kernels that never came up, and what they said.
        self._dead: dict[str, NoFigureError] = {}
        self._lock = threading.Lock()
        self._stopping = False

    def recorded(self) -> tuple[RunFolder, CompareDocument]:
        """Measure all workloads, and have the document in a run's folder."""
        self._take_stored()
        folder = RunFolder.create(paths.results(), NAME, _plan(self.asked))
        with recording(folder, self._environment, self.reporter):
            self._have_kernels(folder)
            self._measure(folder)
            document = self._write(folder)
            environment = self._environment()
            if environment is None:
                reason = next((one.why for one in self.measured if one.why), "nothing was measured")
                raise SkblabError(f"no workload could be measured: {reason}")
            timings, versions = self.reporter.timings, document.versions
            folder.finish(environment, timings, versions=versions, commands=[], gaps=self._gaps())
        return folder, document

    def boots(self, side: int) -> bool:
        """Whether the kernel of a side came up in a guest, or may: no guest said that it does not.

        One of which there is a figure came up, whatever became of another guest.
        """
        built = self.kernels.get(side)
        has_figure = any(one.side == side and one.figure is not None for one in self.measured)
        return built is None or has_figure or built.key not in self._dead

    def differed(self, workload: str) -> list[float]:
        """Return by how much two boots of a kernel differed before."""
        [own] = [one for one in self.asked.workloads if one.name == workload]
        return self.past.of(own, self.asked.packets)

    def _gaps(self) -> tuple[str, ...]:
        if self.asked.caches is None:
            return GAPS
        return tuple(SIMULATED if gap == MISSES else gap for gap in GAPS)

    def _environment(self) -> Environment | None:
        return self.environments[min(self.environments)] if self.environments else None

    def _take_stored(self) -> None:
        """Take in what stored runs have; UsageError for one that cannot be compared."""
        for number, side in enumerate(self.asked.sides):
            if side.stored is None:
                continue
            stored.require_comparable(side.word, side.stored, self.instrument, self.asked)
            document = side.stored.document
            self.sides[number] = document.sides[side.stored.side].model_copy(
                update={"stored": str(side.stored.folder)}
            )
            there = document.environments.get(str(side.stored.side))
            if there is not None:
                self.environments[number] = there
            self.configurations[number] = stored.configuration(side.stored)
            self.notes |= dict.fromkeys(stored.notes(side.stored))
            of = (side.stored, number, len(self.asked.sides), self.asked.workloads)
            self.measured += stored.taken(*of)

    def _have_kernels(self, folder: RunFolder) -> None:
        """Build or fetch every kernel, before the first guest is started."""
        for number, side in enumerate(self.asked.sides):
            if side.kernel is None:
                if side.stored is not None:
                    stored.keep_configuration(side.stored, self.sides[number], folder)
                continue
            named = side.kernel.settled(self.root, self.reporter)
            request = request_of(named, self.asked.flavour)
            try:
                built = kernel.ensure(request, self.root, self.reporter)
            except SourceError as error:
                raise NoKernelError(str(error), number) from error
            keep_changes(folder, built)
            self.kernels[number] = built
            self.configurations[number] = config.parse(built.config.read_text())
            write_whole(folder.path / stored.config_file(built.key), built.config.read_bytes())
            self.sides[number] = records.Side(
                name=side.word,
                kernel=identity(named, built),
                toolchain=built.record.toolchain,
                flavour=built.record.flavour,
                settings={knob: shown(value) for knob, value in side.knobs.items()},
            )
        stored.require_one_compiler(self.sides)

    def _measure(self, folder: RunFolder) -> None:
        """Count each workload on all sides, the first workload first."""
        if not self.kernels:
            return
        if self.elsewhere is not None:
            self._measure_elsewhere(self.elsewhere)
            return
        any_kernel = next(iter(self.kernels.values()))
        plugins = [counting.ensure(self.root, self.reporter)]
        total = len(self.asked.workloads) * len(self.asked.measured)
        with (
            programs.shares(
                set(), any_kernel, self.root, self.reporter, folder.logs, plugins
            ) as shares,
            self.reporter.bar("counting", total) as bar,
            self.reporter.step("counting"),
        ):
            guests = Counting(self.root, shares, folder.logs, self.notes, self.asked.caches)
            jobs = [
                self._job(folder, guests, workload, number, boot, bar)
                for workload in self.asked.workloads
                for number, boot in self.asked.measured
            ]
            side_by_side(jobs, guests_at_once(), self._stop)

    def _measure_elsewhere(self, elsewhere: Elsewhere) -> None:
        """Have all boots counted that the store does not have, and take them from there."""
        counts = remote.counting_with(self.root, self.reporter)
        common = remote.campaign(self.asked, counts, self.root)
        own = remote.tools(self.root, self.reporter)
        common = common.model_copy(update={"artefacts": (*common.artefacts, *own)})
        wanted = remote.tasks(self.asked, counts, self.kernels)
        all_tasks = list(wanted.values())
        standing = elsewhere.run(common, all_tasks, self.reporter, "counting", "boots")
        for name, task in wanted.items():
            self._take(name, task, elsewhere, standing.failed.get(task.key, ""))

    def _take(self, wanted: Wanted, task: Task, elsewhere: Elsewhere, failed: str) -> None:
        """Take in what the store has of a boot, or why it has failed."""
        workload, number, boot = wanted
        known = {"workload": workload, "side": number, "boot": boot}
        if failed:
            self.measured.append(Measured(**known, why=one_line(failed), cause="other"))
            return
        record = elsewhere.store.get(task.key)
        assert record is not None
        counted = parse(Counted, dict(record.result), f"the record {task.key}")
        if counted.environment is not None:
            self.environments.setdefault(number, counted.environment)
        self.notes |= dict.fromkeys(counted.notes)
        if counted.figure is not None:
            self.measured.append(Measured(**known, figure=counted.figure))
            return
        if not counted.up:
            self._dead[self.kernels[number].key] = NoFigureError(counted.why, "kernel", up=False)
        self.measured.append(Measured(**known, why=counted.why, cause=counted.cause))

    def _stop(self) -> None:
        self._stopping = True
        Guest.end_all()

    def _job(
        self,
        folder: RunFolder,
        guests: Counting,
        workload: Workload,
        number: int,
        boot: int,
        bar: Update,
    ) -> Callable[[], None]:
        def job() -> None:
            found = self._count(guests, workload, number, boot)
            with self._lock:
                self.measured.append(found)
                done = [one for one in self.measured if one.workload == workload.name]
                folder.journal("counted", workload=workload.name, side=number, boot=boot)
                if len(done) == self.asked.boots:
                    self._write(folder)
                counted = len(self.measured) - self.asked.taken
                bar(counted, f"{workload.name}: {_word(found)}")

        return job

    def _count(self, guests: Counting, workload: Workload, number: int, boot: int) -> Measured:
        """Count a workload in one boot; what goes wrong with it is what was found."""
        known = {"workload": workload.name, "side": number, "boot": boot}
        built, knobs = self.kernels[number], self.asked.sides[number].knobs
        try:
            if built.key in self._dead:
                raise self._dead[built.key]
            shot = Shot(workload, built, boot, self.asked.packets, knobs)
            figure, environment = guests.count(shot)
        except NoFigureError as error:
            if self._stopping:
                raise
            if not error.up and error.cause == "kernel":
                self._dead[built.key] = error
            return Measured(**known, why=one_line(str(error)), cause=error.cause)
        except SkblabError as error:
            if self._stopping:
                raise
            return Measured(**known, why=one_line(str(error)), cause="other")
        with self._lock:
            self.environments.setdefault(number, environment)
        return Measured(**known, figure=figure)

    def _write(self, folder: RunFolder) -> CompareDocument:
        document = self._document()
        text = document.model_dump_json(indent=1, by_alias=True)
        write_whole(folder.path / records.FILE, text + "\n")
        return document

    def _document(self) -> CompareDocument:
        """Return what is known now: verdicts are on workloads that all boots have been through."""
        verdicts: list[Verdict] = []
        unknown: list[str] = []
        for workload in self.asked.workloads:
            own = [one for one in self.measured if one.workload == workload.name]
            if len(own) < self.asked.boots:
                continue
            past = self.past.of(workload, self.asked.packets)
            if len(past) < records.LEAST_HISTORY:
                unknown.append(workload.name)
            verdicts += (
                records.judge(workload.name, number, own, past, self.asked.budget)
                for number in range(1, len(self.asked.sides))
            )
        notes = list(self.notes)
        if unknown:
            least = (records.LEAST_HISTORY, ", ".join(unknown))
            notes.append(
                TELLS_NOTHING.format(*least, records.LEAST_SHARE, records.LEAST_INSTRUCTIONS)
            )
        return CompareDocument(
            again=self.asked.again,
            packets=self.asked.packets,
            instrument=self.instrument,
            sides=tuple(self.sides[number] for number in sorted(self.sides)),
            workloads=tuple(one.record() for one in self.asked.workloads),
            measured=tuple(
                sorted(self.measured, key=lambda one: (self._place(one.workload), one.boot))
            ),
            budget=self.asked.budget,
            caches=self.asked.caches.described if self.asked.caches else None,
            verdicts=tuple(verdicts),
            configurations=self._configurations(),
            notes=tuple(notes),
            versions=counting_tools(self.root),
            environments={str(number): one for number, one in self.environments.items()},
            timings=timings_of(self.reporter.timings),
        )

    def _place(self, name: str) -> int:
        return [one.name for one in self.asked.workloads].index(name)

    def _configurations(self) -> dict[str, tuple[str, ...]]:
        """Return by side which options its kernel has another value of than A's."""
        a = self.configurations.get(FIRST, {})
        return {
            str(number): tuple(
                f"{option}: {a.get(option, 'none')} -> {b.get(option, 'none')}"
                for option in sorted({**a, **b})
                if a.get(option, "n") != b.get(option, "n") and not option.startswith(_TOOLS)
            )
            for number, b in self.configurations.items()
            if number != FIRST and a and b and a != b
        }


# What the compiler and its tools can do, and the kernel's own name.
_TOOLS = ("CC_", "GCC_", "CLANG_", "LD_", "AS_", "LLD_", "RUSTC_", "PAHOLE_", "LOCALVERSION")


def _word(found: Measured) -> str:
    return found.why if found.figure is None else f"{found.figure.instructions:.1f} instructions"


def _plan(asked: Asked) -> Plan:
    a, *others = (side.word for side in asked.sides)
    return Plan(
        experiment=NAME,
        question=f"What differs from {a} on {', '.join(others)}?" if others else f"What costs {a}?",
        seed=0,
        packets=asked.packets,
        again=asked.again,
        parameters={
            "workloads": ", ".join(one.name for one in asked.workloads),
            "flavour": asked.flavour,
            **({"caches": asked.caches.word} if asked.caches else {}),
            **{f"side_{number}": side.word for number, side in enumerate(asked.sides)},
        },
    )
