# SPDX-License-Identifier: GPL-2.0-or-later
"""What a trial is: traffic of one load for some seconds, counted at every place it passed.

A Measurer runs trials. It stops the traffic and waits until all counters stand still before it
reads them: counters that are read under traffic invent loss.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

from skblab.sweep.measure.throughput.limits import USUAL, Tolerances, missed, verdict
from skblab_analysis.base.errors import SkblabError
from skblab_analysis.throughput.rows import Limit


@dataclass(frozen=True)
class Trial:
    """A trial: `load` packets per second were asked for, for `seconds`; the others are packets.

    `sent` is the generator's count, `forwarded` the device's own (None: there is no device, or
    it cannot be asked), `received` the sink's. `took` is how long the generator sent, where that is
    known: one that cannot keep the load ends late, or is stopped.
    """

    load: float
    seconds: float
    sent: int
    forwarded: int | None
    received: int
    tolerances: Tolerances = USUAL
    took: float = 0.0

    def __post_init__(self) -> None:
        if not (self.load > 0 and self.seconds > 0):
            raise SkblabError(f"a trial of {self.load} packets/s for {self.seconds} s is none")
        counts = [self.sent, self.received]
        if self.forwarded is not None:
            counts.insert(1, self.forwarded)
        if counts != sorted(counts, reverse=True) or self.received < 0:
            # What is made up on the way would hide as many losses.
            raise SkblabError(
                f"a trial's counts contradict each other: {self}; other traffic, or read too early?"
            )

    def __str__(self) -> str:
        """Return the counts in words."""
        forwarded = "" if self.forwarded is None else f"forwarded {self.forwarded}, "
        return f"sent {self.sent}, {forwarded}received {self.received} of {self.offered}"

    @property
    def offered(self) -> int:
        """Packets that the generator was asked for: at this load, for as long as it sent."""
        return round(self.load * self.lasted)

    @property
    def lasted(self) -> float:
        """Seconds of the trial, that the generator may have made longer."""
        return max(self.seconds, self.took)

    @property
    def limit(self) -> Limit:
        """Who was the limit."""
        return verdict(self.offered, self.sent, self.forwarded, self.received, self.tolerances)

    @cached_property
    def expected(self) -> int:
        """Packets that should have arrived.

        Those which a generator at its limit did not send are among them: a load that was not
        there must not pass for one that was carried.
        """
        if missed(self.offered, self.sent, self.tolerances):
            return max(self.offered, self.sent)
        return self.sent

    @property
    def loss_ratio(self) -> float:
        """The draft's Trial Loss Ratio, of all that was expected to arrive."""
        return (self.expected - self.received) / self.expected if self.expected else 0.0


class Measurer(Protocol):
    """Runs trials: a testbed with its traffic, or a simulation."""

    def measure(self, load: float, seconds: float) -> Trial:
        """Send `load` packets per second for `seconds`, and count."""


class Recorder:
    """A Measurer that keeps every trial, so that what ends a search early loses none of them.

    `keep` is called with each, for a journal.
    """

    def __init__(self, measurer: Measurer, keep: Callable[[Trial], None] | None = None) -> None:
        self.trials: list[Trial] = []
        self._measurer = measurer
        self._keep = keep

    def measure(self, load: float, seconds: float) -> Trial:
        """Have it measured, and keep it."""
        trial = self._measurer.measure(load, seconds)
        if (trial.load, trial.seconds) != (load, seconds):
            raise SkblabError(
                f"the trial was of {trial.load} packets/s for {trial.seconds} s, "
                f"expected {load} for {seconds}"
            )
        self.trials.append(trial)
        if self._keep is not None:
            self._keep(trial)
        return trial
