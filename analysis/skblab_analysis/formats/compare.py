# SPDX-License-Identifier: GPL-2.0-or-later
"""What workloads cost on two sides or more, kernels or settings, and the verdicts: `compare.json`.

Side A is measured in two boots, each other side in one. What A and A again differ by shows how far
apart two boots of the same are: where that is more than the threshold, no verdict is given. The
threshold is the largest of a share of what A costs, of some instructions, and of what differences
of A and A again were before: their third quartile and three interquartile ranges. History alone
would not do: where all boots agreed, its range is 0.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Literal, Self

from pydantic import Field, model_validator

from skblab_analysis.base.checked import Closed
from skblab_analysis.base.errors import EXIT_NO, EXIT_NO_VERDICT
from skblab_analysis.base.real import SignedReal
from skblab_analysis.base.whole import Positive, Whole
from skblab_analysis.formats.functions import Identity
from skblab_analysis.formats.memory import Misses, Simulated
from skblab_analysis.formats.run import Environment, Timing

FILE = "compare.json"
# Functions and clock of a figure may differ by this share of it.
AGREEMENT = 0.001

LEAST_SHARE = 0.001
LEAST_INSTRUCTIONS = 3.0
# Fewer differences of A and A again say nothing.
LEAST_HISTORY = 30
RANGES = 3.0
# What fails: more than both.
BUDGET_SHARE, BUDGET_INSTRUCTIONS = 0.005, 10.0

# Side A, by number.
FIRST = 0
Cause = Literal["kernel", "lacking", "other"]
Judged = Literal["same", "more", "less", "unstable", "lacking", "failed"]
Because = Literal["share", "instructions", "history"]


class Figure(Closed):
    """What a packet, or whatever else a workload's unit is, takes in one boot.

    Of each function that is the median of several turns, and the figure is their sum.
    """

    instructions: SignedReal = Field(
        description="instructions per unit without those of the generator, where that is apart; a "
        "string instruction counts once"
    )
    iterations: SignedReal = Field(description="further iterations of string instructions per unit")
    clock: SignedReal = Field(description="both, by the guest's clock")
    units: Positive = Field(description="units by which the run with many is longer than the other")
    functions: Mapping[str, SignedReal] = Field(
        description="instructions per unit by kernel function, those of 0.05 and more"
    )
    missed: Misses | None = Field(
        default=None,
        description="lines that were missed in simulated caches, per unit, if that was asked for",
    )


class Workload(Closed):
    """A workload that was measured."""

    name: str
    title: str = Field(description="what is sent where")
    unit: str = Field(description="what its figures are per, such as packet")
    sha256: str = Field(description="names its file, and the scripts that this goes on from")


class Side(Closed):
    """A kernel, or a setting, as it was named on the command line."""

    name: str
    kernel: Identity
    toolchain: dict[str, str] = Field(description="what built the kernel")
    flavour: str = Field(default="stock", description="flavour of the kernel")
    settings: dict[str, str] = Field(default_factory=dict, description="knob to value")
    stored: str = Field(default="", description="the run that its figures are from; empty: this")


class Measured(Closed):
    """One workload in one boot of one side: its figure, or why there is none."""

    workload: str
    side: Whole = Field(description="number of the side, from 0; 0 is A")
    boot: Whole = Field(description="number of the boot; A has a first and a last one")
    figure: Figure | None = None
    why: str = Field(default="", description="why there is no figure")
    cause: Cause | None = Field(
        default=None,
        description="kernel: the kernel under test died, complained or lost packets; lacking: it "
        "cannot do this; other: nothing of the kernel's",
    )


class Verdict(Closed):
    """What one workload says of a side beside A; figures are instructions per unit."""

    workload: str
    side: Positive
    judged: Judged = Field(
        description="more, less: by more than the threshold; unstable: A and A again differ by "
        "more than that; lacking: a kernel cannot do it; failed: there is no figure"
    )
    why: str = Field(default="", description="of lacking and failed: what happened")
    fault: bool = Field(
        default=False, description="of failed: it was this side's kernel, and A's did it"
    )
    a: SignedReal | None = None
    again: SignedReal | None = Field(default=None, description="A again, in another boot")
    b: SignedReal | None = None
    threshold: SignedReal | None = Field(
        default=None, description="what differences are compared with"
    )
    because: Because | None = Field(default=None, description="what the threshold is of")
    over: bool = Field(default=False, description="more than the budget")

    @property
    def reference(self) -> float | None:
        """What A costs: the mean of both boots."""
        return None if self.a is None or self.again is None else (self.a + self.again) / 2

    @property
    def difference(self) -> float | None:
        """What this side adds."""
        of = self.reference
        return None if of is None or self.b is None else self.b - of

    @property
    def share(self) -> float | None:
        """The same as a share of what A costs."""
        return (
            self.difference / of if self.difference is not None and (of := self.reference) else None
        )

    @property
    def factor(self) -> float | None:
        """The difference in thresholds."""
        return (
            abs(self.difference) / self.threshold
            if self.difference is not None and self.threshold
            else None
        )


class Budget(Closed):
    """What a side may cost more than A; beyond both is a regression."""

    share: SignedReal = Field(default=BUDGET_SHARE, ge=0, description="of what A costs")
    instructions: SignedReal = Field(default=BUDGET_INSTRUCTIONS, ge=0, description="per unit")


class CompareDocument(Closed):
    """The whole of `compare.json`."""

    schema_: Literal["skblab.compare/1", "skblab.compare/2", "skblab.compare/3"] = Field(
        default="skblab.compare/3", alias="schema"
    )
    again: str = Field(description="the command that runs it again")
    packets: Positive = Field(
        description="units of each longer run; there are several, and shorter ones of a fifth of it"
    )
    instrument: dict[str, str] = Field(
        description="what counted: figures compare only where all of it is the same"
    )
    sides: tuple[Side, ...]
    workloads: tuple[Workload, ...]
    measured: tuple[Measured, ...]
    budget: Budget = Budget()
    caches: Simulated | None = Field(
        default=None,
        description="what `missed` of figures is of; no verdict goes by it; not before compare/2",
    )
    verdicts: tuple[Verdict, ...]
    configurations: dict[str, tuple[str, ...]] = Field(
        default_factory=dict,
        description="by side's number: options whose value is not that of A's kernel, as "
        "OPTION: A's -> its own",
    )
    notes: tuple[str, ...] = Field(default=(), description="what is to be known, in sentences")
    versions: dict[str, str] = Field(default_factory=dict, description="tool to version")
    environments: dict[str, Environment] = Field(
        default_factory=dict, description="kernel, guest and host, by side's number"
    )
    timings: tuple[Timing, ...] = ()

    @model_validator(mode="after")
    def _agrees(self) -> Self:
        names = {one.name for one in self.workloads}
        for one in self.verdicts:
            if one.workload not in names or one.side >= len(self.sides):
                raise ValueError(
                    f"a verdict is on {one.workload!r} and side {one.side}: there are "
                    f"{', '.join(sorted(names)) or 'no workloads'} and {len(self.sides)} sides, "
                    "from 0"
                )
        return self


def threshold(a: float, past: Sequence[float] = ()) -> tuple[float, Because]:
    """Return from which difference on two figures differ, and why, in instructions per unit.

    `past` are differences of A and A again, which may be few.
    """
    found: dict[Because, float] = {
        "share": LEAST_SHARE * abs(a),
        "instructions": LEAST_INSTRUCTIONS,
    }
    if len(past) >= LEAST_HISTORY:
        first, _, third = statistics.quantiles(map(abs, past), n=4, method="inclusive")
        found["history"] = third + RANGES * (third - first)
    because = max(found, key=lambda one: found[one])
    return found[because], because


def judgement(difference: float, apart: float, limit: float) -> Judged:
    """Return what a difference is beside a threshold; `apart` is how far A's two boots are."""
    if abs(apart) > limit:
        return "unstable"
    if abs(difference) > limit:
        return "more" if difference > 0 else "less"
    return "same"


