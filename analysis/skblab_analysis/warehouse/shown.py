# SPDX-License-Identifier: GPL-2.0-or-later
"""What `skblab runs` prints: documents, and tables as text."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

from pydantic import JsonValue
from rich import box
from rich.markup import escape
from rich.table import Table

from skblab_analysis.base.certainty import Difference
from skblab_analysis.base.tables import as_markdown
from skblab_analysis.base.words import spaced
from skblab_analysis.report.runs import Against, against, title_of, value_text
from skblab_analysis.warehouse.history import Point, Series
from skblab_analysis.warehouse.listing import Looked, Unreadable
from skblab_analysis.warehouse.printed import (
    Changed,
    FigureSeries,
    FiguresOverTime,
    ListedRun,
    PackedRuns,
    QueryAnswer,
    QueryColumn,
    RunFigure,
    RunsListing,
    UnreadableRun,
)
from skblab_analysis.warehouse.rows import RunRow
from skblab_analysis.warehouse.sql import Answer
from skblab_analysis.warehouse.store import Packed

WHEN = "%Y-%m-%d %H:%M"
NONE = "–"
# Numbers stand to the right in Markdown.
_WORDS = frozenset(("begun (UTC)", "run", "kernel", "kind", "state", "testbed", "clock"))
_MEBI, _KIBI = 2**20, 2**10


@dataclass(frozen=True)
class Shown:
    """A table as text: a title, names of columns, and rows."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def markdown(self) -> list[str]:
        """Return its lines in Markdown."""
        head = [f"**{self.title}**", ""] if self.title else []
        return [*head, *as_markdown(self.columns, self.rows, _WORDS)]

    def table(self) -> Table:
        """Return it for a terminal."""
        made = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
        for name in self.columns:
            made.add_column(name, justify="left" if name in _WORDS else "right", overflow="fold")
        for row in self.rows:
            made.add_row(*map(escape, row))
        return made


def listed(found: Sequence[Looked]) -> Shown:
    """Return one row a run."""
    columns = ("begun (UTC)", "run", "kind", "state", "kernel", "testbed", "clock")
    rows = tuple(
        (
            f"{one.row.started:{WHEN}}",
            one.row.run,
            one.row.kind,
            one.row.state,
            one.row.kernels or NONE,
            one.row.testbed or NONE,
            one.row.clock or NONE,
            spaced(one.row.trials),
            _size(one.row.bytes),
        )
        for one in found
    )
    return Shown("", (*columns, "trials", "size"), rows)


def _size(count: int) -> str:
    return f"{count / _MEBI:.1f} MiB" if count >= _MEBI else f"{count / _KIBI:.0f} KiB"


def listing(found: Sequence[Looked], bad: Iterable[Unreadable]) -> RunsListing:
    """Return the document of runs."""
    return RunsListing(runs=tuple(map(_listed, found)), unreadable=unreadable(bad))


def _listed(one: Looked) -> ListedRun:
    row = one.row
    return ListedRun(
        folder=str(one.folder.resolve()),
        name=row.name,
        started=aware(row.started),
        finished=None if row.finished is None else aware(row.finished),
        kind=row.kind,
        state=row.state,
        kernels=tuple(filter(None, row.kernels.split(", "))),
        testbed=row.testbed,
        clock=row.clock,
        trials=row.trials,
        invalid=row.invalid,
        bytes=row.bytes,
        synthetic=row.synthetic,
        question=row.question,
        settings=one.settings,
    )


def listing_csv(found: Sequence[Looked]) -> str:
    """Return one line a run, with a head."""
    names = [name for name in RunRow.model_fields if name not in ("run_id", "content")]
    return as_csv(names, [[getattr(one.row, name) for name in names] for one in found])


def unreadable(found: Iterable[Unreadable]) -> tuple[UnreadableRun, ...]:
    """Return folders that cannot be read."""
    return tuple(UnreadableRun(folder=str(one.folder), why=one.why) for one in found)


def packed(done: Packed) -> PackedRuns:
    """Return the document of a pack."""
    return PackedRuns(
        store=str(done.store.resolve()),
        runs=done.document.runs,
        files=done.document.files,
        added=tuple(map(str, done.added)),
        replaced=tuple(map(str, done.replaced)),
        unchanged=tuple(map(str, done.unchanged)),
        kept=tuple(map(str, done.kept)),
        unreadable=unreadable(done.unreadable),
    )


def over_time(series: Series) -> Shown:
    """Return one row a run."""
    columns = ("begun (UTC)", "run", "kernel", "value", "95 % interval")
    rows = tuple(_cells(point) for point in series.points)
    return Shown(title(series), (*columns, "against the one before", "against the first"), rows)


def title(series: Series) -> str:
    """Return what a series is of."""
    of = series.of
    what = title_of(series.points[0].sample)
    named = [f"workload {of.workload}" if of.workload else "", f"setting {of.setting}"]
    return "; ".join(filter(None, (what, *named)))


