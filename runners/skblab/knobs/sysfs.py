# SPDX-License-Identifier: GPL-2.0-or-later
"""Knobs that are files of a device in /sys/class/net: threaded NAPI, RPS, RFS, XPS, deferral.

A state is `path=value` words; a path is relative to /sys/class/net.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass

from skblab.knobs import cpus
from skblab.knobs.base import (
    DEVICE,
    ON_OFF,
    UNABLE,
    Between,
    Check,
    Choice,
    Family,
    able,
    joined,
    parted,
)
from skblab.knobs.values import Value
from skblab.machine.device import Device, Machine, script_inside

CLASS = "/sys/class/net"
# Which CPUs a queue gets: none, all of the machine, or each queue the one of its number.
SPREADS = ("none", "all", "each")
_QUEUE = re.compile(r"-(\d+)/")


@dataclass(frozen=True)
class Sysfs:
    """A file, or one of each queue: `files` is relative to the device's folder, `*` any queue.

    With `cpus` the value is one of SPREADS, and the file a mask of CPUs.
    """

    name: str
    sentence: str
    files: str
    check: Check
    cpus: bool = False
    needs: str = ""
    boot: bool = False

    def get(self, machine: Machine) -> str:
        """Print `path=value` for each file of each device."""
        return "\n".join(self._print(device) for device in machine.devices)

    def _print(self, device: Device) -> str:
        script = (
            f"cd {CLASS}; found=; "
            f"for file in {device.name}/{self.files}; do "
            # One that is there and cannot be read has no hardware behind it.
            '{ read -r value <"$file"; } 2>/dev/null || continue; '
            'found=1; echo "$file=$value"; done; '
            f"[ \"$found\" ] || echo '{UNABLE} {device.name} has no {self.files}'"
        )
        return script_inside(device.netns, script)

    def state(self, printed: str) -> str:
        """Return `path=value` words."""
        words = sorted(word.partition("=") for word in able(printed).split())
        return " ".join(
            f"{path}={_mask(value) if self.cpus else value}" for path, _, value in words
        )

    def fits(self, printed: str, value: Value) -> None:
        """Any file that is read at all can be tried."""
        self.state(printed)

    def likely(self, machine: Machine) -> str:
        """Return the files of the first queue."""
        return " ".join(
            f"{device.name}/{self.files.replace('*', '0')}=" for device in machine.devices
        )

    def wanted(self, machine: Machine, value: Value, before: str) -> str:
        """Return the value, or the CPUs that it means, for each file that there is."""
        return joined((path, self._text(machine, path, value)) for path in parted(before))

    def _text(self, machine: Machine, path: str, value: Value) -> str:
        if not self.cpus:
            return str(int(value) if isinstance(value, bool) else value)
        queue = _QUEUE.search(path)
        number = int(queue[1]) if queue else 0
        each = 1 << number % machine.cpus
        masks = {"none": 0, "all": (1 << machine.cpus) - 1, "each": each}
        return f"{masks[str(value)]:x}"

    def restore(self, machine: Machine, state: str) -> str:
        """Write each value to its file."""
        found = parted(state)
        lines = []
        for device in machine.devices:
            writes = "; ".join(
                f"echo {shlex.quote(self._grouped(value))} >{shlex.quote(f'{CLASS}/{path}')}"
                for path, value in found.items()
                if path.startswith(f"{device.name}/")
            )
            if writes:
                lines.append(script_inside(device.netns, writes))
        return "\n".join(lines)

    def by_hand(self, value: Value) -> str:
        """Return what writes the value; a mask of CPUs has a bit for each."""
        folder = f"{CLASS}/{DEVICE}/{self.files}"
        if self.cpus and value == "each":
            file = folder.replace("*", "QUEUE")
            return f"echo MASK >{file}, with the bit of CPU number QUEUE (1, 2, 4, 8, …)"
        if self.cpus:
            word = {"none": "0 ", "all": "MASK "}[str(value)]
            every = ", with the bits of all CPUs" if value == "all" else ""
            return f"echo {word}| tee {folder}{every}"
        number = int(value) if isinstance(value, bool) else value
        return f"echo {number} {'| tee ' if '*' in self.files else '>'}{folder}"

    def _grouped(self, value: str) -> str:
        """Return a mask with commas, as the kernel wants it."""
        return cpus.mask(int(value, 16)) if self.cpus else value


def _mask(printed: str) -> str:
    """Return a mask of CPUs without the commas and zeros that depend on how many there may be."""
    return f"{int(printed.replace(',', ''), 16):x}"


_SYSFS = (
    Sysfs(
        "threaded",
        "Each NAPI instance is polled by a kernel thread of its own instead of softirqs.",
        "threaded",
        ON_OFF,
    ),
    Sysfs(
        "gro_flush_timeout",
        "Nanoseconds after which a timer polls a NAPI instance whose interrupt is deferred.",
        "gro_flush_timeout",
        Between(0, 1_000_000_000, 20_000),
    ),
    Sysfs(
        "napi_defer_hard_irqs",
        "Polls without a packet before a NAPI instance's interrupt is enabled again.",
        "napi_defer_hard_irqs",
        Between(0, (1 << 31) - 1, 2),
    ),
    Sysfs(
        "rps",
        "CPUs that RPS hands the packets of a receive queue to.",
        "queues/rx-*/rps_cpus",
        Choice(SPREADS),
        cpus=True,
    ),
    Sysfs(
        "rfs_flows",
        "Flows of a receive queue that RFS hands to the CPU of their reader.",
        "queues/rx-*/rps_flow_cnt",
        Between(0, 1 << 29, 4096),
    ),
    Sysfs(
        "xps",
        "CPUs that send by a transmit queue.",
        "queues/tx-*/xps_cpus",
        Choice(SPREADS),
        cpus=True,
        needs="a NIC with several queues",
    ),
)
FAMILY = Family(40, _SYSFS)
