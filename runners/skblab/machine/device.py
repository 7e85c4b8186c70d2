# SPDX-License-Identifier: GPL-2.0-or-later
"""A machine under test and its network devices, and the namespaces that these are in."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Device:
    """A network device of the device under test, and the namespace that it is in."""

    name: str
    netns: str | None = None
    # Addresses of the machine behind it, IPv4 or IPv6: where routes go to.
    beyond: tuple[str, ...] = ()


@dataclass(frozen=True)
class Machine:
    """The device under test: `devices` in the order in which traffic passes them.

    `veth`: they are no network cards.
    """

    devices: tuple[Device, ...]
    netns: str | None = None
    cpus: int = 1
    veth: bool = False

    @property
    def entered(self) -> Machine:
        """The same, as it is for a script that runs in its namespace."""
        devices = tuple(replace(device, netns=None) for device in self.devices)
        return replace(self, devices=devices, netns=None)


def inside(netns: str | None, command: str) -> str:
    """Return a command as it runs in a namespace."""
    return command if netns is None else f"ip netns exec {shlex.quote(netns)} {command}"


def script_inside(netns: str | None, script: str) -> str:
    """Return a command that runs a script in a namespace, until something in it fails."""
    return inside(netns, f"sh -ec {shlex.quote(script)}")
