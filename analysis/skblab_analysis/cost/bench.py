# SPDX-License-Identifier: GPL-2.0-or-later
"""What the patches and the tools beside them cost: rows of one benchmark, and their differences.

A trial counts the instructions of one run of packets in one part of the work:

tester    generator, link and sink, with nothing in between
forward   the tester with a router in between
queue     the tester's generator and link, then the way into a UDP socket's queue
read      reading that queue empty
polls     as tester, for NAPI rows: the unit is a poll

A row is a kernel and what looks into it. Where a packet comes to the sink it begins a path of its
own, which is traced, too, and ends in a drop. So the path of forwarding is forward - tester of the
same row: what the row adds to the sink's path cancels. A packet for the socket never comes to the
sink: the path of receiving is queue + read - tester of the baseline, and all that is added counts.
A row is refused unless each point was seen exactly once for every packet sent.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Literal

from skblab_analysis.base import certainty
from skblab_analysis.base.certainty import Difference, Sample
from skblab_analysis.base.checked import RefusedError
from skblab_analysis.exact.summary import compare
from skblab_analysis.formats.bench import (
    FAMILIES,
    BenchDocument,
    Family,
    Part,
    Row,
    Trial,
    WallPair,
)


@dataclass(frozen=True)
class Cell:
    """Instructions per packet of one row, part and family: the lowest trial of each boot.

    Whatever disturbs a trial, such as a wait for the timer's next tick (4 million), can only add to
    what the work itself takes. The mean over boots is the figure: the lowest of all boots would
    have a scatter that the intervals of means know nothing of.
    """

    by_boot: Sample

    @property
    def mean(self) -> float:
        """Over all boots."""
        return certainty.mean([*self.by_boot.values()])


@dataclass(frozen=True)
class Figures:
    """One row in one experiment and family, in instructions per packet.

    `whole` holds the tester, `path` does not. `difference` is between paths, and `share` is its
    part of the baseline's path; `certainty` has its interval, by boots, and whether it is
    significant.
    All three are None in the baseline itself.
    """

    row: Row
    whole: float
    tester: float
    path: float
    difference: float | None
    share: float | None
    per_point: float | None
    certainty: Difference | None
    # Receive alone: into the queue (without the tester), and out of it.
    queue: float | None = None
    read: float | None = None


@dataclass(frozen=True)
class Poll:
    """What a NAPI row adds to one poll, in instructions, against its baseline row."""

    row: Row
    baseline: str
    polls_per_packet: float
    per_poll: float
    certainty: Difference


@dataclass(frozen=True)
class Ratio:
    """Throughput on over off, pair by pair, and the medians of both."""

    difference: Difference
    off_kpps: float
    on_kpps: float


def cells(trials: Sequence[Trial]) -> dict[tuple[str, Part, Family], Cell]:
    """Return the cell of every row, part and family that was run."""
    grouped: dict[tuple[str, Part, Family], dict[int, float]] = {}
    for trial in trials:
        by_boot = grouped.setdefault((trial.row, trial.part, trial.family), {})
        by_boot[trial.boot] = min(trial.per_packet, by_boot.get(trial.boot, trial.per_packet))
    return {key: Cell(by_boot) for key, by_boot in grouped.items()}


def forwarding(document: BenchDocument, family: Family) -> list[Figures]:
    """Return the forwarding figures of each row that has them, the baseline first."""
    return _figures(document, family, ("forward",), "forward")


def receive(document: BenchDocument, family: Family) -> list[Figures]:
    """Return the UDP receive figures of each row that has them, the baseline first."""
    return _figures(document, family, ("queue", "read"), "receive")


def _figures(
    document: BenchDocument,
    family: Family,
    parts: tuple[Part, ...],
    path: Literal["forward", "receive"],
) -> list[Figures]:
    found = cells(document.trials)
    rows = [row for row in document.rows if not row.refused and row.group != "napi"]
    rows.sort(key=lambda row: row.name != document.baseline)
    rows = [row for row in rows if all((row.name, p, family) in found for p in ("tester", *parts))]
    if not rows:
        return []
    if rows[0].name != document.baseline:
        raise RefusedError(f"no row {document.baseline!r} to compare with")
    made: list[Figures] = []
    baseline: Sample = {}
    for row in rows:
        # Whose tester: see the head of this file.
        whose = row.name if path == "forward" else document.baseline
        tester = found[whose, "tester", family]
        own = [found[row.name, part, family] for part in parts]
        whole = sum(cell.mean for cell in own)
        first = made[0] if made else None
        # The baseline's own tester cancels in a difference from it.
        by_boot = _by_boot(own, [tester] if path == "forward" else [])
        sure = None
        if first is None:
            baseline = by_boot
        else:
            sure = compare(baseline, by_boot, first.whole)
        difference = None if sure is None else sure.effect
        points = row.points.get(path, 0)
        made.append(
            Figures(
                row=row,
                whole=whole,
                tester=tester.mean,
                path=whole - tester.mean,
                difference=difference,
                share=None if difference is None or first is None else difference / first.path,
                per_point=difference / points if difference is not None and points else None,
                certainty=sure,
                queue=own[0].mean - tester.mean if path == "receive" else None,
                read=own[1].mean if path == "receive" else None,
            )
        )
    return made


def _by_boot(plus: Sequence[Cell], minus: Sequence[Cell] = ()) -> Sample:
    """Return a sum of cells, and what is taken off, of boots that have all of them."""
    boots = set.intersection(*(set(cell.by_boot) for cell in (*plus, *minus)))
    return {
        boot: sum(cell.by_boot[boot] for cell in plus) - sum(cell.by_boot[boot] for cell in minus)
        for boot in boots
    }


def polls(document: BenchDocument) -> list[Poll]:
    """Return what each NAPI row adds to a poll of the row that it is compared with."""
    found = cells(document.trials)
    made = []
    for row in document.rows:
        each = document.polls.get(row.name)
        if row.group != "napi" or row.refused or not each:
            continue
        other = document.against.get(row.name, document.baseline)
        families = [
            family
            for family in FAMILIES
            if (row.name, "tester", family) in found and (other, "tester", family) in found
        ]
        if families:
            ours, theirs = (
                [found[name, "tester", family] for family in families] for name in (row.name, other)
            )
            count = len(families) * each
            whole = sum(cell.mean for cell in theirs) / count
            before, after = (
                {boot: figure / count for boot, figure in _by_boot(some).items()}
                for some in (theirs, ours)
            )
            sure = compare(before, after, whole)
            if sure is not None:
                made.append(Poll(row, other, each, sure.effect, sure))
    return made


def ratio(pairs: Sequence[WallPair]) -> Ratio | None:
    """Return throughput on over off with its interval; None with no pair."""
    found = certainty.difference(
        {number: pair.off_kpps for number, pair in enumerate(pairs)},
        {number: pair.on_kpps for number, pair in enumerate(pairs)},
        relative=True,
    )
    if found is None:
        return None
    off, on = median(pair.off_kpps for pair in pairs), median(pair.on_kpps for pair in pairs)
    return Ratio(found, off, on)
