# SPDX-License-Identifier: GPL-2.0-or-later
"""Instructions per packet by kernel function: tables, the page's section, the sentence."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from rich.markup import escape
from rich.table import Table

from skblab_analysis.base.bars import Bar, bars
from skblab_analysis.base.checked import RecordError, read
from skblab_analysis.base.pictures import Picture
from skblab_analysis.base.rows import Stored
from skblab_analysis.base.tables import titled
from skblab_analysis.base.words import NARROW_SPACE, joined, number, share, signed
from skblab_analysis.formats import functions, stacks
from skblab_analysis.formats.functions import Function, FunctionsDocument
from skblab_analysis.functions import flame, memory
from skblab_analysis.functions.flame import Flame
from skblab_analysis.functions.rows import FUNCTIONS, FunctionRow, rows
from skblab_analysis.load import Run
from skblab_analysis.view import Cells, Section, View, suffix

# Functions that a report names: those that take most.
TOP = 10
# Functions that a table of settings names for each.
TOLD = 3
BUFFER = "sk_buff"
# What every packet executes once more.
ONE = 1.0
NAMED = (
    "named: what functions that differ by an instruction or more, and further iterations of "
    "string instructions, add up to, as a share of the difference"
)
# Boots and clocks differ by as much: no share of it says anything.
UNEXPLAINED = 20.0
# Of all that functions differ by, in either direction, what one must be to be named for it.
LEAST_SHARE = 0.02
# Of these forms a function's instructions have further iterations among them.
COUNTED_AGAIN = ("skblab.functions/1", "skblab.functions/2")

CASE_TITLES: dict[functions.Case, str] = {
    "forward": "Forwarding",
    "receive": "UDP receive",
    "poll": "A NAPI poll a packet",
}


def case(document: FunctionsDocument) -> str:
    """Return what a packet did, in words."""
    where = "" if document.destinations == "fixed" else f", {document.destinations} destinations"
    return f"{CASE_TITLES[document.case]}, IPv{document.family}{where}"


def of_functions(
    document: functions.FunctionsDocument,
    least: float,
    of: str = "",
    *,
    inclusive: bool = False,
) -> Table:
    """Return what each function executes in a row or in two; `least` is what is shown by itself.

    Of two rows that is a difference, of one its instructions per packet. `of` stands in the title.
    `inclusive`: with all that it called, which decides what is shown, and in which order.
    """
    what = case(document)
    table = titled(f"{what}{of and f', {of}'} (instructions per packet)")
    table.add_column("function", no_wrap=True)
    whole = functions.total(document.functions, "total")

    def compared(one: functions.Function) -> tuple[str, ...]:
        return number(one.a, 1), number(one.b, 1), signed(one.difference, 1)

    def alone(one: functions.Function) -> tuple[str, ...]:
        return number(one.b, 1), share(one.b / whole.b if whole.b else None)

    names: tuple[str, ...]
    cells: Callable[[functions.Function], tuple[str, ...]]
    if document.a is None:
        names, cells = ("instructions", "share"), alone
    else:
        names, cells = _sides(document), compared
    more = ("inclusive",) if inclusive else ()
    for name in (*names, *more):
        table.add_column(name, justify="right", no_wrap=True)
    shown, rest = functions.cut(document.functions, least, inclusive=inclusive)
    style = number if document.a is None else signed
    for listed in shown:
        own = (style(listed.inclusive_difference, 1) for _ in more)
        table.add_row(escape(listed.name), *cells(listed), *own)
    others = _others(rest)
    table.add_row(others.name, *cells(others), end_section=True)
    table.add_row(whole.name, *cells(whole))
    for one in _beside(document, whole):
        # No share of the functions.
        table.add_row(one.name, *(compared(one) if document.a else (number(one.b, 1), "")))
    return table


def of_layers(document: FunctionsDocument) -> Table:
    """Return what a packet takes in each layer of its path, in one row or in two."""
    table = titled("By layer (instructions per packet)")
    table.add_column("layer", no_wrap=True)
    for name in ("instructions", "share") if document.a is None else _sides(document):
        table.add_column(name, justify="right", no_wrap=True)
    for row in _layers(document, " "):
        table.add_row(row.name, *row.figures)
    return table


def of_memory(documents: Sequence[FunctionsDocument]) -> list[Table]:
    """Return what a packet misses in simulated caches: no tables if there were none."""
    head = documents[0]
    if head.memory is None:
        return []
    found = [memory.by_row(documents)]
    # Of several settings the page has each one's functions.
    if len(documents) == 1:
        found.append(memory.by_function(head.memory, head.a is not None))
        if head.memory.types:
            found.append(memory.by_type(head.memory, head.a is not None))
        # The page has the others.
        found += [
            memory.by_line(one, head.memory, head.a is not None)
            for one in head.memory.structures
            if one.name == BUFFER
        ]
    return found


def _sides(document: FunctionsDocument) -> tuple[str, ...]:
    assert document.a is not None
    return document.a.name, document.b.name, "difference"


def _layers(document: FunctionsDocument, space: str) -> list[Cells]:
    """Return the rows of a table of layers: instructions and share, or both sides' and more."""
    whole = sum(one.b for one in document.layers)
    return [
        Cells(
            one.name,
            (number(one.b, 1, space), share(one.b / whole if whole else None))
            if document.a is None
            else (
                number(one.a, 1, space),
                number(one.b, 1, space),
                signed(one.difference, 1, space),
            ),
        )
        for one in document.layers
    ]


