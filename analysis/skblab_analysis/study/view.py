# SPDX-License-Identifier: GPL-2.0-or-later
"""A published study beside ours: tables, the page's section, and sentences about them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from rich.markup import escape
from rich.table import Table

from skblab_analysis.base.tables import named, titled
from skblab_analysis.base.words import joined, number, share
from skblab_analysis.formats.summary import Figure
from skblab_analysis.study.summary import LATENCY, Beside, StudySummary, of
from skblab_analysis.view import Cells, Section, View, suffix

COLUMNS = ("published", "ours", "direction")
MEASURED = {
    "instructions": "by instructions per packet",
    "throughput": "by throughput",
    LATENCY: "by latency",
}


def _cells(row: Beside) -> tuple[str, ...]:
    ours = share(row.ours, 1, sign=True)
    return (
        share(row.published, 1, sign=True),
        ours if row.significant is not False else f"({ours})",
        "agrees" if row.agrees else "differs",
    )


def _about(summary: StudySummary) -> str:
    rate = f"{number(summary.rate)} packets/s" if summary.rate else ""
    parts = (MEASURED[summary.measure], _goal(summary), summary.traffic, rate)
    return ", ".join(filter(None, parts))


def _title(summary: StudySummary) -> str:
    return "Changes of latency" if summary.measure == LATENCY else "Changes of the rate"


def _goal(summary: StudySummary) -> str:
    return "" if summary.figure in ("path", "path and tester", "throughput") else summary.figure


def tables(found: Sequence[StudySummary], identical: Collection[str] = ()) -> list[Table]:
    """Return published changes of the rate beside ours."""
    made = []
    for summary in found:
        table = titled(
            f"{_title(summary)}: {escape(summary.study.name)} and ours ({escape(_about(summary))})"
        )
        table.add_column("setting", overflow="fold")
        for column in COLUMNS:
            table.add_column(column, justify="right", no_wrap=True)
        for row in summary.rows:
            table.add_row(named(row.name, identical), *_cells(row))
        made.append(table)
    return made


@dataclass(frozen=True)
class Shown:
    """What the section has."""

    suffix: str
    study: str
    title: str
    differs: str
    columns: list[str]
    rows: tuple[Cells, ...]
    said: str
    counted: bool
    ranked: bool
    changes: str
    times: bool


def _section(summary: StudySummary, place: int) -> Section:
    shown = Shown(
        suffix=suffix(place),
        study=summary.study.name,
        title=_about(summary),
        differs=summary.study.differs,
        columns=list(COLUMNS),
        rows=tuple(Cells(name=row.name, figures=_cells(row)) for row in summary.rows),
        said=_said(summary),
        counted=summary.measure == "instructions",
        ranked=summary.rank_correlation is not None,
        changes=_title(summary),
        times=summary.measure == LATENCY,
    )
    return Section("study/section.html.j2", shown)


def _said(summary: StudySummary) -> str:
    """Return how far the study and ours agree."""
    count = len(summary.rows)
    settings = "figures" if summary.measure == LATENCY else "settings"
    change = "change" if summary.measure == LATENCY else "change the rate"
    said = (
        f"Of {number(count)} {settings} {number(summary.agreeing)} {change} in the direction "
        f"that {summary.study.name} published, {_about(summary)}"
    )
    rank = summary.rank_correlation
    return said if rank is None else f"{said}; the rank correlation is {number(rank, 2)}"


def sentences(found: Sequence[StudySummary]) -> list[str]:
    """Return how far the study and ours agree, and where they do not."""
    said = []
    for summary in found:
        said.append(f"{_said(summary)}.")
        wrong = [row.name for row in summary.rows if not row.agrees]
        if wrong:
            said.append(f"It differs for {joined(wrong)}.")
    return said


def _figures(summary: StudySummary) -> Iterator[Figure]:
    for row in summary.rows:
        yield Figure(
            measure=summary.measure,
            figure=f"published change of {row.figure or 'the rate'}",
            part=_goal(summary),
            unit="1",
            setting=row.setting,
            traffic=summary.traffic,
            rate=summary.rate,
            value=row.published,
            blocks=0,
        )


def _unseen(found: Sequence[StudySummary]) -> list[str]:
    missing = [
        f"{_about(one)}: with the baseline there are no {joined(list(one.missing))}: what the "
        "study published of that is not compared."
        for one in found
        if one.missing
    ]
    missing += [
        f"{_about(one)}: no block with a setting and with the baseline kept the rate: "
        f"{joined(list(one.unknown))} are not compared."
        for one in found
        if one.unknown
    ]
    differs = {one.study.name: one.study.differs for one in found if one.study.differs}
    return [*missing, *(f"What differs from {name}: {text}" for name, text in differs.items())]


VIEW = View(
    tables=lambda run: tables(of(run)),
    sections=lambda run: [_section(summary, place) for place, summary in enumerate(of(run))],
    sentences=lambda run: sentences(of(run)),
    unseen=lambda run: _unseen(of(run)),
    figures=lambda run: [figure for summary in of(run) for figure in _figures(summary)],
)
