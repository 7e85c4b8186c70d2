# SPDX-License-Identifier: GPL-2.0-or-later
"""The knob that is the root qdisc of each device.

Ours has a handle of its own, the kernel's default has 0:. One that somebody else set up is left
alone, for its classes and parameters could not be put back. A state is `device=kind` words.
"""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass

from skblab.knobs.base import (
    DEVICE,
    Check,
    Choice,
    Family,
    Independent,
    Unable,
    able,
    joined,
    parted,
)
from skblab.knobs.values import Value
from skblab.machine.device import Device, Machine, script_inside

DEFAULT, PER_QUEUE = "default", "mq"
KINDS = (
    *(DEFAULT, "noqueue", "pfifo", "bfifo", "pfifo_fast", "fq", "fq_codel", "codel", "sfq"),
    *("cake", PER_QUEUE),
)
CHOICE = Choice(KINDS)
OURS, KERNELS = "5b5b:", "0:"


@dataclass(frozen=True)
class Qdisc(Independent):
    """The root qdisc, with its own default parameters."""

    name: str = "qdisc"
    sentence: str = "Queueing discipline that packets wait in before the driver takes them."
    check: Check = CHOICE
    needs: str = ""
    boot: bool = False

    def get(self, machine: Machine) -> str:
        """Print each device, its transmit queues and its qdiscs."""
        return "\n".join(
            script_inside(device.netns, _show(device.name)) for device in machine.devices
        )

    def state(self, printed: str) -> str:
        """Return the kind of each root; Unable if it is one of somebody else."""
        words = []
        for line in able(printed).splitlines():
            device, _, shown = line.split(" ", 2)
            roots = [qdisc for qdisc in json.loads(shown) if qdisc.get("root")]
            kind, handle = (roots[0]["kind"], roots[0]["handle"]) if roots else (DEFAULT, KERNELS)
            if handle not in (OURS, KERNELS):
                raise Unable(f"{device} has a qdisc of its own, {kind} {handle}")
            words.append(f"{device}={kind if handle == OURS else DEFAULT}")
        return " ".join(words)

    def fits(self, printed: str, value: Value) -> None:
        """Raise Unable for a qdisc of each queue where there is one queue only."""
        self.state(printed)
        for line in printed.splitlines() if value == PER_QUEUE else ():
            device, queues, _ = line.split(" ", 2)
            if queues == "1":
                raise Unable(f"{device} has one transmit queue")

    def wanted(self, machine: Machine, value: Value, before: str) -> str:
        """Return the kind for each device."""
        return joined((device.name, value) for device in machine.devices)

    def restore(self, machine: Machine, state: str) -> str:
        """Take ours away, and set up what the state has instead of the default."""
        kinds = parted(state)
        return "\n".join(_set(device, kinds[device.name]) for device in machine.devices)

    def by_hand(self, value: Value) -> str:
        """Return a call of tc."""
        if value == DEFAULT:
            return f"tc qdisc del dev {DEVICE} root"
        return f"tc qdisc replace dev {DEVICE} root {value}"


def _show(name: str) -> str:
    queues = f"ip -d link show dev {name} | sed -n 's/.* numtxqueues \\([0-9]*\\) .*/\\1/p'"
    return f'echo "{name} $({queues}) $(tc -j qdisc show dev {name})"'


def _set(device: Device, kind: str) -> str:
    script = (
        f"if tc qdisc show dev {device.name} root | grep -q ' {OURS} root'; "
        f"then tc qdisc del dev {device.name} root; fi"
    )
    if kind != DEFAULT:
        script += f"; tc qdisc add dev {device.name} root handle {OURS} {shlex.quote(kind)}"
    return script_inside(device.netns, script)


FAMILY = Family(70, (Qdisc(),))
