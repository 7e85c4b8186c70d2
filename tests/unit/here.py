# SPDX-License-Identifier: GPL-2.0-or-later
"""A submitter that runs elements in this process, and tasks for it: for tests."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from skblab.jobs import engine
from skblab.jobs.campaign import Place
from skblab.jobs.element import Element, Result, Run, nothing
from skblab.jobs.model import Campaign, Engine, Task
from skblab.jobs.packing import Packing
from skblab.jobs.store import Store
from skblab.jobs.submitter import Name, Queue
from skblab.lab.reporter import Reporter

QUIET = Reporter(quiet=True)
BOUNDS = Packing()
COMMON = Campaign(kind="nothing", title="some tasks", again="./skblab jobs try", memory=100)


@dataclass
class Here:
    """A Submitter that runs an element whenever it is asked how things are."""

    kinds: Mapping[str, Callable[..., object]] = field(default_factory=lambda: {"nothing": nothing})
    poll: float = 0.0
    waiting: dict[Name, str] = field(default_factory=dict)
    submitted: list[int] = field(default_factory=list)
    # What an element does before its tasks: it may die.
    before: Callable[[Name], bool] = lambda _: True
    most: int = 0
    on: Engine = "slurm"
    at_once: int | None = None
    # Elements of other campaigns.
    others: Mapping[str, Collection[Name]] = field(default_factory=dict)
    # By array, the nodes that it was not to run on.
    without: dict[int, tuple[str, ...]] = field(default_factory=dict)

    def ready(self, place: Place) -> None:
        pass

    def submit(
        self, place: Place, array: int, count: int, minutes: int, without: Collection[str] = ()
    ) -> None:
        self.submitted.append(count)
        self.without[array] = tuple(without)
        self.waiting |= {(array, index): "waiting" for index in range(count)}
        self.most = max(self.most, len(self.waiting))

    def queue(self, place: Place) -> Queue:
        for name in list(self.waiting)[:50]:
            del self.waiting[name]
            if self.before(name):
                Element(place, *name, self.kinds).run(QUIET)  # type: ignore[arg-type]
        return Queue(dict(self.waiting), self.others)

    def cancel(self, place: Place) -> int:
        return 0


def tasks(count: int, seconds: float = 60.0, **does: object) -> list[Task]:
    return [
        Task.model_validate({"key": f"{number:016x}", "seconds": seconds, "does": does})
        for number in range(count)
    ]


def made(there: Store, some: Sequence[Task], common: Campaign = COMMON) -> Place:
    return Place.make(there, common, some)


def finished(place: Place, submitter: Here, bounds: Packing = BOUNDS) -> engine.Standing:
    return engine.run(place, submitter, QUIET, bounds)


def failing(times: int, error: Callable[[], BaseException]) -> Mapping[str, Callable[..., object]]:
    """Tasks that fail so many times."""

    tried: dict[str, int] = {}

    @contextmanager
    def begin(_: Campaign, __: Reporter) -> Iterator[Run]:
        def run(task: Task, folder: Path) -> Result:
            (folder / "console.log").write_text("what it said")
            tried[task.key] = tried.get(task.key, 0) + 1
            if tried[task.key] <= times:
                raise error()
            return {"tries": tried[task.key]}

        yield run

    return {"nothing": begin}


def programs(folder: Path, **scripts: str) -> Path:
    folder.mkdir()
    for name, text in scripts.items():
        (folder / name).write_text(f"#!/bin/sh\n{text}\n")
        (folder / name).chmod(0o755)
    return folder
