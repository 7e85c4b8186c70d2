# SPDX-License-Identifier: GPL-2.0-or-later
"""The boxes of a flame graph: each as wide as what it takes, on those that called it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from skblab_analysis.base.words import NARROW_SPACE, number, signed
from skblab_analysis.formats.stacks import BETWEEN

# A box that is narrower than this share of the graph cannot be seen.
NARROWEST = 0.0015
# Percent of the graph that a letter takes, on a page of usual width.
LETTER = 0.85
# Instructions per packet that two boots differ by anyway: in one function that was called in one
# way, and in that and all that it calls.
OWN, SAME = 1.0, 5.0

# In the function itself, or above it, in what it calls.
Change = Literal["same", "more", "less", "more-above", "less-above"]


@dataclass(frozen=True)
class Box:
    """One function, called in one way; `left` and `width` are percent, `row` counts from 0."""

    name: str
    row: int
    left: float
    width: float
    told: str
    change: Change = "same"

    @property
    def label(self) -> str:
        """The name, or as much of it as tells more than nothing."""
        room = int(self.width / LETTER)
        if len(self.name) <= room:
            return self.name
        return f"{self.name[: room - 1]}…" if room >= 4 else ""


@dataclass(frozen=True)
class Flame:
    """A graph: what it is of, its boxes, and how many rows they have."""

    title: str
    boxes: tuple[Box, ...]

    @property
    def rows(self) -> int:
        """How many functions have called each other at most."""
        return 1 + max((box.row for box in self.boxes), default=-1)


Path = tuple[str, ...]
ROOT: Path = ()


def flame(
    title: str,
    stacks: Mapping[str, float],
    whole: float,
    other: Mapping[str, float] | None = None,
    *,
    before: bool = False,
    unit: str = "instructions",
) -> Flame:
    """Return the graph of stacks with so many of `unit` per packet, `whole` being its width.

    `other` is what to compare with: boxes that take more or less are marked. `before`: these are
    those before, and a box is marked by what becomes of it.
    """
    sums = _sums(stacks)
    others = None if other is None else _sums(other)
    children: dict[Path, list[Path]] = defaultdict(list)
    for path in sums:
        if path != ROOT:
            children[path[:-1]].append(path)
    narrowest = NARROWEST * whole

    def boxes(parent: Path, left: float) -> Iterator[Box]:
        for path in sorted(children[parent]):
            value = sums[path]
            if value < narrowest:
                continue
            differs = 0.0 if others is None else value - others.get(path, 0.0)
            differs = -differs if before else differs
            stack = BETWEEN.join(path)
            own = 0.0 if other is None else stacks.get(stack, 0.0) - other.get(stack, 0.0)
            told = f"{number(value, 1, NARROW_SPACE)} {unit} a packet"
            if abs(differs) >= SAME:
                told += f", {signed(differs, 1, NARROW_SPACE)}"
            yield Box(
                name=path[-1],
                row=len(path) - 1,
                left=100 * left / whole,
                width=100 * value / whole,
                told=told,
                change=_change(-own if before else own, differs),
            )
            yield from boxes(path, left)
            left += value

    return Flame(title, tuple(boxes(ROOT, 0.0)))


def _change(own: float, differs: float) -> Change:
    if abs(own) >= OWN:
        return "more" if own > 0 else "less"
    if abs(differs) >= SAME:
        return "more-above" if differs > 0 else "less-above"
    return "same"


def total(stacks: Mapping[str, float]) -> float:
    """Return the instructions per packet of all stacks."""
    return sum(stacks.values())


def _sums(stacks: Mapping[str, float]) -> dict[Path, float]:
    """Return what each function takes with all that it calls, by who called it."""
    found: dict[Path, float] = defaultdict(float)
    for stack, value in stacks.items():
        names: Sequence[str] = stack.split(BETWEEN)
        for depth in range(len(names) + 1):
            found[tuple(names[:depth])] += value
    return found
