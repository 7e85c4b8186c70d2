# SPDX-License-Identifier: GPL-2.0-or-later
"""Flows of our own sender and receiver: tables, the page's section, and sentences about them.

A difference in brackets is not significant.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
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
    joined,
    number,
    quantity,
    share,
    small_share,
)
from skblab_analysis.formats.published import Published
from skblab_analysis.formats.summary import Figure
from skblab_analysis.load import Run
from skblab_analysis.traffic import times
from skblab_analysis.traffic import told as sentences_of
from skblab_analysis.traffic.rows import KINDS, MEASURE, Kind
from skblab_analysis.traffic.summary import (
    BUCKET,
    COMPARED,
    Exchange,
    FlowSummary,
    of,
)
from skblab_analysis.view import Cells, Section, View, suffix

PUBLISHED = "published"
TITLES: dict[Kind, str] = {
    "inter_arrival": "Inter-arrival times",
    "inter_arrival_error": "Inter-arrival times: how far from the interval that was asked for",
    "jitter": "Jitter",
    "delay": "One-way delay",
}
# Of how far a rate is off, in per cent: a millionth of it.
OFF_DIGITS = 4
CLOCKS = "clocks"
RATES = ("asked/s", "sent/s", "off")
RATES_TITLE = "Rates: how far from what was asked for"
OF_TIME = Wording(
    what="traffic",
    noun="",
    better=("bring", "inter-arrival times nearer to what was asked for (99th percentile, {})"),
    worse=("take", "inter-arrival times further from what was asked for (99th percentile, {})"),
    best="Biggest drop of the 99th percentile of the error of inter-arrival times",
    worst="Biggest rise of the 99th percentile of the error of inter-arrival times",
)
OF_RATE = Wording(
    what="traffic",
    noun="",
    better=("raise", "the rate by {}"),
    worse=("lower", "the rate by {}"),
    best="Biggest rise of the rate",
    worst="Biggest drop of the rate",
)


@dataclass(frozen=True)
class _Row:
    """A setting's cells, and those of the published figures below it, if there are any."""

    setting: str
    sent: str
    came: str
    unsent: str
    dropped: str
    lost: str
    difference: str
    half: str


def _columns(summary: FlowSummary, rows: Sequence[_Row]) -> tuple[list[str], list[tuple[str, ...]]]:
    """Return the columns of the packets' table, and their cells."""
    return known_columns(
        ("sent/s", "came/s", "not sent", "dropped", "lost", _compared_name(summary), INTERVAL),
        [
            (row.sent, row.came, row.unsent, row.dropped, row.lost, row.difference, row.half)
            for row in rows
        ],
    )


def _rates(summary: FlowSummary, space: str = " ") -> list[tuple[str, tuple[str, ...]]]:
    """Return rates by setting, those asked for and reached; nothing if none was asked for."""
    if all(exchange.rate is None for exchange in summary.exchanges):
        return []
    return [
        (
            exchange.setting,
            (
                number(exchange.rate, 0, space),
                number(exchange.send_rate, 1, space),
                share(exchange.off, OFF_DIGITS, sign=True),
            ),
        )
        for exchange in summary.exchanges
    ]


def _rows(summary: FlowSummary, space: str = " ") -> list[_Row]:
    return [_row(exchange, summary, space) for exchange in summary.exchanges]


def _row(exchange: Exchange, summary: FlowSummary, space: str) -> _Row:
    change = summary.change(exchange.setting)
    difference = ABSENT if change is None else difference_text(change.difference)
    losses = exchange.losses
    return _Row(
        setting=exchange.setting,
        sent=number(exchange.send_rate, 1, space),
        came=number(exchange.receive_rate, 1, space),
        unsent=small_share(losses.unsent),
        dropped=small_share(losses.dropped),
        lost=small_share(losses.lost),
        difference="baseline" if exchange.setting == summary.baseline else difference,
        half="" if change is None else half_text(change.difference),
    )


def _kinds(summary: FlowSummary) -> Iterator[Kind]:
    """Yield the kinds of time that any setting has."""
    for kind in KINDS:
        if any(kind in exchange.times for exchange in summary.exchanges):
            yield kind


def _scale(summary: FlowSummary, kind: Kind) -> Scale:
    found = [exchange.times[kind] for exchange in summary.exchanges if kind in exchange.times]
    return times.scale_of(found)


def _by_clocks(summary: FlowSummary, kind: Kind) -> bool:
    """Return whether a kind of time is by the clocks of two machines, and may be off."""
    found = (exchange.times.get(kind) for exchange in summary.exchanges)
    return any(one is not None and one.clock_off is not None for one in found)


