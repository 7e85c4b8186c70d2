# SPDX-License-Identifier: GPL-2.0-or-later
"""The documents of what a probe itself costs: instructions per packet, and throughput.

Both are measured once for a kernel and a probe, in guests of their own, and kept; a run's cost.json
has what was known at its end.
"""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from skblab_analysis.base.certainty import Difference, difference
from skblab_analysis.base.checked import Closed
from skblab_analysis.base.whole import Positive
from skblab_analysis.formats import scripts
from skblab_analysis.formats.bench import PARTS, BenchDocument, Family, Part
from skblab_analysis.formats.pathlat import Source

# Rows of the benchmark that a calibration consists of.
WITHOUT, WITH = "without", "with"
FAMILY: Family = 4
FILE = "cost.json"


class Probe(Closed):
    """A probe whose cost is the same on one kernel: without filters, without late packets.

    Samples of packets are of the first edition of the series, and in stored runs only.
    """

    backend: Literal["bpf", "bpftrace", "stap"]
    source: Source
    kprobes: bool = Field(default=False, description="hooks by kprobe where fentry would work")
    polls: scripts.Source | None = Field(
        default=None, description="where a script has NAPI polls from; null: from `source`, too"
    )

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.kprobes and (self.backend, self.source) != ("bpf", "hooks"):
            raise ValueError("kprobes are a choice for the hooks of bpf alone")
        if self.source == "histograms" and self.backend != "bpf":
            raise ValueError("no script reads the kernel's own histograms")
        if self.polls is not None and self.backend == "bpf":
            raise ValueError("NAPI polls have a source of their own in scripts alone")
        return self

    def __str__(self) -> str:
        """Return it in words."""
        if self.backend == "bpf":
            return "hooks by kprobe" if self.kprobes else self.source
        polls = f", NAPI polls by {self.polls}" if self.polls not in (None, self.source) else ""
        return f"scripts of {self.backend} on {self.source}{polls}"


class ExactCost(Closed):
    """Instructions per packet that the probe adds, as rows of the benchmark on one kernel."""

    schema_: Literal["skblab.cost-exact/1"] = Field(default="skblab.cost-exact/1", alias="schema")
    probe: Probe
    kernel: str = Field(description="as `uname -r` says")
    stamps: bool = Field(description="with the probe the kernel stamps packets, without it not")
    bench: BenchDocument

    @model_validator(mode="after")
    def _has_figures(self) -> Self:
        run = {(trial.row, trial.part) for trial in self.bench.trials if trial.family == FAMILY}
        names = [
            row.name
            for row in self.bench.rows
            if not row.refused and all((row.name, part) in run for part in PARTS)
        ]
        if names != [WITHOUT, WITH]:
            raise ValueError(f"rows {names} have figures, expected {[WITHOUT, WITH]}")
        return self

    @property
    def forward(self) -> float:
        """Instructions more for each forwarded packet."""
        return self._more("forward") - self._more("tester")

    @property
    def receive(self) -> float:
        """Instructions more for each received packet."""
        return self._more("queue") + self._more("read")

    def _more(self, part: Part) -> float:
        """Return what a packet takes more in a part; the lowest trial of each row counts."""
        without, with_ = (
            min(
                trial.per_packet
                for trial in self.bench.trials
                if (trial.row, trial.part, trial.family) == (row, part, FAMILY)
            )
            for row in (WITHOUT, WITH)
        )
        return with_ - without


class Pair(Closed):
    """Two runs of the same load as fast as it goes, one after the other."""

    first: Literal["without", "with"] = Field(description="which of the two ran first")
    without_probe: float = Field(gt=0, description="packets or messages that arrived per second")
    with_probe: float = Field(gt=0, description="packets or messages that arrived per second")


class WallCost(Closed):
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


class CostDocument(Closed):
    """The whole of `cost.json`: what is known of the cost of a run's probe."""

    schema_: Literal["skblab.cost/1", "skblab.cost/2"] = Field(
        default="skblab.cost/2", alias="schema"
    )
    probe: Probe
    kernel: str = Field(description="the run's kernel, as `uname -r` says")
    own: bool = Field(description="measured on this kernel, and not on another one of ours")
    again: str = Field(description="the command that measures it")
    exact: ExactCost | None = None
    refused: str = Field(default="", description="why instructions are not told; empty: they are")
    wall: WallCost | None = None

    @model_validator(mode="after")
    def _same_probe(self) -> Self:
        for cost in (self.exact, self.wall):
            if cost is not None and cost.probe != self.probe:
                raise ValueError(f"the cost of {cost.probe}, expected that of {self.probe}")
            if cost is not None and self.own and cost.kernel != self.kernel:
                raise ValueError(f"measured on {cost.kernel}, expected {self.kernel}")
        return self
