# SPDX-License-Identifier: GPL-2.0-or-later
"""Who has elements run: what the engine asks of it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from skblab.jobs.campaign import Place
from skblab.jobs.model import Engine
from skblab.lab import paths
from skblab_analysis.base.errors import SkblabError

# Array and index.
Name = tuple[int, int]
RUNNING = "running"


class SubmitterError(SkblabError):
    """The submitter does not answer; later it may. An array that it was given may be there."""


class RefusedError(SubmitterError):
    """The submitter answers, and takes no array, or not now.

    `limit`: the user has as many elements as may be. `most`: so many an array may have.
    """

    def __init__(self, said: str, *, limit: bool = False, most: int | None = None) -> None:
        super().__init__(said)
        self.limit, self.most = limit, most


@dataclass(frozen=True)
class Queue:
    """The user's elements that are not over: those of a campaign by state, and those of others."""

    live: Mapping[Name, str] = field(default_factory=dict)
    others: Mapping[str, Collection[Name]] = field(default_factory=dict)

    @property
    def outstanding(self) -> int:
        """How many there are."""
        return len(self.live) + sum(map(len, self.others.values()))


class Submitter(Protocol):
    """Runs elements: submits arrays of them, and knows which are not over."""

    @property
    def on(self) -> Engine:
        """What campaigns call it."""

    @property
    def poll(self) -> float:
        """Seconds between two looks."""

    @property
    def at_once(self) -> int | None:
        """How many elements run side by side; None if others know."""

    def ready(self, place: Place) -> None:
        """Raise SkblabError if another submitter may have elements of a campaign."""

    def submit(
        self, place: Place, array: int, count: int, minutes: int, without: Collection[str] = ()
    ) -> None:
        """Have all elements of an array run, on none of the nodes `without` if there are others.

        RefusedError if it is not taken, SubmitterError if that is unknown.
        """

    def queue(self, place: Place) -> Queue:
        """Return what waits or runs; SubmitterError if unknown."""

    def cancel(self, place: Place) -> int:
        """End all elements; return how many there were."""


def command(place: Place, array: int) -> list[str]:
    """Return the command that runs an element; its index comes behind it."""
    program = str(paths.tree() / "skblab")
    return [program, "element", str(place.store.path), place.id, str(array)]
