# SPDX-License-Identifier: GPL-2.0-or-later
"""Knobs that are the number of routes: made ones that are like the Internet's, or those of a file.

All lead to the machine behind the last device, by `ip -batch`, with a protocol number of our own,
by which they go again. A state is the value with its number of routes, and how many there are of
all, which tells that none is missing.
"""

from __future__ import annotations

import ipaddress
import json
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from skblab.knobs import link, nexthops, routefile, routeset
from skblab.knobs.base import DEVICE, UNABLE, Check, Family, Form, Unable, able, calling
from skblab.knobs.values import Value
from skblab.machine.device import Machine
from skblab_analysis.base.errors import UsageError, one_line

PROTOCOL = 83
_END = "SKBLAB_ROUTES"
# What the comment of a table of nftables can hold, with the count.
_FILE = re.compile(r"[\w.+/-]{1,100}")
_STATE = re.compile(r"routes=(.+):(\d+) all=(-?\d+)")


@dataclass(frozen=True)
class Tables:
    """Values that are a number of routes, or a file of them."""

    family: int

    def __call__(self, value: Value) -> Value:
        """Return the value; ValueError for too many, and for a file that cannot be read."""
        if type(value) is int and 0 <= value <= routeset.MOST[self.family]:
            return value
        if isinstance(value, str) and _FILE.fullmatch(value) and not value.isdigit():
            routefile.read(Path(value), self.family)
            return value
        raise ValueError(f"{value!r}: expected {self}")

    @property
    def forms(self) -> Sequence[Form]:
        """So many made routes, or those of a file."""
        count = f"a whole number from 0 to {routeset.MOST[self.family]}"
        file = "a file with a prefix on each line, or of `bgpdump -m`"
        return [Form(1000, count), Form("table.txt", file)]

    def __str__(self) -> str:
        """Return them in words."""
        return (
            f"a whole number from 0 to {routeset.MOST[self.family]}, or a file with a prefix on "
            "each line or of `bgpdump -m`"
        )


@dataclass(frozen=True)
class Routes:
    """The routes of one family."""

    family: int
    name: str
    sentence: str
    check: Check
    needs: str = "Python and nftables there"
    boot: bool = False

    def get(self, machine: Machine) -> str:
        """Print which routes of ours there are, how many of all, and the others."""
        if self._next(machine) is None:
            last = machine.devices[-1].name
            return (
                f"echo '{UNABLE} no address behind {last} that routes of IPv{self.family} lead to'"
            )
        return self._script(machine, f"show {' '.join(device.name for device in machine.devices)}")

    def state(self, printed: str) -> str:
        """Return which routes of ours there are, and how many of all."""
        mark, total, *_ = able(printed).splitlines()
        ours = "0:0"
        for part in json.loads(mark).get("nftables", ()):
            ours = part.get("table", {}).get("comment", ours)
        state = f"routes={ours} all={total.split()[1]}"
        _parts(state)
        return state

    def fits(self, printed: str, value: Value) -> None:
        """Raise Unable where routes of ours would take over packets of the machine's own."""
        self.state(printed)
        *_, devices, others = printed.splitlines()
        for route in json.loads(others) if value != 0 else ():
            if route.get("dev") not in devices.split()[1:] and self._in_the_way(route["dst"]):
                raise Unable(
                    f"the machine itself needs its route to {route['dst']}: give it a namespace "
                    "for the devices under test"
                )

    def _in_the_way(self, destination: str) -> bool:
        """Whether routes of ours may be part of it: it is default, or not of a special range."""
        if destination == "default":
            return True
        network = ipaddress.ip_network(destination)
        if network.is_link_local or network.is_multicast or network.is_loopback:
            return False
        return routefile.usual(network) or network.prefixlen < routeset.HEAD[self.family]

    def likely(self, machine: Machine) -> str:
        """Return a state without routes of ours."""
        return "routes=0:0 all=0"

    def wanted(self, machine: Machine, value: Value, before: str) -> str:
        """Return the value with its number of routes, and as many more of all."""
        _, had, total = _parts(before)
        count = value if isinstance(value, int) else len(self._file(str(value)))
        return f"routes={value}:{count} all={total - had + count}"

    def restore(self, machine: Machine, state: str) -> str:
        """Take our routes away, and make those of the state."""
        value, count, _ = _parts(state)
        if count == 0:
            return self._script(machine, "clear")
        via = (
            f"route add & via {self._next(machine)} dev {machine.devices[-1].name} proto {PROTOCOL}"
        )
        name = "" if machine.netns is None else f"-n {shlex.quote(machine.netns)} "
        load = f"sed 's|.*|{via}|' | ip {name}-{self.family} -batch -"
        if value.isdigit():
            source = f"python3 - {self.family} {value} {routeset.SEED}"
            text = (resources.files(__package__) / "routeset.py").read_text()
        else:
            source, text = "cat", "".join(f"{prefix}\n" for prefix in self._file(value))
        made = f"{source} <<'{_END}' | {load}\n{text}{_END}"
        head = self._script(machine, f"clear\nmark {shlex.quote(f'{value}:{count}')}")
        return f"{head}\n{made}"

    def by_hand(self, value: Value) -> str:
        """Return a call of ip for each route."""
        if value == 0:
            return f"ip -{self.family} route flush proto {PROTOCOL}"
        add = f"ip -{self.family} route add PREFIX via NEXT dev {DEVICE} proto {PROTOCOL}"
        whose = f"{value} made prefixes" if isinstance(value, int) else f"the prefixes of {value}"
        return f"{add}, for {whose}"

    def _next(self, machine: Machine) -> str | None:
        """Return the address that all lead to."""
        beyond = machine.devices[-1].beyond
        return next((address for address in beyond if _family(address) == self.family), None)

    def _file(self, value: str) -> list[str]:
        try:
            return routefile.read(Path(value), self.family)
        except ValueError as error:
            raise UsageError(str(error)) from error

    def _script(self, machine: Machine, call: str) -> str:
        numbers = f"FAMILY={self.family} PROTOCOL={PROTOCOL} VLANS={link.PROTOCOL} "
        numbers += f"HOPS={nexthops.PROTOCOL}\n"
        return calling(machine.netns, "routes.sh", call, numbers)


def _family(address: str) -> int:
    return ipaddress.ip_address(address).version


def _parts(state: str) -> tuple[str, int, int]:
    found = _STATE.fullmatch(state)
    if found is None:
        raise ValueError(f"{one_line(state, 80)!r}: expected such as routes=5:5 all=9")
    return found[1], int(found[2]), int(found[3])


_ROUTES = tuple(
    Routes(
        family,
        name,
        f"Routes of IPv{family} beside the machine's own, with prefix lengths as on the Internet.",
        Tables(family),
    )
    for family, name in ((4, "routes"), (6, "routes6"))
)
FAMILY = Family(100, _ROUTES)
