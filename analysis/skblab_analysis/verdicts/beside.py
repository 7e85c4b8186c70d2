# SPDX-License-Identifier: GPL-2.0-or-later
"""How all sides of a comparison are shown beside each other: tables, page's section, sentences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.markup import escape
from rich.table import Table

from skblab_analysis.base.tables import titled
from skblab_analysis.base.words import (
    NARROW_SPACE,
    counted,
    joined,
    number,
    share,
    signed,
)
from skblab_analysis.formats import compare
from skblab_analysis.formats.compare import CompareDocument
from skblab_analysis.verdicts import all_sides
from skblab_analysis.verdicts.all_sides import Changed, Step, label
from skblab_analysis.verdicts.picture import picture
from skblab_analysis.view import Cells, Section

# Functions of a step that a page has: those that changed most.
FUNCTIONS = 10
PICTURE = "all-sides"
STEP_COLUMNS = ("function", "workloads", "smallest", "median", "largest")
TITLE = "Instructions per packet or unit"
CHANGE = "change"
# Sides for which a terminal of 80 columns has room.
AT_ONCE = 4
# What a table of functions says.
FUNCTIONS_TOLD = (
    "workloads: in how many of them the function changed by one instruction or more, of those that "
    "differ. The next three columns are the smallest, the median and the largest of these "
    "changes, in instructions per packet or unit; a negative one is a decrease. A function that "
    "was renamed, split or inlined appears as an increase and a decrease. The first function "
    "changed most, relative to what the workloads cost."
)


def names(document: CompareDocument) -> list[str]:
    """Return what the sides are called."""
    return [label(document, side) for side in range(len(document.sides))]


def rows(document: CompareDocument, space: str = " ") -> list[tuple[str, ...]]:
    """Return of each workload its name, what it costs on each side, and the last beside A."""
    last = len(document.sides) - 1
    return [
        (
            cost.workload.name,
            *(number(value, 1, space) for value in cost.values),
            share(cost.beside_first(last), 2, sign=True),
        )
        for cost in all_sides.costs(document)
    ]


def tables(document: CompareDocument) -> list[Table]:
    """Return what each workload costs on all sides, in tables that a terminal has room for."""
    heads, cells = names(document), rows(document)
    made = []
    for begin in range(0, len(heads), AT_ONCE):
        end = min(begin + AT_ONCE, len(heads))
        places = [*range(begin + 1, end + 1)]
        columns = heads[begin:end]
        if end == len(heads):
            places.append(end + 1)
            columns.append(CHANGE)
        which = "All sides" if len(heads) <= AT_ONCE else f"Sides {begin + 1} to {end}"
        found = titled(f"{which} ({TITLE[0].lower()}{TITLE[1:]})")
        found.add_column("workload", no_wrap=True)
        for name, place in zip(columns, places, strict=True):
            # A name may be folded, a figure may not.
            widest = max((len(row[place]) for row in cells), default=1)
            found.add_column(escape(name), justify="right", overflow="fold", min_width=widest)
        for row in cells:
            found.add_row(escape(row[0]), *(escape(row[place]) for place in places))
        made.append(found)
    return made


def sentences(first: str, before: str, after: str, found: Sequence[Step]) -> str:
    """Return on how many workloads a step costs more and less, how much, and what is unknown.

    `first` is the name of the first of all sides, which alone has two boots.
    """
    of, whole = all_sides.differing(found), counted(len(found), "workload")
    told: list[str] = []
    for judged, word in (("more", "more"), ("less", "fewer")):
        own = [one for one in of if one.judged == judged]
        if own:
            ends = share(abs(own[-1].share)), share(abs(own[0].share))
            least = f"{_share(own[-1])} to " if ends[0] != ends[1] else ""
            begin = "It" if told else after
            than = "" if told else f" instructions than {before}"
            told.append(
                f"{begin} needs {word}{than} on {len(own)} of {whole}: {least}{_share(own[0])}."
            )
    if same := [one.workload for one in found if one.judged == "same"]:
        between = "" if told else f" between {before} and {after}"
        told.append(f"No difference{between} is above the threshold on {joined(same)}.")
    if unstable := [one.workload for one in found if one.judged == "unstable"]:
        told.append(
            f"No verdict, since two boots of {first} differ by more than the threshold: "
            f"{joined(unstable)}."
        )
    if lacking := [one.workload for one in found if one.judged == "lacking"]:
        told.append(f"Not supported by both {before} and {after}: {joined(lacking)}.")
    if failed := [f"{one.workload} ({one.why})" for one in found if one.judged == "failed"]:
        told.append(f"No figure of both {before} and {after}: {joined(failed)}.")
    return " ".join(told) or f"Nothing is known of {after}."


def _share(step: Step) -> str:
    return f"{share(abs(step.share))} ({step.workload})"


def step_rows(found: Sequence[Changed], space: str = " ") -> list[tuple[str, ...]]:
    """Return the cells of STEP_COLUMNS of each function."""
    return [
        (
            one.name,
            str(len(one.differences)),
            *(
                signed(value, 0, space)
                for value in (one.differences[0], one.middle, one.differences[-1])
            ),
        )
        for one in found
    ]


@dataclass(frozen=True)
class ShownStep:
    """What the section has of a step."""

    caption: str
    sentences: str
    rows: tuple[Cells, ...]


@dataclass(frozen=True)
class Shown:
    """What the section has."""

    title: str
    first: str
    columns: tuple[str, ...]
    rows: tuple[Cells, ...]
    drawn: str
    step_columns: tuple[str, ...]
    steps: tuple[ShownStep, ...]
    told: str


def section(document: CompareDocument) -> Section:
    """Return the section of the page."""
    sides = names(document)
    titles = {one.name: one.title for one in document.workloads}
    drawn = picture(PICTURE, sides, all_sides.costs(document))
    shown = Shown(
        title=TITLE,
        first=sides[compare.FIRST],
        columns=("workload", *sides, CHANGE),
        rows=tuple(
            Cells(name, tuple(cells), about=titles[name])
            for name, *cells in rows(document, NARROW_SPACE)
        ),
        drawn=drawn.name if drawn else "",
        step_columns=STEP_COLUMNS,
        steps=tuple(
            _step(sides[0], sides[side - 1], sides[side], all_sides.steps(document, side))
            for side in range(1, len(sides))
            if all_sides.has_steps(document)
        ),
        told=FUNCTIONS_TOLD,
    )
    return Section("verdicts/all_sides.html.j2", shown, (drawn,) if drawn else ())


def _step(first: str, before: str, after: str, found: Sequence[Step]) -> ShownStep:
    changed = all_sides.changed(found)[:FUNCTIONS]
    return ShownStep(
        caption=f"Functions that changed from {before} to {after}",
        sentences=sentences(first, before, after, found),
        rows=tuple(Cells(name, tuple(cells)) for name, *cells in step_rows(changed, NARROW_SPACE)),
    )
