# SPDX-License-Identifier: GPL-2.0-or-later
"""TCP flows of our own client and server: tables, the page's section, and sentences about them.

A difference in brackets is not significant.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from rich.markup import escape
from rich.table import Table

from skblab_analysis.base import told
from skblab_analysis.base.comparison import Comparison, Wording
from skblab_analysis.base.differences import (
    brackets,
    difference_text,
    half_text,
)
from skblab_analysis.base.sampled import Sampled
from skblab_analysis.base.tables import INTERVAL, known_columns, named, titled
from skblab_analysis.base.words import (
    ABSENT,
    NARROW_SPACE,
    Scale,
    number,
    quantity,
    small_share,
)
from skblab_analysis.formats.summary import Figure
from skblab_analysis.load import Run
from skblab_analysis.tcp.rows import MEASURE, TIMES, Kind
from skblab_analysis.tcp.summary import COMPARED, Asked, TcpSummary, of, resolution
from skblab_analysis.traffic import times
from skblab_analysis.traffic import told as sentences_of
from skblab_analysis.traffic.rows import TcpKind
from skblab_analysis.view import Cells, Section, View, suffix

TITLES: dict[TcpKind, str] = {
    "connect": "Connecting",
    "request": "From a request until its answer was whole",
    "transaction": "From the start of a transaction until its answer was whole",
    "since_due": "From when a transaction was due until its answer was whole",
    "rtt": "Smoothed round-trip time",
}
NOUNS: Mapping[Kind, str] = {
    "connections": "connections a second",
    "requests": "requests a second",
    "stream": "bits a second",
}
OF_TIME = Wording(
    what="TCP",
    noun="",
    better=("lower", "the time until an answer was whole (99th percentile) by {}"),
    worse=("raise", "the time until an answer was whole (99th percentile) by {}"),
    best="Biggest drop of the 99th percentile of the time until an answer was whole",
    worst="Biggest rise of the 99th percentile of the time until an answer was whole",
)
OF_RATE = Wording(
    what="TCP",
    noun="",
    better=("raise", "what TCP carries by {}"),
    worse=("lower", "what TCP carries by {}"),
    best="Biggest rise of what TCP carries",
    worst="Biggest drop of what TCP carries",
)
# Of more bits than this, millions are shown.
MILLION = 1_000_000


def _scale(summary: TcpSummary) -> tuple[float, str]:
    """Return what rates are divided by in a table, and the unit that they then have."""
    if summary.unit == "1/s":
        return 1, "/s"
    return (MILLION, " Mbit/s") if _most(summary) >= MILLION else (1, " bit/s")


def _most(summary: TcpSummary) -> float:
    found = (rate for one in summary.asked for rate in (one.asked, one.reached) if rate)
    return max(found, default=0.0)


def _rate(value: float | None, step: float, space: str) -> str:
    return ABSENT if value is None else number(value / step, 1, space)


def _columns(
    summary: TcpSummary, space: str = " "
) -> tuple[list[str], list[tuple[str, tuple[str, ...]]]]:
    """Return the columns of the first table, and each setting's cells."""
    step, unit = _scale(summary)
    by = "p99 differs" if summary.by_time else "rate differs"
    again = ("sent again",) if summary.kind == "stream" else ()
    names = (f"asked{unit}", f"reached{unit}", "failed", *again, by, INTERVAL)
    rows = [_row(one, summary, step, space) for one in summary.asked]
    columns, figures = known_columns(names, rows)
    settings = [one.setting for one in summary.asked]
    return columns, list(zip(settings, figures, strict=True))


def _row(one: Asked, summary: TcpSummary, step: float, space: str) -> tuple[str, ...]:
    change = summary.change(one.setting)
    difference = ABSENT if change is None else difference_text(change.difference)
    return (
        _rate(one.asked, step, space),
        _rate(one.reached, step, space),
        small_share(one.failed),
        *((small_share(one.retransmitted),) if summary.kind == "stream" else ()),
        "baseline" if one.setting == summary.baseline else difference,
        "" if change is None else half_text(change.difference),
    )


def _kinds(summary: TcpSummary) -> Iterator[tuple[TcpKind, Scale]]:
    """Yield the kinds of time that any setting has, and the scale of their table."""
    for kind in TIMES:
        found = [one.times[kind] for one in summary.asked if kind in one.times]
        if found:
            yield kind, times.scale_of(found)


def _time_rows(
    summary: TcpSummary, kind: TcpKind, of_table: Scale, space: str = " "
) -> list[tuple[str, tuple[str, ...]]]:
    return [
        (one.setting, times.cells(one.times.get(kind), of_table, space)) for one in summary.asked
    ]


def tables(summary: TcpSummary, identical: Collection[str] = ()) -> list[Table]:
    """Return a flow's rates by setting, and its times."""
    table = titled(f"TCP {summary.kind} ({escape(summary.flow)})")
    columns, rows = _columns(summary)
    times.fill(table, columns, [(named(name, identical), cells) for name, cells in rows])
    caption = list(brackets(change.difference for change in summary.changes))
    table.caption = "\n".join(caption) or None
    made = [table]
    for kind, of_table in _kinds(summary):
        table = titled(f"{TITLES[kind]} ({of_table.name}, {escape(summary.flow)})")
        shown = _time_rows(summary, kind, of_table)
        times.fill(table, times.FIGURES, [(named(name, identical), cells) for name, cells in shown])
        made.append(table)
    return made


