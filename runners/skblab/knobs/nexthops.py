# SPDX-License-Identifier: GPL-2.0-or-later
"""The knob that is the number of next hops of the route that packets take (ECMP).

All next hops are the machine behind the last device, by addresses that nobody has. A state is
`address=N` words, one for each address of that machine; 1: no route of ours.
"""

from __future__ import annotations

import ipaddress
import json
from collections.abc import Iterator
from dataclasses import dataclass

from skblab.knobs.base import (
    DEVICE,
    UNABLE,
    Between,
    Check,
    Family,
    Independent,
    able,
    calling,
    joined,
    parted,
)
from skblab.knobs.values import Value
from skblab.machine.device import Machine

# rtm_protocol of our routes; those of link.py and routes.py have others.
PROTOCOL = 85
HOW_MANY = Between(1, 64, 4)
# Addresses of next hops: of documentation (RFC 5737, RFC 3849).
HOPS = {
    4: ipaddress.ip_network("192.0.2.128/25"),
    6: ipaddress.ip_network("2001:db8:0:85::/64"),
}


@dataclass(frozen=True)
class NextHops(Independent):
    """How many next hops there are."""

    name: str = "next_hops"
    sentence: str = (
        "Next hops of the packets' route, of which a hash of addresses chooses one (ECMP); 1: no "
        "choice."
    )
    check: Check = HOW_MANY
    needs: str = ""
    boot: bool = False

    def get(self, machine: Machine) -> str:
        """Print our route to each address behind the last device."""
        if not machine.devices[-1].beyond:
            return f"echo '{UNABLE} no address behind {machine.devices[-1].name}'"
        calls = [f"show {family} {whole}" for family, whole in _addresses(machine)]
        return _script(machine, "\n".join(calls))

    def state(self, printed: str) -> str:
        """Return how many next hops each address has."""
        words = []
        for line in able(printed).splitlines():
            whole, _, shown = line.partition(" ")
            routes = json.loads(shown or "[]")
            hops = len(routes[0].get("nexthops", ())) if routes else 0
            words.append((whole.partition("/")[0], max(hops, 1)))
        return joined(words)

    def wanted(self, machine: Machine, value: Value, before: str) -> str:
        """Return the number for each address."""
        return joined((address, value) for address in machine.devices[-1].beyond)

    def restore(self, machine: Machine, state: str) -> str:
        """Take our routes away, and make those of the state."""
        found = parted(state)
        calls = []
        for family, whole in _addresses(machine):
            calls.append(f"clear {family} {whole} {HOPS[family]}")
            hops = int(found[whole.partition("/")[0]])
            if hops > 1:
                first = HOPS[family].network_address
                every = " ".join(str(first + number) for number in range(1, hops + 1))
                calls.append(f"make {family} {whole} {every}")
        return _script(machine, "\n".join(calls))

    def by_hand(self, value: Value) -> str:
        """Return a call of ip."""
        if value == 1:
            return f"ip route replace DESTINATION via NEXT dev {DEVICE}"
        return (
            f"ip route replace DESTINATION nexthop via NEXT dev {DEVICE} nexthop via …, "
            f"{value} of them"
        )


def _addresses(machine: Machine) -> Iterator[tuple[int, str]]:
    """Yield family and prefix of each address behind the last device."""
    for address in map(ipaddress.ip_address, machine.devices[-1].beyond):
        yield address.version, f"{address}/{address.max_prefixlen}"


def _script(machine: Machine, call: str) -> str:
    return calling(machine.netns, "nexthops.sh", call, f"PROTOCOL={PROTOCOL}\n")


FAMILY = Family(105, (NextHops(),))
