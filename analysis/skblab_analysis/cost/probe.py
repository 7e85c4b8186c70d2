# SPDX-License-Identifier: GPL-2.0-or-later
"""What a probe itself costs: instructions per packet, and the throughput that it leaves.

Both are measured once for a kernel and a probe, in guests of their own, and kept; a run's cost.json
has what was known at its end.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from skblab_analysis.base.certainty import Difference, difference
from skblab_analysis.base.checked import read
from skblab_analysis.base.whole import Positive
from skblab_analysis.base.words import number, signed
from skblab_analysis.cost import bench
from skblab_analysis.cost.bench import BenchDocument
from skblab_analysis.formats.pathlat import Source

# Rows of the benchmark that a calibration consists of.
WITHOUT, WITH = "without", "with"
FAMILY: bench.Family = 4
FILE = "cost.json"
METHOD = "docs/cost.md has the method."


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Probe(_Part):
    """A probe whose cost is the same on one kernel: without filters, without late packets."""

    backend: Literal["bpf", "bpftrace", "stap"]
    source: Source
    kprobes: bool = Field(default=False, description="hooks by kprobe where fentry would work")

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.kprobes and (self.backend, self.source) != ("bpf", "hooks"):
            raise ValueError("kprobes are a choice for the hooks of bpf alone")
        if self.source == "histograms" and self.backend != "bpf":
            raise ValueError("no script reads the kernel's own histograms")
        return self

    def __str__(self) -> str:
        """Return it in words."""
        if self.backend == "bpf":
            return "hooks by kprobe" if self.kprobes else self.source
        return f"scripts of {self.backend} on {self.source}"


class ExactCost(_Part):
    """Instructions per packet that the probe adds, as rows of the benchmark on one kernel."""

    schema_: Literal["skblab.cost-exact/1"] = Field(default="skblab.cost-exact/1", alias="schema")
    probe: Probe
    kernel: str = Field(description="as `uname -r` says")
    stamps: bool = Field(description="with the probe the kernel stamps packets, without it not")
    bench: BenchDocument

    @model_validator(mode="after")
    def _has_figures(self) -> Self:
        for figures in (bench.forwarding, bench.receive):
            names = [one.row.name for one in figures(self.bench, FAMILY)]
            if names != [WITHOUT, WITH]:
                raise ValueError(f"rows {names} have figures, expected {[WITHOUT, WITH]}")
        return self

    @property
    def forward(self) -> float:
        """Instructions more for each forwarded packet."""
        return _difference(bench.forwarding(self.bench, FAMILY))

    @property
    def receive(self) -> float:
        """Instructions more for each received packet."""
        return _difference(bench.receive(self.bench, FAMILY))


def _difference(figures: list[bench.Figures]) -> float:
    found = figures[1].difference
    assert found is not None
    return found


class Pair(_Part):
    """Two runs of the same load as fast as it goes, one after the other."""

    first: Literal["without", "with"] = Field(description="which of the two ran first")
    without_probe: float = Field(gt=0, description="packets or messages that arrived per second")
    with_probe: float = Field(gt=0, description="packets or messages that arrived per second")


class WallCost(_Part):
    """The throughput that the probe leaves, on the wall clock of one machine."""

    schema_: Literal["skblab.cost-wall/1"] = Field(default="skblab.cost-wall/1", alias="schema")
    probe: Probe
    kernel: str = Field(description="as `uname -r` says")
    load: str = Field(description="which traffic, as --load takes it")
    packets: Positive = Field(description="packets or messages in each run")
    accel: Literal["kvm", "tcg"] = Field(description="what ran the guest; tcg is emulation")
    pairs: tuple[Pair, ...] = Field(min_length=1)

    @property
    def difference(self) -> Difference:
        """What throughput with the probe differs from that without, as a part of it."""
        without = {number: pair.without_probe for number, pair in enumerate(self.pairs)}
        with_ = {number: pair.with_probe for number, pair in enumerate(self.pairs)}
        found = difference(without, with_, relative=True)
        assert found is not None
        return found


class CostDocument(_Part):
    """The whole of `cost.json`: what is known of the cost of a run's probe."""

    schema_: Literal["skblab.cost/1"] = Field(default="skblab.cost/1", alias="schema")
    probe: Probe
    kernel: str = Field(description="the run's kernel, as `uname -r` says")
    own: bool = Field(description="measured on this kernel, and not on another one of ours")
    again: str = Field(description="the command that measures it")
    exact: ExactCost | None = None
    refused: str = Field(default="", description="why instructions are not told; empty: they are")
    wall: WallCost | None = None

    @model_validator(mode="after")
    def _same_probe(self) -> Self:
        for one in (self.exact, self.wall):
            if one is not None and one.probe != self.probe:
                raise ValueError(f"the cost of {one.probe}, expected that of {self.probe}")
            if one is not None and self.own and one.kernel != self.kernel:
                raise ValueError(f"measured on {one.kernel}, expected {self.kernel}")
        return self


def load(folder: Path) -> CostDocument | None:
    """Return the cost that a run folder has; None without one, RecordError for a broken one."""
    path = folder / FILE
    return read(CostDocument, path, "the cost document") if path.exists() else None


def sentence(cost: CostDocument) -> str:
    """Return the cost in a sentence, or how to get it."""
    head = f"What the probe itself costs ({cost.probe})"
    parts = []
    if cost.exact is not None:
        where = "on this kernel" if cost.own else f"on {cost.exact.kernel} in a guest"
        stamps = ", the kernel's stamps included" if cost.exact.stamps else ""
        parts.append(
            f"{_instructions(cost.exact.forward)} per forwarded packet, "
            f"{_more(cost.exact.receive)} per received one (exact, IPv4, {where}{stamps})"
        )
    if cost.refused:
        parts.append(cost.refused)
    if cost.wall is not None:
        parts.append(_throughput(cost.wall, cost.own))
    if not parts:
        return (
            f"{head} is not known: nothing is counted on this kernel, and it has not been on one "
            f"of ours. To have it measured there: {cost.again}"
        )
    return f"{head}: {'; '.join(parts)}. {METHOD}"


def _more(value: float) -> str:
    # Half an instruction is none.
    return signed(round(value))


def _instructions(value: float) -> str:
    return f"{_more(value)} instruction{'' if abs(round(value)) == 1 else 's'}"


def _throughput(wall: WallCost, own: bool) -> str:
    found = wall.difference
    count = "1 pair"
    if found.low is not None and found.high is not None:
        low, high = number(1 + found.low, 2), number(1 + found.high, 2)
        count = f"95 % interval {low} to {high}, {found.blocks} pairs"
    where = "under emulation" if wall.accel == "tcg" else "in a guest with KVM"
    kernel = "" if own else f", on {wall.kernel}"
    return (
        f"throughput of {wall.load} with it {number(1 + found.effect, 2)} of without "
        f"(wall, {count}{kernel}, {where})"
    )
