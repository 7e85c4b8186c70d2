# SPDX-License-Identifier: GPL-2.0-or-later
"""What a packet misses in simulated caches: tables, the page's tables, the sentence."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from rich.markup import escape
from rich.table import Table

from skblab_analysis.base.bars import Bar, bars
from skblab_analysis.base.pictures import Picture
from skblab_analysis.base.tables import titled
from skblab_analysis.base.words import ABSENT, NARROW_SPACE, number, signed
from skblab_analysis.formats import memory
from skblab_analysis.formats.functions import FunctionsDocument
from skblab_analysis.formats.memory import (
    Line,
    Memory,
    Missed,
    Misses,
    Simulated,
    Structure,
    Touched,
)
from skblab_analysis.view import Cells

# Functions that a table names.
TOP = 15
# What two boots differ by.
PLACES = "Where a boot puts its objects moves the misses of data by some lines"


def by_row(documents: Sequence[FunctionsDocument]) -> Table:
    """Return what a packet misses in each cache: of the first row, and what each other adds."""
    head = _known(documents[0])
    table = _table(f"Cache lines missed per packet, {head.processor.title}", head, "row")
    rows = list(_rows(documents, " "))
    for place, row in enumerate(rows):
        table.add_row(escape(row.name), *row.figures, end_section=not place and len(rows) > 1)
    table.caption = f"{memory.SAID}.\n{PLACES}."
    return table


def by_function(found: Memory, compared: bool) -> Table:
    """Return what a packet misses in each function; of two rows, what the second one adds."""
    what = "What differs" if compared else "By function"
    table = _table(
        f"{what} (cache lines missed per packet, {memory.LABEL.partition(':')[0]})",
        found,
        "function",
    )
    for row in _functions(found, compared, " "):
        table.add_row(escape(row.name), *row.figures, end_section=row.name.startswith("others"))
    return table


def by_type(found: Memory, compared: bool) -> Table:
    """Return what a packet accesses by type of object; of two rows, what the second one adds."""
    what = "What differs by type" if compared else "By type of object"
    table = _table(
        f"{what} (lines per packet, {memory.LABEL.partition(':')[0]})",
        found,
        "slab cache",
        kinds=_kinds_of_data(found),
    )
    table.add_column("lines", justify="right", no_wrap=True)
    for row in _types(found, compared, " "):
        table.add_row(escape(row.name), *row.figures)
    table.caption = f"{TOUCHED}."
    return table


TOUCHED = (
    "lines: of an object, those with an access in two packets or more. L2 and L3: of data alone. "
    "The kernel was told not to merge caches (slab_nomerge)"
)


def by_line(structure: Structure, found: Memory, compared: bool) -> Table:
    """Return a structure's lines, what a packet accesses of them, and the fields."""
    table = titled(f"Lines of {structure.name} (accesses per packet)")
    table.add_column("bytes", no_wrap=True)
    for name in _line_columns(compared):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("fields", overflow="fold")
    for row in _of_lines(structure, found.processor.line, compared, " "):
        table.add_row(row.name, *row.figures, escape(row.about))
    return table


def _line_columns(compared: bool) -> tuple[str, ...]:
    return ("before", "after") if compared else ("accesses",)


def _of_lines(structure: Structure, length: int, compared: bool, space: str) -> Iterator[Cells]:
    for line in structure.lines:
        first = line.number * length
        end = min(first + length, structure.size)
        values = (line.a, line.b) if compared else (line.b,)
        yield Cells(
            f"{first}–{end - 1}",
            tuple(number(value, 1, space) for value in values),
            about=_fields(line),
        )


def _fields(line: Line) -> str:
    """Return the fields of a line; those before, too, if these are others."""
    said = ", ".join(line.fields)
    if not line.before or line.before == line.fields:
        return said
    return f"{said or ABSENT}; before: {', '.join(line.before)}"


