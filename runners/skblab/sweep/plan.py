# SPDX-License-Identifier: GPL-2.0-or-later
"""What a sweep does, in which order: pure, the same for the same file and seed.

A block is one repeat of everything. In it, settings that need the same boot run in one boot; boots,
the settings of each, and what is measured with a setting are in a random order of the block's own.
The baseline runs twice in each block, the second time under another name: what differs between
these two is the suite's own error.
"""

from __future__ import annotations

import hashlib
import heapq
import json
import random
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from skblab.knobs.values import Value, words
from skblab.sweep.experiment import BASELINE, Experiment, knobs_of
from skblab.sweep.measure.base import Part
from skblab.sweep.measure.exact import Exact
from skblab.sweep.measures import measures, parts
from skblab.sweep.planned import TESTER, Boot, Measurement, SettingMeasurements
from skblab_analysis.base.certainty import AGAIN

# For the estimate, in seconds: what a boot takes, and to apply a setting.
BOOT_SECONDS = 30.0
SETTING_SECONDS = 1.0
# What it takes in a guest to make a route and to take it away again; counted, side by side as well.
ROUTE_SECONDS = 0.35e-3
ROUTES = ("routes", "routes6")
# Sections that are in a plan's digest where they are not asked for, too. Those of later measures
# are not: an experiment that does not ask for them has the plan that it had.
FIRST = frozenset(("throughput", "rfc2544", "latency", "layers"))
# Keys that came later, with what they are where a file does not have them: the same.
LATER: Mapping[str, Mapping[str, object]] = {
    "latency": {"cut_seconds": None},
    "layers": {"late_us": None, "late_run": 1},
    "cpu": {"every_seconds": None},
}


@dataclass(frozen=True)
class Plan:
    """All boots of all blocks; not all blocks may be needed, nor fit in the budget."""

    experiment: Experiment
    boots: tuple[Boot, ...]
    # Instructions are counted, by guests of so many CPUs, and nothing is timed.
    exact: bool = False
    cpus: int = 1

    @property
    def digest(self) -> str:
        """Names the plan: the same for the same experiment file, whatever its comments."""
        experiment = self.experiment.model_dump(mode="json")
        experiment["measure"] = {
            name: _as_before(name, section)
            for name, section in self.experiment.measure.model_dump(mode="json").items()
            if section is not None or name in FIRST
        }
        if not self.experiment.commands:
            # As it was before there were any.
            del experiment["commands"]
        # What a study published changes nothing of what is run.
        del experiment["study"]
        for setting in experiment["setting"]:
            del setting["published"], setting["published_latency"]
        boots = [_digested(boot) for boot in self.boots]
        whole = json.dumps({"experiment": experiment, "boots": boots}, sort_keys=True)
        return hashlib.sha256(whole.encode()).hexdigest()[:16]

    def measurements(self) -> Iterator[tuple[Boot, SettingMeasurements, Measurement]]:
        """Yield all that is measured, in its order."""
        for boot in self.boots:
            for setting in boot.settings:
                for measurement in setting.measurements:
                    yield boot, setting, measurement

    def seconds(self, blocks: int | None = None, at_once: int = 1) -> float:
        """Return about how long the first `blocks` take, None: all; `at_once` boots run together.

        They begin in their order, each as soon as one before it has ended.
        """
        # When each of the testbeds that may be up is free again.
        free = [0.0] * at_once
        for boot, seconds in zip(self.boots, self.boot_seconds, strict=True):
            if blocks is None or boot.block < blocks:
                heapq.heapreplace(free, free[0] + seconds)
        return max(free)

    @cached_property
    def boot_seconds(self) -> tuple[float, ...]:
        """About how long each boot takes, in seconds."""
        taking = parts(self.experiment.measure, Exact(cpus=self.cpus) if self.exact else None)
        return tuple(self._seconds_of(boot, taking) for boot in self.boots)

    def _seconds_of(self, boot: Boot, taking: Sequence[Part]) -> float:
        # Each exact trial fills the caches for itself.
        warm_up = 0.0 if self.exact else self.experiment.repeats.warm_up_seconds
        found = BOOT_SECONDS + warm_up
        there: Mapping[str, Value] = {}
        for setting in boot.settings:
            found += SETTING_SECONDS + sum(
                part.seconds(self.experiment.measure, measurement)
                for measurement in setting.measurements
                for part in taking
                if part.joins(measurement)
            )
            # Those that are there already stay.
            made = [
                count for name in ROUTES if (count := setting.knobs.get(name)) != there.get(name)
            ]
            found += ROUTE_SECONDS * sum(count for count in made if isinstance(count, int))
            there = setting.knobs
        return found