@dataclass(frozen=True)
class Shown:
    """What the section has of one flow."""

    suffix: str
    title: str
    about: str
    stream: bool
    columns: list[str]
    rows: tuple[Cells, ...]
    times: tuple[times.TimesShown, ...]


def _section(run: Run, summary: TcpSummary, place: int) -> Section:
    columns, rows = _columns(summary, NARROW_SPACE)
    shown = Shown(
        suffix=suffix(place),
        title=summary.flow,
        about=str(run.document.plan.parameters.get(f"flow {summary.flow}", summary.flow)),
        stream=summary.kind == "stream",
        columns=columns,
        rows=tuple(
            Cells(name=name, figures=cells, strong=name == summary.baseline) for name, cells in rows
        ),
        times=tuple(
            times.TimesShown(
                id="tcp-" + kind.replace("_", "-"),
                title=f"{TITLES[kind]}, in {of_table.name}",
                figures=list(times.FIGURES),
                rows=tuple(
                    Cells(name=name, figures=cells)
                    for name, cells in _time_rows(summary, kind, of_table, NARROW_SPACE)
                ),
            )
            for kind, of_table in _kinds(summary)
        ),
    )
    return Section("tcp/section.html.j2", shown)


def compared(found: Sequence[TcpSummary]) -> list[Comparison]:
    """Return what settings differ from the baseline."""
    return [
        Comparison(
            measure=MEASURE,
            figure=summary.figure,
            part=summary.part,
            unit=summary.compared_in,
            baseline=summary.baseline,
            changes=summary.changes,
            wording=OF_TIME if summary.by_time else OF_RATE,
            traffic=summary.flow,
            more_is_better=not summary.by_time,
        )
        for summary in found
        if summary.changes
    ]


def headline(found: Sequence[TcpSummary]) -> str | None:
    """Return the finding in one sentence; None if there is none."""
    return told.headline(compared(found)) or next(_typical(found), None)


def _typical(found: Sequence[TcpSummary]) -> Iterator[str]:
    """Yield what the first setting of each flow comes to."""
    for summary in found:
        first = summary.asked[0]
        due = first.times.get(COMPARED)
        if due is not None and due.p99 is not None:
            yield (
                f"99 of 100 answers are whole {quantity(due.p99, 'ns')} after they were due, or "
                f"earlier, with {first.setting} ({summary.flow})"
            )
        elif first.reached is not None:
            rate = _rate(first.reached, 1, NARROW_SPACE).removesuffix(".0")
            if summary.unit == "bits/s" and first.reached >= MILLION:
                rate = f"{_rate(first.reached, MILLION, NARROW_SPACE)} million"
            yield f"{rate} {NOUNS[summary.kind]} with {first.setting} ({summary.flow})"


def sentences(found: Sequence[TcpSummary]) -> list[str]:
    """Return the findings."""
    said: list[str] = []
    for summary in found:
        said += [f"{sentence}." for sentence in _typical([summary])]
        what = "99th percentile of the time since due" if summary.by_time else "rate"
        said += sentences_of.differences(what, summary.baseline, summary.changes)
    return said


def unseen(found: Sequence[TcpSummary]) -> list[str]:
    """Return what these trials could not tell."""
    said: list[str] = []
    for summary in found:
        blocks = {one.setting: len(one.rows) for one in summary.asked}
        said += sentences_of.one_block(summary.flow, blocks)
        if not summary.by_time and any(one.due for one in summary.asked):
            said.append(
                f"{summary.flow}: too few answers in a trial for a 99th percentile, so settings "
                "are compared by their rate, which was asked for: give more seconds."
            )
        for one in summary.asked:
            errors = dict.fromkeys(row.errors for row in one.rows if row.errors)
            if errors:
                said.append(
                    f"{summary.flow}: with {one.setting} some failed, and are in no time: "
                    f"{'; '.join(errors)}."
                )
    return said


def _figures(summary: TcpSummary) -> Iterator[Figure]:
    for one in summary.asked:
        values: list[tuple[str, str, str, float | None]] = [
            ("rate asked", "", summary.unit, one.asked),
            ("rate", "", summary.unit, one.reached),
            ("failed", "", "1", one.failed),
            ("retransmitted", "", "1", one.retransmitted),
        ]
        for kind, found in one.times.items():
            values += [(name, kind, "ns", value) for name, value in times.figures(found)]
        for figure, part, unit, value in values:
            yield Figure(
                measure=MEASURE,
                figure=figure,
                part=part,
                unit=unit,
                setting=one.setting,
                traffic=summary.flow,
                value=None if value is None else float(value),
                blocks=len(one.rows),
            )


def _samples(summary: TcpSummary) -> Iterator[Sampled]:
    for one in summary.asked:
        if blocks := one.sample(summary.by_time):
            yield Sampled(
                measure=MEASURE,
                figure=summary.figure,
                part=summary.part,
                unit=summary.compared_in,
                setting=one.setting,
                blocks=blocks,
                traffic=summary.flow,
                resolution=resolution(summary.by_time),
                relative=True,
                how=(("asked", str(one.asked)), ("intervals", one.intervals)),
            )


VIEW = View(
    samples=lambda run: [one for summary in of(run) for one in _samples(summary)],
    tables=lambda run: [table for summary in of(run) for table in tables(summary)],
    sections=lambda run: [_section(run, summary, place) for place, summary in enumerate(of(run))],
    headline=lambda run: headline(of(run)),
    compared=lambda run: compared(of(run)),
    sentences=lambda run: sentences(of(run)),
    unseen=lambda run: unseen(of(run)),
    figures=lambda run: [figure for summary in of(run) for figure in _figures(summary)],
)