def _figures_of(summary: FlowSummary, kind: Kind) -> tuple[str, ...]:
    """Return the columns of a kind of time."""
    return (*times.FIGURES, CLOCKS) if _by_clocks(summary, kind) else times.FIGURES


def _published(figures: Published, of_table: Scale, space: str) -> tuple[str, ...]:
    names = ("least", "p50", "p99", "p99_9", "most", "deviation")
    return tuple(of_table.text(figures.times.get(name), space) for name in names)


def _time_rows(
    summary: FlowSummary, kind: Kind, space: str = " "
) -> list[tuple[str, tuple[str, ...]]]:
    of_table = _scale(summary, kind)
    rows: list[tuple[str, tuple[str, ...]]] = []
    by_clocks = _by_clocks(summary, kind)
    for exchange in summary.exchanges:
        found = exchange.times.get(kind)
        cells = times.cells(found, of_table, space)
        if by_clocks:
            off = found.clock_off if found else None
            cells += (ABSENT if off is None else f"±{of_table.text(off, space)}",)
        rows.append((exchange.setting, cells))
        if kind == "inter_arrival" and exchange.published is not None:
            rows.append((PUBLISHED, _published(exchange.published, of_table, space)))
    return rows


def tables(summary: FlowSummary, identical: Collection[str] = ()) -> list[Table]:
    """Return a flow's packets by setting, and its times."""
    made = [_packets(summary, identical)]
    if rates := _rates(summary):
        table = titled(f"{RATES_TITLE} ({escape(summary.flow)})")
        times.fill(table, RATES, [(named(name, identical), figures) for name, figures in rates])
        made.append(table)
    for kind in _kinds(summary):
        table = titled(f"{TITLES[kind]} ({_scale(summary, kind).name}, {escape(summary.flow)})")
        rows = [
            (f"  {PUBLISHED}" if name == PUBLISHED else named(name, identical), figures)
            for name, figures in _time_rows(summary, kind)
        ]
        times.fill(table, _figures_of(summary, kind), rows)
        made.append(table)
    return made


def _packets(summary: FlowSummary, identical: Collection[str]) -> Table:
    table = titled(f"Packets ({escape(summary.flow)})")
    rows = _rows(summary)
    names, figures = _columns(summary, rows)
    cells = [
        (named(row.setting, identical), shown) for row, shown in zip(rows, figures, strict=True)
    ]
    times.fill(table, names, cells)
    caption = list(brackets(change.difference for change in summary.changes))
    table.caption = "\n".join(caption) or None
    return table


def _compared_name(summary: FlowSummary) -> str:
    return "p99 of error" if summary.by_time else "rate differs"


@dataclass(frozen=True)
class Shown:
    """What the section has of one flow."""

    suffix: str
    title: str
    columns: list[str]
    rows: tuple[Cells, ...]
    rates_title: str
    rate_columns: list[str]
    rates: tuple[Cells, ...]
    times: tuple[times.TimesShown, ...]
    by_clocks: bool
    about: str


def _section(run: Run, summary: FlowSummary, place: int) -> Section:
    rows = _rows(summary, NARROW_SPACE)
    columns, figures = _columns(summary, rows)
    about = str(run.document.plan.parameters.get(f"flow {summary.flow}", summary.flow))
    shown = Shown(
        suffix=suffix(place),
        title=summary.flow,
        columns=columns,
        rows=tuple(
            Cells(name=row.setting, figures=cells, strong=row.setting == summary.baseline)
            for row, cells in zip(rows, figures, strict=True)
        ),
        rates_title=RATES_TITLE,
        rate_columns=list(RATES),
        rates=tuple(
            Cells(name=name, figures=cells) for name, cells in _rates(summary, NARROW_SPACE)
        ),
        times=tuple(
            times.TimesShown(
                id="traffic-" + kind.replace("_", "-"),
                title=f"{TITLES[kind]}, in {_scale(summary, kind).name}",
                figures=list(_figures_of(summary, kind)),
                rows=tuple(
                    Cells(name=name, figures=cells)
                    for name, cells in _time_rows(summary, kind, NARROW_SPACE)
                ),
            )
            for kind in _kinds(summary)
        ),
        by_clocks=_by_clocks(summary, "delay"),
        about=about,
    )
    return Section("traffic/section.html.j2", shown)


