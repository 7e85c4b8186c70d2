# SPDX-License-Identifier: GPL-2.0-or-later
"""A comparison's boots as tasks: what names each, what a node does, and what it hands back.

A task is one Shot. Its key is of all that its figure depends on. So what one comparison has had
counted, another one takes from the store: a base is counted once for many revisions.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from skblab.bench import functions as counting
from skblab.bench import programs
from skblab.bench.functions import Chosen
from skblab.bench.functions.caches import Geometry
from skblab.compare.asked import SECONDS, Asked
from skblab.compare.counting import FEWER, TURNS, Counting, NoFigureError, Shot
from skblab.compare.instrument import instrument
from skblab.compare.workload import Workload
from skblab.jobs.element import Result, Run
from skblab.jobs.model import Artefact, Campaign, Task
from skblab.jobs.nodes import BESIDE, cached, require_same
from skblab.knobs.values import Knobs
from skblab.lab import labroot
from skblab.lab.guest import first
from skblab.lab.guest.chosen import make_spec
from skblab.lab.guest.instrument import within
from skblab.lab.kernel import Kernel
from skblab.lab.kernel.registry import KIND as KERNELS
from skblab.lab.labroot import LabRoot
from skblab.lab.reporter import Reporter
from skblab.lab.store import digest, entry
from skblab_analysis.base.checked import Closed, parse
from skblab_analysis.base.errors import one_line
from skblab_analysis.formats.compare import Cause, Figure
from skblab_analysis.formats.run import Environment

# Raise when the same task gives another figure, by nothing that its key has.
RECIPE = "1"
NAME = "compare"
# A boot has a CPU of its own, and SECONDS are of two side by side.
TASK_SECONDS = 2 * SECONDS
# What is wanted: workload, number of the side, boot.
Wanted = tuple[str, int, int]


class Does(Closed):
    """What a task does: `does` of it."""

    workload: str
    kernel: str
    boot: int
    knobs: Knobs


class Common(Closed):
    """What all tasks of a comparison have in common: `context` of its campaign."""

    packets: int
    instrument: dict[str, str]
    caches: str | None
    geometry: Geometry | None
    workloads: dict[str, dict[str, Any]]

    def workload(self, name: str) -> Workload:
        """Return a workload as the client has it, whatever this tree has."""
        return Workload(**self.workloads[name])

    def chosen(self) -> Chosen | None:
        """Return the caches that are simulated, if any are."""
        if self.caches is None or self.geometry is None:
            return None
        return Chosen(self.caches, self.geometry)


class Counted(Closed):
    """`result` of a record: a figure, or why the kernel under test gives none."""

    figure: Figure | None = None
    why: str = ""
    cause: Cause | None = None
    up: bool = True
    environment: Environment | None = None
    notes: tuple[str, ...] = ()


def campaign(asked: Asked, counts: Mapping[str, str], root: LabRoot) -> Campaign:
    """Return what all tasks of a comparison have in common."""
    common = Common(
        packets=asked.packets,
        instrument=dict(counts),
        caches=asked.caches.word if asked.caches else None,
        geometry=asked.caches.geometry if asked.caches else None,
        workloads={one.name: asdict(one) for one in asked.workloads},
    )
    return Campaign(
        kind=NAME,
        title=f"compare {' '.join(side.word for side in asked.sides)}",
        again=asked.again,
        memory=make_spec(exact=True).memory + BESIDE,
        artefacts=(Artefact(kind="roots", key=root.key),),
        context=common.model_dump(mode="json"),
    )


def counting_with(root: LabRoot, reporter: Reporter) -> dict[str, str]:
    """Return what figures of a store depend on, beside what is compared."""
    return instrument(root, reporter) | within(root)


def tools(root: LabRoot, reporter: Reporter) -> tuple[Artefact, ...]:
    """Return what is compiled for guests, and is the same on each node: entries of the cache."""
    made = (
        programs.ensure(root, reporter),
        counting.ensure(root, reporter),
        first.ensure(root),
    )
    return tuple(map(cached, made))


def tasks(
    asked: Asked, counts: Mapping[str, str], kernels: Mapping[int, Kernel]
) -> dict[Wanted, Task]:
    """Return a task for each boot that is to be counted; those of one kernel come together."""
    found = {}
    # A's boots are together, too.
    for number, boot in sorted(asked.measured):
        built, knobs = kernels[number], asked.sides[number].knobs
        for workload in asked.workloads:
            does = Does(workload=workload.name, kernel=built.key, boot=boot, knobs=knobs)
            found[workload.name, number, boot] = Task(
                key=_key(asked, counts, workload, does),
                seconds=TASK_SECONDS,
                does=does.model_dump(mode="json"),
                artefacts=(Artefact(kind=KERNELS, key=built.key),),
            )
    return found


def _key(asked: Asked, counts: Mapping[str, str], workload: Workload, does: Does) -> str:
    of = {
        "recipe": [RECIPE, TURNS, FEWER],
        "instrument": dict(counts),
        "workload": [workload.name, workload.sha256, workload.knobs],
        "kernel": does.kernel,
        "boot": does.boot,
        "packets": asked.packets,
        "knobs": does.model_dump(mode="json")["knobs"],
        "caches": asked.caches.words if asked.caches else None,
    }
    return digest([NAME, json.dumps(of, sort_keys=True)])


@contextmanager
def begin(given: Campaign, reporter: Reporter) -> Iterator[Run]:
    """Begin the tasks of an element: SkblabError if this node counts in another way."""
    common = parse(Common, dict(given.context), "the campaign's context")
    root = labroot.ensure(reporter)
    require_same(counting_with(root, reporter), common.instrument)
    yield _Counts(common, root, reporter).run


class _Counts:
    """Runs tasks one after the other, each in a boot of its own: a record says what that did."""

    def __init__(self, common: Common, root: LabRoot, reporter: Reporter) -> None:
        self.common, self.root, self.reporter = common, root, reporter

    def run(self, task: Task, folder: Path) -> Result:
        does = parse(Does, dict(task.does), "the task")
        return self._count(does, folder).model_dump(mode="json", exclude_defaults=True)

    def _count(self, does: Does, folder: Path) -> Counted:
        built = Kernel(entry(KERNELS, does.kernel), does.kernel)
        workload = self.common.workload(does.workload)
        shot = Shot(workload, built, does.boot, self.common.packets, does.knobs)
        plugins: Sequence[Path] = [counting.ensure(self.root, self.reporter)]
        notes: dict[str, None] = {}
        with programs.shares(set(), built, self.root, self.reporter, folder, plugins) as shares:
            guests = Counting(self.root, shares, folder, notes, self.common.chosen())
            try:
                figure, environment = guests.count(shot)
            except NoFigureError as error:
                if error.cause == "other":
                    raise
                why = one_line(str(error))
                return Counted(why=why, cause=error.cause, up=error.up or error.cause != "kernel")
        return Counted(figure=figure, environment=environment, notes=tuple(notes))
