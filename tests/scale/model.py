# SPDX-License-Identifier: GPL-2.0-or-later
"""A comparison of many revisions in simulated time: client, slurmctld, nodes, store, compactor.

    found = run(Plan(nodes=1000), costs.load())
    found.seconds, found.shares["client"]

What takes its turn (`Turns`) serves one after the other, first come, first served. What runs in
parallel has a CPU of its own. Elements are packed and submitted by skblab's own functions.
"""

from __future__ import annotations

import heapq
import itertools
import random
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from functools import cache

import simpy

from scale.costs import Costs
from skblab.commands.compare import MOST_STORED_SIDES
from skblab.compare.remote import TASK_SECONDS
from skblab.jobs import packing
from skblab.jobs.model import Task
from skblab.jobs.packing import Element, Packing
from skblab.jobs.slurm import Slurm

POLL = Slurm(memory=0).poll
# A part that is busy so much of the time sets the pace.
SATURATED = 0.7
# Bytes per second: 10 Gbit/s.
LINK = 1.25e9
Steps = Generator[simpy.Event, object, None]


@dataclass(frozen=True)
class Plan:
    """What is to be done, on what, and how; the defaults are what skblab does today."""

    nodes: int = 100
    # Of a node, and of the client.
    cpus: int = 16
    revisions: int = 10_000
    workloads: int = 30
    # Revisions of a command: a comparison has so many sides, and A is one.
    sides: int = MOST_STORED_SIDES - 1
    bounds: Packing = field(default_factory=Packing)
    # Of the link of the store, bytes per second.
    link: float = LINK
    # Share of the kernels that change much of the tree.
    misses: float = 0.1
    # How many commands have their kernels built while the one before counts.
    ahead: int = 0
    # A kernel is built by the element that boots it, and is not stored.
    build_on_nodes: bool = False
    # Servers that have the store's kernels, records and notes in equal parts.
    servers: int = 1
    # Share of a kernel's archive that a node fetches.
    fetched: float = 1.0
    # An element puts its results in one file, and notes that it begins in one.
    together: bool = False
    # The compactor adds the rows of a run, and does not write those of all runs again.
    appends: bool = False
    # So many tasks of an element are one step of the simulation: quicker, and hardly coarser.
    grain: int = 10


@dataclass
class Turns:
    """Lanes that serve one after the other, in the order of coming; `busy` adds up, in seconds."""

    clock: simpy.Environment
    lanes: int = 1
    busy: float = 0.0
    free: list[float] = field(init=False)

    def __post_init__(self) -> None:
        self.free = [0.0] * self.lanes

    def serve(self, seconds: float) -> float:
        """Return in how many seconds that is done for one who comes now."""
        begins = max(self.clock.now, self.free[0])
        heapq.heapreplace(self.free, begins + seconds)
        self.busy += seconds
        return begins + seconds - self.clock.now


@dataclass(frozen=True)
class Found:
    """What came out: seconds until all is packed, and by part the share of these it was busy."""

    seconds: float
    shares: dict[str, float]
    # How often each task ran.
    ran: bytearray
    # Elements that ran at once, at most.
    at_once: int
    # CPU seconds of the nodes: boots, and all else.
    boots: float
    beside: float
    # Bytes that went over the store's link.
    moved: float

    @property
    def limit(self) -> str:
        """The part that is busiest; what waits for another thing most of the time is none."""
        name = max(self.shares, key=lambda one: self.shares[one])
        return name if self.shares[name] >= SATURATED else "none"


@cache
def packed(revisions: int, workloads: int, bounds: Packing) -> list[Element]:
    """Return the elements of a command; a task's key is its number, by revision."""
    count = revisions * workloads
    tasks = [Task(key=f"{number:016x}", seconds=TASK_SECONDS) for number in range(count)]
    return packing.elements(tasks, bounds)


def run(plan: Plan, costs: Costs, seed: int = 1) -> Found:
    """Run it all."""
    return _World(plan, costs, seed).run()


