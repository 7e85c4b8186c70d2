# SPDX-License-Identifier: GPL-2.0-or-later
"""The document of a run's figures, as commands print it by `--json`: what its tables show."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from skblab_analysis.base.certainty import Difference
from skblab_analysis.base.whole import Whole
from skblab_analysis.formats.run import Command

Unit = Literal["instructions", "ns", "s", "packets", "packets/s", "1"]


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Compared(_Part):
    """What a figure differs from the baseline's; see docs/explain/method.md."""

    effect: float = Field(description="figure less the baseline's, in the figure's unit")
    share: float | None = Field(
        description="effect as a share of the baseline's figure; of instructions: of the path "
        "alone, without the tester; null if that is 0 or not known"
    )
    low: float | None = Field(description="the 95 % interval's lower end; null of a single block")
    high: float | None = Field(description="the 95 % interval's upper end; null of a single block")
    significant: bool | None = Field(description="null of a single block: not known")
    detectable: float | None = Field(
        description="the smallest detectable difference; null of a single block"
    )
    blocks: Whole = Field(description="blocks that are compared")

    @classmethod
    def of(cls, found: Difference, of: float | None = None) -> Compared:
        """Return a difference in the unit of its figure; `of` is the baseline's, if not its own."""
        base = found.of if of is None else of
        effect = found.effect * found.scale
        return cls(
            effect=effect,
            share=effect / base if base else None,
            low=found.in_unit(found.low),
            high=found.in_unit(found.high),
            significant=found.significant,
            detectable=found.in_unit(found.detectable),
            blocks=found.blocks,
        )


class Figure(_Part):
    """One figure of one setting."""

    measure: Literal["exact", "throughput", "rfc2544", "latency", "cpu", "layers"]
    figure: str = Field(description="what it is, such as path, throughput, p99 or busy")
    part: str = Field(default="", description="of what: a goal, a layer, a load; empty: of all")
    unit: Unit = Field(description="1: a share")
    setting: str
    traffic: str = Field(default="", description="empty: the run has one traffic only")
    rate: Whole | None = Field(
        default=None, description="offered load, packets/s; null if the measure has none"
    )
    value: float | None = Field(description="null if there is none")
    half: float | None = Field(
        default=None, description="half of the value's own 95 % interval; null if it has none"
    )
    blocks: Whole | None = Field(default=None, description="blocks that the value is of")
    difference: Compared | None = Field(
        default=None, description="null of the baseline, and where nothing is compared"
    )


class Reason(_Part):
    """A setting that has trials without figures, and why."""

    setting: str
    reason: str


class Complaint(_Part):
    """What a kernel complained of."""

    where: str = Field(description="the trial, or before or after all trials")
    lines: tuple[str, ...]


class Trials(_Part):
    """How many trials there are."""

    good: Whole
    invalid: Whole


class SummaryDocument(_Part):
    """A run's figures and what they come to."""

    schema_: Literal["skblab.summary/1"] = Field(default="skblab.summary/1", alias="schema")
    folder: str = Field(description="the run folder")
    report: str | None = Field(description="the report's page; null if none was made")
    name: str
    state: Literal["running", "finished", "failed"]
    reason: str = Field(description="why the run failed; empty otherwise")
    synthetic: bool = Field(description="made-up numbers, for tests only")
    baseline: str | None = Field(description="the setting that others are compared with")
    headline: str
    findings: tuple[str, ...] = Field(description="what was found, a sentence or two each")
    unseen: tuple[str, ...] = Field(description="what the run could not see")
    trials: Trials
    reasons: tuple[Reason, ...] = Field(description="settings that were skipped or have none good")
    figures: tuple[Figure, ...]
    unaccounted: dict[str, float] = Field(
        description="packets that are not accounted for, as a share, by trial"
    )
    commands: tuple[Command, ...] = Field(description="what sets a setting")
    complaints: tuple[Complaint, ...] = Field(description="what kernels complained of")
