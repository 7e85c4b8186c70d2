# SPDX-License-Identifier: GPL-2.0-or-later
"""What the kernel counts by itself of the device under test, read before and after each trial.

Interrupts and softirqs by CPU, the softnet backlog's figures, those of the devices and of their
drivers, and the time that threads of NAPI and of softirqs had on a CPU. They say whether a setting
did what its name says: which CPUs were interrupted, which polled, where packets were dropped.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from importlib import resources

from skblab.errors import SkblabError
from skblab.sweep.knobs.base import Machine
from skblab.transport import Transport
from skblab_analysis.counters import Counter, Kind

Values = Mapping[tuple[Kind, str, int | None], int]

# Columns of /proc/net/softnet_stat (softnet_seq_show): what they are, by their place.
SOFTNET = {
    0: "processed",
    1: "dropped",
    2: "time_squeeze",
    9: "received_rps",
    10: "flow_limit_count",
}
SOFTNET_CPU = 12
NEW: tuple[Kind, ...] = ("thread", "driver")


def read(transport: Transport, machine: Machine) -> Values:
    """Return all counters as they are now."""
    text = (resources.files(__package__) / "counters.sh").read_text()
    call = ["count", machine.netns or "", *(one.name for one in machine.devices)]
    done = transport.script(f"set -eu\n{text}\n{shlex.join(call)}\n")
    printed = done.check("reading the kernel's counters").stdout
    return parse(printed, [one.name for one in machine.devices])


def parse(printed: str, devices: Sequence[str]) -> Values:
    """Return the counters in what counters.sh printed; SkblabError if there is none of a kind.

    Interrupts of the devices under test have the device's name before their own.
    """
    values: dict[tuple[Kind, str, int | None], int] = {}
    sections: dict[str, list[str]] = {}
    lines: list[str] = []
    for line in printed.splitlines():
        if line.startswith("== "):
            lines = sections.setdefault(line.removeprefix("== "), [])
        else:
            lines.append(line)
    for name in ("interrupts", "softirqs", "softnet", *(f"device {one}" for one in devices)):
        if not sections.get(name):
            raise SkblabError(f"the kernel's counters have no {name}")
    owners = {irq: device for device, irq in map(str.split, sections.pop("owners", []))}
    for (_, irq, cpu), count in _by_cpu("interrupt", sections.pop("interrupts")):
        owner = owners.get(irq.partition(" ")[0])
        values["interrupt", f"{owner} {irq}" if owner else irq, cpu] = count
    values.update(_by_cpu("softirq", sections.pop("softirqs")))
    values.update(_softnet(sections.pop("softnet")))
    for line in sections.pop("threads", []):
        name, _, nanoseconds = line.rpartition(" ")
        values["thread", name, None] = int(nanoseconds)
    for section, rest in sections.items():
        kind: Kind = "driver" if section.startswith("driver ") else "device"
        device = section.split()[1]
        for line in rest:
            name, _, value = line.rpartition(" ")
            values[kind, f"{device} {name}", None] = int(value)
    return values


def difference(before: Values, after: Values) -> list[Counter]:
    """Return what was counted from one reading to the other, without what was not."""
    return [
        Counter(kind=kind, name=name, cpu=cpu, value=value)
        for (kind, name, cpu), now in after.items()
        # A thread and a queue may be new; all else was there, or it would be no difference.
        if (value := now - before.get((kind, name, cpu), 0 if kind in NEW else now))
    ]


def _by_cpu(kind: Kind, lines: list[str]) -> Iterator[tuple[tuple[Kind, str, int], int]]:
    """Yield the values of a table whose head names CPUs and whose rows begin with a name."""
    cpus = [int(word.removeprefix("CPU")) for word in lines[0].split()]
    for line in lines[1:]:
        head, _, rest = line.partition(":")
        words = rest.split()
        # ERR and MIS are of no CPU.
        if len(words) < len(cpus):
            continue
        # Of an interrupt what follows is its chip and its device: the last word tells it apart.
        handler = f" {words[-1]}" if head.strip().isdigit() and len(words) > len(cpus) else ""
        for cpu, value in zip(cpus, words, strict=False):
            yield (kind, f"{head.strip()}{handler}", cpu), int(value)


def _softnet(lines: list[str]) -> Iterator[tuple[tuple[Kind, str, int], int]]:
    for number, line in enumerate(lines):
        words = [int(word, 16) for word in line.split()]
        # Kernels before 5.10 have no such column.
        cpu = words[SOFTNET_CPU] if len(words) > SOFTNET_CPU else number
        for place, name in SOFTNET.items():
            yield ("softnet", name, cpu), words[place]