def _others(rest: Sequence[Function]) -> Function:
    """Return the sum of those that are not shown, and how many execute something."""
    return functions.total(rest, f"others ({sum(one.executed for one in rest)})")


def _beside(document: FunctionsDocument, whole: Function) -> list[Function]:
    """Return what stands below the functions' total: further iterations, if any, and the clock."""
    clock = document.clock
    found = [Function(name="by the clock", a=clock.get("a", 0.0), b=clock["b"])]
    if whole.a_again or whole.b_again:
        found.insert(0, Function(name="string iterations", a=whole.a_again, b=whole.b_again))
    return found


def of_kernels(document: functions.FunctionsDocument) -> Table:
    """Return which kernels a profile is of, and what was set in each."""
    table = titled("Kernels")
    more = ("settings",) if document.settings else ()
    # Of two NUMA nodes the rows' titles say where packets are.
    nodes = document.memory is not None and document.memory.processor.nodes > 1
    titles = {"a": document.a.title if document.a else "", "b": document.b.title}
    for name in ("", "name", "release", "source", "key", *more, *(["packets"] if nodes else [])):
        table.add_column(name, overflow="fold")
    for side, known in sorted(document.kernels.items()):
        named = f", {known.commit}" if known.commit else ""
        table.add_row(
            "" if len(document.kernels) == 1 else side,
            escape(known.name),
            escape(known.release),
            f"{known.source}{named}",
            known.key,
            *(escape(_settings(document.settings.get(side, {}))) for _ in more),
            *([escape(titles[side].rpartition(", ")[2])] if nodes else []),
        )
    return table


def without_settings(document: FunctionsDocument) -> FunctionsDocument:
    """Return the document of the kernel alone, where all rows have the same one."""
    kernels = {side: one for side, one in document.kernels.items() if side == "b"}
    return document.model_copy(update={"kernels": kernels, "settings": {}})


def _settings(knobs: Mapping[str, str]) -> str:
    words = ", ".join(f"{name} = {value}" for name, value in knobs.items())
    return words or "as the kernel has them"


def load(run: Run) -> list[FunctionsDocument]:
    """Return what a run has counted by function, RecordError if one of them is broken.

    Of several each compares another row with the same one.
    """
    found = []
    for place in range(1, len(list(run.folder.glob(functions.FILES))) + 1):
        path = run.folder / functions.file_of(place)
        found.append(read(FunctionsDocument, path, "the document of functions"))
    for place, one in enumerate(found[1:], 2):
        head = found[0]
        if head.a is None or one.a is None or (one.memory is None) != (head.memory is None):
            raise RecordError(
                f"{run.folder / functions.file_of(place)} is not as expected: another row beside "
                f"that of {functions.FILE}, and caches in both or in none"
            )
    return found


def least(document: FunctionsDocument) -> float:
    """Return from which difference on a function is named."""
    return max(1.0, LEAST_SHARE * sum(abs(one.difference) for one in document.functions))


def first(document: FunctionsDocument) -> FunctionsDocument:
    """Return what is counted of a alone, as a document of one row."""
    assert document.a is not None
    return document.model_copy(
        update={
            "a": None,
            "b": document.a,
            "clock": {"b": document.clock["a"]},
            "functions": tuple(
                Function(name=one.name, a=0.0, b=one.a, b_again=one.a_again)
                for one in sorted(document.functions, key=lambda one: -one.a)
                if one.a or one.a_again
            ),
        }
    )


def top(document: FunctionsDocument) -> Table:
    """Return the functions that take most of one row, which the title names."""
    values = sorted((abs(one.difference) for one in document.functions), reverse=True)
    lowest = values[min(TOP, len(values)) - 1] if values else 0.0
    return of_functions(document, lowest, escape(document.b.title))


