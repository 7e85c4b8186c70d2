# SPDX-License-Identifier: GPL-2.0-or-later
"""The folder of a campaign: the tasks of one command, and the arrays that were made of them."""

from __future__ import annotations

import contextlib
import fcntl
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import Field

from skblab.jobs.model import Campaign, Task
from skblab.jobs.packing import Element, minutes
from skblab.jobs.store import Store, put_new
from skblab.lab.store import digest
from skblab_analysis.base.checked import Closed, Finite, parse, read
from skblab_analysis.base.errors import SkblabError, UsageError, os_trouble

FOLDER = "campaigns"
# By array, the keys of each element.
Keys = dict[int, list[set[str]]]


class Job(Finite):
    """A line of `arrays/N.jsonl`: an element, and its time limit in minutes."""

    minutes: int = Field(ge=1)
    tasks: tuple[Task, ...]


class Stuck(Closed):
    """`stuck/ARRAY-INDEX.json`: why an element could not begin a task."""

    host: str
    why: str


@dataclass(frozen=True)
class Place:
    """A campaign in a store."""

    store: Store
    id: str

    @classmethod
    def make(cls, store: Store, campaign: Campaign, tasks: Sequence[Task]) -> Place:
        """Return the campaign of these tasks, which is the same each time it is asked for."""
        context = json.dumps(campaign.context, sort_keys=True)
        place = cls(store, digest([campaign.kind, context, *(task.key for task in tasks)]))
        lines = "".join(f"{task.model_dump_json()}\n" for task in tasks)
        put_new(place.path / "tasks.jsonl", lines)
        # Last: what has this file is complete.
        put_new(place.path / "campaign.json", campaign.model_dump_json() + "\n")
        return place

    @classmethod
    def all(cls, store: Store) -> list[Place]:
        """Return all campaigns of a store, the oldest first."""
        found = list((store.path / FOLDER).glob("*/campaign.json"))
        found.sort(key=lambda file: (file.stat().st_mtime, file.parent.name))
        return [cls(store, file.parent.name) for file in found]

    @classmethod
    def find(cls, store: Store, name: str) -> Place:
        """Return the campaign of that name; UsageError if there is none."""
        place = cls(store, name)
        if place not in (known := cls.all(store)):
            names = ", ".join(one.id for one in known) or "none"
            raise UsageError(f"{store.path}: no campaign {name!r}; there are: {names}")
        return place

    @property
    def path(self) -> Path:
        """Its folder."""
        return self.store.path / FOLDER / self.id

    @property
    def log(self) -> Path:
        """The folder of what elements print."""
        return self.path / "log"

    def campaign(self) -> Campaign:
        """Return what its tasks have in common."""
        return read(Campaign, self.path / "campaign.json", "the campaign")

    def tasks(self) -> list[Task]:
        """Return its tasks."""
        file = self.path / "tasks.jsonl"
        return [parse(Task, line, f"a line of {file}") for line in _lines(file)]

    def add(self, elements: Sequence[Element]) -> tuple[int, int]:
        """Write the next array; return its number, and the time limit in minutes."""
        limit = minutes(elements)
        lines = (Job(minutes=limit, tasks=element).model_dump_json() for element in elements)
        text = "".join(f"{line}\n" for line in lines)
        number = max((int(file.stem) for file in self._arrays()), default=0) + 1
        while not put_new(self._array(number), text):
            number += 1
        self.log.mkdir(exist_ok=True)
        return number, limit

    def job(self, array: int, index: int) -> Job:
        """Return an element; UsageError if there is none."""
        file = self._array(array)
        for number, line in enumerate(_lines(file)):
            if number == index:
                return parse(Job, line, f"line {number + 1} of {file}")
        raise UsageError(f"{file}: it has no element {index}")

    def drop(self, array: int) -> None:
        """Remove an array that was refused."""
        self._array(array).unlink()

    def keys(self, known: Keys) -> Keys:
        """Return by array the keys of each element; those of arrays that are `known` are taken."""
        for file in self._arrays():
            if int(file.stem) not in known:
                known[int(file.stem)] = [
                    {task.key for task in parse(Job, line, f"a line of {file}").tasks}
                    for line in _lines(file)
                ]
        return known

    def stuck(self, array: int, index: int, what: Stuck) -> None:
        """Note why an element could not begin."""
        put_new(self._stuck(array, index), what.model_dump_json() + "\n")

    def why_stuck(self) -> str:
        """Return why elements could not begin, by what the last one said; empty if none did."""
        found = sorted((self.path / "stuck").glob("[0-9]*.json"), key=lambda one: one.name)
        if not found:
            return ""
        what = read(Stuck, found[-1], "the note of an element")
        return f"{what.host}: {what.why}"

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """Be the only one who submits; UsageError if somebody else does.

        The lock is the kernel's, so it goes when its holder dies, however it dies.
        """
        try:
            with (self.path / "lock").open("a") as handle:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                yield
        except BlockingIOError:
            raise UsageError(
                f"campaign {self.id}: another skblab submits its tasks; wait for it, or stop it"
            ) from None

    def _stuck(self, array: int, index: int) -> Path:
        return self.path / "stuck" / f"{array:04}-{index:04}.json"

    def _array(self, number: int) -> Path:
        return self.path / "arrays" / f"{number:04}.jsonl"

    def _arrays(self) -> list[Path]:
        return sorted((self.path / "arrays").glob("[0-9]*.jsonl"))


def _lines(file: Path) -> Iterator[str]:
    try:
        with file.open() as handle:
            yield from handle
    except OSError as error:
        raise SkblabError(f"cannot read {os_trouble(error)}") from error
