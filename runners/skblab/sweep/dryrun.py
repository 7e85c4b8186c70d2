# SPDX-License-Identifier: GPL-2.0-or-later
"""The commands of a plan as they would be sent, without anything that is sent."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping

from skblab.knobs.boot import STOCK, start
from skblab.knobs.registry import KNOBS
from skblab.knobs.values import Value
from skblab.machine.device import Machine
from skblab.sweep.experiment import TESTER
from skblab.sweep.measure import latency as arriving
from skblab.sweep.measure import layers as layering
from skblab.sweep.measure import wall
from skblab.sweep.measure.rfc2544 import tests as rfc2544
from skblab.sweep.plan import Plan, Trial
from skblab.testbeds import Kind, Sending
from skblab.testbeds.base import SHARED, WARM_UP, sink


def commands(
    plan: Plan, kind: Kind, packets: int, flavour: str = STOCK, *, patches: bool = True
) -> Iterator[str]:
    """Yield each command once, under what it is for; `packets` of each exact trial.

    Of a search that is the first load, and of RFC 2544's other tests one of each as if that load
    were the result: what comes after depends on what became of it.
    """
    cpus = 1 if plan.exact else kind.cpus(plan.experiment)
    machine = kind.machine(cpus)
    for one in (boot for boot in plan.boots if boot.block == 0):
        if kind.boots:
            begins = start(one.knobs, flavour, patches=patches)
            yield f"# booting: {begins}"
            yield from begins.scripts
        yield "# making the testbed"
        yield from kind.commands(plan.experiment.traffic)
        yield from _warm_up(plan, kind, cpus)
        for change in one.changes:
            yield f"# {change.setting}"
            yield from setting(machine, change.knobs)
            for trial in change.trials:
                tester = change.setting == TESTER
                fills = Sending(trial.stream, WARM_UP, tester=tester)
                yield f"{kind.offering(fills, cpus)}  # fills the caches"
                if plan.exact:
                    yield kind.offering(Sending(trial.stream, packets, tester=tester), cpus)
                elif trial.what == "layers":
                    argv = [f"{SHARED}/{layering.PROGRAM}", *layering.request(machine).options()]
                    yield shlex.join(argv)
                elif trial.rate is not None:
                    yield from _timed(plan, kind, trial, tester, cpus)
                else:
                    yield kind.offering(_first(plan, trial, tester), cpus)
                    if not tester:
                        yield from _tested(plan, kind, trial, cpus)


def setting(machine: Machine, knobs: Mapping[str, Value]) -> list[str]:
    """Return the command that sets each of these knobs that no boot sets."""
    return [_set(machine, name, value) for name, value in knobs.items() if not KNOBS[name].boot]


def _warm_up(plan: Plan, kind: Kind, cpus: int) -> Iterator[str]:
    seconds = plan.experiment.repeats.warm_up_seconds
    if seconds and not plan.exact:
        yield "# warming up"
        stream = next(plan.experiment.traffic.each())
        yield kind.offering(wall.warming(stream, seconds), cpus)


def _first(plan: Plan, trial: Trial, tester: bool) -> Sending:
    throughput = plan.experiment.measure.throughput
    assert throughput is not None
    return wall.first_load(throughput, trial.stream, tester)


def _timed(plan: Plan, kind: Kind, trial: Trial, tester: bool, cpus: int) -> Iterator[str]:
    asked = plan.experiment.measure.latency
    assert asked is not None
    watched = sink(tester=tester, late_us=asked.late_us, run=asked.run)
    yield shlex.join([f"{SHARED}/{arriving.PROGRAM}", *watched.options()])
    yield kind.offering(arriving.sending(trial, tester, asked), cpus)


def _tested(plan: Plan, kind: Kind, trial: Trial, cpus: int) -> Iterator[str]:
    asked = plan.experiment.measure.rfc2544
    if asked is None:
        return
    rate = _first(plan, trial, tester=False).rate
    for name, watched, sending in rfc2544.examples(asked, trial.stream, rate):
        yield f"# RFC 2544, {name}, here as if {rate:g} packets/s were the throughput"
        if watched is not None:
            yield shlex.join([f"{SHARED}/{arriving.PROGRAM}", *watched.options()])
        yield kind.offering(sending, cpus)


def _set(machine: Machine, name: str, value: Value) -> str:
    knob = KNOBS[name]
    return knob.restore(machine, knob.wanted(machine, value, knob.likely(machine)))