def _cells(point: Point) -> tuple[str, ...]:
    row, unit = point.row, point.row.unit
    assert row.value is not None
    ends = [value_text(end, unit) for end in (row.low, row.high) if end is not None]
    return (
        f"{row.started:{WHEN}}",
        row.run,
        row.kernel or NONE,
        value_text(row.value, unit),
        f"[{', '.join(ends)}]" if ends else NONE,
        *(
            (Against() if point.first is None else against(found)).text
            for found in (point.previous, point.first)
        ),
    )


def figures(found: Sequence[Series], bad: Iterable[Unreadable]) -> FiguresOverTime:
    """Return the document of figures over time."""
    return FiguresOverTime(series=tuple(map(_series, found)), unreadable=unreadable(bad))


def _series(series: Series) -> FigureSeries:
    of = series.of
    facts: Mapping[str, dict[str, str]] = {
        name: json.loads(getattr(of, name)) for name in ("place", "how", "sets")
    }
    return FigureSeries(
        measure=of.measure,
        figure=of.figure,
        part=of.part,
        unit=of.unit,
        clock=of.clock,
        workload=of.workload,
        setting=of.setting,
        traffic=of.traffic,
        rate=of.rate,
        apart=series.apart,
        runs=tuple(map(_figure, series.points)),
        **facts,
    )


def _figure(point: Point) -> RunFigure:
    row = point.row
    assert row.value is not None
    return RunFigure(
        run=row.run,
        run_id=row.run_id,
        started=aware(row.started),
        kernel=row.kernel,
        value=row.value,
        low=row.low,
        high=row.high,
        blocks=row.count,
        previous=_changed(point.previous),
        first=_changed(point.first),
    )


def _changed(found: Difference | None) -> Changed | None:
    if found is None:
        return None
    return Changed(
        effect=found.effect * found.scale,
        low=found.in_unit(found.low),
        high=found.in_unit(found.high),
        share=found.share if found.relative or found.of else None,
        significant=found.significant,
    )


_OF_SERIES = (
    *("measure", "figure", "part", "unit", "clock", "workload", "setting", "traffic", "rate"),
)
_CHANGES = ("effect", "low", "high", "share", "significant")


def figures_csv(found: Sequence[Series]) -> str:
    """Return one line a run of each series, with a head; series are numbered from 1."""
    document = figures(found, ())
    of_run = ("run", "run_id", "started", "kernel", "value", "low", "high", "blocks")
    changes = [f"{side}_{name}" for side in ("previous", "first") for name in _CHANGES]
    return as_csv(
        ["series", *_OF_SERIES, *of_run, *changes],
        [
            [
                number,
                *(getattr(series, name) for name in _OF_SERIES),
                *(getattr(one, name) for name in of_run),
                *(
                    None if side is None else getattr(side, name)
                    for side in (one.previous, one.first)
                    for name in _CHANGES
                ),
            ]
            for number, series in enumerate(document.series, 1)
            for one in series.runs
        ],
    )


def answered(found: Answer) -> QueryAnswer:
    """Return the document of an answer."""
    return QueryAnswer(
        columns=tuple(
            QueryColumn(name=name, type=kind)
            for name, kind in zip(found.columns, found.types, strict=True)
        ),
        rows=tuple(tuple(map(plain, row)) for row in found.rows),
    )


def answer_table(found: Answer) -> Table:
    """Return an answer for a terminal: numbers to the right."""
    made = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for place, name in enumerate(found.columns):
        values = [row[place] for row in found.rows]
        right = any(isinstance(value, int | float | Decimal) for value in values)
        made.add_column(escape(name), justify="right" if right else "left", overflow="fold")
    for row in found.rows:
        made.add_row(*(escape(NONE if value is None else _text(value)) for value in row))
    return made


def as_csv(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return rows as CSV with a head; what is not there is empty, times are UTC."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(["" if value is None else _text(value) for value in row] for row in rows)
    return text.getvalue().removesuffix("\n")


def _text(value: Any) -> str:  # noqa: ANN401 (whatever a query is answered with)
    if isinstance(value, bool):
        return "true" if value else "false"
    made = plain(value)
    if isinstance(made, dict | list):
        return json.dumps(made, ensure_ascii=False)
    return str(value if made is None else made)


def plain(value: Any) -> JsonValue:  # noqa: ANN401 (whatever a query is answered with)
    """Return a value of a database as JSON has it: a time by ISO 8601, what is no number null."""
    if isinstance(value, dict):
        return {str(key): plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    if isinstance(value, Decimal):
        value = int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    return value.hex() if isinstance(value, bytes) else str(value)


def aware(moment: datetime) -> datetime:
    """Return a time of a table with its zone, UTC."""
    return moment.replace(tzinfo=UTC)
