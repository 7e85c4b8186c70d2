# SPDX-License-Identifier: GPL-2.0-or-later
"""The document of a run's figures, as commands print it by `--json`: what its tables show."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from skblab_analysis.base.checked import Closed
from skblab_analysis.base.compared import Compared, OfFigure
from skblab_analysis.base.whole import Whole
from skblab_analysis.formats.run import Command


class Figure(OfFigure):
    """One figure of one setting."""

    value: float | None = Field(description="null if there is none")
    half: float | None = Field(
        default=None, description="half of the value's own 95 % interval; null if it has none"
    )
    blocks: Whole | None = Field(default=None, description="blocks that the value is of")
    difference: Compared | None = Field(
        default=None, description="null of the baseline, and where nothing is compared"
    )


class Reason(Closed):
    """A setting that has trials without figures, and why."""

    setting: str
    reason: str


class Advised(Closed):
    """A setting that is better than the baseline by something."""

    setting: str
    advice: Literal["set", "mixed", "only_here"] = Field(
        description="set: set it, the best is first; mixed: it is worse by another figure; "
        "only_here: it is better on this testbed only"
    )
    better: str = Field(description="by what it is better, in words")
    worse: str = Field(description="by what it is worse, in words; empty: by nothing")
    only_here: str = Field(description="why it is better on this testbed only; empty otherwise")


class Complaint(Closed):
    """What a kernel complained of."""

    where: str = Field(description="the trial, or before or after all trials")
    lines: tuple[str, ...]


class Trials(Closed):
    """How many trials there are."""

    good: Whole
    invalid: Whole


class SummaryDocument(Closed):
    """A run's figures and what they come to.

    In version 1 the measure `instructions` was `exact`, `instructions/packet` was `instructions`,
    `ns/packet` was `ns`, and `figure` had the goals and layers that are in `part` now. Until
    version 4 there was no `advice`.
    """

    schema_: Literal["skblab.summary/5"] = Field(default="skblab.summary/5", alias="schema")
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
    advice: tuple[Advised, ...] = Field(description="what is better than the baseline")
    why_none: str = Field(description="why nothing is to be set; empty if something is")
    commands: tuple[Command, ...] = Field(description="what sets a setting")
    complaints: tuple[Complaint, ...] = Field(description="what kernels complained of")
