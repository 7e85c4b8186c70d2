# SPDX-License-Identifier: GPL-2.0-or-later
"""A sweep on the wall clock: what all measures have in common that are timed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

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
from skblab.sweep.planned import Measurement
from skblab.sweep.progress import Key
from skblab.sweep.spent import over_budget
from skblab.testbeds import Testbed
from skblab_analysis.base.certainty import widest
from skblab_analysis.load import load
from skblab_analysis.runfolder import RunFolder
from skblab_analysis.trials.rows import Clock


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
    best: BestSoFar = field(init=False)
    _measures: dict[str, Measure] = field(init=False)

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
        """Send some packets that are not counted."""
        fill_caches(measurement, testbed)

    def measure(self, key: Key, measurement: Measurement, testbed: Testbed) -> Callable[[], None]:
        """Measure what is wanted, of a setting or of the tester."""
        there = (self.experiment.measure, self.folder, self.reporter, self.best)
        attempt = Attempt(key, measurement, testbed, *there)
        return self._measures[measurement.measure].measure(attempt)

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
