# SPDX-License-Identifier: GPL-2.0-or-later
"""Knobs that are rules for packets: chains of any length, sets, connection tracking, flow tables,
masquerading; as nftables has them, or iptables. And any text of nft's own.

Ours are in a table, or a chain, of our own: what a machine has beside it is left alone. A state is
the value itself, read from the comment that is kept with the rules, and how many rules there are.
A text may do anything. All tables that there are before it are kept, and are there again after it.
Its state is its file and what tells it from others; and that rules are others than it made, if so.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field

from skblab.knobs import rules
from skblab.knobs.base import DEVICE, Check, Family, Form, Independent, Unable, calling
from skblab.knobs.rules import Texts, is_file
from skblab.knobs.values import Value
from skblab.machine.device import Machine

NONE = "none"
# One port each.
MOST = 65_535
# Value to the rules that it has.
IPTABLES_MASQUERADE = "iptables-masquerade"
PLAIN = {"conntrack": 2, "flowtable": 1, "masquerade": 1, IPTABLES_MASQUERADE: 1}
EXPECTED = (
    f"'{NONE}', {', '.join(map(repr, PLAIN))}, or such as 'nft-forward 1000', "
    f"'nft-forward-set 1000', 'iptables-forward 1000', with at most {MOST} rules; or a file of "
    "nft's language, such as 'my-rules.nft'"
)
HOOKS = ("forward", "input")
_RULES = re.compile(rf"(nft|iptables)-({'|'.join(HOOKS)})(-set)? ([1-9]\d*)")
_FORWARD = "type filter hook forward priority 0;"
# What is made for values that are words.
_IN_WORDS = {
    NONE: "# remove the rules that no packet needs: here was no table and no chain",
    "conntrack": f"nft 'table inet router {{ chain forward {{ {_FORWARD} "
    "ct state established,related accept; ct state new accept; }; }'",
    "flowtable": f"nft 'table inet router {{ flowtable flows {{ hook ingress priority 0; "
    f"devices = {{ {DEVICE}, … }}; }}; chain forward {{ {_FORWARD} "
    "meta l4proto { tcp, udp } flow add @flows; }; }'",
    "masquerade": "nft 'table inet router { chain postrouting { type nat hook postrouting "
    f'priority 100; oifname "{DEVICE}" masquerade; }}; }}\'',
    IPTABLES_MASQUERADE: f"iptables -t nat -A POSTROUTING -o {DEVICE} -j MASQUERADE",
}
_TABLE = re.compile(r"^nft (\d+) (.+)$", re.MULTILINE)
_TEXT = re.compile(r"^text (\S+) (\w+) (as made|changed)$", re.MULTILINE)
_CHANGED = "changed"
_FORGETS_NOTHING = "forgets nothing"
_COMMENT = re.compile(r'-A SKBLAB .*--comment "([^",]+)[",]')


@dataclass(frozen=True)
class Rules:
    """What rules there can be; `texts` are those of files."""

    texts: Texts = field(default_factory=Texts)

    def __call__(self, value: Value) -> Value:
        """Return the value; ValueError if there is none like it."""
        if isinstance(value, str):
            if is_file(value):
                _ = self.texts[value]
                return value
            if value == NONE or value in PLAIN:
                return value
            found = _RULES.fullmatch(value)
            if found and int(found[4]) <= MOST and not (found[1] == "iptables" and found[3]):
                return value
        raise ValueError(f"{value!r}: expected {self}")

    @property
    def forms(self) -> Sequence[Form]:
        """Nothing, so many rules or elements in either hook, or what tracks connections."""
        rules, elements = f"N rules, at most {MOST}", f"a set of N elements, at most {MOST}"
        return [
            Form(NONE),
            *(Form(f"nft-{hook} 1000", rules) for hook in HOOKS),
            *(Form(f"nft-{hook}-set 1000", elements) for hook in HOOKS),
            *(Form(f"iptables-{hook} 1000", rules) for hook in HOOKS),
            *map(Form, PLAIN),
            Form("my-rules.nft", "a file of nft's language"),
        ]

    def __str__(self) -> str:
        """Return them in words."""
        return EXPECTED


@dataclass(frozen=True)
class Netfilter(Independent):
    """Rules for packets; `check` tells which."""

    texts: Texts = field(default_factory=Texts)
    name: str = "netfilter"
    sentence: str = (
        "Firewall rules, connection tracking, NAT or a flow table; or rules of your own."
    )
    needs: str = "nftables, iptables for its rules, and conntrack or python3 to forget connections"
    boot: bool = False

    @property
    def check(self) -> Check:
        """Which values it takes."""
        return Rules(self.texts)

    def get(self, machine: Machine) -> str:
        """Print our table, and our chain of iptables."""
        return _script(machine, "show")

    def state(self, printed: str) -> str:
        """Return the value that the rules are of, and how many there are."""
        if comments := _COMMENT.findall(printed):
            return f"{comments[0]} {len(comments)}"
        if text := _TEXT.search(printed):
            return f"{text[1]} {text[2]}{' with changed rules' if text[3] == _CHANGED else ''}"
        found = _TABLE.search(printed)
        return f"{found[2]} {found[1]}" if found else f"{NONE} 0"

    def fits(self, printed: str, value: Value) -> None:
        """What tracks connections takes something to forget them with, afterwards."""
        if (value in PLAIN or is_file(value)) and _FORGETS_NOTHING in printed:
            raise Unable(
                "it has neither conntrack nor python3, to forget connections with; install one"
            )
        self.state(printed)

    def wanted(self, machine: Machine, value: Value, before: str) -> str:
        """Return the value and the number of rules that it has; of a set, its elements as well."""
        if is_file(value):
            return f"{value} {rules.key(self.texts[str(value)])}"
        found = _RULES.fullmatch(str(value))
        count = int(found[4]) + bool(found[3]) if found else PLAIN.get(str(value), 0)
        return f"{value} {count}"

    def restore(self, machine: Machine, state: str) -> str:
        """Take our rules away, and make those of the state."""
        value, _, which = state.partition(" with ")[0].rpartition(" ")
        if is_file(value):
            return self._loading(machine, value, which)
        return _script(machine, f"clear\n{_make(machine, value)}")

    def _loading(self, machine: Machine, value: str, which: str) -> str:
        """Return what takes our rules away, and loads a text by standard input."""
        text = self.texts[value]
        if rules.key(text) != which:
            raise ValueError(f"{value}: is another text now than that which was loaded")
        end = f"SKBLAB_RULES_{which}"
        script = _script(machine, f"clear\nload {shlex.quote(value)} {which}")
        return f"{script} <<'{end}'\n{text}{'' if text.endswith(chr(10)) else chr(10)}{end}"

    def by_hand(self, value: Value) -> str:
        """Return what is in nft's or iptables' table; the rules match none of the packets."""
        if is_file(value):
            return f"nft -f {value}"
        if found := _RULES.fullmatch(str(value)):
            tool, hook, of_set, count = found.groups()
            if tool == "iptables":
                rule = "-s 192.0.2.X/32 -p udp --sport PORT -j DROP"
                return f"iptables -A {hook.upper()} {rule}, for PORT 1 to {count}"
            chain = f"chain {{ type filter hook {hook} priority 0; }}"
            if of_set:
                return (
                    f"nft: set {{ type ipv4_addr . inet_service; }} of {count} elements; {chain}: "
                    "ip saddr . udp sport @SET drop"
                )
            return f"nft: {chain}: ip saddr 192.0.2.X udp sport PORT drop, for PORT 1 to {count}"
        return _IN_WORDS[str(value)]


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
    return calling(machine.netns, "netfilter.sh", call)


FAMILY = Family(90, (Netfilter(),))
