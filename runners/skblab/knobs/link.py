# SPDX-License-Identifier: GPL-2.0-or-later
"""Knobs of a network device as such: its MTU, a VLAN on it, a bridge that it is the port of."""

from __future__ import annotations

import ipaddress
import json
from collections.abc import Mapping
from dataclasses import dataclass

from skblab.knobs.base import (
    DEVICE,
    Between,
    Check,
    Choice,
    Family,
    Independent,
    Unable,
    able,
    calling,
    joined,
    parted,
)
from skblab.knobs.values import Value
from skblab.machine.device import Device, Machine, script_inside
from skblab_analysis.base.whole import whole

# Below, a device loses its IPv6 addresses (RFC 8200, section 5).
LEAST_MTU, MOST_MTU = 1280, 65535
# rtm_protocol of the routes that VLANs and bridges get; those of routes.py have another.
PROTOCOL = 84
# Names of devices of ours, before a number; router.sh has that of VLANs.
VLANS, BRIDGES = "skbvlan", "skbbridge"
# Which ends of the router's path are bridged, by value.
BRIDGED: dict[Value, tuple[str, ...]] = {
    "none": (),
    "in": ("in",),
    "out": ("out",),
    "both": ("in", "out"),
}
ENDS = Choice(tuple(BRIDGED))
MTUS, IDS = Between(LEAST_MTU, MOST_MTU, 9000), Between(0, 4094, 7)


@dataclass(frozen=True)
class Mtu(Independent):
    """The largest packet of each device, in bytes. A state is `device=MTU` words."""

    name: str = "mtu"
    sentence: str = "Bytes of the largest packet of each device, without Ethernet's header."
    check: Check = MTUS
    needs: str = ""
    boot: bool = False

    def get(self, machine: Machine) -> str:
        """Print a document for each device."""
        return "\n".join(
            script_inside(device.netns, f"ip -d -j link show dev {device.name}")
            for device in machine.devices
        )

    def state(self, printed: str) -> str:
        """Return the MTU of each device."""
        found = [link for line in able(printed).splitlines() for link in json.loads(line)]
        return " ".join(f"{link['ifname']}={whole(link['mtu'])}" for link in found)

    def fits(self, printed: str, value: Value) -> None:
        """Raise Unable if a device cannot send packets as large."""
        for line in able(printed).splitlines():
            for link in json.loads(line):
                # 0: the driver does not tell.
                most = link.get("max_mtu") or MOST_MTU
                if isinstance(value, int) and value > most:
                    raise Unable(f"{link['ifname']}: its MTU is at most {most}")

    def wanted(self, machine: Machine, value: Value, before: str) -> str:
        """Return the MTU for each device."""
        return joined((device.name, value) for device in machine.devices)

    def restore(self, machine: Machine, state: str) -> str:
        """Set each device's."""
        found = parted(state)
        return "\n".join(
            script_inside(device.netns, f"ip link set dev {device.name} mtu {found[device.name]}")
            for device in machine.devices
        )

    def by_hand(self, value: Value) -> str:
        """Return a call of ip."""
        return f"ip link set dev {DEVICE} mtu {value}"


@dataclass(frozen=True)
class Vlan(Independent):
    """A VLAN on each device; the machines behind it are reached through it.

    It has no address: routes to those machines lead out by it, and what comes in is routed as ever.
    Routes of routes.py stay on the device itself. A state is `device=ID` words; 0: no VLAN.
    """

    name: str = "vlan"
    sentence: str = "VLAN ID of all packets, received and sent; 0: untagged."
    check: Check = IDS
    needs: str = "a generator that sends with that tag"
    boot: bool = False

    def get(self, machine: Machine) -> str:
        """Print each device, and the VLAN of ours on it."""
        return "\n".join(
            _above(device, f"show_vlan {device.name} {VLANS}{place}")
            for place, device in enumerate(machine.devices)
        )

    def state(self, printed: str) -> str:
        """Return the ID of each device."""
        words = []
        for line in able(printed).splitlines():
            device, _, shown = line.partition(" ")
            ids = [whole(link["linkinfo"]["info_data"]["id"]) for link in json.loads(shown or "[]")]
            words.append(f"{device}={ids[0] if ids else 0}")
        return " ".join(words)

    def wanted(self, machine: Machine, value: Value, before: str) -> str:
        """Return the ID for each device."""
        return joined((device.name, value) for device in machine.devices)

    def restore(self, machine: Machine, state: str) -> str:
        """Take ours away, with its routes and neighbours, and make that of the state."""
        found = parted(state)
        return _remade(
            machine,
            VLANS,
            {name: f"vlan {{}} {{}} {number}" for name, number in found.items() if int(number)},
        )

    def by_hand(self, value: Value) -> str:
        """Return calls of ip."""
        if value == 0:
            return "ip link delete VLAN"
        return (
            f"ip link add link {DEVICE} name VLAN type vlan id {value}; ip link set VLAN up; "
            "ip route replace NEIGHBOUR dev VLAN"
        )


