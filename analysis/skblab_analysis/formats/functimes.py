# SPDX-License-Identifier: GPL-2.0-or-later
"""How long calls of kernel functions take: what `funclat` prints, and a run folder holds.

By fentry, times leave out what the probe takes between its first and its last look at the clock, of
the call itself and of the traced calls in it. By function graph they leave out nothing. What
`probe` says remains is in them.
"""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import (
    Field,
    StringConstraints,
    model_validator,
)

from skblab_analysis.base.real import Real, SignedReal
from skblab_analysis.base.whole import Count, Positive, Whole
from skblab_analysis.formats.pathlat import Distribution, ToolDocument

FILE = "functimes.json"

# As C has them, and with what the compiler puts behind.
Symbol = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_.]*$", max_length=512)]
Unit = Literal["ns", "instructions"]
# BPF programs at a function's entry and return, or a tracer of ftrace.
By = Literal["fentry", "function-graph"]


class FunctionTimes(ToolDocument):
    """One function. What it calls is of `self` only as far as it is not traced."""

    name: Symbol
    calls: Count = Field(description="calls that began, of which some may not be timed")
    missed_entries: Count = Field(
        description="of these, those at which the probe was busy on that CPU: not timed"
    )
    missed_returns: Count = Field(
        description="returns at which the probe was busy on that CPU: among those lost"
    )
    refused: Count = Field(description="calls that there was no memory for: not timed")
    lost: Count = Field(description="calls whose return was not seen: not timed")
    under_way: Count = Field(description="calls that had not returned at the end: not timed")
    unentered: Count = Field(
        description="returns of calls that began before the probe did, or that it missed"
    )
    own: Whole = Field(description="what the probe took for its calls, and took off all times")
    inclusive: Distribution = Field(description="from entry to return, with all that it called")
    self_: Distribution = Field(
        alias="self", description="the same without traced functions in between"
    )

    @property
    def timed(self) -> int:
        """Calls whose time was measured."""
        return _values(self.inclusive)

    @property
    def untimed(self) -> int:
        """Calls whose time was not measured, by whatever cause."""
        return self.calls - self.timed

    def check(self) -> None:
        """Raise ValueError unless all calls are accounted for."""
        if self.timed != _values(self.self_):
            raise ValueError(
                f"{self.name}: {self.timed} calls with, {_values(self.self_)} without callees"
            )
        causes = self.missed_entries + self.refused + self.lost + self.under_way
        if self.untimed < 0 or (self.under_way and self.untimed != causes):
            raise ValueError(
                f"{self.name}: of {self.calls} calls {self.timed} are timed and {causes} not"
            )


def _values(times: Distribution) -> int:
    return times.count + times.negative + times.overflow


class ProbeCost(ToolDocument):
    """What the probe takes for a call, measured on the spot with a function that does nothing."""

    calls: Positive = Field(description="calls that it was measured with")
    cost: SignedReal = Field(description="by which a call was longer, in all")
    own: Real = Field(description="of that, what the probe takes off all times")
    empty: Distribution = Field(description="what was measured of the function's own time")

    @property
    def remains(self) -> float:
        """What of a call stays in the times of the functions around it, and in its own."""
        return max(0.0, self.cost - self.own)


class Absent(ToolDocument):
    """A function that was left out."""

    name: Symbol
    why: str


class FunctimesDocument(ToolDocument):
    """The whole of `functimes.json`."""

    schema_: Literal["skblab.functimes/1", "skblab.functimes/2"] = Field(alias="schema")
    kernel: str = Field(description="as `uname -r` says")
    by: By = Field(default="fentry", description="what timed them; fentry before functimes/2")
    why: str | None = Field(
        default=None, description="why not by fentry; null: it is, or was not asked for"
    )
    unit: Unit = Field(description="of all times: instructions with --exact")
    sub_buckets: Literal[16] = Field(description="buckets for each power of two")
    seconds: Real = Field(description="how long calls were counted, by that clock")
    final: bool = Field(description="false: written while it was still counted")
    functions: tuple[FunctionTimes, ...] = Field(min_length=1)
    absent: tuple[Absent, ...] = Field(description="what the kernel does not have or let trace")
    probe: ProbeCost | None = Field(description="null: it could not be measured")

    @model_validator(mode="after")
    def _agrees(self) -> Self:
        # One that was written while calls were counted is of no one moment.
        for one in self.functions if self.final else ():
            one.check()
        if len({one.name for one in self.functions}) < len(self.functions):
            raise ValueError("a function is given twice")
        if self.by == "fentry" and self.why is not None:
            raise ValueError("by fentry, with a reason why not by fentry")
        if self.by == "function-graph" and self.probe is not None and self.probe.own:
            raise ValueError("by function graph nothing is taken off, and here something is")
        return self

    @property
    def largest_first(self) -> list[FunctionTimes]:
        """The functions by what they take by themselves."""
        return sorted(self.functions, key=lambda one: (-one.self_.sum, one.name))