class _World:
    def __init__(self, plan: Plan, costs: Costs, seed: int) -> None:
        self.plan, self.costs = plan, costs
        self.clock = clock = simpy.Environment()
        self.client, self.slurmctld, self.compactor = (Turns(clock) for _ in range(3))
        self.links = [Turns(clock) for _ in range(plan.servers)]
        self.stores = [Turns(clock) for _ in range(plan.servers)]
        self.slots = simpy.Store(clock)
        self.slots.items = [node for _ in range(plan.cpus) for node in range(plan.nodes)]
        # What a node has, or is about to have.
        self.there: dict[tuple[int, int], simpy.Event] = {}
        self.took = list(costs.tasks.values())
        dice = random.Random(seed)
        # The first kernel is always compiled anew.
        self.builds = [
            costs.build_miss if not number or dice.random() < plan.misses else costs.build_hit
            for number in range(plan.revisions)
        ]
        self.ran = bytearray(plan.revisions * plan.workloads)
        self.live = self.at_once = self.running = self.notes = 0
        self.boots = self.beside = self.moved = 0.0
        self.rows = 0.0

    def run(self) -> Found:
        ready = simpy.Store(self.clock, capacity=max(1, self.plan.ahead))
        self.clock.process(self._build(ready))
        self.clock.run(self.clock.process(self._commands(ready)))
        self.clock.run()
        seconds = self.clock.now
        slots = self.plan.nodes * self.plan.cpus
        shares = {
            "CPUs": (self.boots + self.beside) / slots / seconds,
            "client": self.client.busy / seconds,
            "slurmctld": self.slurmctld.busy / seconds,
            "link": max(one.busy for one in self.links) / seconds,
            "store": max(one.busy for one in self.stores) / seconds,
            "compactor": self.compactor.busy / seconds,
        }
        return Found(seconds, shares, self.ran, self.at_once, self.boots, self.beside, self.moved)

    def _commands(self, ready: simpy.Store) -> Steps:
        """Have the client count the revisions of each command, as soon as it has the kernels."""
        for first in range(0, self.plan.revisions, self.plan.sides):
            here = min(self.plan.sides, self.plan.revisions - first)
            if not self.plan.ahead:
                yield self.clock.process(self._kernels(first, here))
            else:
                yield ready.get()
            yield from self._count(first, here)
            tasks = here * self.plan.workloads
            yield self.clock.timeout(tasks * self.costs.get)
            added = tasks * self.costs.rows
            self.rows += added
            written = added if self.plan.appends else self.rows
            # It goes on beside the next command; the end of the last one is the end of all.
            self.clock.timeout(self.compactor.serve(written * self.costs.pack_row))

    def _build(self, ready: simpy.Store) -> Steps:
        """Build kernels ahead of the commands, if the plan is so."""
        for first in range(0, self.plan.revisions if self.plan.ahead else 0, self.plan.sides):
            here = min(self.plan.sides, self.plan.revisions - first)
            yield self.clock.process(self._kernels(first, here))
            yield ready.put(first)

    def _kernels(self, first: int, count: int) -> Steps:
        """Build and pack the kernels of a command, one after the other, by all CPUs."""
        if self.plan.build_on_nodes:
            return
        for number in range(first, first + count):
            work = self.builds[number] + self.costs.pack_kernel
            yield self.clock.timeout(self.client.serve(work / self.plan.cpus))
            yield self.clock.timeout(self._moved(number, self.costs.kernel_bytes))

    def _count(self, first: int, count: int) -> Steps:
        """Submit what is left, whenever there is room, until all has ended."""
        costs, bounds = self.costs, self.plan.bounds
        left = packed(count, self.plan.workloads, bounds)
        while True:
            calls = costs.squeue + self.live * costs.squeue_element
            yield self.clock.timeout(self.slurmctld.serve(calls))
            yield self.clock.timeout(self.notes * costs.list_name)
            if not left and not self.live:
                return
            for array in list(packing.arrays(left, self.live, bounds)):
                call = costs.sbatch + (len(array) - 1) * costs.sbatch_element
                yield self.clock.timeout(self.slurmctld.serve(call))
                self.live += len(array)
                left = left[len(array) :]
                for element in array:
                    numbers = [int(task.key, 16) for task in element]
                    self.clock.process(self._element(first, numbers))
            yield self.clock.timeout(POLL)

    def _element(self, first: int, tasks: Sequence[int]) -> Steps:
        """Wait for a CPU, and run an element on it."""
        costs, plan = self.costs, self.plan
        got = yield self.slots.get()
        assert isinstance(got, int)
        node = got
        self.running += 1
        self.at_once = max(self.at_once, self.running)
        yield self.clock.timeout(self.slurmctld.serve(costs.element))
        yield from self._work(costs.begin)
        yield from self._have(node, -1, costs.root_bytes, costs.unpack_root)
        done = 0
        for revision, own in itertools.groupby(tasks, key=lambda task: task // plan.workloads):
            number = first + revision
            if plan.build_on_nodes:
                yield from self._work(self.builds[number])
            else:
                fetched = plan.fetched * costs.kernel_bytes
                yield from self._have(node, number, fetched, plan.fetched * costs.unpack_kernel)
            left = list(own)
            while some := left[: plan.grain]:
                left = left[plan.grain :]
                workloads = [task % plan.workloads for task in some]
                took = sum(self.took[workload % len(self.took)] for workload in workloads)
                # The note that a task begins, and the record of the task before.
                files = 2 * len(some) - (not done)
                if plan.together:
                    files = 0 if done else 1
                yield self.clock.timeout(self._put(number, files) + took)
                done += len(some)
                self.boots += took
                for workload in workloads:
                    self.ran[number * plan.workloads + workload] += 1
        yield self.clock.timeout(self._put(number, 1))
        self.moved += done * costs.record_bytes
        self.notes += 2 if plan.together else 2 * done
        self.running -= 1
        self.live -= 1
        yield self.slots.put(node)

    def _work(self, seconds: float) -> Steps:
        self.beside += seconds
        yield self.clock.timeout(seconds)

    def _have(self, node: int, number: int, size: float, unpack: float) -> Steps:
        """Have a node fetch and unpack what it lacks; whoever wants the same waits for it."""
        there = self.there.get((node, number))
        if there is None:
            there = self.there[node, number] = self.clock.event()
            yield self.clock.timeout(self._moved(number + 1, size))
            yield from self._work(unpack)
            there.succeed()
        elif not there.processed:
            yield there

    def _moved(self, number: int, size: float) -> float:
        """Return when so many bytes are over the link of the server that has them."""
        self.moved += size
        return self.links[number % len(self.links)].serve(size / self.plan.link)

    def _put(self, number: int, files: int) -> float:
        """Return in how many seconds the store has so many files more."""
        costs = self.costs
        alone = files * max(0.0, costs.put - costs.put_share)
        return alone + self.stores[number % len(self.stores)].serve(files * costs.put_share)