@dataclass(frozen=True)
class Bridge(Independent):
    """A bridge of which a device is the only port; the machines behind it are reached through it.

    It has no address, as a VLAN has none: routes to those machines lead out by it. Routes of
    routes.py stay on the device itself. A state is `device=bridge` or `device=none` words.
    """

    name: str = "bridge"
    sentence: str = (
        "A bridge with the device as its only port, as the LAN of a home router: of the first "
        "device, the last one, or both."
    )
    check: Check = ENDS
    needs: str = ""
    boot: bool = False

    def get(self, machine: Machine) -> str:
        """Print of each device whether it is the port of a bridge of ours."""
        return "\n".join(
            _above(device, f"show_bridge {device.name} {BRIDGES}{place}")
            for place, device in enumerate(machine.devices)
        )

    def state(self, printed: str) -> str:
        """Return what each device is."""
        words = (line.partition(" ") for line in able(printed).splitlines())
        return joined((device, found) for device, _, found in words)

    def wanted(self, machine: Machine, value: Value, before: str) -> str:
        """Return what each device is to be."""
        first, *_, last = machine.devices
        ends = BRIDGED[value]
        ports = {device.name for device, end in ((first, "in"), (last, "out")) if end in ends}
        return joined(
            (device.name, "bridge" if device.name in ports else "none")
            for device in machine.devices
        )

    def restore(self, machine: Machine, state: str) -> str:
        """Take ours away, with its routes and neighbours, and make that of the state."""
        found = parted(state)
        bridged = [name for name, what in found.items() if what == "bridge"]
        return _remade(machine, BRIDGES, dict.fromkeys(bridged, "bridge_of {} {}"))

    def by_hand(self, value: Value) -> str:
        """Return calls of ip."""
        if value == "none":
            return "ip link delete BRIDGE"
        return "; ".join(
            f"ip link add BRIDGE type bridge forward_delay 0; ip link set {port} master BRIDGE; "
            "ip link set BRIDGE up; ip route replace NEIGHBOUR dev BRIDGE"
            for end, port in (("in", "FIRST"), ("out", "LAST"))
            if end in BRIDGED[value]
        )


def _remade(machine: Machine, ours: str, making: Mapping[str, str]) -> str:
    """Return a script that takes devices of ours away and makes those that there shall be.

    Their names are `ours` and a number; `making` has the call for a device, with both names.
    """
    scripts = []
    for place, device in enumerate(machine.devices):
        name = f"{ours}{place}"
        calls = [f"clear {name}"]
        if device.name in making:
            calls.append(making[device.name].format(device.name, name))
            calls += [
                f"reach {device.name} {name} {address} {_whole(address)}"
                for address in device.beyond
            ]
        scripts.append(_above(device, "\n".join(calls)))
    return "\n".join(scripts)


def _whole(address: str) -> str:
    """Return the prefix that is this address alone."""
    return f"{address}/{ipaddress.ip_address(address).max_prefixlen}"


def _above(device: Device, call: str) -> str:
    return calling(device.netns, "above.sh", call, f"PROTOCOL={PROTOCOL}\n")


FAMILY = Family(80, (Mtu(), Vlan(), Bridge()))
