# SPDX-License-Identifier: GPL-2.0-or-later
"""What a trial of samples hands over, and how it is stored."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Annotated

from skblab_analysis.base.checked import RefusedError
from skblab_analysis.base.offered import AtRate
from skblab_analysis.base.real import Real
from skblab_analysis.base.rows import BY_ROW, NO_UNIT, Column, Numbered, Row, Table, Text, by_trial
from skblab_analysis.base.whole import Positive, Whole
from skblab_analysis.trials.rows import OfRow, OfTrial, TrialRow, offered_trial

# The event of a machine that counts no cycles: its timer.
CLOCK = "cpu-clock"
# The stack of a program, of which no function is known.
USER = "[user]"


class Stack(Row):
    """How often one CPU was found in one function, called in one way."""

    cpu: Annotated[Whole, Column(NO_UNIT, "Number of the CPU.")]
    stack: Annotated[
        Text,
        Column(
            NO_UNIT,
            "Functions of the kernel that had called each other, the outermost first, as `a;b;c`; "
            "`[user]`: none, a program ran.",
        ),
    ]
    samples: Annotated[Whole, Column(NO_UNIT, "How often the CPU was found there.")]
    weight: Annotated[
        Whole,
        Column(
            BY_ROW,
            "How many of `event` the samples stand for: of a clock nanoseconds, else a count.",
        ),
    ]
    spread: Annotated[
        Whole,
        Column(
            BY_ROW,
            "By how much chance alone may change `weight`, one standard deviation: the root of the "
            "sum of squares of what each sample stands for.",
        ),
    ]


class StackRow(Stack, OfRow):
    """How often one CPU was found somewhere, and in which trial."""

    rate: Annotated[Whole, Column("packets/s", "Rate that was asked for.")]
    event: Annotated[Text, Column(NO_UNIT, "Event of perf that was sampled.")]


class Sampled(OfTrial):
    """A trial of samples: packets put out and forwarded, rates a second, and each CPU's stacks."""

    rate: Positive
    tried: Whole
    forwarded: Whole
    offered_rate: Real
    event: Text
    stacks: tuple[Stack, ...]

    def row(self, trial: int) -> TrialRow:
        """Return the trial's row."""
        return self.offered(
            trial, "samples", self.rate, self.tried, self.forwarded, self.offered_rate
        )

    def rows(self, trial: int) -> Iterator[Numbered]:
        """Yield a row for each CPU and stack; RefusedError if there is no packet to divide by."""
        if not self.forwarded:
            raise RefusedError(f"of {self.tried} packets none was forwarded")
        for stack in self.stacks:
            yield StackRow(**self.head(trial), rate=self.rate, event=self.event, **dict(stack))


@dataclass(frozen=True)
class Trial(AtRate):
    """A good trial as it was recorded: its packets, and the stacks of each CPU."""

    setting: str
    block: int
    traffic: str
    tried: int
    forwarded: int
    event: str
    stacks: tuple[Stack, ...]


def trials(rows: Iterable[StackRow], of: Iterable[TrialRow]) -> list[Trial]:
    """Return the good trials of samples, from rows of both tables."""
    stacks = by_trial(rows)
    return [
        Trial(
            **offered_trial(row),
            tried=row.tried or 0,
            forwarded=row.forwarded,
            event=stacks[row.trial][0].event,
            stacks=tuple(stacks[row.trial]),
        )
        for row in of
        if row.state == "good" and row.trial in stacks and row.rate and row.forwarded
    ]


TABLES = (
    Table(
        StackRow,
        "samples",
        "how often one CPU of the device under test was found in one function, called in one way, "
        "while packets were offered at a rate",
        later=True,
    ),
)
