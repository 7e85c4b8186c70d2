# SPDX-License-Identifier: GPL-2.0-or-later
"""How long calls of kernel functions take: table, the page's section, what is to be known of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from rich.markup import escape
from rich.table import Table

from skblab_analysis.base.checked import read
from skblab_analysis.base.pictures import COLOURS, Curve, Picture, distribution
from skblab_analysis.base.tables import titled
from skblab_analysis.base.words import (
    NARROW_SPACE,
    Scale,
    counted,
    joined,
    number,
    quantity,
    scale,
    share,
    slowest,
)
from skblab_analysis.formats.functimes import FILE, FunctimesDocument, FunctionTimes
from skblab_analysis.load import Run
from skblab_analysis.view import Cells, Section, View

COLUMNS = ("calls", "mean", "p50", "p99", "max", "self mean", "self share")
PICTURE = "functimes"
# Functions that a headline names.
TOLD = 3
# What 32 bits hold.
LONGEST = "4.29 s"


def load(run: Run) -> FunctimesDocument | None:
    """Return what a run has timed by function, RecordError if it is broken."""
    path = run.folder / FILE
    return read(FunctimesDocument, path, "the document of functions") if path.exists() else None


def _scale(document: FunctimesDocument) -> Scale:
    """One for the table: by what most calls take, and not by the longest of all."""
    typical = max((one.inclusive.histogram().mean or 0.0 for one in document.functions), default=0)
    return scale(document.unit, round(typical) * 10)


def _rows(document: FunctimesDocument, space: str = " ") -> Iterator[tuple[str, list[str]]]:
    of = _scale(document)
    whole = sum(one.self_.sum for one in document.functions)
    for one in document.largest_first:
        inclusive, own = one.inclusive.histogram(), one.self_.histogram()
        yield (
            one.name,
            [
                number(one.calls, 0, space),
                of.text(inclusive.mean, space),
                of.text(inclusive.quantile(0.5), space),
                of.text(inclusive.quantile(0.99), space),
                slowest(inclusive, lambda value: of.text(value, space)) if inclusive.count else "–",
                of.text(own.mean, space),
                share(own.total / whole if whole and own.count else None),
            ],
        )


def of_functions(document: FunctimesDocument) -> Table:
    """Return the functions, those that take most by themselves first."""
    table = titled(f"Kernel functions, in {_scale(document).name} per call")
    table.add_column("function", overflow="fold")
    for name in COLUMNS:
        table.add_column(name, justify="right")
    for name, figures in _rows(document):
        table.add_row(escape(name), *figures)
    return table


def notes(document: FunctimesDocument) -> list[str]:
    """Return what is to be known of the figures, in sentences."""
    found = [
        "Self: without the traced functions that it called, or that interrupts called meanwhile. "
        "Self share: of the self times of all traced functions.",
        *_by(document),
        _probes_own(document),
    ]
    if document.unit == "ns":
        found.append("Times contain interrupts, and the time that a task slept in a function.")
    found += [said for one in document.functions if (said := _untimed(one))]
    reasons = dict.fromkeys(one.why for one in document.absent)
    for why in reasons:
        left_out = [one.name for one in document.absent if one.why == why]
        found.append(f"Not traced: {joined(left_out)}: {why}.")
    return found


def _by(document: FunctimesDocument) -> Iterator[str]:
    if document.by == "fentry":
        return
    if document.why is None:
        yield "Timed by function graph, as was asked for."
    else:
        yield f"Timed by function graph, not by fentry: {document.why}."


def _probes_own(document: FunctimesDocument) -> str:
    graph = document.by == "function-graph"
    if (probe := document.probe) is None:
        taken_off = "None" if graph else "What it sees"
        return (
            f"The probe's own time could not be measured here. {taken_off} of it is taken off; the "
            "rest is in the times."
        )
    empty = probe.empty.histogram()
    cost, own, remains, least = (
        quantity(value, document.unit)
        for value in (probe.cost, probe.own, probe.remains, empty.quantile(0.5))
    )
    if graph:
        return (
            f"The tracer makes a call {cost} longer, measured with getppid(). None of that is "
            "taken off: it is in the times of the function and of traced callers. A call of "
            f"getppid() takes {least} here: nearly all of that is the tracer."
        )
    return (
        f"The probe makes a call {cost} longer, measured with an empty function. {own} of that are "
        f"taken off all times; {remains} remain, in the function and in traced callers. An empty "
        f"function takes {least} here: anything like that is the probe."
    )


def _untimed(one: FunctionTimes) -> str:
    """Return which calls have no time, or nothing."""
    causes = {
        "were missed (the probe was busy on that CPU)": one.missed_entries,
        "found no memory": one.refused,
        "were not seen to return": one.lost,
        "had not returned": one.under_way,
    }
    told = [f"{number(count)} {why}" for why, count in causes.items() if count]
    times = one.inclusive
    if times.overflow:
        told.append(f"{number(times.overflow)} took longer than {LONGEST}")
    if odd := max(times.negative, one.self_.negative):
        told.append(f"{number(odd)} ended before they began, by the clock")
    if not told:
        return ""
    return f"{one.name}: of {counted(one.calls, 'call')}, {joined(told)}."


@dataclass(frozen=True)
class Shown:
    """What the section shows."""

    unit: str
    columns: list[str]
    rows: tuple[Cells, ...]
    notes: tuple[str, ...]
    file: str
    seconds: float
    picture: str | None


def _sections(run: Run) -> list[Section]:
    document = load(run)
    if document is None:
        return []
    pictures = tuple(_pictures(document))
    rows = tuple(
        Cells(name=name, figures=tuple(figures)) for name, figures in _rows(document, NARROW_SPACE)
    )
    shown = Shown(
        unit=_scale(document).name,
        columns=["function", *COLUMNS],
        rows=rows,
        notes=tuple(notes(document)),
        file=FILE,
        seconds=document.seconds,
        picture=PICTURE if pictures else None,
    )
    return [Section("functimes/section.html.j2", shown, pictures)]


def _pictures(document: FunctimesDocument) -> Iterator[Picture]:
    """Yield how the times of those are distributed that take most; nothing without a time."""
    curves = [
        Curve(one.name, one.inclusive.histogram())
        for one in document.largest_first
        if one.inclusive.count
    ]
    if curves:
        title = "Calls of kernel functions by what they take with all that they call"
        yield distribution(PICTURE, "Calls", title, document.unit, curves[: len(COLOURS)])


def _tables(run: Run) -> list[Table]:
    document = load(run)
    return [] if document is None else [of_functions(document)]


def _told(document: FunctimesDocument) -> str:
    whole = sum(one.self_.sum for one in document.functions)
    told = [
        f"{one.name}() {share(one.self_.sum / whole if whole else None)}"
        for one in document.largest_first[:TOLD]
    ]
    calls = counted(sum(one.calls for one in document.functions), "call")
    return f"{calls} of {counted(len(document.functions), 'function')}; by self time {joined(told)}"


def _headline(run: Run) -> str | None:
    document = load(run)
    return None if document is None else _told(document)


def _sentences(run: Run) -> list[str]:
    document = load(run)
    return [] if document is None else [f"{_told(document)}."]


def _unseen(run: Run) -> list[str]:
    document = load(run)
    return [] if document is None else notes(document)


VIEW = View(
    tables=_tables,
    sections=_sections,
    headline=_headline,
    sentences=_sentences,
    unseen=_unseen,
)