def _as_before(name: str, section: dict[str, object] | None) -> dict[str, object] | None:
    """Return a section without the keys that came later, unless a file has them."""
    if section is None:
        return None
    later = LATER.get(name, {})
    return {key: value for key, value in section.items() if later.get(key, ...) != value}


def _digested(boot: Boot) -> dict[str, object]:
    """Return a boot as digests have it, by the names of their first version."""
    return {
        "block": boot.block,
        "knobs": dict(boot.knobs),
        "changes": [
            {
                "setting": setting.setting,
                "knobs": dict(setting.knobs),
                "trials": [
                    {
                        "number": measurement.number,
                        "what": measurement.recorded_as,
                        "stream": measurement.stream.model_dump(),
                        "rate": measurement.rate,
                    }
                    for measurement in setting.measurements
                ],
            }
            for setting in boot.settings
        ],
    }


def make(
    experiment: Experiment,
    needs_boot: Collection[str] = (),
    *,
    exact: bool = False,
    cpus: int = 1,
) -> Plan:
    """Return the plan; `needs_boot` are the knobs that only a boot can set.

    With `exact`, instructions are counted of every setting and traffic, whatever is measured else,
    in guests of so many `cpus`.
    A boot begins with the tester where the tester is part of what is measured.
    """
    by_boot: dict[str, tuple[Mapping[str, Value], list[tuple[str, Mapping[str, Value]]]]] = {}
    knobs_by = {BASELINE: knobs_of(experiment, None), AGAIN: knobs_of(experiment, None)}
    knobs_by |= {setting.name: knobs_of(experiment, setting) for setting in experiment.settings()}
    for name, knobs in knobs_by.items():
        own = {knob: knobs[knob] for knob in sorted(knobs) if knob in needs_boot}
        _, settings = by_boot.setdefault(words(own), (own, []))
        settings.append((name, knobs))
    measured = list(_measured(experiment, exact, tester=False))
    calibrations = list(_measured(experiment, exact, tester=True))
    boots: list[Boot] = []
    number = 0
    for block in range(experiment.repeats.most):
        # Of the block alone: a repeat more does not change the order of those before it.
        choose = random.Random(f"{experiment.seed} {block}")
        for key in choose.sample(sorted(by_boot), len(by_boot)):
            chosen, settings = by_boot[key]
            made = []
            ordered: list[tuple[str, Mapping[str, Value], list[Measurement]]] = []
            if calibrations:
                ordered.append((TESTER, {}, calibrations))
            for name, knobs in choose.sample(settings, len(settings)):
                ordered.append((name, knobs, choose.sample(measured, len(measured))))
            for name, knobs, trials in ordered:
                numbered = [replace(wanted, number=number + at) for at, wanted in enumerate(trials)]
                number += len(trials)
                made.append(SettingMeasurements(name, knobs, tuple(numbered)))
            boots.append(Boot(block, chosen, tuple(made)))
    return Plan(experiment, tuple(boots), exact, cpus)


def _measured(experiment: Experiment, exact: bool, *, tester: bool) -> Iterator[Measurement]:
    """Yield what is measured of each setting, or of the tester, by the number 0."""
    asked = experiment.measure
    for stream in experiment.traffic.each():
        for measure in measures(asked, Exact() if exact else None):
            if measure.calibrates or not tester:
                for rate in measure.rates(asked):
                    yield Measurement(0, measure.name, stream, rate, tester)
