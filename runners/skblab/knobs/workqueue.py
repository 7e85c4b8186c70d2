# SPDX-License-Identifier: GPL-2.0-or-later
"""The knob that says where work goes that no CPU is named for: the mask of unbound workqueues.

A state is a list of CPUs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from skblab.knobs import cpus
from skblab.knobs.base import UNABLE, Check, Family, able
from skblab.knobs.values import Value
from skblab.machine.device import Machine

MASK = "/sys/devices/virtual/workqueue/cpumask"
POSSIBLE = "/sys/devices/system/cpu/possible"
ALL = "all"
ALL_OR_SOME = cpus.Cpus(ALL)


@dataclass(frozen=True)
class WorkqueueCpus:
    """CPUs of unbound workqueues."""

    name: str = "workqueue_cpus"
    sentence: str = "CPUs of kernel work that is bound to no CPU (unbound workqueues)."
    check: Check = ALL_OR_SOME
    needs: str = ""
    boot: bool = False

    def get(self, machine: Machine) -> str:
        """Print the mask, and the CPUs that there may be."""
        return (
            f"if [ -e {MASK} ]; then cat {MASK} {POSSIBLE}; "
            f"else echo '{UNABLE} this kernel has no mask of workqueues'; fi"
        )

    def state(self, printed: str) -> str:
        """Return the CPUs of the mask, of those that there may be."""
        mask, possible = _read(printed)
        return cpus.text(cpu for cpu in possible if mask >> cpu & 1)

    def fits(self, printed: str, value: Value) -> None:
        """Raise Unable for CPUs that there are not."""
        _, possible = _read(printed)
        cpus.present(_cpus(value, possible), possible)

    def likely(self, machine: Machine) -> str:
        """Return all CPUs that the machine has."""
        return cpus.text(range(machine.cpus))

    def wanted(self, machine: Machine, value: Value, before: str) -> str:
        """Return the CPUs of a value."""
        return cpus.text(_cpus(value, range(machine.cpus)))

    def restore(self, machine: Machine, state: str) -> str:
        """Write the mask."""
        return f"echo {_mask(cpus.parse(state))} >{MASK}"

    def by_hand(self, value: Value) -> str:
        """Return what writes the mask."""
        if value == ALL:
            return f"echo MASK >{MASK}, with the bits of all CPUs"
        return f"echo {_mask(cpus.parse(str(value)))} >{MASK}"


def _read(printed: str) -> tuple[int, list[int]]:
    mask, possible = able(printed).split()
    return int(mask.replace(",", ""), 16), cpus.parse(possible)


def _cpus(value: Value, every: Sequence[int]) -> list[int]:
    return list(every) if value == ALL else cpus.parse(str(value))


def _mask(listed: Sequence[int]) -> str:
    return cpus.mask(sum(1 << cpu for cpu in listed))


FAMILY = Family(115, (WorkqueueCpus(),))
