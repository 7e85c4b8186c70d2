# SPDX-License-Identifier: GPL-2.0-or-later
"""The knob that says which CPUs a NIC's interrupts go to.

Only those of queues are placed: their names end with a number, as in virtio0-input.0, eth0-TxRx-3
or mlx5_comp7@pci:0000:81:00.0. A state is JSON: whether irqbalance runs, and for each interrupt its
name, its CPUs, and those of another NUMA node; while irqbalance runs, it has no CPUs that stay.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import resources

from skblab.knobs import cpus
from skblab.knobs.base import Check, Family, Form, Unable, able
from skblab.knobs.values import Value
from skblab.machine.device import Device, Machine, script_inside
from skblab_analysis.base.whole import whole

SPREAD, FAR, BALANCED = "spread", "far", "irqbalance"
_ALL = re.compile(r"all (\d{1,4})")
_NUMBERED = re.compile(r"(.*?)(\d+)")


class Affinity:
    """Where interrupts can go."""

    def __call__(self, value: Value) -> Value:
        """Return the value; ValueError if it is no such place."""
        if isinstance(value, str) and (
            value in (SPREAD, FAR, BALANCED) or (_ALL.fullmatch(value) is not None)
        ):
            return value
        raise ValueError(f"{value!r}: expected {self}")

    @property
    def forms(self) -> Sequence[Form]:
        """One CPU, or a way to spread them."""
        return [Form("all 0", "all to one CPU"), Form(SPREAD), Form(FAR), Form(BALANCED)]

    def __str__(self) -> str:
        """Return them in words."""
        return f"such as 'all 0' (one CPU), '{SPREAD}', '{FAR}' or '{BALANCED}'"


AFFINITY = Affinity()


@dataclass(frozen=True)
class IrqAffinity:
    """The CPUs of the interrupts of all devices."""

    name: str = "irq_affinity"
    sentence: str = (
        "CPUs that take the queues' interrupts: one CPU for all, spread over all CPUs, spread over "
        "those of another NUMA node than the NIC's, or as irqbalance moves them."
    )
    check: Check = AFFINITY
    needs: str = "a NIC with interrupts of its own"
    boot: bool = False

    def get(self, machine: Machine) -> str:
        """Print the interrupts of each device."""
        return "\n".join(_script(device, f"show {device.name}") for device in machine.devices)

    def state(self, printed: str) -> str:
        """Return irqbalance and interrupts; Unable if a device has none."""
        lines = [line.split(" ", 3) for line in able(printed).splitlines()]
        balanced = ["irqbalance", "runs"] in lines
        nodes = {words[1]: words[2] for words in lines if words[0] == "node"}
        found: dict[str, dict[str, str]] = {}
        own = ""
        for words in lines:
            if words[0] == "online":
                # The next device begins.
                own = ""
            elif words[0] == "own":
                own = words[1]
            elif words[0] == "irq" and _NUMBERED.fullmatch(words[3].partition("@")[0]):
                # -1: the machine does not tell.
                others = [cpus for node, cpus in nodes.items() if own in nodes and node != own]
                found[str(whole(words[1]))] = {
                    "name": words[3],
                    "cpus": "" if balanced else cpus.same(words[2]),
                    "far": others[0] if others else "",
                }
        if not found:
            raise Unable("no interrupt of a queue was found")
        return _text("on" if balanced else "off", found)

    def fits(self, printed: str, value: Value) -> None:
        """Raise Unable for a CPU, another NUMA node or an irqbalance that there is not."""
        irqs = json.loads(self.state(printed))["irqs"].values()
        online = cpus.parse(printed.partition("online ")[2].partition("\n")[0])
        one = _ALL.fullmatch(str(value))
        if one:
            cpus.present([int(one[1])], online, "online are")
        if value == BALANCED and "irqbalance installed" not in printed:
            raise Unable("irqbalance is not installed")
        if value == FAR and (near := [irq["name"] for irq in irqs if not irq["far"]]):
            raise Unable(
                f"{near[0]}: this machine has one NUMA node, or does not tell that of the NIC"
            )

    def likely(self, machine: Machine) -> str:
        """Return an interrupt of the first queue, whose number is not known."""
        return _text("off", {"NUMBER": {"name": "queue-0", "cpus": "", "far": ""}})

    def wanted(self, machine: Machine, value: Value, before: str) -> str:
        """Return the place of each interrupt."""
        irqs: dict[str, dict[str, str]] = json.loads(before)["irqs"]
        one = _ALL.fullmatch(str(value))
        for queue, irq in _queues(irqs):
            far = cpus.parse(irq["far"])
            places = {
                BALANCED: "",
                SPREAD: str(queue % machine.cpus),
                FAR: str(far[queue % len(far)]) if far else "",
            }
            irq["cpus"] = str(int(one[1])) if one else places[str(value)]
        return _text("on" if value == BALANCED else "off", irqs)

    def restore(self, machine: Machine, state: str) -> str:
        """Have irqbalance run or not, and write where each interrupt goes."""
        found = json.loads(state)
        calls = [f"balance {found['irqbalance']}"]
        calls += [
            f"place {irq} {line['cpus']}" for irq, line in found["irqs"].items() if line["cpus"]
        ]
        return _script(machine.devices[0], "\n".join(calls))

    def by_hand(self, value: Value) -> str:
        """Return what places interrupts, or what lets irqbalance do it."""
        if value == BALANCED:
            return "systemctl start irqbalance"
        one = _ALL.fullmatch(str(value))
        where = {
            SPREAD: ", for each IRQ of a queue: the first one to CPU 0, the next to 1, …",
            FAR: ", for each IRQ of a queue: CPUs of a NUMA node that is not the NIC's, in turn",
        }
        write = f"echo {one[1] if one else 'CPU'} >/proc/irq/IRQ/smp_affinity_list"
        said = where.get(str(value), ", for each IRQ of a queue")
        return f"systemctl stop irqbalance; {write}{said}"


def _queues(irqs: dict[str, dict[str, str]]) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield each interrupt with its place among those of its kind; their numbers may have gaps."""
    kinds: dict[str, list[tuple[int, str]]] = {}
    for irq, line in irqs.items():
        if named := _NUMBERED.fullmatch(line["name"].partition("@")[0]):
            kinds.setdefault(named[1], []).append((int(named[2]), irq))
    for numbers in kinds.values():
        for queue, (_, irq) in enumerate(sorted(numbers)):
            yield queue, irqs[irq]


def _text(balance: str, irqs: dict[str, dict[str, str]]) -> str:
    return json.dumps({"irqbalance": balance, "irqs": irqs}, sort_keys=True)


def functions() -> str:
    """Return the shell's functions that read and place interrupts; `show DEVICE` is one."""
    return (resources.files(__package__) / "irq.sh").read_text()


def _script(device: Device, call: str) -> str:
    return script_inside(device.netns, f"set -u\n{functions()}{call}")


FAMILY = Family(60, (IrqAffinity(),))
