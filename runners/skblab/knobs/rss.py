# SPDX-License-Identifier: GPL-2.0-or-later
"""Knobs of receive side scaling: indirection table and hash key of each NIC (ethtool -x, -X).

A state is JSON: for each device the words that `ethtool -X` takes. They say the whole of a table,
for its size is the NIC's own.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from skblab.knobs.base import DEVICE, Check, Family, Form, Unable
from skblab.knobs.ethtool import command, documents, printing
from skblab.knobs.values import Value
from skblab.machine.device import Device, Machine, inside, script_inside

SYMMETRIC = "symmetric"
_EQUAL = re.compile(r"equal ([1-9]\d{0,3})(?: start (\d{1,4}))?")
_KEY = re.compile(r"[0-9a-f]{2}(:[0-9a-f]{2})+")
# In what `ip` prints of a device: as many as its driver can ever have.
_QUEUES = "num_rx_queues"
# Of a device, as the kernel has them in 16 bits.
MOST_QUEUES = 1 << 16
TABLE, KEY = "rss-indirection-table", "rss-hash-key"


class Tables:
    """Values that say how a table is filled."""

    def __call__(self, value: Value) -> Value:
        """Return the value; ValueError if it says nothing of a table."""
        if isinstance(value, str) and _EQUAL.fullmatch(value):
            return value
        raise ValueError(f"{value!r}: expected {self}")

    @property
    def forms(self) -> Sequence[Form]:
        """From the first queue on, or from another one."""
        return [Form("equal 4", "the first N queues"), Form("equal 2 start 4", "N from queue M on")]

    def __str__(self) -> str:
        """Return them in words."""
        return "such as 'equal 4', the first four queues, or 'equal 2 start 4'"


class Keys:
    """Values that are a key, or mean one."""

    def __call__(self, value: Value) -> Value:
        """Return the value; ValueError if it is no key."""
        if isinstance(value, str) and (value == SYMMETRIC or _KEY.fullmatch(value)):
            return value
        raise ValueError(f"{value!r}: expected {self}")

    @property
    def forms(self) -> Sequence[Form]:
        """A key by its name, or its bytes."""
        return [Form(SYMMETRIC), Form("6d:5a:01:02", "bytes that are repeated")]

    def __str__(self) -> str:
        """Return them in words."""
        return f"'{SYMMETRIC}', or bytes such as '6d:5a:…' that are repeated"


def table_words(table: list[int]) -> str:
    """Return what `ethtool -X` takes to make this table; Unable if nothing does."""
    first = min(table)
    if not 0 <= first <= max(table) < MOST_QUEUES:
        raise ValueError(f"queues {first} to {max(table)} in an indirection table")
    queues = max(table) - first + 1
    if table == [first + at % queues for at in range(len(table))]:
        return f"equal {queues} start {first}"
    if table == sorted(table):
        weights = (str(table.count(first + queue)) for queue in range(queues))
        return f"start {first} weight {' '.join(weights)}"
    raise Unable("its indirection table is one that ethtool could not put back")


def key_words(key: list[int]) -> str:
    """Return what `ethtool -X` takes to set this key."""
    return f"hkey {':'.join(f'{byte:02x}' for byte in key)}"


def _set(device: Device, words: str) -> str:
    """Return a command that sets a table or key.

    The table of all queues in turn is the kernel's default, and is set as that: another number of
    queues makes it anew then, which is refused while its user has set it.
    """
    set_it = f"{command(device, '-X', *words.split())} >/dev/null"
    if (found := _EQUAL.fullmatch(words)) is None or int(found[2] or 0):
        return set_it
    queues = f"set -- /sys/class/net/{shlex.quote(device.name)}/queues/rx-*; [ $# = {found[1]} ]"
    default = f"{command(device, '-X', 'default')} >/dev/null"
    return f"if {script_inside(device.netns, queues)}; then {default}; else {set_it}; fi"


def _wanted_table(value: str, before: str) -> str:
    found = _EQUAL.fullmatch(value)
    assert found is not None
    return f"equal {found[1]} start {int(found[2] or 0)}"


def _wanted_key(value: str, before: str) -> str:
    # 6d:5a again and again: both directions of a flow have one hash.
    some = bytes.fromhex(("6d:5a" if value == SYMMETRIC else value).replace(":", ""))
    size = len(before.removeprefix("hkey ").split(":"))
    return key_words([some[at % len(some)] for at in range(size)])


@dataclass(frozen=True)
class Rss:
    """One part of a NIC's receive side scaling, the same on all devices.

    `shown` is its name in `ethtool --json -x`, `words` makes ethtool's words of it, and `meant` of
    a value and what was before.
    """

    name: str
    sentence: str
    shown: str
    check: Check
    words: Callable[[list[int]], str]
    meant: Callable[[str, str], str]
    needs: str = "a NIC with RSS"
    boot: bool = False

    def get(self, machine: Machine) -> str:
        """Print two documents for each device: what it has of queues, and of this."""
        return "\n".join(
            f"{inside(device.netns, f'ip -d -j link show dev {shlex.quote(device.name)}')}\n"
            f"{printing(device, '-x')}"
            for device in machine.devices
        )

    def state(self, printed: str) -> str:
        """Return ethtool's words for each device; Unable if it has none."""
        found = {}
        for document in documents(printed):
            if _QUEUES in document:
                continue
            where, own = document["ifname"], document.get(self.shown)
            if not own:
                raise Unable(f"{where} has no {self.shown}")
            try:
                found[where] = self.words(own)
            except Unable as why:
                raise Unable(f"{where}: {why}") from why
        return json.dumps(found, sort_keys=True)

    def fits(self, printed: str, value: Value) -> None:
        """Raise Unable if there are not so many queues, or the table is too short for them."""
        self.state(printed)
        asked = _EQUAL.fullmatch(str(value))
        if asked is None:
            return
        queues, last = int(asked[1]), int(asked[1]) + int(asked[2] or 0)
        for document in documents(printed):
            most, size = document.get(_QUEUES), len(document.get(self.shown, ()))
            if most is not None and last > most:
                raise Unable(f"{document['ifname']}: it has at most {most} receive queues")
            if most is None and queues > size:
                raise Unable(f"{document['ifname']}: its indirection table has {size} entries")

    def likely(self, machine: Machine) -> str:
        """Return a key of the usual length; a table's size does not matter."""
        return json.dumps({device.name: key_words([0] * 40) for device in machine.devices})

    def wanted(self, machine: Machine, value: Value, before: str) -> str:
        """Return ethtool's words for each device."""
        own: dict[str, Any] = json.loads(before)
        return json.dumps(
            {name: self.meant(str(value), words) for name, words in own.items()}, sort_keys=True
        )

    def restore(self, machine: Machine, state: str) -> str:
        """Have ethtool set each device."""
        own = json.loads(state)
        return "\n".join(
            _set(device, own[device.name]) for device in machine.devices if device.name in own
        )

    def by_hand(self, value: Value) -> str:
        """Return a call of ethtool."""
        words = str(value)
        if self.shown == KEY:
            some = "6d:5a" if value == SYMMETRIC else words
            words = f"hkey {some}:{some}:…, as long as the NIC's key"
        return f"ethtool -X {DEVICE} {words}"


_RSS = (
    Rss(
        "rss",
        "Receive queues that RSS spreads flows over, in turn through its indirection table.",
        TABLE,
        Tables(),
        table_words,
        _wanted_table,
    ),
    Rss(
        "rss_key",
        "Key of RSS's hash; with a symmetric one both directions of a flow have one queue.",
        KEY,
        Keys(),
        key_words,
        _wanted_key,
    ),
)
FAMILY = Family(30, _RSS)