def judge(
    workload: str,
    side: int,
    measured: Sequence[Measured],
    past: Sequence[float] = (),
    budget: Budget | None = None,
) -> Verdict:
    """Return the verdict on a side by what was measured of a workload.

    `measured` has A's first and last boot, and the side's.
    """
    own = sorted(
        (one for one in measured if one.workload == workload and one.side in (FIRST, side)),
        key=lambda one: (one.side, one.boot),
    )
    if nothing := [one for one in own if one.figure is None]:
        # A's come first: where both have none, it is nothing that B does.
        first = nothing[0]
        there = [one.figure.instructions for one in own if one.figure and one.side == FIRST]
        lacking = first.cause == "lacking"
        return Verdict(
            workload=workload,
            side=side,
            judged="lacking" if lacking else "failed",
            why=first.why,
            fault=first.side == side and first.cause == "kernel",
            a=there[0] if there else None,
        )
    found = {
        number: [one.figure.instructions for one in own if one.figure and one.side == number]
        for number in (FIRST, side)
    }
    if len(found[FIRST]) < 2 or not found[side]:
        return Verdict(workload=workload, side=side, judged="failed", why="it was not measured")
    a, again, b = found[FIRST][0], found[FIRST][-1], found[side][0]
    budget = budget or Budget()
    reference = (a + again) / 2
    limit, because = threshold(reference, past)
    difference = b - reference
    judged = judgement(difference, a - again, limit)
    over = difference > max(budget.share * reference, budget.instructions)
    return Verdict(
        workload=workload,
        side=side,
        judged=judged,
        a=a,
        again=again,
        b=b,
        threshold=limit,
        because=because,
        over=judged == "more" and over,
    )