def _tables(run: Run) -> list[Table]:
    documents = load(run)
    if not documents:
        return []
    head, *others = documents
    missed = of_memory(documents)
    if head.a is None:
        return [*_kernels(head), top(head), *missed]
    if not others:
        return [*_kernels(head), top(first(head)), of_functions(head, least(head)), *missed]
    kernels = of_kernels(without_settings(head))
    return [kernels, top(first(head)), of_settings(documents), *missed]


def of_settings(documents: Sequence[FunctionsDocument]) -> Table:
    """Return what each of several rows costs beyond the first, and the functions that it does."""
    head = documents[0]
    what = case(head)
    table = titled(f"What each setting adds, {what} (instructions per packet)")
    table.add_column("setting", overflow="fold")
    for name in ("path", "difference", "named"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("most of it", overflow="fold")
    for place, row in enumerate(_overview(documents)):
        table.add_row(escape(row.name), *map(escape, row.figures), end_section=not place)
    table.caption = NAMED
    return table


def _overview(documents: Sequence[FunctionsDocument], space: str = " ") -> Iterator[Cells]:
    """Yield the baseline, then each setting: path, difference, what is named, most of it."""
    before = documents[0].clock["a"]
    yield Cells(functions.BASELINE, (number(before, 1, space), functions.BASELINE, "", ""))
    for document in documents:
        named, _ = functions.cut(document.functions, least(document))
        most = (f"{one.name} {signed(one.difference, 0, space)}" for one in named[:TOLD])
        yield Cells(
            document.b.title,
            (
                number(document.clock["b"], 1, space),
                signed(document.clock["b"] - before, 1, space),
                _explained(document) or "",
                ", ".join(most),
            ),
        )


def _explained(document: FunctionsDocument) -> str | None:
    """Return which share of a difference is in functions that are named; None of a small one."""
    whole = document.clock["b"] - document.clock["a"]
    if abs(whole) < UNEXPLAINED:
        return None
    named, _ = functions.cut(document.functions, ONE)
    again = sum(one.b_again - one.a_again for one in document.functions)
    return share((sum(one.difference for one in named) + again) / whole, 0)


def _kernels(document: FunctionsDocument) -> list[Table]:
    """Return the table of what a and b are, where the rows' own names do not say it."""
    return [of_kernels(document)] if len(document.kernels) > 1 else []


@dataclass(frozen=True)
class Shown:
    """What the section has: the functions that take most of a row, and those that two differ by.

    `once`: further iterations of string instructions are not among the figures. `flames` are of
    the rows, by the names of the files that they are drawn from. `suffix` is that of the anchors;
    what takes most is shown of the first alone.
    """

    suffix: str
    overview: tuple[Cells, ...]
    named: str
    what: str
    of: str
    compared: str
    once: bool
    file: str
    top: tuple[Cells, ...]
    changed: tuple[Cells, ...]
    layers: tuple[Cells, ...]
    memory: memory.Shown | None
    pictures: tuple[tuple[str, str], ...]
    flames: tuple[tuple[str, Flame], ...]


def _sections(run: Run) -> list[Section]:
    documents = load(run)
    overview = tuple(_overview(documents, NARROW_SPACE)) if len(documents) > 1 else ()
    # What is of all stands in the first section alone.
    return [
        _section(run, document, place, *(((), ()) if place else (overview, documents)))
        for place, document in enumerate(documents)
    ]


def _section(
    run: Run,
    document: FunctionsDocument,
    place: int,
    overview: tuple[Cells, ...],
    rows_of: Sequence[FunctionsDocument],
) -> Section:
    alone = document if document.a is None else first(document)
    whole = functions.total(alone.functions, "total")
    ordered = sorted(alone.functions, key=lambda one: -one.b)
    takes = [
        *((one, False) for one in ordered[:TOP]),
        (_others(ordered[TOP:]), False),
        (whole, True),
    ]
    pictures = tuple(_pictures(document, alone, suffix(place)))
    shown = Shown(
        suffix=suffix(place),
        overview=overview,
        named=NAMED,
        what=case(document),
        of=alone.b.title,
        compared="" if document.a is None else _compared(document),
        once=document.schema_ not in COUNTED_AGAIN,
        file=functions.file_of(place + 1),
        top=(
            *(
                Cells(
                    name=one.name,
                    figures=(_figure(one.b), share(one.b / whole.b if whole.b else None)),
                    strong=strong,
                )
                for one, strong in takes
            ),
            *(Cells(name=one.name, figures=(_figure(one.b), "")) for one in _beside(alone, whole)),
        ),
        changed=() if document.a is None else tuple(_changed(document)),
        layers=tuple(_layers(document, NARROW_SPACE)),
        memory=memory.shown(document, rows_of),
        pictures=tuple((picture.name, picture.title) for picture in pictures),
        flames=tuple(_flames(run, document)),
    )
    return Section("functions/section.html.j2", shown, pictures)


def _pictures(document: FunctionsDocument, alone: FunctionsDocument, of: str) -> Iterator[Picture]:
    """Yield what functions take of the first row, or differ by, and what they miss."""
    compared = document.a is not None
    if compared:
        named, _ = functions.cut(document.functions, least(document))
        title = f"What differs with {_compared(document)} (before → after)"
        found = [Bar(one.name, one.difference, _before_and_after(one)) for one in named[:TOP]]
    else:
        whole = functions.total(alone.functions, "total").b
        ordered = sorted(alone.functions, key=lambda one: -one.b)
        title = f"The functions that take most on {alone.b.title}"
        found = [
            Bar(one.name, one.b, f"{number(one.b, 1)} ({share(one.b / whole if whole else None)})")
            for one in ordered[:TOP]
            if one.b
        ]
    if found:
        yield bars(f"functions{of}", title, "Instructions per packet", found, compared=compared)
    if document.memory is not None:
        yield from memory.pictures(document, of)


def _before_and_after(one: Function) -> str:
    """Return what a function differs by, and what it takes on both sides."""
    return f"{signed(one.difference, 1)} ({number(one.a, 1)} → {number(one.b, 1)})"


def _flames(run: Run, document: FunctionsDocument) -> Iterator[tuple[str, Flame]]:
    """Yield the flame graph of each row that has stacks, all on one scale."""
    rows = [row for row in (document.a, document.b) if row is not None]
    files = {row.name: run.folder / stacks.file_of(row.name) for row in rows}
    found = {name: stacks.read(file) for name, file in files.items() if file.exists()}
    whole = max(map(flame.total, found.values()), default=0.0)
    if not whole:
        return
    for place, row in enumerate(rows):
        if row.name in found:
            other = next((of for name, of in found.items() if name != row.name), None)
            before = place == 0 and len(rows) > 1
            drawn = flame.flame(row.title, found[row.name], whole, other, before=before)
            yield files[row.name].name, drawn


def _changed(document: FunctionsDocument) -> list[Cells]:
    named, rest = functions.cut(document.functions, least(document))
    rows = [*named, _others(rest)]
    whole = functions.total(document.functions, "total")
    rows.append(whole)
    return [
        Cells(
            name=one.name,
            figures=(_figure(one.a), _figure(one.b), signed(one.difference, 1, NARROW_SPACE)),
            strong=one is whole,
        )
        for one in (*rows, *_beside(document, whole))
    ]


def _compared(document: FunctionsDocument) -> str:
    """Return what b has that a has not, in words."""
    assert document.a is not None
    if document.a.title == functions.BASELINE:
        return document.b.title
    if document.settings.keys() == {"b"}:
        return _settings(document.settings["b"])
    return f"{document.b.title} against {document.a.title}"


def _figure(value: float) -> str:
    return number(value, 1, NARROW_SPACE)


def _sentences(run: Run) -> list[str]:
    documents = load(run)
    found = [f"{_told(document)}." for document in documents]
    return [*found, *(f"{said}." for said in map(memory.sentence, documents) if said)]


def _told(document: FunctionsDocument) -> str:
    """Return the finding, without its full stop."""
    if document.a is None:
        return (
            f"{case(document)}, on {document.b.title}: "
            f"{_figure(document.clock['b'])} instructions a packet"
        )
    whole = signed(document.clock["b"] - document.clock["a"], 0, NARROW_SPACE)
    limit = least(document)
    named, _ = functions.cut(document.functions, limit)
    said = f"{_compared(document)}, by function: {whole} instructions a packet"
    if not named:
        return f"{said}; no function differs by {_figure(limit)} or more"
    told = [f"{one.name}() {signed(one.difference, 0, NARROW_SPACE)}" for one in named[:3]]
    return f"{said}; the largest differences: {joined(told)}"


def _headline(run: Run) -> str | None:
    documents = load(run)
    if not documents:
        return None
    largest = max(documents, key=lambda one: abs(one.clock["b"] - one.clock.get("a", 0.0)))
    return memory.headline(largest) or _told(largest)


def _unseen(run: Run) -> list[str]:
    documents = load(run)
    return list(documents[0].notes) if documents else []


def _derived(run: Run) -> list[tuple[Stored, list[FunctionRow]]]:
    return [(FUNCTIONS, rows(load(run)))]


VIEW = View(
    tables=_tables,
    sections=_sections,
    headline=_headline,
    sentences=_sentences,
    unseen=_unseen,
    derived=_derived,
)
