# SPDX-License-Identifier: GPL-2.0-or-later
"""Which tasks run in one element of a job array: plain functions.

A scheduler takes a second or so to start an element, and its arrays have at most so many. What was
under way when a node dies begins anew, so an element is not long either.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from skblab.jobs.model import Task

# Seconds of an element, by the estimates of its tasks.
LEAST, MOST = 600.0, 1800.0
# Slurm's default MaxArraySize is 1001, and its MaxJobCount 10 000 for all users together.
ARRAY, OUTSTANDING = 1000, 5000
# Elements for each process of this machine: all end at nearly the same time.
SHARES = 4
# Beside twice the estimate: a node that unpacks the lab root, and a guest that hangs.
SPARE_MINUTES = 30

Element = tuple[Task, ...]


@dataclass(frozen=True)
class Packing:
    """Bounds: seconds of an element, elements of an array, and of all that are outstanding."""

    least: float = LEAST
    most: float = MOST
    array: int = ARRAY
    outstanding: int = OUTSTANDING


def for_cpus(packing: Packing, tasks: Sequence[Task], at_once: int) -> Packing:
    """Return the bounds that give each of `at_once` processes some elements of these tasks."""
    share = sum(task.seconds for task in tasks) / (SHARES * at_once)
    return replace(packing, least=min(packing.least, share))


def elements(tasks: Sequence[Task], packing: Packing = Packing()) -> list[Element]:
    """Return the tasks, in their order, as elements.

    Each has at least `least` seconds and at most `most`. Exceptions: what is left in the end and
    does not fit the element before; a task beside one of more than `most - least`; and a task that
    takes longer by itself, which has an element of its own.
    """
    found: list[list[Task]] = []
    spent = math.inf
    for task in tasks:
        if spent >= packing.least or spent + task.seconds > packing.most:
            found.append([])
            spent = 0.0
        found[-1].append(task)
        spent += task.seconds
    if len(found) > 1 and spent < packing.least:
        before = sum(task.seconds for task in found[-2])
        if before + spent <= packing.most:
            found[-2:] = [found[-2] + found[-1]]
    return [tuple(one) for one in found]


def arrays(
    packed: Sequence[Element], live: int, packing: Packing = Packing()
) -> Iterator[Sequence[Element]]:
    """Yield the elements that may be submitted now, in arrays; `live` ones are outstanding.

    While there is no room for all of them, only whole arrays are: one call for each element that
    ends would keep the scheduler busy.
    """
    room = max(0, packing.outstanding - live)
    if len(packed) > room:
        room -= room % packing.array
    now = iter(packed[:room])
    while some := list(itertools.islice(now, packing.array)):
        yield some


def minutes(array: Sequence[Element]) -> int:
    """Return the time limit of an array's elements, in minutes."""
    longest = max(sum(task.seconds for task in element) for element in array)
    return math.ceil(2 * longest / 60) + SPARE_MINUTES
