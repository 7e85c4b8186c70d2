# SPDX-License-Identifier: GPL-2.0-or-later
"""A search for the commit that made a workload slower: its steps as a table, and the finding."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.markup import escape
from rich.table import Table

from skblab_analysis.base.checked import read
from skblab_analysis.base.tables import titled
from skblab_analysis.base.words import joined, number, signed, small_share
from skblab_analysis.formats import bisect
from skblab_analysis.formats.bisect import BisectDocument, Step
from skblab_analysis.load import Run
from skblab_analysis.view import Cells, Section, View

# Digits of a commit, and functions that the sentence names.
COMMIT, TOLD = 12, 3
# A step is the whole difference between the ends if no more than this share of it is elsewhere.
SAME = 0.2


COLUMNS = ("commit", "instructions", "boots", "verdict", "subject")


def load(run: Run) -> BisectDocument | None:
    """Return the document of a search, None if the run is none; RecordError if it is broken."""
    path = run.folder / bisect.FILE
    return read(BisectDocument, path, "the document of a search") if path.exists() else None


def table(document: BisectDocument) -> Table:
    """Return what was measured, in that order."""
    found = titled(escape(_title(document)))
    for name in COLUMNS:
        right = name in ("instructions", "boots")
        fold = name == COLUMNS[-1]
        found.add_column(
            name,
            justify="right" if right else "left",
            no_wrap=not fold,
            overflow="fold" if fold else "ellipsis",
        )
    for one in document.steps:
        found.add_row(*map(escape, _cells(one)))
    return found


def _title(document: BisectDocument) -> str:
    return f"{document.workload.title} (instructions per {document.workload.unit})"


def _cells(step: Step) -> tuple[str, ...]:
    value = number(step.instructions, 1) if step.figures else ""
    about = f"{step.subject}{f' ({step.why})' if step.why else ''}"
    return step.commit[:COMMIT], value, str(len(step.figures)), step.verdict, about


def sentence(document: BisectDocument) -> str:
    """Return the finding, in a sentence or two."""
    subjects = {one.commit: one.subject for one in document.steps}
    if not document.found:
        return "The search has not ended."
    culprit, *others = document.found
    name = f'{culprit[:COMMIT]} ("{subjects.get(culprit, "")}")'
    if others:
        beside = joined([other[:COMMIT] for other in others])
        return (
            f"One of {name} and {beside} changed what {document.workload.name} costs; those behind "
            "the first could not be measured."
        )
    if document.step is None:
        return f"{name} is the first that is not as the good end; its parent could not be measured."
    ends = {one.commit: one.instructions for one in document.steps if one.figures}
    words = "more" if document.step > 0 else "less"
    told = (
        f"{name} costs {number(abs(document.step), 1)} instructions {words} than its parent "
        f"({small_share(abs(document.step) / ends[document.parent])})"
    )
    most = [f"{one.name}() {signed(one.difference, 0)}" for one in document.functions[:TOLD]]
    told = f"{told}, most in {joined(most)}." if most else f"{told}."
    whole = ends[document.bad] - ends[document.good]
    if abs(document.step - whole) <= SAME * abs(whole):
        return told
    return (
        f"{told} The bad end differs from the good one by {signed(whole, 1)}: other commits "
        "changed it, too."
    )


@dataclass(frozen=True)
class Shown:
    """What the section has."""

    sentence: str
    title: str
    columns: tuple[str, ...]
    rows: tuple[Cells, ...]
    file: str


def _sections(run: Run) -> list[Section]:
    document = load(run)
    if document is None:
        return []
    rows = (_cells(one) for one in document.steps)
    commits = [one.commit for one in document.steps]
    *columns, _ = COLUMNS
    shown = Shown(
        sentence=sentence(document),
        title=_title(document),
        columns=tuple(columns),
        rows=tuple(
            Cells(first, tuple(more), about=about, strong=commit in document.found)
            for commit, (first, *more, about) in zip(commits, rows, strict=True)
        ),
        file=bisect.FILE,
    )
    return [Section("bisect/section.html.j2", shown)]


def _tables(run: Run) -> list[Table]:
    document = load(run)
    return [] if document is None else [table(document)]


def _sentences(run: Run) -> Sequence[str]:
    document = load(run)
    return () if document is None else (sentence(document),)


def _headline(run: Run) -> str | None:
    document = load(run)
    if document is None or not document.found:
        return None
    named = joined([commit[:COMMIT] for commit in document.found])
    one_of = "One of " if len(document.found) > 1 else ""
    return f"{one_of}{named} changed what {document.workload.name} costs"


VIEW = View(tables=_tables, sections=_sections, headline=_headline, sentences=_sentences)
