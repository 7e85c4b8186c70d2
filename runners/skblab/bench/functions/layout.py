# SPDX-License-Identifier: GPL-2.0-or-later
"""Where a kernel has the fields of structures: what probes/functions/layout.c prints in a guest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from skblab_analysis.base.errors import understood
from skblab_analysis.base.whole import whole

# Slab caches that hold one kind of structure alone.
STRUCTURES: Mapping[str, str] = {
    "skbuff_head_cache": "sk_buff",
    "rtable": "rtable",
    "ip_dst_cache": "rtable",
    "ip6_dst_cache": "rt6_info",
    "net_namespace": "net",
    "ip_fib_alias": "fib_alias",
    "nf_conntrack": "nf_conn",
    "UDP": "udp_sock",
    "UDPv6": "udp6_sock",
    "TCP": "tcp_sock",
    "TCPv6": "tcp6_sock",
    "task_struct": "task_struct",
}


@dataclass(frozen=True)
class Field:
    """A field of a structure: its first byte, and the one behind it."""

    name: str
    first: int
    end: int


@dataclass
class Structure:
    """A structure of the kernel: its bytes and fields. Those of a union lie over each other."""

    name: str
    size: int
    fields: list[Field] = field(default_factory=list)

    def at(self, first: int, end: int) -> list[str]:
        """Return the names of the fields that have a byte from `first` to before `end`."""
        return [one.name for one in self.fields if one.first < end and first < one.end]


def parse(printed: str) -> dict[str, Structure]:
    """Return the structures by name; SkblabError for a line that is none."""
    found: dict[str, Structure] = {}
    last: Structure | None = None
    for line in printed.splitlines():
        word, *words = line.split() or [""]
        if word not in ("struct", "field"):
            continue
        with understood("the layout of the kernel's structures", line):
            name, *numbers = words
            if word == "struct":
                (size,) = map(whole, numbers)
                last = found[name] = Structure(name, size)
                continue
            first, end = map(whole, numbers)
            if last is None or not first < end <= last.size:
                raise ValueError("expected a field inside a structure")
            last.fields.append(Field(name, first, end))
    return found
