# SPDX-License-Identifier: GPL-2.0-or-later
"""Knobs that are rules for packets: chains of any length, sets, connection tracking, flow tables,
masquerading; as nftables has them, or iptables.

All in a table, or a chain, of our own: what a machine has beside it is left alone. A state is the
value itself, read from the comment that is kept with the rules, and how many rules there are.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from importlib import resources

from skblab.knobs.base import Check, Family, Independent, Unable
from skblab.knobs.values import Value
from skblab.machine.device import Machine, script_inside

NONE = "none"
# One port each.
MOST = 65_535
# Value to the rules that it has.
IPTABLES_MASQUERADE = "iptables-masquerade"
PLAIN = {"conntrack": 2, "flowtable": 1, "masquerade": 1, IPTABLES_MASQUERADE: 1}
EXPECTED = (
    f"{NONE}, {', '.join(PLAIN)}, or such as 'nft-forward 1000', 'nft-input-set 1000', "
    f"'iptables-forward 1000', with at most {MOST} rules"
)
_RULES = re.compile(r"(nft|iptables)-(forward|input)(-set)? ([1-9]\d*)")
_TABLE = re.compile(r"^nft (\d+) (.+)$", re.MULTILINE)
_FORGETS_NOTHING = "forgets nothing"
_COMMENT = re.compile(r'-A SKBLAB .*--comment "([^",]+)[",]')


class Rules:
    """What rules there can be."""

    def __call__(self, value: Value) -> Value:
        """Return the value; ValueError if there is none like it."""
        if isinstance(value, str):
            if value == NONE or value in PLAIN:
                return value
            found = _RULES.fullmatch(value)
            if found and int(found[4]) <= MOST and not (found[1] == "iptables" and found[3]):
                return value
        raise ValueError(f"{value!r}: expected {self}")

    def __str__(self) -> str:
        """Return them in words."""
        return EXPECTED


RULES = Rules()


@dataclass(frozen=True)
class Netfilter(Independent):
    """Rules for packets; `check` tells which."""

    name: str = "netfilter"
    sentence: str = "Rules that each packet is held to, or what is remembered of its connection."
    check: Check = RULES
    needs: str = "nftables, iptables for its rules, and conntrack or python3 to forget connections"
    boot: bool = False

    def get(self, machine: Machine) -> str:
        """Print our table, and our chain of iptables."""
        return _script(machine, "show")

    def state(self, printed: str) -> str:
        """Return the value that the rules are of, and how many there are."""
        if comments := _COMMENT.findall(printed):
            return f"{comments[0]} {len(comments)}"
        found = _TABLE.search(printed)
        return f"{found[2]} {found[1]}" if found else f"{NONE} 0"

    def fits(self, printed: str, value: Value) -> None:
        """What tracks connections takes something to forget them with, afterwards."""
        if value in PLAIN and _FORGETS_NOTHING in printed:
            raise Unable(
                "it has neither conntrack nor python3, to forget connections with; install one"
            )
        self.state(printed)

    def wanted(self, machine: Machine, value: Value, before: str) -> str:
        """Return the value and the number of rules that it has; of a set, its elements as well."""
        found = _RULES.fullmatch(str(value))
        count = int(found[4]) + bool(found[3]) if found else PLAIN.get(str(value), 0)
        return f"{value} {count}"

    def restore(self, machine: Machine, state: str) -> str:
        """Take our rules away, and make those of the state."""
        value = state.rpartition(" ")[0]
        return _script(machine, f"clear\n{_make(machine, value)}")


def _make(machine: Machine, value: str) -> str:
    if value == NONE:
        return ""
    quoted = shlex.quote(value)
    if found := _RULES.fullmatch(value):
        if found[1] == "iptables":
            return f"iptables_list {found[2].upper()} {found[4]} {quoted}"
        kind = "nft_set" if found[3] else "nft_list"
        return f"{kind} {found[2]} {found[4]} | table {quoted}"
    devices = [device.name for device in machine.devices]
    if value == IPTABLES_MASQUERADE:
        return f"iptables_masquerade {devices[-1]} {quoted}"
    words = {"flowtable": [", ".join(devices)], "masquerade": devices[-1:]}
    return f"{shlex.join([value, *words.get(value, [])])} | table {quoted}"


def _script(machine: Machine, call: str) -> str:
    functions = (resources.files(__package__) / "netfilter.sh").read_text()
    return script_inside(machine.netns, f"set -u\n{functions}{call}")


FAMILY = Family(90, (Netfilter(),))
