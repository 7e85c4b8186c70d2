# SPDX-License-Identifier: GPL-2.0-or-later
"""All sides of a comparison beside each other, and the steps from each to the next.

Versions of a kernel are named in their order: the step from one to the next is what came with it.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from string import ascii_uppercase

from skblab_analysis.formats import compare
from skblab_analysis.formats.compare import CompareDocument, Judged, Workload

# A function's change that is told, in instructions per unit.
LEAST_TOLD = 1.0
# Fewer are a pair, which the table of B says all of.
LEAST_SIDES = 3


@dataclass(frozen=True)
class Cost:
    """What a workload costs on each side, in instructions per unit; None: there is no figure."""

    workload: Workload
    values: tuple[float | None, ...]

    def beside_first(self, side: int) -> float | None:
        """Return what a side adds to A, as a share of A."""
        first, own = self.values[compare.FIRST], self.values[side]
        return None if first is None or own is None or not first else own / first - 1


@dataclass(frozen=True)
class Step:
    """What a workload costs more on a side than on the one before it.

    It is judged as a verdict is: unstable where A's two boots are too far apart. Without a figure
    of both sides it is lacking or failed, `why` says what happened, and `before` and `difference`
    are 0.
    """

    workload: str
    judged: Judged
    before: float = 0.0
    difference: float = 0.0
    # What two boots may differ by.
    threshold: float = 0.0
    why: str = ""
    functions: tuple[tuple[str, float], ...] = ()

    @property
    def share(self) -> float:
        """The difference as a share of what it was before."""
        return self.difference / self.before if self.before else 0.0


@dataclass(frozen=True)
class Changed:
    """A function, and what it costs more in each workload in which it changed."""

    name: str
    differences: tuple[float, ...]
    # The sum of what they are of each workload's cost, without their signs.
    weight: float

    @property
    def middle(self) -> float:
        """The median of the differences."""
        return statistics.median(self.differences)


def label(document: CompareDocument, side: int) -> str:
    """Return a side's name; where another one has the same, with its commit or its letter."""
    own = document.sides[side]
    alike = [one for one in document.sides if one.name == own.name]
    if len(alike) == 1:
        return own.name
    commits = {one.kernel.revision for one in alike}
    if len(commits) == len(alike) and own.kernel.revision:
        return f"{own.name} ({own.kernel.commit})"
    return f"{own.name} ({ascii_uppercase[side]})"


def has_steps(document: CompareDocument) -> bool:
    """Whether one side follows on another: kernels with the same settings do."""
    return len({tuple(sorted(one.settings.items())) for one in document.sides}) == 1


def costs(document: CompareDocument) -> list[Cost]:
    """Return what each workload costs on all sides; of A, the mean of its boots.

    Of a comparison that was stopped: the workloads that all boots have been through.
    """
    done = {one.workload for one in document.verdicts}
    sides = range(len(document.sides))
    return [
        Cost(one, tuple(_value(document, one.name, side) for side in sides))
        for one in document.workloads
        if one.name in done
    ]


def _boots(document: CompareDocument, workload: str, side: int) -> list[float]:
    """Return the figures of a side; none where one of its boots has none."""
    boots = [one for one in document.measured if (one.workload, one.side) == (workload, side)]
    figures = [one.figure.instructions for one in boots if one.figure is not None]
    return figures if len(figures) == len(boots) else []


def _value(document: CompareDocument, workload: str, side: int) -> float | None:
    figures = _boots(document, workload, side)
    return statistics.fmean(figures) if figures else None


def steps(document: CompareDocument, side: int) -> list[Step]:
    """Return the step of each workload from the side before to `side`."""
    return [_step(document, cost, side) for cost in costs(document)]


def _step(document: CompareDocument, cost: Cost, side: int) -> Step:
    name, before, after = cost.workload.name, cost.values[side - 1], cost.values[side]
    if before is None or after is None:
        missing = [
            one
            for one in document.measured
            if one.workload == name and one.side in (side - 1, side) and one.figure is None
        ]
        lacking = bool(missing) and all(one.cause == "lacking" for one in missing)
        why = missing[0].why if missing else ""
        return Step(name, "lacking" if lacking else "failed", why=why)
    known = [one.threshold for one in document.verdicts if one.workload == name and one.threshold]
    threshold = max([compare.threshold(before)[0], *known])
    first = _boots(document, name, compare.FIRST)
    difference = after - before
    apart = max(first) - min(first) if first else 0.0
    judged = compare.judgement(difference, apart, threshold)
    functions = compare.added(
        compare.functions(document, name, side - 1), compare.functions(document, name, side)
    )
    return Step(name, judged, before, difference, threshold, functions=tuple(functions))


def differing(found: Sequence[Step]) -> list[Step]:
    """Return the steps of more than two boots may differ by, the largest share first."""
    of = [one for one in found if one.judged in ("more", "less")]
    return sorted(of, key=lambda one: (-abs(one.share), one.workload))


def changed(found: Sequence[Step]) -> list[Changed]:
    """Return the functions that made steps, the one that changed most first.

    A change is weighed by what its workload costs: their units differ.
    """
    by_name: dict[str, list[tuple[float, float]]] = {}
    for step in differing(found):
        for name, difference in step.functions:
            if abs(difference) >= LEAST_TOLD:
                weight = abs(difference / step.before) if step.before else math.inf
                by_name.setdefault(name, []).append((difference, weight))
    made = [
        Changed(name, tuple(sorted(one for one, _ in of)), sum(share for _, share in of))
        for name, of in by_name.items()
    ]
    return sorted(made, key=lambda one: (-one.weight, one.name))
