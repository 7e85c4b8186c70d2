# SPDX-License-Identifier: GPL-2.0-or-later
"""Pictures of what a figure was in each of several runs, by when they were made."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain

from skblab_analysis.base import lines
from skblab_analysis.base.lines import Axis, Figure, Point
from skblab_analysis.base.pictures import Picture, linear, ticks
from skblab_analysis.base.words import joined
from skblab_analysis.report.runs import TIMES, Compared, Line, Shared

# Of two runs a table says as much.
FEWEST = 3
# Pixels of a label with a date, and what is left beside it.
LABEL = 62.0


def pictures(tables: Sequence[Compared]) -> Iterator[tuple[int, Picture]]:
    """Yield a picture of each table that has so many runs, with the table's place."""
    for place, table in enumerate(tables):
        settings = [shared for shared in table.settings if len(shared.lines) >= FEWEST]
        if settings:
            yield place, _picture(table, settings, f"history-{place + 1}")


def shown(settings: Sequence[Shared]) -> list[Shared]:
    """Return the settings that are drawn: those that change most, in their order.

    One name may be of two, of different states.
    """
    by_place = {str(place): shared for place, shared in enumerate(settings)}

    def changes(place: str) -> float:
        return max(abs(_percent(line).value or 0.0) for line in by_place[place].lines)

    return [by_place[place] for place in lines.chosen(list(by_place), None, changes)]


def _picture(table: Compared, settings: Sequence[Shared], name: str) -> Picture:
    drawn = shown(settings)
    names = [shared.setting for shared in drawn]
    every = list(chain.from_iterable(shared.lines for shared in drawn))
    # Runs stand in the order in which they began, however they were named.
    order = sorted({(line.started, line.number) for line in every})
    places = {number: place for place, (_, number) in enumerate(order, 1)}
    most = max(end for line in every for end in _ends(_value(line)))
    unit = "ns" if table.unit in TIMES else ""
    differences = [0.0, *(end for line in every for end in _ends(_percent(line)))]
    low, high = min(differences), max(differences)
    room = (high - low or 1.0) * 0.05
    differs = Axis(
        low - room,
        high + room,
        ticks(linear(low, high if high > low else low + 1.0), "%"),
        "Against the first",
    )
    return lines.lines(
        name,
        f"{table.title}: by run",
        _in_words(drawn),
        _axis(order),
        (Axis.from_zero(most, table.title.partition(":")[0], unit), differs),
        [
            (
                name if names.count(name) == 1 else f"{name} ({names[:place].count(name) + 1})",
                [
                    Point(places[line.number], _value(line), _percent(line))
                    for line in sorted(shared.lines, key=lambda line: places[line.number])
                ],
            )
            for place, (name, shared) in enumerate(zip(names, drawn, strict=True))
        ],
    )


def _axis(order: Sequence[tuple[object, int]]) -> Axis:
    """Return an axis of runs by their numbers."""
    count = len(order)
    places = [place / max(count - 1, 1) for place in range(count)]
    kept = lines.apart([float(place) for place in range(count)], places, LABEL / 2)
    texts = [(order[round(place)][1], place + 1) for place in kept]
    words = ", ".join(f'"{number}" {place:g}' for number, place in texts)
    return Axis(0.7, count + 0.3, words, "run, in the order in which they began")


def _value(line: Line) -> Figure:
    found = line.interval
    return Figure(found.mean, found.low, found.high)


def _percent(line: Line) -> Figure:
    """Return what it differs from the first, in per cent; nothing where that is not known."""
    found = line.differs
    if found is None or not found.of:
        return Figure(0.0) if line.first else lines.NONE

    def percent(end: float | None) -> float | None:
        value = found.in_unit(end)
        return None if value is None else 100 * value / abs(found.of)

    return Figure(100 * found.share, percent(found.low), percent(found.high))


def _ends(figure: Figure) -> list[float]:
    return [end for end in (figure.value, figure.low, figure.high) if end is not None]


def _in_words(drawn: Sequence[Shared]) -> str:
    parts = [
        f"{shared.setting}: {joined([f'{line.mean} in {line.run}' for line in shared.lines])}"
        for shared in drawn
    ]
    return f"{'; '.join(parts)}."
