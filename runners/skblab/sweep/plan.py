# SPDX-License-Identifier: GPL-2.0-or-later
"""What a sweep does, in which order: pure, the same for the same file and seed.

A block is one repeat of everything. In it, settings that need the same boot run in one boot; boots,
the settings of each, and what is measured with a setting are in a random order of the block's own.
The baseline runs twice in each block, the second time under another name: what differs between
these two is the suite's own error.
"""

from __future__ import annotations

import hashlib
import json
import math
import random
from collections.abc import Collection, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Literal

from skblab.knobs.values import Value, text
from skblab.sweep.experiment import BASELINE, TESTER, Experiment, Rfc2544, knobs_of
from skblab.sweep.measure.rfc2544 import back_to_back
from skblab.testbeds.asked import Stream
from skblab_analysis.base.certainty import AGAIN
from skblab_analysis.rfc2544.rows import CLEAN

What = Literal["throughput", "latency", "layers", "instructions", "tester"]

# For the estimate, in seconds: what a boot takes, a change of settings, and a trial beside its
# traffic.
BOOT_SECONDS = 30.0
CHANGE_SECONDS = 1.0
TRIAL_SECONDS = 1.0
# What it takes to count the instructions of a trial of the usual length, where two boots are side
# by side, as on two CPUs.
COUNT_SECONDS = 5.0
# What it takes in a guest to make a route and to take it away again; counted, side by side as well.
ROUTE_SECONDS = 0.35e-3
ROUTES = ("routes", "routes6")
# Trials of a search, about, where `trials` of them decide on a load: it looks at four loads near
# the result, and at some that need one trial only.
LOADS = 4
# What a tester sends, about, for the number of bursts that are tried.
PACKETS_PER_SECOND = 1e5


@dataclass(frozen=True)
class Trial:
    """One thing to measure; `rate` in packets a second is that of latency and layers.

    What is measured of the tester is latency if it has a rate.
    """

    number: int
    what: What
    stream: Stream
    rate: int | None

    def __str__(self) -> str:
        """Return it in words."""
        rate = "" if self.rate is None else f" at {self.rate}/s"
        return f"{self.what}{rate}, {self.stream}"


@dataclass(frozen=True)
class Change:
    """A setting, and what is measured with it."""

    setting: str
    knobs: Mapping[str, Value]
    trials: tuple[Trial, ...]


@dataclass(frozen=True)
class Boot:
    """A boot of the device under test with knobs that need one, then settings in this order."""

    block: int
    knobs: Mapping[str, Value]
    changes: tuple[Change, ...]

    def __str__(self) -> str:
        """Return its knobs in words, by which boots of a block are told apart; none if none."""
        return words(self.knobs)


@dataclass(frozen=True)
class Plan:
    """All boots of all blocks; those from block `least` on may not be needed."""

    experiment: Experiment
    boots: tuple[Boot, ...]
    # Instructions are counted, and nothing is timed.
    exact: bool = False

    @property
    def digest(self) -> str:
        """Names the plan: the same for the same experiment file, whatever its comments."""
        boots = [asdict(boot) for boot in self.boots]
        whole = {"experiment": self.experiment.model_dump(mode="json"), "boots": boots}
        return hashlib.sha256(
            json.dumps(whole, sort_keys=True, default=lambda one: one.model_dump()).encode()
        ).hexdigest()[:16]

    def trials(self) -> Iterator[tuple[Boot, Change, Trial]]:
        """Yield every trial in its order."""
        for boot in self.boots:
            for change in boot.changes:
                for trial in change.trials:
                    yield boot, change, trial

    def seconds(self, blocks: int | None = None) -> float:
        """Return about how long the first `blocks` take; None: all of them."""
        boots = [one for one in self.boots if blocks is None or one.block < blocks]
        found = 0.0
        for boot in boots:
            found += BOOT_SECONDS + self.experiment.repeats.warm_up_seconds
            there: Mapping[str, Value] = {}
            for change in boot.changes:
                found += CHANGE_SECONDS + sum(self._length(trial) for trial in change.trials)
                # Those that are there already stay.
                made = [
                    count for name in ROUTES if (count := change.knobs.get(name)) != there.get(name)
                ]
                found += ROUTE_SECONDS * sum(one for one in made if isinstance(one, int))
                there = change.knobs
        return found

    def _length(self, trial: Trial) -> float:
        if self.exact:
            return COUNT_SECONDS
        measure = self.experiment.measure
        if trial.what == "throughput" or (trial.what == "tester" and trial.rate is None):
            assert measure.throughput is not None
            search = measure.throughput
            trials = LOADS * (search.trials + 1)
            found = trials * (search.seconds + TRIAL_SECONDS)
            if trial.what == "tester":
                return found
            return found + (search.confirm_seconds or 0.0) + _tests(measure.rfc2544)
        one = measure.layers if trial.what == "layers" else measure.latency
        assert one is not None
        return one.seconds + TRIAL_SECONDS


