# SPDX-License-Identifier: GPL-2.0-or-later
"""Knobs that are kernel parameters, in /proc/sys."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass

from skblab.knobs.base import (
    DEVICE,
    ON_OFF,
    UNABLE,
    Between,
    Check,
    Choice,
    Family,
    Independent,
    able,
)
from skblab.knobs.values import Value
from skblab.machine.device import Machine, script_inside

_LINE = re.compile(r"(\S+)=(\S*)")


@dataclass(frozen=True)
class Sysctl(Independent):
    """Parameters that all get the same value.

    In `keys`, `{device}` stands for each device in turn. With `everywhere` they are those of the
    whole machine, not of the namespace of the device under test.
    """

    name: str
    sentence: str
    keys: tuple[str, ...]
    check: Check
    everywhere: bool = False
    needs: str = ""
    boot: bool = False

    def get(self, machine: Machine) -> str:
        """Print `key=value` for each; one process reads all, as /proc/sys is read whole."""
        paths = self._paths(machine)
        there = [f"[ -e {path} ] || echo '{UNABLE} no {key}'" for key, path in paths]
        keys, files = (" ".join(words) for words in zip(*paths, strict=True))
        values = f'for one in $(cat {files} 2>/dev/null); do echo "$1=$one"; shift; done'
        return self._run(machine, f"({'; '.join(there)}; set -- {keys}; {values})")

    def state(self, printed: str) -> str:
        """Return `key=value` words."""
        return " ".join(able(printed).split())

    def wanted(self, machine: Machine, value: Value, before: str) -> str:
        """Return the value for each."""
        number = int(value) if isinstance(value, bool) else value
        return " ".join(f"{key}={number}" for key, _ in self._paths(machine))

    def restore(self, machine: Machine, state: str) -> str:
        """Write each value."""
        paths = dict(self._paths(machine))
        words = [_LINE.fullmatch(word) for word in state.split()]
        lines = [f"echo {shlex.quote(match[2])} >{paths[match[1]]}" for match in words if match]
        return self._run(machine, "; ".join(lines))

    def by_hand(self, value: Value) -> str:
        """Return a call of sysctl."""
        number = int(value) if isinstance(value, bool) else value
        keys = (key.format(device=DEVICE).replace("/", ".") for key in self.keys)
        return f"sysctl -w {' '.join(f'{key}={number}' for key in keys)}"

    def _paths(self, machine: Machine) -> list[tuple[str, str]]:
        found = []
        for key in self.keys:
            for device in machine.devices if "{device}" in key else machine.devices[:1]:
                full = key.format(device=device.name)
                found.append((full, f"/proc/sys/{full}"))
        return found

    def _run(self, machine: Machine, script: str) -> str:
        if self.everywhere or machine.netns is None:
            return script
        return script_inside(machine.netns, script)


_MANY = 1 << 31
_SYSCTLS = (
    Sysctl(
        "rp_filter",
        "Reverse path filter: a route back to the source is looked up for each packet.",
        # The greater of the two counts.
        ("net/ipv4/conf/all/rp_filter", "net/ipv4/conf/{device}/rp_filter"),
        Choice((0, 1, 2)),
    ),
    Sysctl(
        "ip_forward",
        "Packets for others are forwarded.",
        ("net/ipv4/ip_forward", "net/ipv6/conf/all/forwarding"),
        ON_OFF,
    ),
    *(
        Sysctl(name, sentence, (f"net/core/{key or name}",), check, everywhere=True)
        for name, key, check, sentence in (
            (
                *("netdev_budget", "", Between(1, _MANY - 1, 600)),
                "Packets that one softirq takes from all NAPI instances before it lets others run.",
            ),
            (
                *("netdev_budget_usecs", "", Between(1, _MANY - 1, 8000)),
                "Microseconds that one softirq polls before it lets others run; two ticks of the "
                "kernel's at least (8000 at 250 Hz).",
            ),
            (
                *("dev_weight", "", Between(1, 65535, 128)),
                "Packets that one poll takes from a CPU's backlog, where RPS puts them.",
            ),
            (
                *("netdev_max_backlog", "", Between(1, _MANY - 1, 5000)),
                "Packets that wait in a CPU's backlog, where RPS and veth without NAPI put them; "
                "further ones are dropped.",
            ),
            (
                *("busy_poll", "", Between(0, _MANY - 1, 50)),
                "Microseconds that poll() and select() busy-poll the NIC's queue.",
            ),
            (
                *("busy_read", "", Between(0, _MANY - 1, 50)),
                "Microseconds that a read from a socket busy-polls the NIC's queue.",
            ),
            (
                *("rfs_entries", "rps_sock_flow_entries", Between(0, 1 << 29, 32768)),
                "Flows that receive flow steering (RFS) remembers on the whole machine; 0: off.",
            ),
        )
    ),
)
FAMILY = Family(10, _SYSCTLS)
