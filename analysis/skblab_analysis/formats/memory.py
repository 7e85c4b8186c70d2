# SPDX-License-Identifier: GPL-2.0-or-later
"""What a packet misses in simulated caches, as part of the document of functions.

The model is probes/functions/caches.h. As with instructions, what lies between a run with few
packets and one with many, divided by the packets between them, is what one more packet misses.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from pydantic import Field

from skblab_analysis.base.checked import Closed
from skblab_analysis.base.real import SignedReal
from skblab_analysis.base.whole import Positive, Whole

# In the order of caches.h.
CACHES = ("code", "data", "second", "third")
# Where there are two NUMA nodes.
NODES = ("remote_accesses", "remote", "passed")
# What is counted of each block, in the order of a line of counts.
KINDS = ("accesses", *CACHES, "written", *NODES)
# Stands wherever a figure of it does.
LABEL = (
    "simulated: ideal LRU, physical addresses, fixed geometry; no prefetch, speculation, DMA or "
    "page walks; for comparing A with B only"
)
SAID = LABEL[0].upper() + LABEL[1:]
# Columns of tables.
NAMES = {
    "accesses": "accesses",
    "code": "L1 code",
    "data": "L1 data",
    "second": "L2",
    "third": "L3",
    "written": "written back",
    "remote_accesses": "remote accesses",
    "remote": "remote memory",
    "passed": "other CPU",
}
# Digits of what is not zero.
LEAST = 0.005


class Cache(Closed):
    """One cache."""

    bytes: Positive = Field(description="size")
    ways: Positive = Field(description="lines of one set")


class Simulated(Closed):
    """The caches of one core of a processor."""

    title: str = Field(description="the processor")
    source: str = Field(description="where the figures are from")
    line: Positive = Field(description="bytes of a line")
    code: Cache = Field(description="first level, of instructions")
    data: Cache = Field(description="first level, of data")
    second: Cache | None = Field(default=None, description="second level, if there is one")
    third: Cache | None = Field(default=None, description="third level, if there is one")
    nodes: Positive = Field(
        default=1,
        description="NUMA nodes, each with a CPU that has such caches of its own, and with its "
        "part of the memory; 1 before functions/9",
    )

    @property
    def levels(self) -> dict[str, Cache]:
        """The caches that there are, by name, outwards."""
        found = {name: getattr(self, name) for name in CACHES}
        return {name: cache for name, cache in found.items() if cache}

    @property
    def kinds(self) -> tuple[str, ...]:
        """What is counted, in the order of a table's columns."""
        return ("accesses", *self.levels, "written", *(NODES if self.nodes > 1 else ()))


class Misses(Closed):
    """Lines per packet; of data each access to a line counts."""

    accesses: SignedReal = Field(default=0.0, description="accesses to data")
    code: SignedReal = Field(default=0.0, description="fetches that the first level missed")
    data: SignedReal = Field(
        default=0.0, description="accesses to data that the first level missed"
    )
    second: SignedReal = Field(
        default=0.0, description="of both, what the second level missed, too"
    )
    third: SignedReal = Field(
        default=0.0, description="and the third: lines that are not in the CPU's caches"
    )
    written: SignedReal = Field(default=0.0, description="lines written back to memory")
    remote_accesses: SignedReal = Field(
        default=0.0, description="of the accesses to data, those to memory of the other NUMA node"
    )
    remote: SignedReal = Field(
        default=0.0,
        description="of the lines that all levels missed, those from the other node's memory",
    )
    passed: SignedReal = Field(
        default=0.0,
        description="of the lines that all levels missed, those that the other CPU had written to, "
        "and passed on from its caches",
    )

    def __add__(self, other: Misses) -> Misses:
        """Return both together."""
        return Misses.model_construct(
            **{kind: getattr(self, kind) + getattr(other, kind) for kind in KINDS}
        )

    def __sub__(self, other: Misses) -> Misses:
        """Return what this one has more than another."""
        return Misses.model_construct(
            **{kind: getattr(self, kind) - getattr(other, kind) for kind in KINDS}
        )

    @property
    def first(self) -> float:
        """What the first level missed: each of these waits at least for the second one."""
        return self.code + self.data

    @property
    def seen(self) -> bool:
        """Whether anything of it is to be shown."""
        return any(abs(getattr(self, kind)) >= LEAST for kind in KINDS)


