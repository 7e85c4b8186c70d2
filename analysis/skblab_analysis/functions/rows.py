# SPDX-License-Identifier: GPL-2.0-or-later
"""Instructions by kernel function, as a table for other programs.

It is made of `functions.json` whenever a report is, and skblab reads it nowhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from skblab_analysis.base.rows import NO_UNIT, Column, Row, Stored
from skblab_analysis.base.whole import Whole
from skblab_analysis.formats import bench
from skblab_analysis.formats.functions import Case, FunctionsDocument, Side

UNIT = "instructions/packet"


class FunctionRow(Row):
    """What a packet takes in one function of a kernel or row."""

    row: Annotated[str, Column(NO_UNIT, "Name of the row: of a profile `a`, `b`, `b2` …")]
    title: Annotated[str, Column(NO_UNIT, "The row in words, such as a setting's name.")]
    kernel: Annotated[str, Column(NO_UNIT, "Release of its kernel, as `uname -r` says.")]
    case: Annotated[
        Case,
        Column(NO_UNIT, "What a packet did: it was forwarded, received, or polled."),
    ]
    family: Annotated[Whole, Column(NO_UNIT, "4: IPv4, 6: IPv6.")]
    function: Annotated[str, Column(NO_UNIT, "Name of the function.")]
    instructions: Annotated[
        float, Column(UNIT, "What it executes itself; a string instruction counts once.")
    ]
    again: Annotated[float, Column(UNIT, "Further iterations of its string instructions.")]
    inclusive: Annotated[
        float | None,
        Column(UNIT, "`instructions` of it and of all that it calls; null: of an older run."),
    ]


FUNCTIONS = Stored(
    FunctionRow,
    "functions",
    "what a packet takes in one function of one kernel or row. Derived from `functions.json` "
    "whenever a report is made, and read by nothing in skblab",
)


def rows(documents: Sequence[FunctionsDocument]) -> list[FunctionRow]:
    """Return a row for each function that is executed in a row of the documents, of one run.

    What several are compared with is there once.
    """
    sides: list[tuple[FunctionsDocument, Side, bench.Row]] = []
    for number, document in enumerate(documents):
        if document.a is not None and not number:
            sides.append((document, "a", document.a))
        sides.append((document, "b", document.b))
    return [
        FunctionRow(
            row=row.name,
            title=row.title,
            kernel=row.kernel,
            case=document.case,
            family=document.family,
            function=function.name,
            instructions=taken.own,
            again=taken.again,
            inclusive=taken.inclusive,
        )
        for document, side, row in sides
        for function in document.functions
        if any(taken := function.of(side))
    ]
