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

from skblab.jobs.model import Campaign, Engine, Task
from skblab.jobs.packing import Element, minutes
from skblab.jobs.store import Store, put_new
from skblab.lab.store import digest
from skblab_analysis.base.checked import Closed, Finite, parse, read
from skblab_analysis.base.errors import SkblabError, UsageError, os_trouble

FOLDER = "campaigns"
# Of an array: its elements; that the submitter has taken it; that its elements are not to run.
ARRAY, TAKEN, DROPPED = ".jsonl", ".taken", ".dropped"
# By array, the keys of each element.
Keys = dict[int, list[set[str]]]


class Job(Finite):
    """A line of `arrays/N.jsonl`: an element, its time limit in minutes, and who was to run it."""

    minutes: int = Field(ge=1)
    # Older ones do not say so.
    on: Engine | None = None
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
        keys = (task.key for task in tasks)
        place = cls(store, digest([*filter(None, [store.id]), campaign.kind, context, *keys]))
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
    def arrays(self) -> Path:
        """The folder of its arrays."""
        return self.path / "arrays"

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

    def add(self, elements: Sequence[Element], on: Engine) -> tuple[int, int]:
        """Write the next array; return its number, and the time limit in minutes.

        No number is used twice, also that of an array that was dropped.
        """
        limit = minutes(elements)
        lines = (Job(minutes=limit, on=on, tasks=element).model_dump_json() for element in elements)
        text = "".join(f"{line}\n" for line in lines)
        ever = self.arrays.glob("[0-9]*")
        number = max((int(file.stem) for file in ever), default=0) + 1
        while not put_new(self._array(number), text):
            number += 1
        self.log.mkdir(exist_ok=True)
        return number, limit

    def job(self, array: int, index: int) -> Job:
        """Return an element; UsageError if there is none, SkblabError if it is not to run."""
        file = self._array(array)
        if file.with_suffix(DROPPED).is_file():
            raise SkblabError(
                f"{file.with_suffix(DROPPED)}: nobody knew that this array was submitted; its "
                "tasks are in another one"
            )
        for number, line in enumerate(_lines(file)):
            if number == index:
                return parse(Job, line, f"line {number + 1} of {file}")
        raise UsageError(f"{file}: it has no element {index}")

    def taken(self, array: int) -> None:
        """Note that a submitter has taken an array."""
        put_new(self._array(array, TAKEN), "")

    def unsure(self) -> set[int]:
        """Return arrays of which nobody noted that a submitter has taken them."""
        return {int(file.stem) for file in self._arrays() if not file.with_suffix(TAKEN).is_file()}

    def drop(self, array: int) -> None:
        """Have no element of an array run, should its submitter have it all the same."""
        try:
            self._array(array).rename(self._array(array, DROPPED))
        except OSError as error:
            raise SkblabError(f"cannot rename {os_trouble(error)}") from error

    def engine(self) -> Engine:
        """Return who was last to run its elements."""
        ons = list(self._engines())
        return ons[-1] if ons and ons[-1] else self.campaign().on

    def engines(self) -> set[Engine | None]:
        """Return who was to run its elements; None of arrays that do not say so."""
        return set(self._engines())

    def _engines(self) -> Iterator[Engine | None]:
        for file in self._arrays():
            for line in _lines(file):
                yield parse(Job, line, f"a line of {file}").on
                break

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
        found = list(self._all_stuck(1))
        return f"{found[-1].host}: {found[-1].why}" if found else ""

    def stuck_hosts(self, first: int) -> set[str]:
        """Return the nodes on which elements of array `first` and later ones could not begin."""
        return {what.host for what in self._all_stuck(first)}

    def _all_stuck(self, first: int) -> Iterator[Stuck]:
        found = sorted((self.path / "stuck").glob("[0-9]*.json"), key=lambda one: one.name)
        for file in found:
            if int(file.stem.partition("-")[0]) >= first:
                yield read(Stuck, file, "the note of an element")

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

    def _array(self, number: int, suffix: str = ARRAY) -> Path:
        return self.arrays / f"{number:04}{suffix}"

    def _arrays(self) -> list[Path]:
        found = self.arrays.glob(f"[0-9]*{ARRAY}")
        return sorted(found, key=lambda file: int(file.stem))


def _lines(file: Path) -> Iterator[str]:
    try:
        with file.open() as handle:
            yield from handle
    except OSError as error:
        raise SkblabError(f"cannot read {os_trouble(error)}") from error
