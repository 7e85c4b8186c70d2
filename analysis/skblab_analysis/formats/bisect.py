# SPDX-License-Identifier: GPL-2.0-or-later
"""Which commit made a workload slower: the steps of a search, and what it found: `bisect.json`."""

from __future__ import annotations

import statistics
from typing import Literal, Self

from pydantic import Field, model_validator

from skblab_analysis.base.checked import Closed
from skblab_analysis.base.real import SignedReal
from skblab_analysis.base.whole import Positive
from skblab_analysis.formats.compare import Figure, Workload
from skblab_analysis.formats.run import Environment, Timing

FILE = "bisect.json"


class Step(Closed):
    """A commit that was measured, and what it was taken for."""

    commit: str
    subject: str = Field(description="the first line of its message")
    verdict: Literal["good", "bad", "skipped"]
    figures: tuple[Figure, ...] = Field(description="what the workload took, one for each boot")
    why: str = Field(default="", description="of skipped: why it has no figure")

    @property
    def instructions(self) -> float:
        """What the workload takes, in instructions per unit."""
        return statistics.median(one.instructions for one in self.figures)


class Changed(Closed):
    """What the culprit adds in one function, in instructions per unit."""

    name: str
    difference: SignedReal


class BisectDocument(Closed):
    """The whole of `bisect.json`, while the search goes on, too."""

    schema_: Literal["skblab.bisect/1", "skblab.bisect/2", "skblab.bisect/3"] = Field(
        default="skblab.bisect/3", alias="schema"
    )
    again: str = Field(description="the command that runs it again")
    repository: str
    good: str = Field(description="commit of the good end")
    bad: str = Field(description="commit of the bad end")
    workload: Workload
    packets: Positive
    instrument: dict[str, str] = Field(description="what counted")
    settings: dict[str, str] = Field(default_factory=dict, description="knob to value, on all")
    steps: tuple[Step, ...] = Field(description="in the order in which they were measured")
    found: tuple[str, ...] = Field(
        default=(),
        description="the commit that made the step; several: one of them, and those that could not "
        "be measured cannot be told from it; none: the search has not ended",
    )
    parent: str = Field(default="", description="the parent that it is compared with")
    step: SignedReal | None = Field(
        default=None, description="what it adds, in instructions per unit"
    )
    functions: tuple[Changed, ...] = Field(
        default=(), description="what it adds by function, the largest first"
    )
    versions: dict[str, str] = Field(default_factory=dict, description="tool to version")
    environments: dict[str, Environment] = Field(default_factory=dict, description="by commit")
    timings: tuple[Timing, ...] = ()

    @model_validator(mode="after")
    def _agrees(self) -> Self:
        known = {one.commit: one for one in self.steps if one.figures}
        for one in self.steps:
            if one.verdict != "skipped" and not one.figures:
                raise ValueError(f"{one.commit} is {one.verdict} and has no figure")
        if self.step is not None:
            for what in ("parent", "good", "bad"):
                commit = getattr(self, what)
                if commit not in known:
                    raise ValueError(f"{what} is {commit!r}: expected a commit with a figure")
            if not known[self.parent].instructions:
                raise ValueError(f"the parent {self.parent!r} costs nothing")
        return self
