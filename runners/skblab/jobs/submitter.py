# SPDX-License-Identifier: GPL-2.0-or-later
"""Who has elements run: what the engine asks of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from skblab.jobs.campaign import Place
from skblab.lab import paths
from skblab_analysis.base.errors import SkblabError

# Array and index.
Name = tuple[int, int]
RUNNING = "running"


class SubmitterError(SkblabError):
    """The submitter does not answer; later it may."""


class RefusedError(SubmitterError):
    """The submitter answers, and takes no array, or not now."""


class Submitter(Protocol):
    """Runs elements: submits arrays of them, and knows which are not over."""

    @property
    def poll(self) -> float:
        """Seconds between two looks."""

    def submit(self, place: Place, array: int, count: int, minutes: int) -> None:
        """Have all elements of an array run; RefusedError if it is not taken."""

    def live(self, place: Place) -> Mapping[Name, str]:
        """Return each element that waits or runs, and its state; SubmitterError if unknown."""

    def cancel(self, place: Place) -> int:
        """End all elements; return how many there were."""


def command(place: Place, array: int) -> list[str]:
    """Return the command that runs an element; its index comes behind it."""
    program = str(paths.tree() / "skblab")
    return [program, "element", str(place.store.path), place.id, str(array)]