class Missed(Closed):
    """What a packet misses in one function, or in one layer, of either row."""

    name: str
    a: Misses = Field(default=Misses(), description="in row a; nothing where there is none")
    b: Misses = Field(description="in row b")

    @property
    def difference(self) -> Misses:
        """What row b adds."""
        return self.b - self.a


class Touched(Closed):
    """What a packet accesses of the objects of one type, in either row.

    `a_lines` and `b_lines` are the lines of an object that have one access in two packets, or more:
    of each of its objects a packet touches the same ones.
    """

    name: str = Field(
        description="the slab cache; the kernel was told not to merge any. In brackets what is "
        "in none"
    )
    size: Whole = Field(description="bytes of an object; 0: there are no objects")
    a: Misses = Field(default=Misses(), description="in row a; nothing where there is none")
    b: Misses = Field(description="in row b")
    a_lines: Whole = Field(default=0, description="lines of an object that row a touches")
    b_lines: Whole = Field(description="lines of an object that row b touches")

    @property
    def difference(self) -> Misses:
        """What row b adds."""
        return self.b - self.a


class Line(Closed):
    """A line of a structure, and what a packet accesses of it in either row."""

    number: Whole = Field(description="from 0")
    a: SignedReal = Field(default=0.0, description="accesses in row a; 0 where there is none")
    b: SignedReal = Field(description="accesses in row b")
    fields: tuple[str, ...] = Field(
        description="fields with an access in two packets or more in row b, by steps of 8 bytes: "
        "those that share such a step, or lie over each other, are told together"
    )
    before: tuple[str, ...] = Field(default=(), description="the same of row a, in its own kernel")


class Structure(Closed):
    """A structure of which a slab cache has nothing else, line by line."""

    name: str = Field(description="as in C, such as sk_buff")
    cache: str = Field(description="the slab cache")
    size: Positive = Field(description="bytes of the structure")
    lines: tuple[Line, ...] = Field(description="those with an access in two packets, or more")


class Memory(Closed):
    """What a packet misses in the caches of one processor."""

    named: str = Field(description="the processor as --caches names it")
    processor: Simulated
    functions: tuple[Missed, ...] = Field(description="the largest difference first")
    layers: tuple[Missed, ...] = Field(
        default=(), description="in the order of the path; none where stacks are not whole"
    )
    types: tuple[Touched, ...] = Field(
        default=(),
        description="by type, the most accesses first; none where it is not known, and before "
        "functions/8",
    )
    structures: tuple[Structure, ...] = Field(
        default=(), description="of some of these types, by line; none before functions/8"
    )

    @property
    def total(self) -> Missed:
        """All functions together."""
        return total(self.functions, "total")


def total(of: Iterable[Missed], name: str) -> Missed:
    """Return the sum of several under a name of its own."""
    a, b = Misses(), Misses()
    for one in of:
        a, b = a + one.a, b + one.b
    return Missed(name=name, a=a, b=b)


def by_name(kinds: Mapping[str, Mapping[str, float]]) -> dict[str, Misses]:
    """Return misses by name, from what there is of each kind by name."""
    names = {name for of in kinds.values() for name in of}
    return {
        name: Misses(**{kind: of.get(name, 0.0) for kind, of in kinds.items()}) for name in names
    }


def compare(
    a: Mapping[str, Misses], b: Mapping[str, Misses], order: Sequence[str] | None = None
) -> tuple[Missed, ...]:
    """Return what either row misses by name: in an order, or the largest difference first."""
    found = [
        Missed(name=name, a=a.get(name, Misses()), b=b.get(name, Misses()))
        for name in order or {**a, **b}
    ]
    found = [one for one in found if one.a.seen or one.b.seen]
    if order is None:
        found.sort(key=lambda one: (*_weight(one.difference), one.name))
    return tuple(found)


def _weight(misses: Misses) -> tuple[float, float]:
    """Return what the largest comes first by: lines missed, then accesses to the other node."""
    missed = math.fsum(abs(getattr(misses, name)) for name in CACHES)
    return -round(missed, 1), -abs(misses.remote_accesses)
