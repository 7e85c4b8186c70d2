# SPDX-License-Identifier: GPL-2.0-or-later
"""A sweep in `exact` mode: instructions per packet of every setting, in guests that count them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import psutil

from skblab.knobs.boot import Start
from skblab.knobs.napi import BUSY
from skblab.knobs.values import Value, text
from skblab.lab.guest import GuestSpec
from skblab.lab.guest.chosen import make_spec
from skblab.lab.labroot import Bind
from skblab.lab.reporter import Reporter
from skblab.sweep.best import BestSoFar
from skblab.sweep.measure.base import (
    Attempt,
    DisturbedError,
    Measure,
    Section,
    Sections,
    fill_caches,
)
from skblab.sweep.planned import Measurement
from skblab.sweep.progress import Key
from skblab.sweep.spent import over_budget
from skblab.testbeds import Kind, Sending, Testbed
from skblab_analysis.base.checked import measured_well
from skblab_analysis.exact.rows import ExactTrial
from skblab_analysis.runfolder import RunFolder
from skblab_analysis.trials.rows import Clock

PACKETS = 20_000
# What others than packets may have of the CPU, as a share of what is counted.
OTHERS_LIMIT = 0.002
# What it takes to count the instructions of a trial of the usual length, in seconds, where so many
# boots are side by side on as many CPUs; what is listed of experiments is for these.
COUNT_SECONDS = 5.0
# And where a guest has two CPUs, which take turns.
COUNT_SECONDS_OF_TWO = 11.0
AT_ONCE = 2
# Guests at once, of a CPU and of 2 GiB each.
MOST_GUESTS = 4
# pktgen reports elapsed microseconds; the guest's clock ticks once per instruction (1 ns).
INSTRUCTIONS_PER_US = 1000
_NEVER_IDLE = (
    "with --exact its own work would be counted as that of packets: it runs whenever these leave "
    "it a CPU"
)
GAPS = (
    "With one CPU generator and sink take turns with the router: there are no interrupts of a "
    "device, and no other CPU.",
)
GAPS_OF_TWO = (
    "Two CPUs take turns, and the work of both is what a packet costs. What they would wait for "
    "each other, for a lock or for a cache line, is not in it. A trial in which other processes "
    "had a CPU is not found out.",
)


def uncountable(knobs: Mapping[str, Value]) -> Iterator[str]:
    """Yield what has work for a CPU whenever packets have none, in words.

    The generator gives way to all else on its CPU, see give_way in tester.sh: it would wait its
    turn, and the time that it takes would be the scheduler's.
    """
    load, mode = knobs.get("load", 0), knobs.get("napi_threaded", "off")
    if load:
        yield f"load = {text(load)}: {_NEVER_IDLE}"
    if BUSY in (mode if isinstance(mode, tuple) else (mode,)):
        yield f"napi_threaded = {text(mode)}: {_NEVER_IDLE}"


def guests_at_once() -> int:
    """Return how many guests this machine has CPUs and memory for."""
    room = psutil.virtual_memory().available // (make_spec(exact=True).memory * 2**20)
    return max(1, min(MOST_GUESTS, len(os.sched_getaffinity(0)), room))


@dataclass(frozen=True)
class Exact(Measure):
    """The Measure, of so many packets each. `--exact` asks for it, and no section of a file.

    `cpus` are those of a guest.
    """

    packets: int = PACKETS
    cpus: int = 1
    name: ClassVar[str] = "instructions"
    section: ClassVar[type[Section]] = Section
    # What a trial counts, while the tester alone may still be to come.
    unit: ClassVar[str] = "instructions/packet with tester"

    def seconds(self, asked: Sections, measurement: Measurement) -> float:
        """Return about how long a trial takes."""
        return COUNT_SECONDS if self.cpus == 1 else COUNT_SECONDS_OF_TWO

    def commands(
        self, asked: Sections, measurement: Measurement, kind: Kind, cpus: int
    ) -> Iterator[str]:
        """Yield what is sent."""
        yield kind.offering(self._sending(measurement), cpus)

    def measure(self, attempt: Attempt) -> Callable[[], None]:
        """Count the instructions of a trial's packets."""
        key, offered = attempt.key, attempt.testbed.offer(self._sending(attempt.measurement))
        others = offered.others
        if others.microseconds > OTHERS_LIMIT * offered.microseconds:
            raise DisturbedError(
                f"others than packets had the CPU for {others.microseconds / 1000:.1f} ms of "
                f"{offered.microseconds / 1000:.1f} ms; most ran {others.who or 'nobody'}"
            )
        with measured_well("what was counted"):
            counted = ExactTrial(
                setting=key.setting,
                part=attempt.part,
                block=key.block,
                boot_knobs=key.boot_knobs,
                packets=offered.tried,
                delivered=offered.received,
                instructions=offered.microseconds * INSTRUCTIONS_PER_US,
                traffic=key.traffic,
            )

        def record() -> None:
            attempt.folder.record(counted)
            attempt.best.add(key, counted.per_packet)

        return record

    def _sending(self, measurement: Measurement) -> Sending:
        return Sending(measurement.stream, self.packets, tester=measurement.tester)


@dataclass
class Counting:
    """The Method that counts: where it records, the packets of each trial, and the budget.

    `boots` are those of a block; `cpus` those of a guest.
    """

    folder: RunFolder
    reporter: Reporter
    packets: int
    budget_minutes: float | None = None
    boots: int = 1
    cpus: int = 1
    clock: Clock = "exact"
    title: str = "counting"
    shares: tuple[Bind, ...] = ()
    best: BestSoFar = field(default_factory=Exact().best)

    @property
    def gaps(self) -> Sequence[str]:
        """What the figures leave out."""
        return GAPS if self.cpus == 1 else GAPS_OF_TWO

    @property
    def at_once(self) -> int:
        """Boots side by side: no instruction depends on how busy a machine is.

        Asked for as they begin: before, another run may have had the memory.
        """
        return guests_at_once()

    def spec(self, begins: Start) -> GuestSpec:
        """Return a guest whose clock counts instructions."""
        arguments = list(begins.arguments)
        return make_spec(cpus=self.cpus, exact=True, flavour=begins.flavour, arguments=arguments)

    def warm_up(self, testbed: Testbed) -> None:
        """Do nothing: each trial fills the caches for itself."""

    def ready(self, measurement: Measurement, testbed: Testbed) -> None:
        """Send some packets that are not counted."""
        fill_caches(measurement, testbed)

    def measure(self, key: Key, measurement: Measurement, testbed: Testbed) -> Callable[[], None]:
        """Count the instructions of a trial's packets."""
        there = (Sections(), self.folder, self.reporter, self.best)
        return Exact(self.packets).measure(Attempt(key, measurement, testbed, *there))

    def unable(self, knobs: Mapping[str, Value]) -> str | None:
        """Return why a setting with these knobs cannot be counted, in words; None if it can."""
        return next(uncountable(knobs), None)

    def enough(self, blocks: int) -> str | None:
        """Return why there is no time for more blocks: only the budget ends what is so quick."""
        return over_budget(
            self.folder.path, self.budget_minutes, blocks, boots=self.boots, at_once=self.at_once
        )
