# SPDX-License-Identifier: GPL-2.0-or-later
"""A sweep in `exact` mode: instructions per packet of every setting, in guests that count them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

import psutil

from skblab.knobs.boot import Start
from skblab.knobs.napi import BUSY
from skblab.knobs.values import Value, text
from skblab.lab.guest import GuestSpec
from skblab.lab.guest.chosen import make_spec
from skblab.lab.labroot import Bind
from skblab.sweep.experiment import TESTER, Experiment
from skblab.sweep.plan import Trial
from skblab.sweep.progress import Key
from skblab.sweep.standing import Standing
from skblab.testbeds.base import WARM_UP, Testbed
from skblab.testbeds.sending import Sending
from skblab_analysis.exact.rows import ExactTrial
from skblab_analysis.runfolder import RunFolder
from skblab_analysis.trials.rows import Clock

PACKETS = 20_000
# Guests at once, of a CPU and of 2 GiB each.
MOST_LANES = 4
# pktgen reports elapsed microseconds; the guest's clock ticks once per instruction (1 ns).
INSTRUCTIONS_PER_US = 1000
_NEVER_IDLE = (
    "with --exact there is one CPU, of which this leaves the generator no time of its own: what a "
    "packet takes would be the generator's wait for it"
)
GAPS = (
    "With one CPU generator and sink take turns with the router: there are no interrupts of a "
    "device, and no other CPU.",
)


def uncountable(knobs: Mapping[str, Value]) -> Iterator[str]:
    """Yield what has work for the one CPU whenever packets have none, in words.

    The generator gives way to all else there, see give_way in tester.sh: it would wait its turn,
    and the time that it takes would be the scheduler's.
    """
    load, mode = knobs.get("load", 0), knobs.get("napi_threaded", "off")
    if load:
        yield f"load = {text(load)}: {_NEVER_IDLE}"
    if BUSY in (mode if isinstance(mode, tuple) else (mode,)):
        yield f"napi_threaded = {text(mode)}: {_NEVER_IDLE}"


def unable(experiment: Experiment) -> list[str]:
    """Return what of an experiment's baseline cannot be counted, in words."""
    return [f"baseline.{why}" for why in uncountable(experiment.baseline)]


def lanes() -> int:
    """Return how many guests this machine has CPUs and memory for."""
    room = psutil.virtual_memory().available // (make_spec(exact=True).memory * 2**20)
    return max(1, min(MOST_LANES, len(os.sched_getaffinity(0)), room))


@dataclass
class Counting:
    """The Method that counts: where it records, and the packets of each trial."""

    folder: RunFolder
    packets: int
    clock: Clock = "exact"
    title: str = "counting"
    gaps: tuple[str, ...] = GAPS
    shares: tuple[Bind, ...] = ()
    standing: Standing = field(
        default_factory=lambda: Standing(more=False, unit="instructions/packet")
    )

    @property
    def lanes(self) -> int:
        """Boots side by side: instructions are the same however busy a machine is.

        Asked for as they begin: before, another run may have had the memory.
        """
        return lanes()

    def spec(self, begins: Start) -> GuestSpec:
        """Return a guest whose clock counts instructions."""
        return make_spec(exact=True, flavour=begins.flavour, arguments=list(begins.arguments))

    def warm_up(self, testbed: Testbed) -> None:
        """Do nothing: each trial fills the caches for itself."""

    def ready(self, trial: Trial, testbed: Testbed, *, tester: bool) -> None:
        """Send some packets that are not counted."""
        testbed.offer(Sending(trial.stream, WARM_UP, tester=tester))

    def measure(self, key: Key, trial: Trial, testbed: Testbed) -> Callable[[], None]:
        """Count the instructions of a trial's packets."""
        tester = key.setting == TESTER
        offered = testbed.offer(Sending(trial.stream, self.packets, tester=tester))
        counted = ExactTrial(
            setting=key.setting,
            part="tester" if tester else "whole",
            block=key.block,
            boot_knobs=key.boot_knobs,
            packets=offered.tried,
            delivered=offered.received,
            instructions=offered.microseconds * INSTRUCTIONS_PER_US,
            traffic=key.traffic,
        )
        return lambda: self._record(key, counted)

    def _record(self, key: Key, counted: ExactTrial) -> None:
        self.folder.record(counted)
        if counted.part == "whole":
            self.standing.add(key, counted.per_packet)

    def unable(self, knobs: Mapping[str, Value]) -> str | None:
        """Return why a setting with these knobs cannot be counted, in words; None if it can."""
        return next(uncountable(knobs), None)

    def enough(self, blocks: int) -> str | None:
        """Return None: all blocks are run, for they are few and quick."""
        return None
