# SPDX-License-Identifier: GPL-2.0-or-later
"""The boots of a sweep that counts as tasks: what names each, what a node does and hands back.

A task is one Boot of the plan. A node measures it in a run folder of its own, as a sweep of that
boot alone, and hands back its parts and journal. The client takes them into the run's folder.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from pydantic import BaseModel, JsonValue

from skblab.jobs.element import Result, Run
from skblab.jobs.elsewhere import Elsewhere
from skblab.jobs.model import Artefact, Campaign, Task
from skblab.jobs.nodes import BESIDE, cached, require_same
from skblab.lab import labroot
from skblab.lab.guest import first, instrument
from skblab.lab.guest.chosen import make_spec
from skblab.lab.kernel import Kernel
from skblab.lab.kernel.registry import KIND as KERNELS
from skblab.lab.labroot import LabRoot
from skblab.lab.reporter import Reporter
from skblab.lab.store import digest, entry
from skblab.sweep import inputs, kept
from skblab.sweep.booting import Booting
from skblab.sweep.machines import Guests
from skblab.sweep.measure.exact import Counting
from skblab.sweep.plan import Plan
from skblab.sweep.planned import Boot
from skblab.sweep.progress import Key, Progress, record_invalid
from skblab.sweep.request import EXPERIMENT, Parameters, planned
from skblab.sweep.running import Running
from skblab.testbeds import GUESTS
from skblab_analysis.base import disk
from skblab_analysis.base.checked import Closed, parse
from skblab_analysis.base.errors import SkblabError, UsageError, one_line
from skblab_analysis.formats.journal import JOURNAL, Event, Journal
from skblab_analysis.formats.run import Environment
from skblab_analysis.formats.run import Plan as PlanRecord
from skblab_analysis.runfolder import Part, RunFolder, trial_of

# Raise when the same task gives another figure, by nothing that its key has.
RECIPE = "1"
NAME = "sweep"
# Packages whose code a figure may depend on: they send, set, boot and count.
_CODE = ("knobs", "lab", "machine", "sweep", "testbeds")
# The journal's event that says who measured a boot, and the data by which events tell of trials.
TAKEN, TRIALS = "taken", "trials"
# What says nothing of a boot, but of the run folder that a node had.
_OF_FOLDER = frozenset(("created", "began"))


class Does(Closed):
    """What a task does: `does` of it."""

    boot: int


class Built(Closed):
    """A kernel of a sweep."""

    flavour: str
    patches: bool
    key: str


class Common(Closed):
    """What all tasks of a sweep have in common: `context` of its campaign."""

    experiment: str
    rules: dict[str, str]
    plan: PlanRecord
    kernels: tuple[Built, ...]
    instrument: dict[str, str]


class _Taken(BaseModel):
    host: str


class Swept(Closed):
    """`result` of a record: what a run folder has of one boot, its trials counted from 0."""

    parts: tuple[Part, ...]
    events: tuple[Event, ...]


def require(plan: Plan) -> None:
    """Raise UsageError for a plan whose boots cannot be measured on other machines."""
    for boot in plan.boots:
        for setting in boot.settings:
            for name in inputs.OF_FILES:
                if isinstance(value := setting.knobs.get(name), str):
                    raise UsageError(
                        f"setting {setting.setting!r}: {name} = {value!r} is a file of this "
                        "machine, which nodes do not have; leave that setting out, or run the "
                        "sweep without --store"
                    )


def counting_with(root: LabRoot) -> dict[str, str]:
    """Return what figures of a store depend on, beside the plan and its kernels."""
    return (
        instrument.emulated(root)
        | instrument.within(root)
        | {"code that counts": _code(Path(__file__).parents[1])}
    )


def _code(package: Path) -> str:
    """Return what tells the code that measures from others."""
    files = sorted(
        file
        for name in _CODE
        for file in (package / name).rglob("*")
        if file.suffix in (".py", ".sh")
    )
    found = hashlib.sha256()
    for file in files:
        found.update(f"{file.relative_to(package)}\n".encode() + file.read_bytes())
    return found.hexdigest()[:16]


def campaign(folder: RunFolder, plan: Plan, boots: Booting, root: LabRoot) -> Campaign:
    """Return what all tasks of a run have in common."""
    record = folder.document.plan
    common = Common(
        experiment=(folder.path / EXPERIMENT).read_text(),
        rules=dict(plan.experiment.rules),
        plan=record,
        kernels=tuple(
            Built(flavour=flavour, patches=patches, key=built.key)
            for (flavour, patches), built in boots.kernels.items()
        ),
        instrument=counting_with(root),
    )
    kernels = {built.key for built in boots.kernels.values()}
    return Campaign(
        kind=NAME,
        title=f"sweep {record.experiment}",
        again=record.again,
        memory=make_spec(exact=True).memory + BESIDE,
        artefacts=(
            Artefact(kind="roots", key=root.key),
            cached(first.ensure(root)),
            *(Artefact(kind=KERNELS, key=key) for key in sorted(kernels)),
        ),
        context=common.model_dump(mode="json"),
    )


def tasks(plan: Plan, asked: Parameters, common: Campaign) -> dict[int, Task]:
    """Return a task for each boot of a plan, by its place there."""
    context = parse(Common, dict(common.context), "the campaign's context")
    of = {
        "recipe": RECIPE,
        "instrument": context.instrument,
        "plan": plan.digest,
        "rules": inputs.files(plan),
        "kernels": [built.model_dump() for built in context.kernels],
        "packets": asked.packets,
        "cpus": asked.cpus,
        "flavour": asked.flavour,
        "patches": asked.patches,
        "testbed": asked.testbed,
    }
    whole = json.dumps(of, sort_keys=True)
    return {
        place: Task(
            key=digest([NAME, whole, str(place)]),
            seconds=seconds,
            does=Does(boot=place).model_dump(),
        )
        for place, seconds in enumerate(plan.boot_seconds)
    }


@contextmanager
def begin(given: Campaign, reporter: Reporter) -> Iterator[Run]:
    """Begin the tasks of an element: SkblabError if this node counts in another way."""
    common = parse(Common, dict(given.context), "the campaign's context")
    root = labroot.ensure(reporter)
    require_same(counting_with(root), common.instrument)

    def run(task: Task, folder: Path) -> Result:
        does = parse(Does, dict(task.does), "the task")
        swept = _sweep(does.boot, common, root, reporter, folder)
        return swept.model_dump(mode="json", by_alias=True)

    yield run


def _sweep(place: int, common: Common, root: LabRoot, reporter: Reporter, scratch: Path) -> Swept:
    """Measure a boot of the plan in a run folder of its own."""
    folder = RunFolder.create(scratch, common.plan.experiment, common.plan)
    disk.write(folder.path / EXPERIMENT, common.experiment.encode())
    kept.keep(folder.path, common.rules)
    asked, plan = Parameters.of(folder), planned(folder)
    kernels = {
        (one.flavour, one.patches): Kernel(entry(KERNELS, one.key), one.key)
        for one in common.kernels
    }
    boots = Booting(asked.flavour, asked.patches, kernels)
    method = Counting(folder, reporter, asked.packets, cpus=asked.cpus)
    kind = GUESTS[asked.testbed]
    guests = Guests(kind, plan.experiment, method, boots, root, folder, reporter)
    one = replace(plan, boots=(plan.boots[place],))
    Running(one, method, folder, reporter, Progress.read(folder.path)).run(guests)
    return Swept(
        parts=tuple(folder.parts()),
        events=tuple(
            event
            for event in Journal(folder.path / JOURNAL).read()
            if event.event not in _OF_FOLDER
        ),
    )


class Nodes(Guests):
    """Guests on other machines: what they are is in what nodes hand back."""

    def environment(self) -> Environment:
        """Return what the figures depend on, and who counted."""
        found = super().environment()
        hosts = {event.told(_Taken).host for event in self.folder.events(TAKEN)}
        return found.model_copy(
            update={"more": {**found.more, "counted on": ", ".join(sorted(hosts))}}
        )


@dataclass(frozen=True)
class Distributed:
    """A sweep whose boots are measured elsewhere, and what its run lacks of them."""

    plan: Plan
    progress: Progress
    elsewhere: Elsewhere
    machines: Nodes
    gaps: Sequence[str]

    @property
    def folder(self) -> RunFolder:
        """The folder of its run."""
        return self.machines.folder

    def measure(self) -> None:
        """Have all boots measured that the store does not have, and take them from there."""
        self.folder.journal("began")
        common = campaign(self.folder, self.plan, self.machines.boots, self.machines.labroot)
        every = tasks(self.plan, Parameters.of(self.folder), common)
        left = {
            place: task
            for place, task in every.items()
            if self.progress.left(self.plan.boots[place])
        }
        standing = self.elsewhere.run(
            common, list(left.values()), self.machines.reporter, "counting", "boots"
        )
        for place, task in left.items():
            if why := standing.failed.get(task.key):
                self._fail(self.plan.boots[place], why)
            else:
                self._take(place, task)

    def _take(self, place: int, task: Task) -> None:
        """Take in what a node has measured of a boot, but for what was taken in before."""
        record = self.elsewhere.store.get(task.key)
        if record is None:
            raise SkblabError(f"{self.elsewhere.store.path}: the record {task.key} is gone")
        swept = parse(Swept, dict(record.result), f"the record {task.key}")
        self.folder.journal(TAKEN, boot=place, host=record.host)
        # First what tells of no trial: once all rows are there, nobody asks for the rest.
        for event in swept.events:
            if TRIALS not in (event.model_extra or {}):
                self._note(event)
        numbers = {}
        for part in swept.parts:
            row = trial_of(part)
            key = Key.of_row(row)
            if not self.progress.done(key):
                numbers[row.trial] = self.folder.adopt(part)
                self.progress.end(key)
        for event in swept.events:
            data = event.model_extra or {}
            if TRIALS in data and (ours := _numbered(data[TRIALS], numbers)):
                self._note(event, ours)

    def _note(self, event: Event, trials: Sequence[int] | None = None) -> None:
        data = dict(event.model_extra or {})
        if trials is not None:
            data[TRIALS] = list(trials)
        self.folder.journal(event.event, **data)

    def _fail(self, boot: Boot, why: str) -> None:
        """Have what is left of a boot recorded as invalid."""
        for key in self.progress.missing(boot):
            said = f"its task failed: {one_line(why)}"
            record_invalid(self.folder, self.machines.method.clock, key, said)
            self.progress.end(key)


def _numbered(trials: JsonValue, numbers: Mapping[int, int]) -> list[int]:
    assert isinstance(trials, list)
    return [numbers[one] for one in trials if isinstance(one, int) and one in numbers]
