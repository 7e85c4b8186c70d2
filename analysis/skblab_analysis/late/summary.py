# SPDX-License-Identifier: GPL-2.0-or-later
"""What makes packets late, by setting over all blocks, of each traffic and rate.

A cause is the layer of the router in which a packet spent most of its time, and what the CPU that
saw its end was longest at meanwhile. The probe does not record all late packets where there are
many: causes are those of recorded ones.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from skblab_analysis.late.rows import LatePacketRow, LateTrialRow
from skblab_analysis.latency.summary import in_order
from skblab_analysis.load import Run, once

UNKNOWN = "not known"


@dataclass(frozen=True)
class Cause:
    """What made packets late: how many of those recorded, how long the longest took, in ns."""

    layer: str
    ran: str
    packets: int
    longest: int


@dataclass(frozen=True)
class Setting:
    """A setting: its trials, and the causes of its recorded packets, the most frequent first."""

    name: str
    trials: tuple[LateTrialRow, ...]
    causes: tuple[Cause, ...]

    def sum(self, column: str) -> int:
        """Return the sum of a column over all blocks."""
        return sum(getattr(row, column) for row in self.trials)

    def share(self, column: str) -> float | None:
        """Return late packets as a share of those forwarded; None if none was."""
        forwarded = self.sum("forwarded")
        return self.sum(column) / forwarded if forwarded else None

    @property
    def explained(self) -> float | None:
        """Which share of packets late at the tester were late in the router, too.

        None where one of them did not record all late packets of some trial, or does not tell their
        numbers: two parts of different packets say nothing.
        """
        both = 0
        for row in self.trials:
            whole = (row.recorded, row.tester_recorded) == (row.late, row.tester_late)
            if row.both is None or not whole:
                return None
            both += row.both
        late = self.sum("tester_late")
        return both / late if late else None

    @property
    def layers(self) -> Counter[str]:
        """How many recorded packets each layer made late."""
        found: Counter[str] = Counter()
        for cause in self.causes:
            found[cause.layer] += cause.packets
        return found


@dataclass(frozen=True)
class LateSummary:
    """All settings of one traffic at one rate, in the order of the plan; `threshold` in ns."""

    traffic: str
    rate: int
    threshold: int
    in_a_row: int
    settings: tuple[Setting, ...]


@once
def of(run: Run) -> list[LateSummary]:
    """Return the late packets of a run."""
    good = {row.trial for row in run.trials if row.state == "good"}
    trials = [row for row in run.rows(LateTrialRow) if row.trial in good]
    packets = [row for row in run.rows(LatePacketRow) if row.trial in good]
    kinds = in_order([(row.traffic, row.rate) for row in trials])
    return [
        _summary(
            run.in_order([row for row in trials if (row.traffic, row.rate) == kind]),
            [row for row in packets if (row.traffic, row.rate) == kind],
        )
        for kind in kinds
    ]


def _summary(trials: Sequence[LateTrialRow], packets: Sequence[LatePacketRow]) -> LateSummary:
    first = trials[0]
    names = dict.fromkeys(row.setting for row in trials)
    return LateSummary(
        traffic=first.traffic,
        rate=first.rate,
        threshold=first.threshold,
        in_a_row=first.in_a_row,
        settings=tuple(
            Setting(
                name,
                tuple(row for row in trials if row.setting == name),
                causes([row for row in packets if row.setting == name]),
            )
            for name in names
        ),
    )


def causes(packets: Sequence[LatePacketRow]) -> tuple[Cause, ...]:
    """Return what made packets late, the most frequent cause first."""
    named = [((row.layer, row.ran or UNKNOWN), row.took) for row in packets]
    counts = Counter(name for name, _ in named)
    longest: dict[tuple[str, str], int] = {}
    for name, took in named:
        longest[name] = max(took, longest.get(name, 0))
    return tuple(
        Cause(layer, ran, count, longest[layer, ran])
        for (layer, ran), count in counts.most_common()
    )
