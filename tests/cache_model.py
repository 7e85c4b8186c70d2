# SPDX-License-Identifier: GPL-2.0-or-later
"""A second model of the simulated memory, for comparison with probes/functions/caches.h.

It is written from the rules that stand at the head of that file, in another way: a set is a dict in
the order of use, and what a level throws out is an access of its own to the next one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

Trace = list[tuple[str, int]]
COLUMNS = ("accesses", "code", "data", "second", "third", "written")


@dataclass
class Level:
    """A cache, and where what it misses or throws out goes."""

    name: str
    sets: int
    ways: int
    next: Level | None
    found: Counter[str]
    held: dict[int, dict[int, bool]] = field(default_factory=dict)

    def use(self, line: int, dirty: bool) -> bool:
        """Make a line the most recently used one; whether it was there."""
        of = self.held.setdefault(line % self.sets, {})
        if line not in of:
            return False
        of[line] = of.pop(line) or dirty
        return True

    def keep(self, line: int, dirty: bool) -> None:
        """Take in a line that is not there."""
        of = self.held.setdefault(line % self.sets, {})
        oldest = next(iter(of)) if len(of) == self.ways else None
        thrown = of.pop(oldest) if oldest is not None else False
        of[line] = dirty
        if oldest is not None and thrown:
            if self.next is None:
                self.found["written"] += 1
            elif not self.next.use(oldest, True):
                self.next.keep(oldest, True)

    def load(self, line: int, dirty: bool) -> None:
        """Have a line here, from further out if need be."""
        if self.use(line, dirty):
            return
        self.found[self.name] += 1
        if self.next is not None:
            self.next.load(line, False)
        self.keep(line, dirty)


def missed(geometry: str, trace: Iterable[tuple[str, int]]) -> tuple[int, ...]:
    """Return what a trace misses, in the order of COLUMNS; kinds are F, R and W."""
    size_of_line, *sizes = geometry.split(":")
    found: Counter[str] = Counter()

    def level(name: str, behind: Level | None) -> Level | None:
        size, ways = map(int, sizes[COLUMNS.index(name) - 1].split("."))
        if not ways:
            return behind
        return Level(name, size // int(size_of_line) // ways, ways, behind, found)

    shared = level("second", level("third", None))
    code, data = level("code", shared), level("data", shared)
    assert code is not None
    assert data is not None
    for kind, line in trace:
        if kind == "F":
            code.load(line, False)
        else:
            found["accesses"] += 1
            data.load(line, kind == "W")
    return tuple(found[name] for name in COLUMNS)