def _tests(asked: Rfc2544 | None) -> float:
    """Return about how long RFC 2544's other tests take."""
    if asked is None:
        return 0.0
    found = 0.0
    if asked.latency_seconds is not None:
        # Once more, of the tester alone.
        found += (asked.latency_repeats + 1) * (asked.latency_seconds + TRIAL_SECONDS)
    if asked.frame_loss_seconds is not None:
        # Half of the loads, about, lose something.
        loads = 0.5 / asked.frame_loss_step + CLEAN
        found += loads * (asked.frame_loss_seconds + TRIAL_SECONDS)
    if asked.burst_seconds is not None:
        # The first burst is the longest, and those after it are shorter by halves.
        halves = math.log2(2 + asked.burst_seconds * PACKETS_PER_SECOND)
        found += asked.burst_repeats * (2 * asked.burst_seconds + 1.5 * halves * TRIAL_SECONDS)
        found += back_to_back.STARTS * TRIAL_SECONDS
    if asked.recovery_seconds is not None:
        found += asked.recovery_repeats * (2 * asked.recovery_seconds + TRIAL_SECONDS)
    return found


def words(knobs: Mapping[str, Value]) -> str:
    """Return knobs in words; none are none."""
    return ", ".join(f"{name}={text(value)}" for name, value in knobs.items())


def make(experiment: Experiment, needs_boot: Collection[str] = (), *, exact: bool = False) -> Plan:
    """Return the plan; `needs_boot` are the knobs that only a boot can set.

    With `exact`, instructions are counted of every setting and traffic, whatever is measured else.
    A boot begins with the tester where the tester is part of what is measured.
    """
    by_boot: dict[str, tuple[Mapping[str, Value], list[tuple[str, Mapping[str, Value]]]]] = {}
    names = [(BASELINE, None), (AGAIN, None), *((one.name, one) for one in experiment.settings())]
    for name, setting in names:
        knobs = knobs_of(experiment, setting)
        own = {one: knobs[one] for one in sorted(knobs) if one in needs_boot}
        _, settings = by_boot.setdefault(words(own), (own, []))
        settings.append((name, knobs))
    boots: list[Boot] = []
    number = 0
    for block in range(experiment.repeats.most):
        # Of the block alone: a repeat more does not change the order of those before it.
        choose = random.Random(f"{experiment.seed} {block}")
        for key in choose.sample(sorted(by_boot), len(by_boot)):
            chosen, settings = by_boot[key]
            changes = []
            calibrations = tuple(
                Trial(number + at, "tester", stream, rate)
                for at, (stream, rate) in enumerate(_calibrations(experiment, exact))
            )
            if calibrations:
                number += len(calibrations)
                changes.append(Change(TESTER, {}, calibrations))
            for name, knobs in choose.sample(settings, len(settings)):
                some = list(_measures(experiment, exact))
                trials = [
                    Trial(number + at, *one)
                    for at, one in enumerate(choose.sample(some, len(some)))
                ]
                number += len(trials)
                changes.append(Change(name, knobs, tuple(trials)))
            boots.append(Boot(block, chosen, tuple(changes)))
    return Plan(experiment, tuple(boots), exact)


def _calibrations(experiment: Experiment, exact: bool) -> Iterator[tuple[Stream, int | None]]:
    """Yield what is measured of the tester: as much as of a setting, but for its layers."""
    for what, stream, rate in _measures(experiment, exact):
        if what != "layers":
            yield stream, rate


def _measures(experiment: Experiment, exact: bool) -> Iterator[tuple[What, Stream, int | None]]:
    measure = experiment.measure
    for stream in experiment.traffic.each():
        if exact:
            yield "instructions", stream, None
            continue
        if measure.throughput is not None:
            yield "throughput", stream, None
        for rate in measure.latency.rates if measure.latency else ():
            yield "latency", stream, rate
        for rate in measure.layers.rates if measure.layers else ():
            yield "layers", stream, rate
