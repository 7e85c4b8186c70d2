# SPDX-License-Identifier: GPL-2.0-or-later
"""The knob that is load beside packets: stress-ng keeps every CPU busy for some of the time.

A state is the percentage. One that has died meanwhile is read as 0, and the trial is invalid.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import resources

from skblab.knobs.base import Between, Check, Family, Independent, able
from skblab.knobs.values import Value
from skblab.machine.device import Machine
from skblab_analysis.base.whole import whole

PER_CENT = Between(0, 100, 40)


@dataclass(frozen=True)
class Load(Independent):
    """Load of the whole machine, whatever namespace the device under test is in."""

    name: str = "load"
    sentence: str = (
        "Per cent of each CPU that other programs use meanwhile (stress-ng). With --exact only 0."
    )
    check: Check = PER_CENT
    needs: str = "stress-ng"
    boot: bool = False

    def get(self, machine: Machine) -> str:
        """Print `load` and the percentage."""
        return _script("show")

    def state(self, printed: str) -> str:
        """Return the percentage; Unable without stress-ng."""
        return str(whole(able(printed).split()[1]))

    def wanted(self, machine: Machine, value: Value, before: str) -> str:
        """Return the percentage."""
        return str(value)

    def restore(self, machine: Machine, state: str) -> str:
        """End what runs, and start what the state has."""
        return _script("stop" if state == "0" else f"stop\nstart {state} {machine.cpus}")

    def by_hand(self, value: Value) -> str:
        """Return a call of stress-ng."""
        return f"stress-ng --cpu CPUS --cpu-load {value} --timeout 0" if value else "no stress-ng"


def _script(call: str) -> str:
    # In a shell of its own: others have functions of the same names.
    return f"(\n{(resources.files(__package__) / 'load.sh').read_text()}{call}\n)"


FAMILY = Family(120, (Load(),))
