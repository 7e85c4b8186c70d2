# SPDX-License-Identifier: GPL-2.0-or-later
"""The knob that is load beside packets: stress-ng keeps CPUs busy for some of the time.

A state is the percentage, with `@CPUS` behind it if it is of some of them. One that has died
meanwhile is read as 0, and the trial is invalid.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources

from skblab.knobs import cpus
from skblab.knobs.base import Between, Check, Family, Form, Independent, able
from skblab.knobs.values import Value
from skblab.machine.device import Machine
from skblab_analysis.base.whole import whole

PER_CENT = Between(0, 100, 40)
_ON = re.compile(r"(\d{1,3}) on (\S+)")


class Loads:
    """Values that are a percentage of every CPU, or of some."""

    def __call__(self, value: Value) -> Value:
        """Return the value; ValueError if it is no such load."""
        if type(value) is int:
            return PER_CENT(value)
        found = _ON.fullmatch(value) if isinstance(value, str) else None
        if found and 0 < int(found[1]) <= PER_CENT.high and cpus.parse(found[2]):
            return value
        raise ValueError(f"{value!r}: expected {self}")

    @property
    def forms(self) -> Sequence[Form]:
        """Of every CPU, or of some."""
        return [*PER_CENT.forms, Form("40 on 2-3", "of these CPUs only")]

    def __str__(self) -> str:
        """Return them in words."""
        return f"{PER_CENT}, or of some CPUs only, such as '40 on 2-3'"


LOADS = Loads()


@dataclass(frozen=True)
class Load(Independent):
    """Load of the whole machine, whatever namespace the device under test is in."""

    name: str = "load"
    sentence: str = (
        "Per cent of each CPU, or of some, that other programs use meanwhile (stress-ng). With "
        "--exact only 0."
    )
    check: Check = LOADS
    needs: str = "stress-ng"
    boot: bool = False

    def get(self, machine: Machine) -> str:
        """Print `load` and its state, and the CPUs that there are."""
        return _script("show")

    def state(self, printed: str) -> str:
        """Return the percentage, and of which CPUs; Unable without stress-ng."""
        per_cent, on, some = able(printed).split()[1].partition("@")
        return f"{whole(per_cent)}{on}{cpus.same(some) if on else ''}"

    def fits(self, printed: str, value: Value) -> None:
        """Raise Unable without stress-ng, or for CPUs that there are not."""
        self.state(printed)
        online = cpus.parse(printed.split()[3])
        _, some = _parts(value)
        cpus.present(cpus.parse(some), online, "online are")

    def wanted(self, machine: Machine, value: Value, before: str) -> str:
        """Return the percentage, and of which CPUs."""
        per_cent, some = _parts(value)
        return f"{per_cent}@{cpus.same(some)}" if some else per_cent

    def restore(self, machine: Machine, state: str) -> str:
        """End what runs, and start what the state has."""
        if state == "0":
            return _script("stop")
        per_cent, _, some = state.partition("@")
        count = len(cpus.parse(some)) or machine.cpus
        return _script(f"stop\nstart {per_cent} {count} {some}".rstrip())

    def by_hand(self, value: Value) -> str:
        """Return a call of stress-ng."""
        per_cent, some = _parts(value)
        if per_cent == "0":
            return "no stress-ng"
        count, where = (len(cpus.parse(some)), f" --taskset {some}") if some else ("CPUS", "")
        return f"stress-ng --cpu {count} --cpu-load {per_cent}{where} --timeout 0"


def _parts(value: Value) -> tuple[str, str]:
    """Return the percentage, and its CPUs; none are all."""
    found = _ON.fullmatch(str(value))
    return (found[1], found[2]) if found else (str(value), "")


def _script(call: str) -> str:
    # In a shell of its own: others have functions of the same names.
    return f"(\n{(resources.files(__package__) / 'load.sh').read_text()}{call}\n)"


FAMILY = Family(120, (Load(),))
