# SPDX-License-Identifier: GPL-2.0-or-later
"""Times of flows by setting, of packets or of TCP: of all blocks, and as tables have them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median

from rich.table import Table

from skblab_analysis.base.words import ABSENT, Scale, scale
from skblab_analysis.traffic.rows import FlowTimesRow, TimeKind
from skblab_analysis.view import Cells

FIGURES = ("min", "p50", "p99", "p99.9", "max", "std dev")


@dataclass(frozen=True)
class Times:
    """One kind of time of a setting, in ns: medians of its blocks, `least` and `most` of all.

    `clock_off` is how far any block may be off, because of two machines' clocks; None: by nothing.
    """

    least: int
    p50: float | None
    p99: float | None
    p99_9: float | None
    most: int
    mean: float
    deviation: float
    clock_off: int | None = None

    @classmethod
    def of(cls, rows: Sequence[FlowTimesRow]) -> Times:
        """Return what rows of several blocks come to."""

        def middle(name: str) -> float | None:
            values = [getattr(row, name) for row in rows if getattr(row, name) is not None]
            return median(values) if values else None

        return cls(
            least=min(row.least for row in rows),
            p50=middle("p50"),
            p99=middle("p99"),
            p99_9=middle("p99_9"),
            most=max(row.most for row in rows),
            mean=median(row.mean for row in rows),
            deviation=median(row.deviation for row in rows),
            clock_off=max(
                (row.clock_off for row in rows if row.clock_off is not None), default=None
            ),
        )


def by_kind(rows: Sequence[FlowTimesRow]) -> dict[TimeKind, Times]:
    """Return the times of a setting by their kinds, from the rows of its trials."""
    kinds = dict.fromkeys(row.kind for row in rows)
    return {kind: Times.of([row for row in rows if row.kind == kind]) for kind in kinds}


def scale_of(found: Iterable[Times]) -> Scale:
    """Return one scale for a table: by its typical times, not by the longest of all."""
    return scale("ns", round(max(times.p99 or times.mean for times in found)))


def cells(times: Times | None, of_table: Scale, space: str) -> tuple[str, ...]:
    """Return the cells of a setting's times, as FIGURES names them."""
    if times is None:
        return (ABSENT,) * len(FIGURES)
    values = (times.least, times.p50, times.p99, times.p99_9, times.most, times.deviation)
    return tuple(of_table.text(value, space) for value in values)


def figures(times: Times) -> list[tuple[str, float | None]]:
    """Return what scripts get of times, in ns."""
    return [
        ("min", times.least),
        ("p50", times.p50),
        ("p99", times.p99),
        ("p99.9", times.p99_9),
        ("max", times.most),
        ("standard deviation", times.deviation),
        *([("clock uncertainty", times.clock_off)] if times.clock_off is not None else []),
    ]


@dataclass(frozen=True)
class TimesShown:
    """A table of times on a page."""

    id: str
    title: str
    figures: list[str]
    rows: tuple[Cells, ...]


def fill(table: Table, columns: Sequence[str], rows: Iterable[tuple[str, tuple[str, ...]]]) -> None:
    """Give a table its columns, and a row for each setting."""
    table.add_column("setting", overflow="fold")
    for column in columns:
        table.add_column(column, justify="right", no_wrap=True)
    for shown, values in rows:
        table.add_row(shown, *values)
