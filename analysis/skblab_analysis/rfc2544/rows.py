# SPDX-License-Identifier: GPL-2.0-or-later
"""What RFC 2544's other tests hand over, and how it is stored."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from skblab_analysis.base.real import PositiveReal, Real
from skblab_analysis.base.rows import NO_UNIT, Column, Lines, Numbered, Row, Table
from skblab_analysis.base.whole import Whole
from skblab_analysis.throughput.rows import Limit, Search
from skblab_analysis.trials.rows import OfRow, TrialRow, older_head

# Loads in a row without loss end the test of frame loss (26.3).
CLEAN = 2
Test = Literal["latency", "frame loss", "back-to-back", "recovery"]


class Figure(Row):
    """One figure of a test; what could not be measured is None, for a `reason`.

    `open`: the figure is a bound only.
    """

    test: Annotated[
        Test,
        Column(
            NO_UNIT,
            "`latency` (26.2), `frame loss` (26.3), `back-to-back` (26.4), `recovery` (26.5).",
        ),
    ]
    repeat: Annotated[Whole, Column(NO_UNIT, "Number of the repetition, or of the load, from 0.")]
    load: Annotated[PositiveReal, Column("packets/s", "Rate of the stream, burst, or overload.")]
    seconds: Annotated[
        PositiveReal,
        Column(
            "s", "How long a trial was, or the longest burst; of recovery, overload and rest each."
        ),
    ]
    share: Annotated[
        PositiveReal | None,
        Column(
            "1",
            "The load as part of what the tester carries (frame loss), or of the throughput "
            "(recovery).",
        ),
    ] = None
    latency_ns: Annotated[Real | None, Column("ns", "One way, in mid-stream.")] = None
    floor_ns: Annotated[
        Real | None,
        Column(
            "ns",
            "The tester's own at that rate, with no router in between; null: it was not to be had.",
        ),
    ] = None
    loss_percent: Annotated[
        Annotated[float, Field(ge=0, le=100)] | None,
        Column("%", "Frames lost, of those that were sent."),
    ] = None
    burst: Annotated[Whole | None, Column("packets", "The longest burst that lost nothing.")] = None
    buffer_s: Annotated[
        Real | None, Column("s", "RFC 9004's corrected buffer time of that burst.")
    ] = None
    recovery_s: Annotated[
        Real | None,
        Column("s", "From the end of the overload until the last lost frame was sent."),
    ] = None
    within_s: Annotated[
        Real | None,
        Column("s", "It may be shorter by so much: the generator was behind, or its clock coarse."),
    ] = None
    open: Annotated[
        bool,
        Column(
            NO_UNIT,
            "The burst is as long as any that was tried; or frames were lost until the end.",
        ),
    ] = False
    limit: Annotated[
        Limit | None,
        Column(NO_UNIT, "Who lost packets: of back-to-back, of the shortest burst that failed."),
    ] = None
    reason: Annotated[Lines | None, Column(NO_UNIT, "Why there is no figure.")] = None


class FigureRow(Figure, OfRow):
    """A figure, and of what it was."""


@dataclass(frozen=True)
class Benchmarked:
    """A search, and what the other tests found at its throughput."""

    search: Search
    figures: tuple[Figure, ...]

    def row(self, trial: int) -> TrialRow:
        """Return the search's row."""
        return self.search.row(trial)

    def rows(self, trial: int) -> Iterator[Numbered]:
        """Yield the search's rows, and those of `rfc2544`."""
        yield from self.search.rows(trial)
        head = self.search.head(trial)
        for figure in self.figures:
            yield FigureRow(**head, **dict(figure))


TABLES = (
    Table(
        FigureRow,
        "rfc2544",
        "one figure of RFC 2544's other tests, at the throughput that the trial's search found",
        later=True,
        version=2,
        older=older_head,
    ),
)
