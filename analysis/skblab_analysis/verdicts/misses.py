# SPDX-License-Identifier: GPL-2.0-or-later
"""What each workload misses in simulated caches on two sides: beside verdicts, no part of one."""

from __future__ import annotations

from collections.abc import Sequence

from rich.markup import escape
from rich.table import Table

from skblab_analysis.base.tables import titled
from skblab_analysis.base.words import number, signed
from skblab_analysis.formats import compare, memory
from skblab_analysis.formats.compare import CompareDocument
from skblab_analysis.formats.memory import Misses, Simulated
from skblab_analysis.verdicts.all_sides import label
from skblab_analysis.view import Cells

CAPTION = f"Beyond A, and in brackets what A and A again differ by. {memory.SAID}."


def columns(processor: Simulated) -> list[str]:
    """Return the names of a table's columns."""
    return ["workload", *(memory.NAMES[kind] for kind in processor.kinds)]


def title(document: CompareDocument, side: int) -> str:
    """Return what the table of a side is of."""
    assert document.caches is not None
    a, b = label(document, compare.FIRST), label(document, side)
    return f"Cache lines missed per packet or unit, {document.caches.title}: {b} beside {a}"


def rows(document: CompareDocument, side: int, space: str = " ") -> list[Cells]:
    """Return a row for each workload that both sides have: what the side adds of each kind."""
    found = []
    for workload in document.workloads:
        a = _missed(document, workload.name, compare.FIRST)
        b = _missed(document, workload.name, side)
        if document.caches and len(a) > 1 and b:
            cells = (_cell(a, b[0], kind, space) for kind in document.caches.kinds)
            found.append(Cells(workload.name, tuple(cells)))
    return found


def table(document: CompareDocument, side: int) -> Table | None:
    """Return the table of a side; None where no caches were simulated."""
    shown = rows(document, side)
    if not shown or document.caches is None:
        return None
    found = titled(escape(title(document, side)))
    for name in columns(document.caches):
        found.add_column(name, justify="left" if name == "workload" else "right", no_wrap=True)
    for row in shown:
        found.add_row(row.name, *row.figures)
    found.caption = CAPTION
    return found


def _missed(document: CompareDocument, workload: str, side: int) -> list[Misses]:
    own = [one for one in document.measured if (one.workload, one.side) == (workload, side)]
    own.sort(key=lambda one: one.boot)
    return [one.figure.missed for one in own if one.figure and one.figure.missed]


def _cell(a: Sequence[Misses], b: Misses, kind: str, space: str) -> str:
    first, last = (getattr(one, kind) for one in (a[0], a[-1]))
    added = round(getattr(b, kind) - (first + last) / 2, 1) + 0.0
    return f"{signed(added, 1, space)} ({number(abs(last - first), 1, space)})"
