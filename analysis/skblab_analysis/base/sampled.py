# SPDX-License-Identifier: GPL-2.0-or-later
"""A figure of a setting block by block, which can be compared with that of another run."""

from __future__ import annotations

from dataclasses import dataclass, replace
from statistics import median

from skblab_analysis.base import certainty
from skblab_analysis.base.certainty import Difference, Interval, Sample
from skblab_analysis.base.comparison import Measure, Unit

# Instructions are counted in `exact`; all else is measured on the wall clock.
COUNTED = ("instructions", "instructions/packet")


@dataclass(frozen=True)
class Sampled:
    """One figure of one setting by block: names and units as `compared.py` has them.

    `resolution` is in the figure's unit, or a part of it if `relative`. `partial`: the setting has
    no figure in some block. `how` it was measured, by name, as far as its rows say so: a figure
    that was measured in another way is another one. `row` is what it is called where figures of one
    measure, such as layers, stand below each other; empty: it has a table of its own. A row that
    `may_be_zero` is 0 in a run that has others of its measure and not this one. One that is `minor`
    is told only beside one that is not. Rows are looked at for differences `among` so many.
    """

    measure: Measure
    figure: str
    unit: Unit
    setting: str
    blocks: Sample
    part: str = ""
    traffic: str = ""
    rate: int | None = None
    resolution: float = 0.0
    relative: bool = False
    partial: bool = False
    how: tuple[tuple[str, str], ...] = ()
    row: str = ""
    may_be_zero: bool = False
    minor: bool = False
    among: int = 1

    @property
    def whole(self) -> tuple[object, ...]:
        """What a row is part of: all of one kind that a setting has of one traffic at one rate."""
        return self.measure, self.figure, self.unit, self.traffic, self.rate, self.setting

    @property
    def of(self) -> tuple[object, ...]:
        """What it is a figure of, beside the setting: only figures of the same are compared."""
        return self.measure, self.figure, self.part, self.unit, self.traffic, self.rate

    @property
    def exact(self) -> bool:
        """Whether it counts instructions, and is not of the wall clock."""
        return self.unit in COUNTED

    @property
    def interval(self) -> Interval:
        """Its mean over blocks, at least one, and the interval of that."""
        values = list(self.blocks.values())
        width = self.resolution * (sum(values) / len(values) if self.relative else 1)
        return certainty.interval(values, width)

    @property
    def median(self) -> float:
        """The block in the middle."""
        return median(self.blocks.values())


def difference(first: Sampled, other: Sampled) -> Difference | None:
    """Return what the same setting differs in another run; None if there is nothing to compare.

    Blocks of two runs have nothing in common, whatever their numbers: they are two samples.
    """
    found = certainty.difference(
        first.blocks,
        other.blocks,
        resolution=max(first.resolution, other.resolution),
        relative=first.relative,
        paired=False,
        chosen_of=max(first.among, other.among),
    )
    return None if found is None else replace(found, partial=first.partial or other.partial)
