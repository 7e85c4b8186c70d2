# SPDX-License-Identifier: GPL-2.0-or-later
"""What a packet misses in simulated caches, by function and by layer, from sections of counts."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from skblab.bench.functions import Chosen, Section, Symbols
from skblab_analysis.formats import functions as figures
from skblab_analysis.formats import memory, stacks
from skblab_analysis.formats.bylayer import AROUND, BEGIN, by_layer
from skblab_analysis.formats.memory import Misses


@dataclass
class Missing:
    """What the runs of one row missed: of each kind, by stack."""

    runs: dict[str, list[figures.Counted]] = field(default_factory=dict)

    def add(self, run: figures.Run, sections: Sequence[Section], symbols: Symbols) -> None:
        """Add a run of the row."""
        found: dict[str, Counter[str]] = {kind: Counter() for kind in memory.KINDS}
        for section in sections:
            for kind, missed in section.missed_by_stack(symbols).items():
                for stack, lines in missed.items():
                    found[kind][stacks.joined(stack)] += lines
        for kind, by_stack in found.items():
            self.runs.setdefault(kind, []).append(figures.Counted(run, by_stack))

    def of(self, case: figures.Case) -> dict[str, Misses]:
        """Return what a packet misses, by stack."""
        # The clock counts instructions: nothing has to add up to it.
        return memory.by_name(
            {
                kind: figures.cost(runs, case, agreement=math.inf).by_name
                for kind, runs in self.runs.items()
            }
        )


def compared(
    chosen: Chosen | None, a: Mapping[str, Misses], b: Mapping[str, Misses], *, whole: bool
) -> memory.Memory | None:
    """Return what two rows miss, by stack, as the document has it; None of no caches.

    Without `whole` stacks nothing is said by layer.
    """
    if chosen is None:
        return None
    order = (*BEGIN, AROUND)
    return memory.Memory(
        named=chosen.word,
        processor=chosen.described,
        functions=memory.compare(_by_function(a), _by_function(b)),
        layers=memory.compare(_by_layer(a), _by_layer(b), order) if whole else (),
    )


def _by_function(by_stack: Mapping[str, Misses]) -> dict[str, Misses]:
    found: dict[str, Misses] = {}
    for stack, misses in by_stack.items():
        name = stack.rpartition(stacks.BETWEEN)[2]
        found[name] = found.get(name, Misses()) + misses
    return found


def _by_layer(by_stack: Mapping[str, Misses]) -> dict[str, Misses]:
    return memory.by_name(
        {
            kind: by_layer({stack: getattr(of, kind) for stack, of in by_stack.items()})
            for kind in memory.KINDS
        }
    )
