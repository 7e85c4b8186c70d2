# SPDX-License-Identifier: GPL-2.0-or-later
"""What makes packets late in a sweep: tables, the page's section, and sentences about them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from rich.markup import escape
from rich.table import Table

from skblab_analysis.base.tables import named, titled
from skblab_analysis.base.words import (
    ABSENT,
    NARROW_SPACE,
    at_rate,
    joined,
    number,
    quantity,
    share,
    small_share,
)
from skblab_analysis.formats.summary import Figure
from skblab_analysis.late.summary import UNKNOWN, Cause, LateSummary, Setting, of
from skblab_analysis.view import Cells, Section, View, suffix

# Causes of a setting that a table has; what is left is their sum.
MOST = 5
OTHERS = "others"
COUNTED = ("forwarded", "late in the router", "late at the tester", "also in the router")
CAUSES = ("made late in", "which ran longest", "packets", "of recorded", "longest")


def _limit(summary: LateSummary) -> str:
    row = f", {summary.in_a_row} in a row" if summary.in_a_row > 1 else ""
    return f"{quantity(summary.threshold, 'ns')} or more{row}"


def _counted(setting: Setting, space: str = " ") -> tuple[str, ...]:
    return (
        number(setting.sum("forwarded"), 0, space),
        small_share(setting.share("late")),
        small_share(setting.share("tester_late")),
        ABSENT if setting.explained is None else share(setting.explained, 0),
    )


def _causes(setting: Setting) -> list[Cause]:
    """Return the most frequent causes, and the others in one."""
    shown, rest = list(setting.causes[:MOST]), setting.causes[MOST:]
    if rest:
        packets, longest = sum(one.packets for one in rest), max(one.longest for one in rest)
        shown.append(Cause(OTHERS, "", packets, longest))
    return shown


def _cause(cause: Cause, setting: Setting, space: str = " ") -> tuple[str, ...]:
    return (
        cause.layer,
        cause.ran,
        number(cause.packets, 0, space),
        share(cause.packets / setting.sum("recorded"), 0),
        quantity(cause.longest, "ns"),
    )


def tables(summary: LateSummary, identical: Collection[str] = ()) -> list[Table]:
    """Return how many packets were late by setting, and what made them so."""
    counted = titled(f"Late packets ({_limit(summary)}; {escape(at_rate(summary))})")
    counted.add_column("setting", overflow="fold")
    for name in COUNTED:
        counted.add_column(name, justify="right", overflow="fold")
    made = titled(f"What makes packets late here ({escape(at_rate(summary))})")
    made.add_column("setting", overflow="fold")
    for name in CAUSES[:2]:
        made.add_column(name, overflow="fold")
    for name in CAUSES[2:]:
        made.add_column(name, justify="right", no_wrap=True)
    for setting in summary.settings:
        shown = named(setting.name, identical)
        counted.add_row(shown, *_counted(setting))
        for place, cause in enumerate(_causes(setting)):
            made.add_row("" if place else shown, *map(escape, _cause(cause, setting)))
    return [counted, made] if any(setting.causes for setting in summary.settings) else [counted]


@dataclass(frozen=True)
class Shown:
    """What the section has of one traffic at one rate."""

    suffix: str
    title: str
    limit: str
    counted: list[str]
    settings: tuple[Cells, ...]
    columns: list[str]
    causes: tuple[Cells, ...]


def _section(summary: LateSummary, place: int) -> Section:
    shown = Shown(
        suffix=suffix(place),
        title=at_rate(summary),
        limit=_limit(summary),
        counted=list(COUNTED),
        settings=tuple(
            Cells(setting.name, _counted(setting, NARROW_SPACE)) for setting in summary.settings
        ),
        columns=list(CAUSES),
        causes=tuple(
            Cells(setting.name, _cause(cause, setting, NARROW_SPACE))
            for setting in summary.settings
            for cause in _causes(setting)
        ),
    )
    return Section("late/section.html.j2", shown)


def sentences(found: Sequence[LateSummary]) -> list[str]:
    """Return the findings."""
    return [sentence for summary in found for sentence in _sentences(summary)]


def _sentences(summary: LateSummary) -> Iterator[str]:
    for setting in summary.settings:
        if not setting.causes:
            continue
        first = setting.causes[0]
        ran = f", and what ran longest meanwhile was {first.ran}" if first.ran != UNKNOWN else ""
        part = share(first.packets / setting.sum("recorded"), 0)
        yield (
            f"{at_rate(summary)}: with {setting.name}, {part} of the recorded late packets were "
            f"late in {first.layer}{ran}."
        )


def headline(found: Sequence[LateSummary]) -> str | None:
    """Return what made the first setting's packets late; None if nothing is known of any."""
    return next((sentence.removesuffix(".") for sentence in sentences(found)), None)


def unseen(found: Sequence[LateSummary]) -> list[str]:
    """Return what these trials could not tell."""
    said = []
    for summary in found:
        cut = [one.name for one in summary.settings if one.sum("not_recorded")]
        if cut:
            said.append(
                f"{at_rate(summary)}: with {joined(cut)} there were more late packets than the "
                "probe records: causes are of those recorded."
            )
        freed = [
            one.name for one in summary.settings if 2 * one.layers["done"] > one.sum("recorded")
        ]
        if freed:
            said.append(
                f"{at_rate(summary)}: with {joined(freed)} most were late in done: the driver "
                "freed them late, after they had left. A larger late_us leaves these out."
            )
    return said


def _figures(summary: LateSummary) -> Iterator[Figure]:
    for setting in summary.settings:
        for part, column in (("router", "late"), ("tester", "tester_late")):
            yield Figure(
                measure="layers",
                figure="late",
                part=part,
                unit="1",
                setting=setting.name,
                traffic=summary.traffic,
                rate=summary.rate,
                value=setting.share(column),
                blocks=len(setting.trials),
            )


VIEW = View(
    tables=lambda run: [table for found in of(run) for table in tables(found, run.identical)],
    sections=lambda run: [_section(found, place) for place, found in enumerate(of(run))],
    headline=lambda run: headline(of(run)),
    sentences=lambda run: sentences(of(run)),
    unseen=lambda run: unseen(of(run)),
    figures=lambda run: [figure for found in of(run) for figure in _figures(found)],
)
