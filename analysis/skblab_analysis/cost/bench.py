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

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import mean, median
from typing import Annotated, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
)

from skblab_analysis.base.checked import RefusedError
from skblab_analysis.base.whole import Positive, Whole
from skblab_analysis.formats.run import Environment, Timing

Part = Literal["tester", "forward", "queue", "read"]
PARTS: tuple[Part, ...] = ("tester", "forward", "queue", "read")
Family = Literal[4, 6]
FAMILIES: tuple[Family, ...] = (4, 6)
RowName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9-]*$", max_length=40)]
Group = Literal["patch", "tool", "napi", "alternative"]
CONFIDENCE = 0.95


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Trial(_Part):
    """One counted run of packets."""

    row: RowName = Field(description="the row it belongs to")
    boot: Whole = Field(description="number of the boot")
    repeat: Whole = Field(description="number of the repeat within the boot")
    part: Part = Field(description="what was run: tester, forward, queue or read")
    family: Family = Field(description="4: IPv4, 6: IPv6")
    packets: Positive = Field(description="packets sent")
    delivered: Whole = Field(description="packets that the sink or the reader counted")
    instructions: Positive = Field(description="guest instructions of the whole run")

    @property
    def per_packet(self) -> float:
        """Instructions per packet."""
        return self.instructions / self.packets


class Proof(_Part):
    """That a row's reader did its work: packets it saw at each point, and how many it had to."""

    row: RowName
    boot: Whole
    repeat: Whole
    expected: dict[str, Whole] = Field(description="packets, by point")
    seen: dict[str, Whole] = Field(description="packets, by point")
    how: str = Field(description="where the figures seen come from")

    def faults(self) -> list[str]:
        """Return each point where seen is not expected, as a clause."""
        names = [*self.expected, *(name for name in self.seen if name not in self.expected)]
        return [
            f"{name}: saw {self.seen.get(name, 0)} of {self.expected.get(name, 0)} packets"
            for name in names
            if self.seen.get(name, 0) != self.expected.get(name, 0)
        ]


class Row(_Part):
    """One row of the table."""

    name: RowName
    title: str = Field(description="the row in words")
    group: Group = Field(description="which part of the table it stands in")
    kernel: str = Field(description="as `uname -r` says")
    tool: str = Field(default="", description="what reads, with its version; empty: nothing")
    points: dict[Literal["forward", "receive"], Whole] = Field(
        default_factory=dict, description="points at which each packet was seen"
    )
    refused: str = Field(default="", description="why the row has no figures; empty: it has")


class WallPair(_Part):
    """Forwarding throughput in wall time, off and on, one after the other."""

    family: Family
    pair: Whole
    first: Literal["off", "on"] = Field(description="which of the two ran first")
    off_kpps: float = Field(gt=0, description="thousand packets per second, stamps off")
    on_kpps: float = Field(gt=0, description="thousand packets per second, stamps on")

    @property
    def ratio(self) -> float:
        """Throughput on over throughput off."""
        return self.on_kpps / self.off_kpps


class BenchDocument(_Part):
    """The whole of `bench.json`."""

    schema_: Literal["skblab.bench/1"] = Field(default="skblab.bench/1", alias="schema")
    again: str = Field(description="the command that runs it again")
    baseline: RowName = Field(description="the row that the others are compared with")
    packets: Positive = Field(description="packets per trial")
    repeats: Positive = Field(description="trials of each row, part and family in a boot")
    rows: tuple[Row, ...]
    trials: tuple[Trial, ...]
    proofs: tuple[Proof, ...] = ()
    polls: dict[RowName, float] = Field(
        default_factory=dict, description="NAPI polls per packet in the tester, by row"
    )
    against: dict[RowName, RowName] = Field(
        default_factory=dict, description="the row that a NAPI row is compared with"
    )
    wall: tuple[WallPair, ...] = ()
    versions: dict[str, str] = Field(default_factory=dict, description="tool to version")
    environments: dict[str, Environment] = Field(
        default_factory=dict, description="kernel, guest and host, by kernel release"
    )
    timings: tuple[Timing, ...] = ()


@dataclass(frozen=True)
class Cell:
    """Instructions per packet of one row, part and family: lowest and highest trial.

    The lowest is the figure: whatever disturbs a trial, such as a wait for the timer's next tick
    (4 million), can only add to what the work itself takes.
    """

    low: float
    high: float
    trials: int


@dataclass(frozen=True)
class Figures:
    """One row in one experiment and family, in instructions per packet.

    `whole` holds the tester, `path` does not. `difference` and its `share` of the baseline's
    whole are between paths; None in the baseline itself. `seeable` is the smallest difference
    that could have been seen: the ranges of all trials that it was computed from, added; None where
    nothing was repeated.
    """

    row: Row
    whole: float
    tester: float
    path: float
    difference: float | None
    share: float | None
    per_point: float | None
    seeable: float | None
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
    seeable: float | None


