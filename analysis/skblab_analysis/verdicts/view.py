# SPDX-License-Identifier: GPL-2.0-or-later
"""What each workload costs on two sides, and the verdict: tables, the page's section, sentences."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass

from rich.markup import escape
from rich.table import Table

from skblab_analysis.base.checked import read
from skblab_analysis.base.tables import as_markdown, titled
from skblab_analysis.base.words import (
    NARROW_SPACE,
    counted,
    joined,
    number,
    share,
    signed,
    small_share,
)
from skblab_analysis.formats import compare
from skblab_analysis.formats.compare import CompareDocument, Verdict
from skblab_analysis.load import Run
from skblab_analysis.verdicts import beside, misses
from skblab_analysis.verdicts.all_sides import LEAST_SIDES, LEAST_TOLD, has_steps, label
from skblab_analysis.view import Cells, Section, View, suffix

# Functions that a table names for each workload.
TOLD = 2
THRESHOLD = "threshold"
COLUMNS = ("workload", "A", "B", "difference", "share", THRESHOLD, "factor", "verdict")
MOST = "most of it"
# Of one side.
ALONE = ("workload", "A", "A again", "difference", "why")
LEFT = frozenset(("workload", "verdict", MOST, "why"))
WORDS: dict[compare.Judged, str] = {
    "same": "same",
    "more": "more",
    "less": "less",
    "unstable": "unstable",
    "lacking": "not supported",
    "failed": "failed",
}
OVER = "over budget"
FAULT = "B failed"
CAPTION = (
    "A: mean of its two boots. threshold: what two boots may differ by. factor: the difference in "
    "thresholds."
)


def load(run: Run) -> CompareDocument | None:
    """Return the document of a comparison, None if the run is none; RecordError if it is broken."""
    path = run.folder / compare.FILE
    return read(CompareDocument, path, "the document of a comparison") if path.exists() else None


def word(verdict: Verdict) -> str:
    """Return the verdict in words."""
    if verdict.over:
        return OVER
    return FAULT if verdict.fault else WORDS[verdict.judged]


def of_side(document: CompareDocument, side: int) -> list[Verdict]:
    """Return the verdicts on a side, in the order of the workloads."""
    return [one for one in document.verdicts if one.side == side]


def most(
    document: CompareDocument, verdict: Verdict, space: str = " ", functions: int = TOLD
) -> str:
    """Return the functions that make most of a difference, in words; what happened if none is."""
    if verdict.judged in ("lacking", "failed"):
        return verdict.why
    if verdict.judged not in ("more", "less"):
        return ""
    named = [one for one in compare.differing(document, verdict) if abs(one[1]) >= LEAST_TOLD]
    return ", ".join(f"{name} {signed(value, 0, space)}" for name, value in named[:functions])


def figures(verdict: Verdict, space: str = " ") -> tuple[str, ...]:
    """Return the cells of COLUMNS behind the first."""
    if verdict.difference is None or verdict.threshold is None:
        return ("", "", "", "", "", "", word(verdict))
    apart = ""
    if verdict.judged == "unstable":
        assert verdict.a is not None and verdict.again is not None
        apart = f" ({signed(verdict.again - verdict.a, 1, space)} A again)"
    return (
        number(verdict.reference, 1, space),
        number(verdict.b, 1, space),
        signed(verdict.difference, 1, space),
        share(verdict.share, 2, sign=True),
        number(verdict.threshold, 1, space),
        number(verdict.factor, 1, space),
        f"{word(verdict)}{apart}",
    )


def title(document: CompareDocument, side: int) -> str:
    """Return what the table of a side is of."""
    return (
        f"A: {label(document, compare.FIRST)}, B: {label(document, side)} "
        "(instructions per packet or unit)"
    )


def table(document: CompareDocument, side: int) -> Table:
    """Return what each workload costs on A and on a side, and the verdict."""
    found = titled(escape(title(document, side)))
    for name in (*COLUMNS, MOST):
        found.add_column(
            name,
            justify="left" if name in LEFT else "right",
            overflow="fold",
            no_wrap=name != MOST,
        )
    for verdict in of_side(document, side):
        cells = (*figures(verdict), most(document, verdict))
        found.add_row(verdict.workload, *map(escape, cells))
    found.caption = CAPTION
    return found


def _of_one(document: CompareDocument) -> list[tuple[str, ...]]:
    """Return the cells of ALONE of each workload, on the one side that was measured."""
    found: list[tuple[str, ...]] = []
    for workload in document.workloads:
        own = [one for one in document.measured if one.workload == workload.name]
        values = [one.figure.instructions for one in own if one.figure]
        why = next((one.why for one in own if one.why), "")
        cells = ("", "", "")
        if len(values) == len(own) > 1:
            cells = (number(values[0], 1), number(values[-1], 1), signed(values[-1] - values[0], 1))
        found.append((workload.name, *cells, why))
    return found


def alone(document: CompareDocument) -> Table:
    """Return what each workload costs on the one side that was measured, in both boots."""
    found = titled(escape(f"{document.sides[0].name} (instructions per packet or unit)"))
    for name in ALONE:
        found.add_column(name, justify="left" if name in LEFT else "right", no_wrap=name != "why")
    for cells in _of_one(document):
        found.add_row(*map(escape, cells))
    return found


def tables(document: CompareDocument) -> list[Table]:
    """Return a table for each side beside A; of one side alone, its figures."""
    if len(document.sides) == 1:
        return [alone(document)]
    sides = range(1, len(document.sides))
    pairs = [table(document, side) for side in sides]
    pairs += filter(None, (misses.table(document, side) for side in sides))
    return [*pairs, *beside.tables(document)] if len(document.sides) >= LEAST_SIDES else pairs


def markdown(document: CompareDocument) -> str:
    """Return the tables and sentences in Markdown, as issues and pull requests take them."""
    if len(document.sides) == 1:
        return _as_markdown(document.sides[0].name, ALONE, _of_one(document))
    parts = [
        _as_markdown(
            title(document, side),
            (*COLUMNS, MOST),
            [(one.workload, *figures(one), most(document, one)) for one in of_side(document, side)],
        )
        for side in range(1, len(document.sides))
    ]
    return "\n".join([*parts, *sentences(document), *document.notes]) + "\n"


def _as_markdown(name: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    return "\n".join([f"**{name}**", "", *as_markdown(columns, rows, LEFT)]) + "\n"


def as_csv(document: CompareDocument) -> str:
    """Return a line for each verdict, with the figures as they are, for other programs.

    Of one side alone: a line for each boot.
    """
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    units = {one.name: one.unit for one in document.workloads}
    if len(document.sides) == 1:
        writer.writerow(("workload", "unit", "boot", "instructions", "why"))
        for one in document.measured:
            value = one.figure.instructions if one.figure else None
            writer.writerow((one.workload, units[one.workload], one.boot, _plain(value), one.why))
        return out.getvalue()
    of = ("difference", "share", "threshold", "because", "factor", "judged", "over", "fault", "why")
    writer.writerow(("workload", "unit", "side", "a", "a_again", "b", *of))
    for verdict in document.verdicts:
        side = label(document, verdict.side)
        values = (verdict.a, verdict.again, verdict.b, *(getattr(verdict, name) for name in of))
        writer.writerow((verdict.workload, units[verdict.workload], side, *map(_plain, values)))
    return out.getvalue()


def _plain(value: object) -> object:
    if isinstance(value, bool):
        return str(value).lower()
    return "" if value is None else f"{value:.6g}" if isinstance(value, float) else value


def sentences(document: CompareDocument) -> list[str]:
    """Return the finding on each side, in a sentence or two."""
    return [_told(document, side) for side in range(1, len(document.sides))]


def _finding(document: CompareDocument, side: int, *, short: bool = False) -> str:
    """Return what a side costs more, and what less, without its full stop.

    `short`: what less only where there is no more.
    """
    a, b = label(document, compare.FIRST), label(document, side)
    verdicts = of_side(document, side)
    whole = counted(len(verdicts), "workload")
    parts = []
    for judged in ("more", "less"):
        found = [one for one in verdicts if one.judged == judged]
        if not found:
            continue
        worst = max(found, key=lambda one: abs(one.share or 0.0))
        at_most = "" if len(found) == 1 else "up to "
        parts.append(
            f"{at_most}{small_share(abs(worst.share or 0.0))} {judged} than {a} on {len(found)} of "
            f"{whole}{_mostly(document, worst)}"
        )
    if parts:
        return f"{b} costs {parts[0] if short else joined(parts)}"
    return f"{b} costs the same as {a} on {_same(verdicts)}"


def _told(document: CompareDocument, side: int) -> str:
    told = f"{_finding(document, side)}."
    verdicts = of_side(document, side)
    over = [one.workload for one in verdicts if one.over]
    if over:
        budget = document.budget
        told += (
            f" Over the budget of {small_share(budget.share)} and {budget.instructions:g} "
            f"instructions: {joined(over)}."
        )
    for judged in ("unstable", "failed", "lacking"):
        named = [one.workload for one in verdicts if one.judged == judged]
        if named:
            told += f" {_WITHOUT[judged]}: {joined(named)}."
    return told


_WITHOUT = {
    "unstable": "No verdict, since A and A again differ by more than the threshold",
    "failed": "No figure",
    "lacking": "Not supported by one of the two",
}


def _same(verdicts: Sequence[Verdict]) -> str:
    same = sum(one.judged == "same" for one in verdicts)
    return f"{same} of {counted(len(verdicts), 'workload')}"


def _mostly(document: CompareDocument, verdict: Verdict) -> str:
    """Return where a difference is: its workload, and the function with most of it."""
    sign = 1 if verdict.judged == "more" else -1
    named = [
        name for name, value in compare.differing(document, verdict) if value * sign >= LEAST_TOLD
    ]
    most_in = f", most in {named[0]}()" if named else ""
    return f" ({verdict.workload}{most_in})"


@dataclass(frozen=True)
class Shown:
    """What the section of a side has."""

    suffix: str
    title: str
    columns: tuple[str, ...]
    rows: tuple[Cells, ...]
    caption: str
    a: str
    b: str
    differ: tuple[str, ...]
    file: str
    missed: tuple[Cells, ...]
    missed_title: str
    missed_columns: list[str]
    missed_caption: str


def _sections(run: Run) -> list[Section]:
    document = load(run)
    if document is None:
        return []
    pairs = [
        Section("verdicts/section.html.j2", _shown(document, side))
        for side in range(1, len(document.sides))
    ]
    return [beside.section(document), *pairs] if len(document.sides) >= LEAST_SIDES else pairs


def _shown(document: CompareDocument, side: int) -> Shown:
    titles = {one.name: one.title for one in document.workloads}
    return Shown(
        suffix=suffix(side - 1),
        title=title(document, side),
        columns=(*(name for name in COLUMNS if name != THRESHOLD), MOST),
        rows=tuple(
            Cells(
                one.workload,
                _narrow(document, one),
                about=titles[one.workload],
                strong=one.over or one.fault,
            )
            for one in of_side(document, side)
        ),
        caption=CAPTION,
        a=_identity(document, compare.FIRST),
        b=_identity(document, side),
        differ=document.configurations.get(str(side), ()),
        file=compare.FILE,
        missed=tuple(misses.rows(document, side, NARROW_SPACE)),
        missed_title=misses.title(document, side) if document.caches else "",
        missed_columns=misses.columns(document.caches) if document.caches else [],
        missed_caption=misses.CAPTION,
    )


def _narrow(document: CompareDocument, verdict: Verdict) -> tuple[str, ...]:
    """Return the cells of a row that a page has room for."""
    cells = zip(COLUMNS[1:], figures(verdict, NARROW_SPACE), strict=True)
    kept = (cell for name, cell in cells if name != THRESHOLD)
    return *kept, most(document, verdict, NARROW_SPACE, 1)


def _identity(document: CompareDocument, side: int) -> str:
    one = document.sides[side]
    known = one.kernel
    commit = f", commit {known.commit}" if known.commit else ""
    knobs = "".join(f", {knob} = {value}" for knob, value in one.settings.items())
    stored = f", of the stored run {one.stored}" if one.stored else ""
    return f"{known.name} ({known.release}, source {known.source}{commit}){knobs}{stored}"


def _tables(run: Run) -> list[Table]:
    document = load(run)
    return [] if document is None else tables(document)


def _sentences(run: Run) -> list[str]:
    document = load(run)
    return [] if document is None else sentences(document)


def _headline(run: Run) -> str | None:
    document = load(run)
    if document is None or len(document.sides) < 2:
        return None
    # Of kernels in their order: what is newest, beside what is oldest.
    side = len(document.sides) - 1 if has_steps(document) else 1
    return _finding(document, side, short=True)


def _unseen(run: Run) -> list[str]:
    document = load(run)
    return [] if document is None else list(document.notes)


VIEW = View(
    tables=_tables,
    sections=_sections,
    headline=_headline,
    sentences=_sentences,
    unseen=_unseen,
)
