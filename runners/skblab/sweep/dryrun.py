# SPDX-License-Identifier: GPL-2.0-or-later
"""The commands of a plan as they would be sent, without anything that is sent."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping

from skblab.sweep import arriving, wall
from skblab.sweep.experiment import TESTER, Value
from skblab.sweep.knobs.base import Machine
from skblab.sweep.knobs.boot import STOCK, start
from skblab.sweep.knobs.registry import KNOBS
from skblab.sweep.plan import Plan, Trial
from skblab.sweep.testbeds import netns


def commands(
    plan: Plan, packets: int, flavour: str = STOCK, *, patches: bool = True
) -> Iterator[str]:
    """Yield each command once, under what it is for; `packets` of each exact trial.

    Of a search that is the first load: what comes after depends on what became of it.
    """
    cpus = 1 if plan.exact else wall.cpus(plan.experiment)
    machine = netns.machine(cpus)
    for one in (boot for boot in plan.boots if boot.block == 0):
        begins = start(one.knobs, flavour, patches=patches)
        yield f"# booting: {begins}"
        yield from begins.scripts
        yield "# making the testbed"
        yield netns.script(netns.laying_out(plan.experiment.traffic))
        for change in one.changes:
            yield f"# {change.setting}"
            yield from setting(machine, change.knobs)
            for trial in change.trials:
                tester = change.setting == TESTER
                if plan.exact:
                    yield netns.offering(trial.stream, packets, tester, cpus - 1)
                elif trial.rate is not None:
                    yield from _timed(plan, trial, tester, cpus - 1)
                else:
                    yield _first(plan, trial, tester, cpus - 1)


def setting(machine: Machine, knobs: Mapping[str, Value]) -> list[str]:
    """Return the command that sets each of these knobs that no boot sets."""
    return [_set(machine, name, value) for name, value in knobs.items() if not KNOBS[name].boot]


def _first(plan: Plan, trial: Trial, tester: bool, cpu: int) -> str:
    throughput = plan.experiment.measure.throughput
    assert throughput is not None
    return wall.first_load(throughput, trial.stream, tester, cpu)


def _timed(plan: Plan, trial: Trial, tester: bool, cpu: int) -> Iterator[str]:
    asked = plan.experiment.measure.latency
    if asked is None or trial.rate is None or trial.what == "layers":
        return
    sink = netns.sink(tester=tester, late_us=asked.late_us, run=asked.run)
    yield shlex.join([arriving.PROGRAM, *sink.options()])
    yield arriving.sending(trial, tester, cpu, asked)


def _set(machine: Machine, name: str, value: Value) -> str:
    knob = KNOBS[name]
    return knob.restore(machine, knob.wanted(machine, value, knob.likely(machine)))
