# SPDX-License-Identifier: GPL-2.0-or-later
"""A second model of the simulated memory, for comparison with probes/functions/caches.h.

It is written from the rules that stand at the head of that file, in another way: a set is a dict in
the order of use, and what a level throws out is an access of its own to the next one.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

# A kind, F, R, W, or X for a CPU that forgets, a line, and a CPU.
Trace = list[tuple[str, int, int]]
COLUMNS = (
    *("accesses", "code", "data", "second", "third", "written"),
    *("remote_accesses", "remote", "passed"),
)


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

    def load(self, line: int, dirty: bool) -> bool:
        """Have a line here, from further out if need be; whether it was there or further out."""
        if self.use(line, dirty):
            return True
        self.found[self.name] += 1
        found = self.next is not None and self.next.load(line, False)
        self.keep(line, dirty)
        return found

    def lose(self, line: int, *, keep: bool) -> bool:
        """Have a line go, or stay as memory has it; whether it was written to."""
        of = self.held.get(line % self.sets, {})
        written = of.get(line, False)
        if not keep:
            of.pop(line, None)
        elif written:
            of[line] = False
        return written


@dataclass
class Core:
    """The caches of one CPU; those that it has, by what they hold."""

    code: Level
    data: Level
    levels: list[Level]

    @classmethod
    def of(cls, geometry: str, found: Counter[str]) -> Core:
        """Return empty ones, of a geometry as the plugin takes it."""
        size_of_line, *sizes = geometry.split(":")
        levels: list[Level] = []

        def level(name: str, behind: Level | None) -> Level | None:
            size, ways = map(int, sizes[COLUMNS.index(name) - 1].split("."))
            if not ways:
                return behind
            levels.append(Level(name, size // int(size_of_line) // ways, ways, behind, found))
            return levels[-1]

        shared = level("second", level("third", None))
        code, data = level("code", shared), level("data", shared)
        assert code is not None
        assert data is not None
        return cls(code, data, levels)

    def lose(self, line: int, *, keep: bool) -> bool:
        """Have a line go from all caches, or stay as memory has it; whether it was written to."""
        return sum(level.lose(line, keep=keep) for level in self.levels) > 0


def missed(geometry: str, trace: Trace, node_lines: int | None = None) -> tuple[int, ...]:
    """Return what a trace misses, in the order of COLUMNS.

    With `node_lines` there are two CPUs, each on a node with so many lines of memory.
    """
    found: Counter[str] = Counter()
    cores = [Core.of(geometry, found) for _ in range(1 if node_lines is None else 2)]
    for kind, line, cpu in trace:
        if kind == "X":
            cores[cpu] = Core.of(geometry, found)
            continue
        own, others = cores[cpu], [core for core in cores if core is not cores[cpu]]
        away = node_lines is not None and min(line // node_lines, 1) != cpu
        stores = kind == "W"
        if kind != "F":
            found["accesses"] += 1
            found["remote_accesses"] += away
        taken = stores and sum(core.lose(line, keep=False) for core in others) > 0
        if (own.code if kind == "F" else own.data).load(line, stores):
            continue
        if not stores and sum(core.lose(line, keep=True) for core in others) > 0:
            taken = True
            found["written"] += 1
        found["passed" if taken else "remote" if away else "local"] += 1
    return tuple(found[name] for name in COLUMNS)
