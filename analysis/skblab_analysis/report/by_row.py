# SPDX-License-Identifier: GPL-2.0-or-later
"""Figures of one measure below each other, such as a packet's layers, and runs beside each other.

So a reader sees in which of them two runs differ: a table for each figure would hide it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from skblab_analysis.base.words import ABSENT, joined, quantity
from skblab_analysis.report.runs import TIMES, Against, Compared, Line

# Rows that a sentence names; and that a table has, such as functions: those that differ most.
MOST_NAMED = 3
MOST_ROWS = 20
NONE = Against()


@dataclass(frozen=True)
class Cell:
    """A figure of one run, and what it differs from the first run that has it."""

    mean: str = ABSENT
    half: str = ""
    differs: Against = NONE


@dataclass(frozen=True)
class Row:
    """A figure by its name: of each run, in the order of the columns."""

    name: str
    cells: tuple[Cell, ...]


@dataclass(frozen=True)
class Group:
    """A setting's figures, and in words in which of them later runs differ from the first."""

    setting: str
    rows: tuple[Row, ...]
    said: tuple[str, ...]


@dataclass(frozen=True)
class ByRow:
    """All figures of a measure, of one traffic at one rate; `runs` are the columns.

    `left_out` rows differ by less than those that are there.
    """

    title: str
    runs: tuple[str, ...]
    groups: tuple[Group, ...]
    only: tuple[str, ...]
    left_out: int = 0


def of(rows: Sequence[Compared]) -> list[ByRow]:
    """Return a table of each measure, traffic and rate, of runs of one place, as they come."""
    found: dict[tuple[object, ...], list[Compared]] = {}
    for row in rows:
        found.setdefault((row.measure, row.place), []).append(row)
    return [_table(same[0].measure, same) for same in found.values()]


def _table(measure: str, every_row: Sequence[Compared]) -> ByRow:
    most = sorted(every_row, key=lambda row: -_differs(row))[:MOST_ROWS]
    # Those are of one unit; of others it is not known which differ most.
    same = [row for row in every_row if row in most or not row.many]
    every = [line for row in same for shared in row.settings for line in shared.lines]
    runs = dict(sorted({line.number: line.run for line in every}.items()))
    # By setting, its rows: one name may be of two, of different states, of other runs.
    found: dict[tuple[str, object], dict[str, dict[int, Line]]] = {}
    for row in same:
        for shared in row.settings:
            of_setting = found.setdefault((shared.setting, shared.state), {})
            of_setting.setdefault(row.row, {}).update((line.number, line) for line in shared.lines)
    times = {row.row for row in same if row.unit in TIMES}
    groups = [
        Group(
            setting,
            tuple(
                Row(name, tuple(_cell(lines.get(number)) for number in runs))
                for name, lines in by_row.items()
            ),
            tuple(_said(setting, by_row, runs, times)),
        )
        for (setting, _), by_row in found.items()
    ]
    only = dict.fromkeys(said for row in same for said in row.only)
    left_out = len(every_row) - len(same)
    return ByRow(measure, tuple(runs.values()), tuple(groups), tuple(only), left_out)


def _differs(row: Compared) -> float:
    """Return the largest difference of a row's settings from the first run."""
    lines = (line for shared in row.settings for line in shared.lines)
    return max((abs(line.differs.effect) for line in lines if line.differs), default=0.0)


def _cell(line: Line | None) -> Cell:
    return Cell() if line is None else Cell(line.mean, line.half, line.from_first)


def _said(
    setting: str,
    by_row: Mapping[str, Mapping[int, Line]],
    runs: Mapping[int, str],
    times: set[str],
) -> list[str]:
    """Return in which rows of times each later run differs most, of those that are significant."""
    said = []
    for number, run in list(runs.items())[1:]:
        changes = [
            (found.effect, name)
            for name, lines in by_row.items()
            if name in times and number in lines
            if (found := lines[number].differs) is not None and found.significant
        ]
        most = sorted(changes, key=lambda change: -abs(change[0]))[:MOST_NAMED]
        if most:
            named = [
                f"{name} {'+' if effect > 0 else ''}{quantity(effect, 'ns')}"
                for effect, name in most
            ]
            said.append(f"{setting}, {run}: it differs most in {joined(named)}.")
    return said