@dataclass(frozen=True)
class Ratio:
    """Throughput on over off: Hodges-Lehmann estimate and exact signed-rank interval."""

    pairs: int
    estimate: float
    low: float
    high: float
    confidence: float
    off_kpps: float
    on_kpps: float


Cells = Mapping[tuple[str, Part, Family], Cell]


def cells(trials: Sequence[Trial]) -> dict[tuple[str, Part, Family], Cell]:
    """Return the cell of every row, part and family that was run."""
    grouped: dict[tuple[str, Part, Family], list[float]] = {}
    for trial in trials:
        grouped.setdefault((trial.row, trial.part, trial.family), []).append(trial.per_packet)
    return {key: Cell(min(values), max(values), len(values)) for key, values in grouped.items()}


def faults(row: str, trials: Sequence[Trial], proofs: Sequence[Proof]) -> list[str]:
    """Return why the row has to be refused, as clauses; empty when it has not."""
    found = [
        f"{trial.part}, IPv{trial.family}: {trial.delivered} of {trial.packets} packets arrived"
        for trial in trials
        if trial.row == row and trial.delivered != trial.packets
    ]
    for proof in proofs:
        if proof.row == row:
            found += proof.faults()
    return list(dict.fromkeys(found))


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
    for row in rows:
        # Whose tester: see the head of this file.
        whose = row.name if path == "forward" else document.baseline
        tester = found[whose, "tester", family]
        own = [found[row.name, part, family] for part in parts]
        whole = sum(cell.low for cell in own)
        own_path = whole - tester.low
        range_ = sum(cell.high - cell.low for cell in (tester, *own))
        first = made[0] if made else None
        # The baseline's own tester cancels in a difference from it.
        if first and path == "receive":
            range_ -= tester.high - tester.low
        difference = own_path - first.path if first else None
        points = row.points.get(path, 0)
        made.append(
            Figures(
                row=row,
                whole=whole,
                tester=tester.low,
                path=own_path,
                difference=difference,
                share=None if difference is None or first is None else difference / first.whole,
                per_point=difference / points if difference is not None and points else None,
                seeable=_seeable(range_, first, min(cell.trials for cell in (tester, *own))),
                queue=own[0].low - tester.low if path == "receive" else None,
                read=own[1].low if path == "receive" else None,
            )
        )
    return made


def _seeable(range_: float, first: Figures | None, trials: int) -> float | None:
    """Return the smallest difference that could have been seen; None without repeats."""
    if trials < 2 or (first and first.seeable is None):
        return None
    return range_ + ((first.seeable or 0) if first else 0)


def polls(document: BenchDocument) -> list[Poll]:
    """Return what each NAPI row adds to a poll of the row that it is compared with."""
    found = cells(document.trials)
    made = []
    for row in document.rows:
        each = document.polls.get(row.name)
        if row.group != "napi" or row.refused or not each:
            continue
        other = document.against.get(row.name, document.baseline)
        pairs = [
            (found[row.name, "tester", family], found[other, "tester", family])
            for family in FAMILIES
            if (row.name, "tester", family) in found and (other, "tester", family) in found
        ]
        if pairs:
            added = mean(one.low - two.low for one, two in pairs)
            ranges = [one.high - one.low + two.high - two.low for one, two in pairs]
            repeated = min(min(one.trials, two.trials) for one, two in pairs) > 1
            seeable = max(ranges) / each if repeated else None
            made.append(Poll(row, other, each, added / each, seeable))
    return made


def ratio(pairs: Sequence[WallPair], confidence: float = CONFIDENCE) -> Ratio | None:
    """Return throughput on over off with its interval; None with no pair.

    The interval is the narrowest signed-rank one that has at least `confidence`; with too few
    pairs for that, it is the widest there is and says its own confidence.
    """
    if not pairs:
        return None
    values = [pair.ratio for pair in pairs]
    n = len(values)
    walsh = sorted((values[i] * values[j]) ** 0.5 for i in range(n) for j in range(i, n))
    cut, sure = _cut(n, confidence)
    return Ratio(
        pairs=n,
        estimate=median(walsh),
        low=walsh[cut],
        high=walsh[-1 - cut],
        confidence=sure,
        off_kpps=median(pair.off_kpps for pair in pairs),
        on_kpps=median(pair.on_kpps for pair in pairs),
    )


def _cut(n: int, confidence: float) -> tuple[int, float]:
    """How many Walsh averages to leave out at each end, and the confidence that remains."""
    ways = [1]
    for rank in range(1, n + 1):
        longer = ways + [0] * rank
        for total, count in enumerate(ways):
            longer[total + rank] += count
        ways = longer
    cut, tail = 0, ways[0]
    while 1 - 2 * (tail + ways[cut + 1]) / 2**n >= confidence:
        cut += 1
        tail += ways[cut]
    return cut, 1 - 2 * tail / 2**n
