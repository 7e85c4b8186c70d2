# SPDX-License-Identifier: GPL-2.0-or-later
"""The document of the benchmark, `bench.json`: its rows, and the trials that they come from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from skblab_analysis.base.checked import Closed
from skblab_analysis.base.whole import Positive, Whole
from skblab_analysis.formats.run import Environment, Timing

Part = Literal["tester", "forward", "queue", "read"]
PARTS: tuple[Part, ...] = ("tester", "forward", "queue", "read")
Family = Literal[4, 6]
FAMILIES: tuple[Family, ...] = (4, 6)
RowName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9-]*$", max_length=40)]
Group = Literal["patch", "tool", "napi", "alternative"]


class Trial(Closed):
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


class Proof(Closed):
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


class Row(Closed):
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


class WallPair(Closed):
    """Forwarding throughput in wall time, off and on, one after the other."""

    family: Family
    pair: Whole
    first: Literal["off", "on"] = Field(description="which of the two ran first")
    off_kpps: float = Field(gt=0, description="thousand packets per second, stamps off")
    on_kpps: float = Field(gt=0, description="thousand packets per second, stamps on")


class BenchDocument(Closed):
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
