# SPDX-License-Identifier: GPL-2.0-or-later
"""Events per packet by setting: a table for each collector, the page's section, what is missing."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from rich.table import Table

from skblab_analysis.base.bars import Bar, bars
from skblab_analysis.base.comparison import Unit
from skblab_analysis.base.offered import KEPT, behind
from skblab_analysis.base.pictures import Picture
from skblab_analysis.base.sampled import Sampled
from skblab_analysis.base.tables import named, titled
from skblab_analysis.base.words import (
    ABSENT,
    NARROW_SPACE,
    at_rate,
    count_decimals,
    counted,
    joined,
    number,
    quantity,
    share,
)
from skblab_analysis.events.summary import PERF, Counts, EventsSummary, Figure, of
from skblab_analysis.formats import summary as scripts
from skblab_analysis.view import Cells, Section, View, suffix

ESTIMATED = "~"
# Those that a script is given, by the unit in which a figure is recorded.
UNITS: Mapping[str, Unit] = {
    "": "count/packet",
    "count": "count/packet",
    "bytes": "bytes/packet",
    "ns": "ns/packet",
    "J": "J/packet",
    "bytes/s": "bytes/s",
    "count/s": "count/s",
    "share": "1",
    "ratio": "1",
}
# Quotients of what was counted together: name, group of perf, of which event, to which.
RATIOS = (
    ("instructions per cycle", "cycles", "instructions", "cycles"),
    ("branches mispredicted", "cycles", "branch-misses", "branches"),
    ("L1d loads missed", "l1", "L1-dcache-load-misses", "L1-dcache-loads"),
    ("LLC loads missed", "llc", "LLC-load-misses", "LLC-loads"),
    ("dTLB loads missed", "tlb", "dTLB-load-misses", "dTLB-loads"),
    # Top-down, level 1: what a processor's slots were for.
    ("retiring", "topdown", "topdown-retiring", "slots"),
    ("bad speculation", "topdown", "topdown-bad-spec", "slots"),
    ("waits for code", "topdown", "topdown-fe-bound", "slots"),
    ("waits for data or units", "topdown", "topdown-be-bound", "slots"),
)
PER_CYCLE = RATIOS[0][0]
# Of the tools of PCM, what tables show of the whole system; the rest is in events.parquet.
SHOWN = {
    "pcm": ("INST", "IPC", "L2MISS", "L3MISS", "L2HIT", "L3HIT", "READ", "WRITE", "LOCAL"),
    "pcm-memory": ("Read", "Write", "Memory"),
    "pcm-numa": (
        *("Instructions", "Cycles", "IPC", "Local DRAM accesses", "Remote DRAM accesses"),
    ),
}
# Where a processor's slots go, top-down, level 1.
TOP_DOWN = ("Frontend_bound(%)", "Bad_Speculation(%)", "Backend_Bound(%)", "Retiring(%)")
# Of links between sockets: the traffic of all, and how busy the busiest is.
LINKS = (("in", "dataIn"), ("out", "trafficOut"))


@dataclass(frozen=True)
class Column:
    """A column of a table: its name, and what a setting has in it, by the space in numbers."""

    name: str
    cell: Callable[[Counts, str], str]


@dataclass(frozen=True)
class Panel:
    """A table: a collector, or a part of what it counts."""

    title: str
    columns: tuple[Column, ...]
    estimated: bool = False


def panels(summary: EventsSummary) -> Iterator[Panel]:
    """Yield the tables of all collectors."""
    for collector in summary.collectors:
        if collector.startswith(PERF):
            yield from _perf(summary, collector)
        else:
            yield from _pcm(summary, collector)


def _perf(summary: EventsSummary, collector: str) -> Iterator[Panel]:
    names = [name for name in summary.names(collector) if _known(summary, collector, name)]
    if not names:
        return
    columns = [_column(collector, name) for name in names]
    group = collector.removeprefix(PERF)
    columns += [
        _ratio(title, collector, above, below)
        for title, of_group, above, below in RATIOS
        if of_group == group and {above, below} <= {*names}
    ]
    figures = [counts.of(collector, name) for counts in summary.settings for name in names]
    estimated = any(figure.estimated for figure in figures if figure)
    each = all(figure.each for figure in figures if figure)
    yield Panel(
        f"perf, {group}, per packet{'' if each else ', or a mean'}", tuple(columns), estimated
    )


def _pcm(summary: EventsSummary, collector: str) -> Iterator[Panel]:
    parts = [("per packet, or a mean", SHOWN.get(collector, ()))]
    parts += [("what waits: top-down, level 1, of all slots", TOP_DOWN)]
    for title, names in parts:
        known = [name for name in names if _known(summary, collector, name)]
        if known:
            columns = tuple(_column(collector, name) for name in known)
            yield Panel(f"{collector}, {title}", columns)
    if summary.names(collector, "link"):
        columns = tuple(
            column
            for title, name in LINKS
            for column in (
                Column(f"{title}, bytes a packet", _links(collector, name)),
                Column(f"{title}, busiest", _busiest(collector, f"{name} (percent)")),
            )
        )
        yield Panel(f"{collector}, links between sockets", columns)


def _known(summary: EventsSummary, collector: str, name: str) -> bool:
    figures = (counts.of(collector, name) for counts in summary.settings)
    return any(figure is not None and figure.value is not None for figure in figures)


def _column(collector: str, name: str) -> Column:
    def cell(counts: Counts, space: str) -> str:
        return _text(counts.of(collector, name), space)

    return Column(name, cell)


def _ratio(title: str, collector: str, above: str, below: str) -> Column:
    def cell(counts: Counts, space: str) -> str:
        found = counts.ratio(collector, above, below)
        return number(found, 2, space) if title == PER_CYCLE else share(found)

    return Column(title, cell)


def _links(collector: str, name: str) -> Callable[[Counts, str], str]:
    def cell(counts: Counts, space: str) -> str:
        values = _of_links(counts, collector, name)
        # What one of them does not tell is in no sum.
        whole = None if None in values else sum(filter(None, values))
        return number(whole, 1, space) if values else ABSENT

    return cell


def _busiest(collector: str, name: str) -> Callable[[Counts, str], str]:
    def cell(counts: Counts, space: str) -> str:
        known = [value for value in _of_links(counts, collector, name) if value is not None]
        return share(max(known, default=None))

    return cell


def _of_links(counts: Counts, collector: str, name: str) -> list[float | None]:
    return [
        figure.value
        for place, figure in counts.figures.items()
        if (place.collector, place.scope, place.name) == (collector, "link", name)
    ]


def _text(figure: Figure | None, space: str) -> str:
    """Return a figure: per packet, or a mean in its unit."""
    if figure is None or figure.value is None:
        return ABSENT
    mark = ESTIMATED if figure.estimated else ""
    if figure.unit == "share":
        return mark + share(figure.value)
    if figure.unit == "ns":
        return mark + quantity(figure.value, "ns", space)
    if figure.unit.endswith("/s"):
        return mark + f"{number(figure.value / 1e6, 1, space)}{space}M{figure.unit}"
    return mark + number(figure.value, count_decimals(figure.value), space)


def tables(summary: EventsSummary, identical: Collection[str] = ()) -> list[Table]:
    """Return a table for each collector, a row for each setting."""
    found = []
    for panel in panels(summary):
        table = titled(f"{panel.title} ({at_rate(summary)})")
        table.add_column("setting", overflow="fold")
        for column in panel.columns:
            table.add_column(column.name, justify="right")
        for counts in summary.settings:
            cells = (column.cell(counts, " ") for column in panel.columns)
            table.add_row(named(counts.setting, identical), *cells)
        if panel.estimated:
            table.caption = MULTIPLEXED
        found.append(table)
    return found


MULTIPLEXED = (
    f"{ESTIMATED}: the processor had too few counters and counted it for a part of the time, which "
    "perf scales up; no ratio is made of it"
)


@dataclass(frozen=True)
class ShownPanel:
    """A table of the page."""

    anchor: str
    title: str
    columns: list[str]
    rows: tuple[Cells, ...]
    note: str


@dataclass(frozen=True)
class Shown:
    """What the section has of one traffic at one rate."""

    suffix: str
    title: str
    panels: tuple[ShownPanel, ...]
    pictures: tuple[tuple[str, str], ...]


def _section(summary: EventsSummary, place: int) -> Section:
    found = tuple(
        ShownPanel(
            anchor=f"events-{number_}{suffix(place)}",
            title=panel.title,
            columns=["setting", *(column.name for column in panel.columns)],
            rows=tuple(
                Cells(
                    name=counts.setting,
                    figures=tuple(column.cell(counts, NARROW_SPACE) for column in panel.columns),
                    strong=counts.setting == summary.baseline,
                )
                for counts in summary.settings
            ),
            note=f"{MULTIPLEXED}." if panel.estimated else "",
        )
        for number_, panel in enumerate(panels(summary))
    )
    pictures = tuple(_pictures(summary, suffix(place)))
    named_ = tuple((picture.name, picture.title) for picture in pictures)
    shown = Shown(suffix(place), at_rate(summary), found, named_)
    return Section("events/section.html.j2", shown, pictures)


# Pictures: name, title, what they are of, collector, event.
_DRAWN = (
    ("cycles", "Cycles of a packet", "Cycles per packet", "perf: cycles", "cycles"),
    (
        "llc",
        "Loads that the last level of cache missed",
        "Misses per packet",
        "perf: llc",
        "LLC-load-misses",
    ),
    ("l3", "Misses of the third level", "Misses per packet", "pcm", "L3MISS"),
)


def _pictures(summary: EventsSummary, of_it: str) -> Iterator[Picture]:
    """Yield cycles and misses of a packet by setting, and what goes between sockets."""
    for name, title, axis, collector, event in _DRAWN:
        figures = [(counts, counts.of(collector, event)) for counts in summary.settings]
        found = [
            Bar(counts.setting, figure.value, _text(figure, " "))
            for counts, figure in figures
            if figure is not None and figure.value is not None
        ]
        if found:
            yield bars(f"events-{name}{of_it}", title, axis, found, compared=False)
    for title, name in LINKS:
        sums = [
            (counts.setting, values)
            for counts in summary.settings
            if (values := _of_links(counts, "pcm", name)) and None not in values
        ]
        found = [
            Bar(setting, whole := sum(filter(None, values)), number(whole, 1))
            for setting, values in sums
        ]
        if found:
            what = f"Links between sockets, {title}"
            yield bars(f"events-{name}{of_it}", what, "Bytes per packet", found, compared=False)


def sentences(found: Sequence[EventsSummary]) -> list[str]:
    """Return what a packet takes with the first setting, of events that most ask for."""
    return [f"{said}." for summary in found for said in _told(summary)]


def _told(summary: EventsSummary) -> Iterator[str]:
    first = summary.settings[0]
    cycles, misses = first.of("perf: cycles", "cycles"), first.of("perf: llc", "LLC-load-misses")
    per_cycle = first.ratio("perf: cycles", "instructions", "cycles")
    parts = []
    if cycles is not None and cycles.value is not None and not cycles.estimated:
        parts.append(f"{number(cycles.value, 0, NARROW_SPACE)} cycles")
    if per_cycle is not None:
        parts.append(f"{number(per_cycle, 2)} instructions per cycle")
    if misses is not None and misses.value is not None and not misses.estimated:
        parts.append(f"{number(misses.value, 2)} loads that the last level of cache missed")
    if parts:
        yield f"{at_rate(summary)}: with {first.setting} a packet takes {joined(parts)}"


def unseen(found: Sequence[EventsSummary]) -> list[str]:
    """Return what could not be counted, and why; what was estimated; which rate was not kept."""
    said: list[str] = []
    for summary in found:
        said += [sentence for sentence in _gaps(summary) if sentence not in said]
        said += _partly(summary)
        slow = [
            counts.setting
            for counts in summary.settings
            if behind(trial for trial in counts.trials if trial.sent)
        ]
        if slow:
            said.append(
                f"{at_rate(summary)}: while events were counted the generator sent over "
                f"{share(KEPT, 0)} less than that in some block of {joined(slow)}."
            )
    if found:
        said.append(
            "Events are of all CPUs of the device under test and of all that ran there, in one "
            "guest also of the generator; a moment before the first packet and one behind the last "
            "are among it."
        )
    return said


def _partly(summary: EventsSummary) -> Iterator[str]:
    """Yield what counted in some blocks of a setting only: its figures are of these."""
    for counts in summary.settings:
        for collector in summary.collectors:
            blocks = sum(trial.has(collector) for trial in counts.trials)
            if 0 < blocks < len(counts.trials):
                yield (
                    f"{collector}: with {counts.setting} it counted in {blocks} of "
                    f"{len(counts.trials)} blocks only."
                )


def _gaps(summary: EventsSummary) -> Iterator[str]:
    by_reason: dict[tuple[str, str], list[str]] = {}
    for counts in summary.settings:
        for place, figure in counts.figures.items():
            if figure.why and place.scope in ("system", "other", "link"):
                names = by_reason.setdefault((place.collector, figure.why), [])
                if place.name not in names:
                    names.append(place.name)
    for (collector, why), names in by_reason.items():
        yield f"{collector}: {joined(names)} could not be counted ({why})."


def _figures(summary: EventsSummary) -> Iterator[scripts.Figure]:
    """Yield what is counted of the whole system."""
    for counts in summary.settings:
        for place, figure in counts.figures.items():
            if place.scope == "system" and figure.value is not None:
                if (unit := UNITS.get(figure.unit)) is None:
                    continue
                yield scripts.Figure(
                    measure="events",
                    figure=place.name,
                    part=place.collector,
                    unit=unit,
                    setting=counts.setting,
                    traffic=summary.traffic,
                    rate=summary.rate,
                    value=figure.value,
                    blocks=len(counts.trials),
                )


def _samples(summary: EventsSummary) -> Iterator[Sampled]:
    for counts in summary.settings:
        for place, recorded, blocks, resolution, partial in summary.samples(counts):
            if (unit := UNITS.get(recorded)) is not None:
                yield Sampled(
                    measure="events",
                    figure=place.name,
                    part=place.collector,
                    unit=unit,
                    setting=counts.setting,
                    blocks=blocks,
                    traffic=summary.traffic,
                    rate=summary.rate,
                    resolution=resolution,
                    partial=partial,
                    row=f"{place.collector}, {place.name} ({unit})",
                )


def headline(found: Sequence[EventsSummary]) -> str | None:
    """Return what a packet takes, or how many events have a figure; None where none has."""
    said = (sentence for summary in found for sentence in (*_told(summary), *_number(summary)))
    return next(said, None)


def _number(summary: EventsSummary) -> Iterator[str]:
    """Yield how many events were counted, of which most people know no figure."""
    figures = summary.settings[0].figures
    names = {
        (place.collector, place.name)
        for place, figure in figures.items()
        if figure.value is not None
    }
    if names:
        yield f"{at_rate(summary)}: {counted(len(names), 'event')} were counted per packet"


VIEW = View(
    samples=lambda run: [one for found in of(run) for one in _samples(found)],
    lengths={"events.seconds": 10.0},
    figures=lambda run: [figure for found in of(run) for figure in _figures(found)],
    tables=lambda run: [table for found in of(run) for table in tables(found, run.identical)],
    sections=lambda run: [
        _section(found, place) for place, found in enumerate(of(run)) if any(panels(found))
    ],
    headline=lambda run: headline(of(run)),
    sentences=lambda run: sentences(of(run)),
    unseen=lambda run: unseen(of(run)),
)