def compared(found: Sequence[FlowSummary]) -> list[Comparison]:
    """Return what settings differ from the baseline."""
    return [
        Comparison(
            measure="traffic",
            figure="p99" if summary.by_time else "rate",
            part=COMPARED if summary.by_time else "",
            unit="ns" if summary.by_time else "packets/s",
            baseline=summary.baseline,
            changes=summary.changes,
            wording=OF_TIME if summary.by_time else OF_RATE,
            traffic=summary.flow,
            rate=summary.rate,
            more_is_better=not summary.by_time,
        )
        for summary in found
        if summary.changes
    ]


def headline(found: Sequence[FlowSummary]) -> str | None:
    """Return the finding in one sentence; None if there is none."""
    return told.headline(compared(found)) or next(_typical(found), None)


def _typical(found: Sequence[FlowSummary]) -> Iterator[str]:
    """Yield what the first setting of each flow comes to."""
    for summary in found:
        first = summary.exchanges[0]
        error = first.times.get(COMPARED)
        if error is not None and error.p99 is not None:
            yield (
                f"{share(0.99, 0)} of inter-arrival times are within {quantity(error.p99, 'ns')} "
                f"of what was asked for with {first.setting} ({summary.flow})"
            )
        elif first.receive_rate is not None:
            yield (
                f"{number(first.receive_rate)} packets a second come with {first.setting} "
                f"({summary.flow})"
            )


def sentences(found: Sequence[FlowSummary]) -> list[str]:
    """Return the findings."""
    said: list[str] = []
    for summary in found:
        said += [f"{sentence}." for sentence in _typical([summary])]
        what = "99th percentile of the error" if summary.by_time else "rate"
        said += sentences_of.differences(what, summary.baseline, summary.changes)
    return said


def unseen(found: Sequence[FlowSummary]) -> list[str]:
    """Return what these trials could not tell."""
    said: list[str] = []
    for summary in found:
        blocks = {one.setting: len(one.trials) for one in summary.exchanges}
        said += sentences_of.one_block(summary.flow, blocks)
        for what, settings in (
            (
                "the receiver's own socket dropped packets, so the tester was a bottleneck",
                [one.setting for one in summary.exchanges if one.dropped],
            ),
            (
                "the sender's own socket or device refused packets",
                [one.setting for one in summary.exchanges if one.unsent],
            ),
        ):
            if settings:
                said.append(f"{summary.flow}: {what}, with {joined(settings)}.")
        unknown = [one.setting for one in summary.exchanges if "delay" not in one.times]
        if unknown:
            said.append(f"{summary.flow}: one-way delays are not known, as clocks may differ.")
        said += _clocks(summary)
    return said


def _clocks(summary: FlowSummary) -> Iterator[str]:
    """Yield by how much delays may be off that are by the clocks of two machines."""
    delays = [one.times["delay"] for one in summary.exchanges if "delay" in one.times]
    off = [found.clock_off for found in delays if found.clock_off is not None]
    if off:
        yield (
            f"{summary.flow}: each one-way delay may be longer or shorter by up to "
            f"{quantity(max(off), 'ns')}, as sender and receiver have clocks of their own; a part "
            "of how much they differ may be the clocks' drift."
        )


def _figures(summary: FlowSummary) -> Iterator[Figure]:
    for exchange in summary.exchanges:
        blocks = len(exchange.trials)
        losses = exchange.losses
        values: list[tuple[str, str, str, float | None]] = [
            ("send rate", "", "packets/s", exchange.send_rate),
            ("receive rate", "", "packets/s", exchange.receive_rate),
            ("not sent", "", "1", losses.unsent),
            ("dropped", "", "1", losses.dropped),
            ("lost", "", "1", losses.lost),
        ]
        if exchange.rate is not None:
            values.append(("rate off", "", "1", exchange.off))
        for kind, found in exchange.times.items():
            values += [(name, kind, "ns", value) for name, value in times.figures(found)]
        for figure, part, unit, value in values:
            yield Figure(
                measure=MEASURE,
                figure=figure,
                part=part,
                unit=unit,
                setting=exchange.setting,
                traffic=summary.flow,
                rate=exchange.rate,
                value=None if value is None else float(value),
                blocks=blocks,
            )


def _samples(summary: FlowSummary) -> Iterator[Sampled]:
    for one in summary.exchanges:
        if blocks := one.sample():
            yield Sampled(
                measure="traffic",
                figure="p99" if one.by_time else "rate",
                part=COMPARED if one.by_time else "",
                unit="ns" if one.by_time else "packets/s",
                setting=one.setting,
                blocks=blocks,
                traffic=summary.flow,
                rate=one.rate,
                resolution=BUCKET if one.by_time else 0.0,
                relative=True,
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