def _kinds_of_data(found: Memory) -> tuple[str, ...]:
    # Lines that are written back are of what was evicted.
    return tuple(kind for kind in found.processor.kinds if kind not in ("code", "written"))


def _types(found: Memory, compared: bool, space: str) -> Iterator[Cells]:
    """Yield the types that are accessed or differ most."""
    style = signed if compared else number
    differing = [
        one
        for one in found.types
        if not compared
        or _told(one.difference, _kinds_of_data(found))
        or one.a_lines != one.b_lines
    ]
    rest = differing[TOP:]
    if rest:
        others = [Missed(name=one.name, a=one.a, b=one.b) for one in rest]
        whole = memory.total(others, f"others ({len(rest)})")
        differing[TOP:] = [Touched(name=whole.name, size=0, a=whole.a, b=whole.b, b_lines=0)]
    for one in differing:
        of = one.difference if compared else one.b
        figures = (round(getattr(of, kind), 1) + 0.0 for kind in _kinds_of_data(found))
        yield Cells(
            one.name,
            (
                *(style(figure, 1, space) for figure in figures),
                _lines(one, found.processor.line, compared),
            ),
        )


def _told(misses: Misses, kinds: Iterable[str]) -> bool:
    """Return whether a table of these kinds shows anything but zeros of it."""
    return any(round(getattr(misses, kind), 1) for kind in kinds)


def _lines(one: Touched, line: int, compared: bool) -> str:
    """Return how many lines of an object are touched: "3 of 4", with what the second row adds."""
    if not one.size:
        return ABSENT
    more = one.b_lines - one.a_lines
    added = f" ({signed(more)})" if compared and more else ""
    return f"{one.b_lines} of {-(-one.size // line)}{added}"


def _table(title: str, found: Memory, first: str, *, kinds: tuple[str, ...] | None = None) -> Table:
    table = titled(escape(title))
    table.add_column(first, overflow="fold")
    for kind in kinds or found.processor.kinds:
        table.add_column(memory.NAMES[kind], justify="right", no_wrap=True)
    return table


def _known(document: FunctionsDocument) -> Memory:
    assert document.memory is not None
    return document.memory


def _rows(documents: Sequence[FunctionsDocument], space: str) -> Iterator[Cells]:
    head = documents[0]
    processor = _known(head).processor
    if head.a is None:
        yield Cells(head.b.title, _figures(_known(head).total.b, processor, space))
        return
    yield Cells(head.a.title, _figures(_known(head).total.a, processor, space))
    for document in documents:
        added = _known(document).total.difference
        yield Cells(document.b.title, _figures(added, processor, space, more=True))


def _functions(found: Memory, compared: bool, space: str) -> Iterator[Cells]:
    """Yield the functions that miss or differ most, the others, and the total."""

    def cells(one: Missed, strong: bool = False) -> Cells:
        of = one.difference if compared else one.b
        figures = _figures(of, found.processor, space, more=compared)
        return Cells(one.name, figures, strong=strong)

    # A line of zeros says nothing.
    shown = [
        one
        for one in found.functions[:TOP]
        if _told(one.difference if compared else one.b, found.processor.kinds)
    ]
    yield from map(cells, shown)
    rest = [one for one in found.functions if one not in shown]
    if rest:
        yield cells(memory.total(rest, f"others ({len(rest)})"))
    yield cells(found.total, strong=True)


def _figures(
    misses: Misses, processor: Simulated, space: str, *, more: bool = False
) -> tuple[str, ...]:
    style = signed if more else number
    # A rounded nothing has no sign.
    return tuple(style(round(getattr(misses, kind), 1) + 0.0, 1, space) for kind in processor.kinds)


@dataclass(frozen=True)
class Shown:
    """What the page has of it."""

    processor: str
    label: str
    places: str
    columns: tuple[str, ...]
    rows: tuple[Cells, ...]
    functions: tuple[Cells, ...]
    layers: tuple[Cells, ...]
    types: tuple[Cells, ...]
    type_columns: tuple[str, ...]
    touched: str
    line_columns: tuple[str, ...]
    structures: tuple[tuple[str, tuple[Cells, ...]], ...]
    compared: bool


