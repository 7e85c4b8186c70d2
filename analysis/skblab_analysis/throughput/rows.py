# SPDX-License-Identifier: GPL-2.0-or-later
"""What a search for throughput hands over, and how it is stored."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from skblab_analysis.base.offered import offered_rate
from skblab_analysis.base.real import PositiveReal, Real
from skblab_analysis.base.rows import NO_UNIT, Column, Numbered, Plain, Row, Table, Text
from skblab_analysis.base.whole import Whole
from skblab_analysis.trials.rows import OfRow, OfTrial, TrialRow, older_head

# Of a trial: who lost packets, or did not send them.
Limit = Literal["none", "generator", "device", "sink"]
# Of a search: what its result is the result of.
Judgement = Literal["device", "tester", "maximum load", "no good load", "not known"]
Outcome = Literal["regular", "good at the maximum load", "no good load"]
# What a trial was for.
Purpose = Literal["search", "confirmation", "rfc2544"]
Ratio = Annotated[float, Field(ge=0, le=1)]


class Load(Row):
    """One trial of a search, or (`purpose`) one after it."""

    load: Annotated[PositiveReal, Column("packets/s", "Rate that the generator was asked for.")]
    seconds: Annotated[PositiveReal, Column("s", "How long it was asked for.")]
    took: Annotated[Real, Column("s", "How long the generator really sent.")]
    tried: Annotated[
        Whole,
        Column(
            "packets",
            "Packets that the generator put out, those included that the first device refused.",
        ),
    ]
    forwarded: Annotated[
        Whole | None,
        Column("packets", "Packets that the device under test gave to the link to the sink."),
    ]
    received: Annotated[Whole, Column("packets", "Packets that came to the sink.")]
    loss_ratio: Annotated[
        Ratio,
        Column(
            "1",
            "What did not come, of what should have: also of what a late generator did not send.",
        ),
    ]
    limit: Annotated[
        Limit,
        Column(
            NO_UNIT,
            "Who lost packets, or did not send them: `generator`, `device`, `sink`, or `none`.",
        ),
    ]
    purpose: Annotated[
        Purpose | None,
        Column(
            NO_UNIT,
            "`search`; `confirmation`: the last one, at the strict rate; or `rfc2544`: of frame "
            "loss or back-to-back. Null in runs of older versions.",
        ),
    ] = "search"


class Found(Row):
    """What a search found for one goal."""

    goal: Annotated[Text, Column(NO_UNIT, "Name of the goal: `strict`, `NDR`, `PDR`.")]
    loss_ratio: Annotated[Ratio, Column("1", "A trial that loses more than this is bad.")]
    exceed_ratio: Annotated[Ratio, Column("1", "A load with more bad trials than this is no good.")]
    width: Annotated[
        PositiveReal, Column("1", "How near the bounds were to come, as part of the upper.")
    ]
    lower: Annotated[PositiveReal | None, Column("packets/s", "Greatest load that is good.")]
    upper: Annotated[PositiveReal | None, Column("packets/s", "Smallest that is not, above it.")]
    throughput: Annotated[
        PositiveReal | None,
        Column(
            "packets/s",
            "Conditional throughput: what arrives at the lower bound in the worst trial counted.",
        ),
    ]
    trials: Annotated[Whole, Column(NO_UNIT, "Trials at the two bounds.")]
    limit: Annotated[
        Limit, Column(NO_UNIT, "Who was the limit of most bad trials at the upper one.")
    ]
    outcome: Annotated[
        Outcome,
        Column(
            NO_UNIT,
            "`regular` (it has both bounds), `good at the maximum load`, or `no good load`.",
        ),
    ]
    reached: Annotated[bool, Column(NO_UNIT, "Whether the bounds came as near as asked.")]
    judgement: Annotated[
        Judgement | None,
        Column(
            NO_UNIT,
            "What it is the result of: `device`, `tester`, `maximum load`, `no good load`, or `not "
            "known`: packets were lost, and the tester was not measured alone; null of the tester "
            "itself.",
        ),
    ] = None
    confirmed: Annotated[
        bool | None,
        Column(
            NO_UNIT,
            "Whether a last, long trial at the lower bound lost nothing; null: there was none.",
        ),
    ] = None
    confirm_seconds: Annotated[PositiveReal | None, Column("s", "How long that trial was.")] = None

    @model_validator(mode="after")
    def _confirmed_in_seconds(self) -> Self:
        if self.confirmed is not None and self.confirm_seconds is None:
            raise ValueError("confirmed, in how many seconds is not said")
        return self


def judge_unmeasured(lower: float | None, upper: float | None, limit: Limit) -> Judgement:
    """Return what a search's result is the result of, if the tester was not measured alone.

    Only what the tester is seen not to do is the tester's: send at its rate, count what arrives.
    Packets that are lost before the sink may be lost by either.
    """
    if limit in ("generator", "sink"):
        return "tester"
    if lower is None:
        return "no good load"
    return "maximum load" if upper is None else "not known"


class LoadRow(Load, OfRow):
    """A load, and of which search."""

    number: Annotated[Whole, Column(NO_UNIT, "Number of the load in its search, from 0.")]
    offered_rate: Annotated[Real, Column("packets/s", "Rate that it really reached.")]


class FoundRow(Found, OfRow):
    """What a search found for one goal, and of what it was."""


class Search(OfTrial):
    """A search: of what, all its trials and all it found."""

    loads: tuple[Load, ...]
    goals: Annotated[tuple[Found, ...], Field(min_length=1)]

    def row(self, trial: int) -> TrialRow:
        """Return the trial's row: the packets of all its loads."""
        tried = sum(load.tried for load in self.loads)
        received = sum(load.received for load in self.loads)
        forwarded = [load.forwarded for load in self.loads if load.forwarded is not None]
        return TrialRow(
            **self.head(trial),
            clock="wall",
            measure="tester" if self.part == "tester" else "throughput",
            tried=tried,
            forwarded=sum(forwarded) if len(forwarded) == len(self.loads) else None,
            received=received,
            lost=tried - received,
            packets=tried,
        )

    def rows(self, trial: int) -> Iterator[Numbered]:
        """Yield the rows of `loads` and of `throughput`."""
        head = self.head(trial)
        for number, load in enumerate(self.loads):
            rate = offered_rate(load.tried, load.seconds, load.took)
            yield LoadRow(**head, **dict(load), number=number, offered_rate=rate)
        for goal in self.goals:
            yield FoundRow(**head, **dict(goal))


def by_setting(found: Iterable[FoundRow]) -> list[list[float]]:
    """Return what each setting carries in its blocks, in packets/s, by each goal and traffic.

    Empty where no load was good.
    """
    rates: dict[tuple[str, str, str], list[float]] = {}
    for row in found:
        if row.part == "whole":
            blocks = rates.setdefault((row.traffic, row.goal, row.setting), [])
            blocks += [] if row.throughput is None else [row.throughput]
    return list(rates.values())


def _older_load(row: Plain) -> Plain:
    return older_head(row) | {"tried": row["sent"]}


TABLES = (
    Table(
        LoadRow,
        "loads",
        "one load that was tried in a search for throughput: a trial in the words of RFC 2544",
        later=True,
        version=2,
        older=_older_load,
    ),
    Table(
        FoundRow,
        "throughput",
        "what one search found for one goal (draft-ietf-bmwg-mlrsearch)",
        later=True,
        version=2,
        older=older_head,
        again=True,
    ),
)
