# SPDX-License-Identifier: GPL-2.0-or-later
"""Figures as documents have them beside those that a command prints now."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from skblab.figures import printed
from skblab.figures.listing import Figure, Within
from skblab.figures.printed import Row


@dataclass(frozen=True)
class Compared:
    """A number of a figure, then and now; `now` is None if the command does not print it."""

    name: str
    document: str
    then: float
    now: float | None
    within: Within

    @property
    def holds(self) -> bool:
        """Whether it is still so."""
        return self.now is not None and self.within.holds(self.then, self.now)


def compare(figure: Figure, output: str) -> Iterator[Compared]:
    """Yield each number of a figure that is compared."""
    for name, within, then, now in _pairs(figure, output):
        for at, (old, new) in enumerate(zip_longest(then, now)):
            if old is None or not within.compared:
                continue
            which = f" ({at + 1})" if len(then) > 1 else ""
            yield Compared(name + which, figure.document, old, new, within)


Pair = tuple[str, Within, Sequence[float], Sequence[float]]


def _pairs(figure: Figure, output: str) -> Iterator[Pair]:
    if figure.after:
        yield from _rows(figure, output)
    elif figure.read:
        found = figure.pattern.search(output)
        now = [printed.number(group) for group in found.groups()] if found else []
        name = " ".join(figure.text.split())
        yield name, figure.within, printed.numbers(figure.text), now


def _rows(figure: Figure, output: str) -> Iterator[Pair]:
    """Yield the columns of each row of a table, with those of the same row in what is printed.

    Rows are in the same order in both; lines between them, such as `IPv6`, tell those of one label
    apart.
    """
    shown = list(printed.lines(output))
    at, heading = 0, ""
    for line in printed.lines(figure.content):
        wanted = line.label if isinstance(line, Row) else line
        same = type(line)
        where = next(
            (
                number
                for number, candidate in enumerate(shown[at:], at)
                if isinstance(candidate, same)
                and wanted == (candidate.label if isinstance(candidate, Row) else candidate)
            ),
            None,
        )
        other = () if where is None else shown[where]
        at = at if where is None else where + 1
        if isinstance(line, str):
            heading = line.partition(" (")[0]
            continue
        now = list(other.columns) if isinstance(other, Row) else []
        for column, then in line.columns:
            name = f"{heading} / {line.label}: {column}".removeprefix(" / ")
            # The first that is left: two columns may have one name.
            mine = next((cell for cell in now if cell[0] == column), (column, ()))
            now = [cell for cell in now if cell is not mine]
            yield name, figure.columns.get(column, figure.within), then, mine[1]
