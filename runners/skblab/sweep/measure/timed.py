# SPDX-License-Identifier: GPL-2.0-or-later
"""A sweep on the wall clock: what all measures have in common that are timed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from skblab.knobs.base import Unable
from skblab.knobs.boot import Start
from skblab.knobs.values import Value
from skblab.lab.guest import GuestSpec
from skblab.lab.guest.chosen import make_spec
from skblab.lab.labroot import Bind
from skblab.lab.reporter import Reporter
from skblab.sweep.best import BestSoFar
from skblab.sweep.experiment import Experiment
from skblab.sweep.measure.base import Attempt, Measure, fill_caches, warming
from skblab.sweep.measures import measures
from skblab.sweep.planned import TESTER, Measurement
from skblab.sweep.progress import Key
from skblab.sweep.spent import over_budget
from skblab.testbeds import Testbed
from skblab_analysis.base.certainty import widest
from skblab_analysis.base.words import number
from skblab_analysis.load import load
from skblab_analysis.runfolder import RunFolder
from skblab_analysis.trials.rows import Clock

# The share of a rate that the tester has to reach for it to be one that it can send.
SENT = 0.99


@dataclass
class Timing:
    """The Method that times: of which experiment, and where it records."""

    experiment: Experiment
    folder: RunFolder
    reporter: Reporter
    cpus: int
    clock: Clock = "wall"
    title: str = "searching"
    gaps: tuple[str, ...] = ()
    at_once: int = 1
    shares: tuple[Bind, ...] = ()
    # Rates that the tester alone did not send are left out.
    sendable_only: bool = False
    best: BestSoFar = field(init=False)
    _measures: dict[str, Measure] = field(init=False)
    # What the tester alone reached of a rate, by traffic and rate, once it was asked for.
    _sent: dict[tuple[str, int], float | None] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        self._measures = {measure.name: measure for measure in measures(self.experiment.measure)}
        # The setting that is best by what comes first is shown.
        self.best = next(iter(self._measures.values())).best()

    def spec(self, begins: Start) -> GuestSpec:
        """Return the guest of the device under test."""
        arguments = list(begins.arguments)
        return make_spec(cpus=self.cpus, flavour=begins.flavour, arguments=arguments)

    def warm_up(self, testbed: Testbed) -> None:
        """Send as much as goes for a while: a guest that was just booted is slow at first."""
        seconds = self.experiment.repeats.warm_up_seconds
        if seconds:
            testbed.offer(warming(next(self.experiment.traffic.each()), seconds))

    def ready(self, measurement: Measurement, testbed: Testbed) -> None:
        """Send some packets that are not counted; Unable if the tester does not send the rate."""
        self._require_sendable(measurement)
        fill_caches(measurement, testbed)

    def measure(self, key: Key, measurement: Measurement, testbed: Testbed) -> Callable[[], None]:
        """Measure what is wanted, of a setting or of the tester."""
        there = (self.experiment.measure, self.folder, self.reporter, self.best)
        attempt = Attempt(key, measurement, testbed, *there)
        return self._measures[measurement.measure].measure(attempt)

    def _require_sendable(self, measurement: Measurement) -> None:
        rate, traffic = measurement.rate, str(measurement.stream)
        if not self.sendable_only or measurement.tester or rate is None:
            return
        if (traffic, rate) not in self._sent:
            # That of the first block decides for all: settings have the same rates in each.
            alone = (
                row.send_rate
                for row in load(self.folder.path).trials
                if (row.measure, row.traffic, row.rate) == (TESTER, traffic, rate)
            )
            self._sent[traffic, rate] = next(alone, None)
        sent = self._sent[traffic, rate]
        if sent is not None and sent < SENT * rate:
            raise Unable(f"the tester alone sends {number(sent)} of {number(rate)} packets/s")

    def unable(self, knobs: Mapping[str, Value]) -> str | None:
        """Return None: whatever can be set can be timed."""
        return None

    def enough(self, blocks: int) -> str | None:
        """Return why no more blocks are needed: intervals are narrow, or the budget is spent."""
        repeats = self.experiment.repeats
        if repeats.width is not None and blocks >= repeats.least:
            run = load(self.folder.path)
            reached = widest(
                figures for measure in self._measures.values() for figures in measure.by_block(run)
            )
            if reached is not None and reached <= repeats.width:
                return (
                    f"the scatter of rates and delays between blocks is within "
                    f"{repeats.width:.2%} of their means"
                )
        return over_budget(self.folder.path, repeats.budget_minutes, blocks)
