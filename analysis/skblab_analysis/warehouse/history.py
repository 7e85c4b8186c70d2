# SPDX-License-Identifier: GPL-2.0-or-later
"""Figures over time: of one setting in run after run, each beside the one before and the first.

Runs are compared by the rules of a page of several runs: figures are in one series if they have the
same clock and unit, were measured at the same place in the same way, and their settings set the
same. Whether two differ is decided by base/certainty.py, blocks of two runs being two samples.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from skblab_analysis.base.certainty import Difference
from skblab_analysis.base.sampled import Sampled, difference
from skblab_analysis.report import places
from skblab_analysis.warehouse import sql
from skblab_analysis.warehouse.rows import BlockRow, FigureRow

if TYPE_CHECKING:
    import duckdb

# Columns that a word may name, in the order in which one without a match is said.
WORDS = ("run", "measure", "figure", "part", "workload", "setting", "traffic", "kernel")
# A word is the beginning of these: of a release nobody types the rest.
BEGINS = ("kernel", "run")
NOT_SET = "not set"
_PATTERN = frozenset("*?[")
# What a series is of.
_SERIES = (
    *("measure", "figure", "part", "unit", "clock", "workload", "setting", "traffic", "rate"),
    *("place", "how", "sets"),
)


@dataclass(frozen=True)
class Wanted:
    """Which figures: a word by column, and from when until when runs began."""

    words: Mapping[str, str] = field(default_factory=dict)
    since: datetime | None = None
    until: datetime | None = None


@dataclass(frozen=True)
class Point:
    """A figure in one run; `previous` and `first` are what it differs from these."""

    row: FigureRow
    sample: Sampled
    previous: Difference | None = None
    first: Difference | None = None


@dataclass(frozen=True)
class Series:
    """One figure of one setting over time; `apart` says how it differs from the one before it.

    That is of series which are the same by name, and not measured in the same way.
    """

    points: tuple[Point, ...]
    apart: tuple[str, ...] = ()

    @property
    def of(self) -> FigureRow:
        """A row that names it."""
        return self.points[0].row


@dataclass(frozen=True)
class Nothing:
    """A word that no figure has, and what there is of its kind."""

    column: str
    word: str
    there: tuple[str, ...]


def matches(column: str, word: str, value: str) -> bool:
    """Whether a word means a value: it is the same, a pattern, or of BEGINS its beginning."""
    if value == word or (column in BEGINS and value.startswith(word)):
        return True
    return not _PATTERN.isdisjoint(word) and fnmatchcase(value, word)


def of_rows(
    figures: Iterable[FigureRow], blocks: Iterable[BlockRow], wanted: Wanted
) -> list[Series] | Nothing:
    """Return the series of figures that are wanted, of rows that were read from run folders."""
    left = [row for row in figures if _in_time(row.started, wanted)]
    for column in WORDS:
        if (word := wanted.words.get(column)) is not None:
            there = dict.fromkeys(getattr(row, column) for row in left)
            kept = {value for value in there if matches(column, word, value)}
            if not kept:
                return Nothing(column, word, tuple(sorted(there)))
            left = [row for row in left if getattr(row, column) in kept]
    return _series(left, blocks)


def of_store(store: Path, wanted: Wanted) -> list[Series] | Nothing:
    """Return the series of figures that are wanted, of a store; errors as of `sql.connected`."""
    with sql.connected(store) as connection:
        where, values = _times(wanted)
        for column in WORDS:
            if (word := wanted.words.get(column)) is not None:
                there = [
                    str(row[column])
                    for row in sql.rows(
                        connection,
                        f"SELECT DISTINCT {column} FROM figures WHERE {where} ORDER BY 1",
                        values,
                    )
                ]
                kept = [value for value in there if matches(column, word, value)]
                if not kept:
                    return Nothing(column, word, tuple(there))
                where += f" AND {column} IN ({', '.join('?' * len(kept))})"
                values = [*values, *kept]
        figures = [
            FigureRow.model_validate(row) for row in _all(connection, "figures", where, values)
        ]
        blocks = [BlockRow.model_validate(row) for row in _all(connection, "blocks", where, values)]
        return _series(figures, blocks)


def _all(
    connection: duckdb.DuckDBPyConnection, view: str, where: str, values: Sequence[object]
) -> list[dict[str, Any]]:
    return sql.rows(connection, f"SELECT * FROM {view} WHERE {where}", values)


def _times(wanted: Wanted) -> tuple[str, list[object]]:
    where, values = "true", cast(list[object], [])
    if wanted.since is not None:
        where, values = f"{where} AND started >= ?", [*values, wanted.since]
    if wanted.until is not None:
        where, values = f"{where} AND started < ?", [*values, wanted.until]
    return where, values


def _in_time(started: datetime, wanted: Wanted) -> bool:
    return (wanted.since is None or started >= wanted.since) and (
        wanted.until is None or started < wanted.until
    )


def _series(figures: Sequence[FigureRow], blocks: Iterable[BlockRow]) -> list[Series]:
    of_blocks: dict[tuple[object, ...], dict[int, float]] = {}
    for block in blocks:
        of_blocks.setdefault(block.key, {})[block.block] = block.value
    found: dict[tuple[object, ...], list[FigureRow]] = {}
    for row in figures:
        if row.value is not None:
            found.setdefault(tuple(getattr(row, name) for name in _SERIES), []).append(row)
    made: list[Series] = []
    # The same by name are beside each other, the earlier first.
    for rows in sorted(found.values(), key=_place):
        ordered = sorted(rows, key=lambda row: (row.started, row.run, row.run_id))
        before = made[-1].of if made else None
        apart = tuple(_apart(before, ordered[0])) if before else ()
        made.append(
            Series(tuple(_points([(row, sampled(row, of_blocks)) for row in ordered])), apart)
        )
    return made


def _place(rows: Sequence[FigureRow]) -> tuple[object, ...]:
    one = rows[0]
    named = (one.measure, one.figure, one.part, one.workload, one.traffic, one.rate or 0)
    return (*named, one.setting, one.unit, min(row.started for row in rows))


def _points(samples: Sequence[tuple[FigureRow, Sampled]]) -> Iterator[Point]:
    before: Sampled | None = None
    _, first = samples[0]
    for row, sample in samples:
        if before is None:
            yield Point(row, sample)
        else:
            yield Point(row, sample, difference(before, sample), difference(first, sample))
        before = sample


def sampled(row: FigureRow, blocks: Mapping[tuple[object, ...], Mapping[int, float]]) -> Sampled:
    """Return a figure with its blocks; one that has none is a single value."""
    assert row.value is not None
    return Sampled(
        measure=cast(Any, row.measure),
        figure=row.figure,
        unit=cast(Any, row.unit),
        setting=row.setting,
        blocks=blocks.get(row.key, {0: row.value}),
        part=row.part,
        traffic=row.traffic,
        rate=row.rate,
        resolution=row.resolution,
        relative=row.relative,
        partial=row.partial,
    )


def _apart(before: FigureRow, row: FigureRow) -> Iterator[str]:
    """Yield in what a series differs from one that is the same by name."""
    named = ("measure", "figure", "part", "unit", "workload", "setting", "traffic", "rate")
    if all(getattr(before, name) == getattr(row, name) for name in named):
        for column in ("place", "how"):
            ours, theirs = (json.loads(getattr(one, column)) for one in (before, row))
            yield from places.differ(ours, theirs)
        ours, theirs = (json.loads(one.sets) for one in (before, row))
        for knob in dict.fromkeys((*ours, *theirs)):
            if ours.get(knob) != theirs.get(knob):
                yield f"{knob}: {theirs.get(knob, NOT_SET)} instead of {ours.get(knob, NOT_SET)}"