def shown(head: FunctionsDocument, all_rows: Sequence[FunctionsDocument]) -> Shown | None:
    """Return what the page shows of a document, and a row for each of others, if any."""
    found = head.memory
    if found is None:
        return None
    compared = head.a is not None
    return Shown(
        processor=found.processor.title,
        label=memory.SAID,
        places=PLACES,
        columns=tuple(memory.NAMES[kind] for kind in found.processor.kinds),
        rows=tuple(_rows(all_rows, NARROW_SPACE)) if all_rows else (),
        functions=tuple(_functions(found, compared, NARROW_SPACE)),
        layers=tuple(
            Cells(
                one.name,
                _figures(
                    one.difference if compared else one.b,
                    found.processor,
                    NARROW_SPACE,
                    more=compared,
                ),
            )
            for one in found.layers
        ),
        types=tuple(_types(found, compared, NARROW_SPACE)),
        type_columns=(*(memory.NAMES[kind] for kind in _kinds_of_data(found)), "lines"),
        touched=TOUCHED[0].upper() + TOUCHED[1:],
        line_columns=_line_columns(compared),
        structures=tuple(
            (one.name, tuple(_of_lines(one, found.processor.line, compared, NARROW_SPACE)))
            for one in found.structures
        ),
        compared=compared,
    )


def pictures(document: FunctionsDocument, suffix: str) -> Iterator[Picture]:
    """Yield the functions that miss most in the first level, or differ most; none if none does."""
    found = _known(document)
    compared = document.a is not None
    style = signed if compared else number
    missed = [
        (one.name, one.difference.first if compared else one.b.first) for one in found.functions
    ]
    missed.sort(key=lambda of: -abs(of[1]))
    rows = [
        Bar(name, lines, style(lines, 1))
        for name, lines in missed[:TOP]
        if abs(lines) >= memory.LEAST
    ]
    if rows:
        yield bars(
            f"misses{suffix}",
            f"Cache lines that functions {'miss more or less' if compared else 'miss'}",
            "Lines per packet that the first level missed, simulated",
            rows,
            compared=compared,
        )


def headline(document: FunctionsDocument) -> str | None:
    """Return what another NUMA node costs, without a full stop; None where there is none."""
    found = document.memory
    if found is None or found.processor.nodes == 1:
        return None
    told = found.total.difference if document.a is not None else found.total.b
    style = signed if document.a is not None else number
    outer = getattr(told, list(found.processor.levels)[-1])
    missed, passed = (style(lines, 1, NARROW_SPACE) for lines in (outer, told.passed))
    return (
        f"{document.b.title}: {missed} cache lines a packet missed in all levels, {passed} of them "
        "passed on by the other CPU (simulated)"
    )


def sentence(document: FunctionsDocument) -> str | None:
    """Return the finding, without its full stop; None where no caches were simulated."""
    found = document.memory
    if found is None:
        return None
    outer = list(found.processor.levels)[-1]

    def told(misses: Misses, *, more: bool = False) -> str:
        style = signed if more else number
        said = f"{style(misses.first, 1, NARROW_SPACE)} lines a packet in the first level"
        last = style(getattr(misses, outer), 1, NARROW_SPACE)
        if found.processor.nodes == 1:
            return f"{said}, {last} in all levels"
        remote, passed = (style(of, 1, NARROW_SPACE) for of in (misses.remote, misses.passed))
        return (
            f"{said}, {last} in all levels, {remote} of them from the other node's memory and "
            f"{passed} from the other CPU"
        )

    where = f"Simulated caches of {found.processor.title}"
    if document.a is None:
        return f"{where}: {document.b.title} misses {told(found.total.b)}"
    return (
        f"{where}, {document.b.title}: misses differ by {told(found.total.difference, more=True)}"
    )
