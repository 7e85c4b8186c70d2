# SPDX-License-Identifier: GPL-2.0-or-later
"""What is to be compared, as it is asked for: sides, workloads, budget."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field

from skblab.bench.asked import unable
from skblab.bench.functions import Chosen
from skblab.compare.sides import OPTION, Side
from skblab.compare.workload import Workload
from skblab.knobs.values import Knobs
from skblab_analysis.base.errors import UsageError
from skblab_analysis.formats.compare import FIRST, Budget

PACKETS = 5_000
# What a workload takes in one boot, in seconds, where two guests are side by side on two CPUs.
SECONDS = 10.0


@dataclass(frozen=True)
class Asked:
    """What is compared, checked; the first side is A."""

    sides: tuple[Side, ...]
    workloads: tuple[Workload, ...]
    packets: int = PACKETS
    budget: Budget = field(default_factory=Budget)
    flavour: str = "stock"
    # What is set on every side.
    common: Knobs = field(default_factory=dict)
    # What is simulated beside it.
    caches: Chosen | None = None
    # The options of the command line that made it, behind the sides.
    options: tuple[str, ...] = ()

    @property
    def again(self) -> str:
        """The command that asks for it."""
        words = (side.word for side in self.sides)
        return shlex.join(["./skblab", "compare", *words, *self.options])

    @property
    def measured(self) -> list[tuple[int, int]]:
        """Side and boot of all that is to be measured of a workload, in that order."""
        return [
            (number, boot)
            for boot, number in enumerate([*range(len(self.sides)), FIRST])
            if self.sides[number].stored is None
        ]

    @property
    def boots(self) -> int:
        """How many boots a workload has, stored ones too."""
        return len(self.sides) + 1

    @property
    def taken(self) -> int:
        """How many figures are of stored runs."""
        return (self.boots - len(self.measured)) * len(self.workloads)

    @property
    def seconds(self) -> float:
        """About how long it takes once the kernels are there."""
        return SECONDS * len(self.measured) * len(self.workloads)


def require_thousands(packets: int) -> None:
    """Raise UsageError for a number of packets that rounds cannot be made of."""
    if packets % 1000:
        raise UsageError(f"--packets {packets}: expected whole thousands, such as {PACKETS}")


def fitting(
    sides: Sequence[Side], workloads: tuple[Workload, ...], named: bool
) -> tuple[Workload, ...]:
    """Return the workloads whose machines have all the knobs of the sides.

    UsageError where none is left, or where one that the user has `named` has not.
    """
    knobs = {knob: value for side in sides for knob, value in side.knobs.items()}
    kept: list[Workload] = []
    why = ""
    for workload in workloads:
        cannot = next(filter(None, (unable_in(workload, knob) for knob in knobs)), None)
        if cannot is None:
            kept.append(workload)
            continue
        why = f"{workload.name}: {cannot}"
        if named:
            raise UsageError(f"--workload {why}")
    if not kept:
        raise UsageError(f"{OPTION}: no workload has a machine with these settings; {why}")
    return tuple(kept)


def unable_in(workload: Workload, knob: str) -> str | None:
    """Return why a knob cannot be set in a workload, in words; None if it can."""
    if workload.knobs is None:
        return (
            f"{knob} cannot be set: its file has no line `# knobs: router` or `# knobs: receiver`"
        )
    why = unable(knob, "receive" if workload.knobs == "receiver" else "forward")
    return None if why is None else f"{knob} cannot be set: {why}"
