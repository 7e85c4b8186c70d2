# SPDX-License-Identifier: GPL-2.0-or-later
"""What a trial hands over in which other programs counted events, and how it is stored."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Literal

from skblab_analysis.base.checked import RefusedError
from skblab_analysis.base.real import Real
from skblab_analysis.base.rows import BY_ROW, NO_UNIT, Column, Numbered, Row, Table, Text
from skblab_analysis.base.whole import Positive, Whole
from skblab_analysis.trials.rows import OfRow, OfTrial, TrialRow

# Where something was counted; `other`: the tool does not say.
Scope = Literal["system", "socket", "core", "die", "channel", "link", "other"]


class Event(Row):
    """What one event counted at one place, or why it counted nothing."""

    collector: Annotated[Text, Column(NO_UNIT, "`perf:` and the group's name, or a tool of PCM.")]
    name: Annotated[Text, Column(NO_UNIT, "Name of the event, as the tool has it.")]
    scope: Annotated[
        Scope,
        Column(
            NO_UNIT,
            "Where: `system`, `socket`, `core` (a CPU), `die`, `channel` or `link`; `other`: the "
            "tool does not say.",
        ),
    ] = "system"
    number: Annotated[
        Whole | None, Column(NO_UNIT, "Number of the socket, CPU, link …; null: of the system.")
    ] = None
    socket: Annotated[
        Whole | None, Column(NO_UNIT, "The socket that a link or channel is of, where it is known.")
    ] = None
    unit: Annotated[
        Text, Column(NO_UNIT, "Unit of `value`: `bytes`, `share`, `msec` …; empty: a count.")
    ] = ""
    value: Annotated[
        Real | None, Column(BY_ROW, "What was counted in the trial; null: see `why`.")
    ] = None
    running: Annotated[
        Real | None,
        Column(
            NO_UNIT,
            "Share of the time in which the event was counted; below 1 `value` is an estimate. "
            "Null: the tool does not say.",
        ),
    ] = None
    why: Annotated[Text, Column(NO_UNIT, "Why there is no value; empty: there is one.")] = ""


class EventRow(Event, OfRow):
    """What one event counted, and in which trial."""

    rate: Annotated[Whole, Column("packets/s", "Rate that was asked for.")]
    counted: Annotated[
        Whole, Column("packets", "Packets that were forwarded while it was counted; 0: see `why`.")
    ]


@dataclass(frozen=True)
class Window:
    """What was sent while one collector counted, or was not sent because it cannot count."""

    tried: int
    forwarded: int
    events: tuple[Event, ...]


class Collected(OfTrial):
    """A trial of events: a window for each collector; the rate is the lowest of them, a second."""

    rate: Positive
    offered_rate: Real
    windows: tuple[Window, ...]

    @property
    def tried(self) -> int:
        """Packets put out."""
        return sum(window.tried for window in self.windows)

    @property
    def forwarded(self) -> int:
        """Packets forwarded."""
        return sum(window.forwarded for window in self.windows)

    def row(self, trial: int) -> TrialRow:
        """Return the trial's row."""
        return self.offered(
            trial, "events", self.rate, self.tried, self.forwarded, self.offered_rate
        )

    def rows(self, trial: int) -> Iterator[Numbered]:
        """Yield a row for each event; RefusedError if there is no packet to divide by."""
        for window in self.windows:
            if window.tried and not window.forwarded:
                raise RefusedError(f"of {window.tried} packets none was forwarded")
            for event in window.events:
                yield EventRow(
                    **self.head(trial), rate=self.rate, counted=window.forwarded, **dict(event)
                )


TABLES = (
    Table(
        EventRow,
        "events",
        "what one event of perf or Intel's PCM counted at one place, while packets were offered at "
        "a rate",
        later=True,
    ),
)
