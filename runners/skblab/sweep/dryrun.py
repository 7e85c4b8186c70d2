# SPDX-License-Identifier: GPL-2.0-or-later
"""The commands of a plan as they would be sent, without anything that is sent."""

from __future__ import annotations

from collections.abc import Iterator

from skblab.sweep.experiment import Value
from skblab.sweep.knobs.base import Machine
from skblab.sweep.knobs.registry import KNOBS
from skblab.sweep.plan import TESTER, Plan
from skblab.sweep.testbeds import netns


def commands(plan: Plan, packets: int | None) -> Iterator[str]:
    """Yield each command once, under what it is for; `packets` of each exact trial."""
    machine = netns.machine(cpus=1)
    yield "# making the testbed"
    yield netns.script("lay_out")
    for change in plan.boots[0].changes:
        yield f"# {change.setting}"
        for name, value in change.knobs.items():
            yield _set(machine, name, value)
        if packets is not None:
            for trial in change.trials:
                tester = change.setting == TESTER
                yield netns.offering(trial.stream, packets, tester, 0)


def _set(machine: Machine, name: str, value: Value) -> str:
    knob = KNOBS[name]
    return knob.restore(machine, knob.wanted(machine, value, knob.likely(machine)))