def status(document: CompareDocument, past: Callable[[str], Sequence[float]] | None = None) -> int:
    """Return the exit status: 1 for a regression, 3 where there is no verdict, else 0.

    What A cannot do needs none. One side alone has to have its figures, and they have to repeat;
    `past` says by workload what two boots differed by before.
    """
    verdicts = document.verdicts
    if len(document.sides) == 1:
        verdicts = tuple(
            judge(
                one.name,
                1,
                _twice(document.measured),
                past(one.name) if past is not None else (),
                document.budget,
            )
            for one in document.workloads
        )
    if any(one.over or one.fault for one in verdicts):
        return EXIT_NO
    # What A can do and this side cannot is no word on what it costs.
    said = [one for one in verdicts if one.judged != "lacking" or one.a is not None]
    judged = [one for one in said if one.judged in ("same", "more", "less")]
    return 0 if judged and len(judged) == len(said) else EXIT_NO_VERDICT


def _twice(measured: Sequence[Measured]) -> list[Measured]:
    """Return what was measured of A as that of a side, too."""
    return [*measured, *(one.model_copy(update={"side": 1}) for one in measured)]


def differing(document: CompareDocument, verdict: Verdict) -> list[tuple[str, float]]:
    """Return what a side adds in each function, in instructions per unit, the largest first."""
    before = functions(document, verdict.workload, FIRST)
    after = functions(document, verdict.workload, verdict.side)
    return added(before, after) if before and after else []


def functions(document: CompareDocument, workload: str, side: int) -> list[Mapping[str, float]]:
    """Return by function what each boot of a side gave."""
    return [
        one.figure.functions
        for one in document.measured
        if one.figure is not None and (one.workload, one.side) == (workload, side)
    ]


def added(
    before: Sequence[Mapping[str, float]], after: Sequence[Mapping[str, float]]
) -> list[tuple[str, float]]:
    """Return what the later boots' mean adds in each function, the largest first."""
    names = {name for one in (*before, *after) for name in one}
    found = [(name, _mean(after, name) - _mean(before, name)) for name in names]
    return sorted(found, key=lambda one: (-abs(one[1]), one[0]))


def _mean(of: Sequence[Mapping[str, float]], name: str) -> float:
    return statistics.fmean(one.get(name, 0.0) for one in of)
