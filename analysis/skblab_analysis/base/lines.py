# SPDX-License-Identifier: GPL-2.0-or-later
"""The picture of two figures of several things over one axis, such as rate and loss by load."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from skblab_analysis.base import labels
from skblab_analysis.base.pictures import (
    COLOURS,
    LEGENDS,
    MISSING,
    NARROW_LEGEND,
    TEMPLATES,
    Picture,
    Value,
    linear,
    quoted,
    tick_texts,
    ticks,
)

# As many have colours that can be told apart.
MOST = len(COLOURS)
# Pixels of a panel's axis where the picture is narrow, and of the height of a line.
PANEL = 242.0
LINE = 24.0
# Of a tick's label: its height, and what is left between two.
TICK_SIZE = 12.0
TICK_GAP = 8.0
# A logarithmic axis reaches beyond its values by as much.
MARGIN = 1.15
# A little wider, or rounding drops what stands on the edge.
EDGE = 1.25
# Where a logarithmic axis has ticks: the first of these that give it as many as FEWEST.
FACTORS = ((1, 2, 5), range(1, 10), [factor / 10 for factor in range(10, 100)])
FEWEST = 3
# Powers of ten that an axis of shares has at most.
MOST_POWERS = 5


@dataclass(frozen=True)
class Figure:
    """A figure with the ends of its interval, where it has one; None: it is not there."""

    value: float | None = None
    low: float | None = None
    high: float | None = None

    @property
    def cells(self) -> list[str]:
        """What the data has of it: without an interval both ends are the figure."""
        ends = (self.low, self.high)
        low, high = (self.value if end is None else end for end in ends)
        return [MISSING if part is None else f"{part:.9g}" for part in (self.value, low, high)]


NONE = Figure()


def chosen(
    names: Sequence[str], baseline: str | None, differs: Callable[[str], float]
) -> list[str]:
    """Return the settings that are drawn: the baseline, and those that differ most from it."""
    if len(names) <= MOST:
        return list(names)
    order = sorted(names, key=lambda name: (name != baseline, -differs(name)))[:MOST]
    return [name for name in names if name in order]


def some_of(drawn: int, of_all: int) -> str:
    """Return which settings are drawn, in a sentence; empty if all are."""
    if drawn >= of_all:
        return ""
    return f"{drawn} of {of_all} settings: the baseline, and those that differ most from it."


@dataclass(frozen=True)
class Point:
    """What one thing has at one place of the axis: `thin` is another one of the first panel."""

    x: float
    first: Figure = NONE
    second: Figure = NONE
    thin: float | None = None

    @property
    def line(self) -> str:
        """Its line of the data."""
        thin = MISSING if self.thin is None else f"{self.thin:.9g}"
        return " ".join([f"{self.x:.9g}", *self.first.cells, *self.second.cells, thin])


@dataclass(frozen=True)
class Axis:
    """An axis: from where to where, its ticks in gnuplot's words, and what it is of."""

    low: float
    high: float
    ticks: str
    label: str
    log: bool = False

    @classmethod
    def from_zero(cls, most: float, label: str, unit: str = "") -> Axis:
        """Return one from 0 to `most` and a little more."""
        top = most or 1.0
        return cls(0.0, top * 1.05, ticks(linear(0, top), unit), label)

    @classmethod
    def at(cls, values: Sequence[float], label: str) -> Axis:
        """Return a logarithmic one with ticks at these values, above 0 and in order."""
        low, high = values[0] / MARGIN, values[-1] * MARGIN
        length = math.log(high / low)
        places = [math.log(value / low) / length for value in values]
        shown = apart(values, places, _room(values))
        return cls(low, high, ticks(shown, ""), label, log=True)

    @classmethod
    def by_factors(cls, values: Iterable[float], label: str, *, upright: bool = False) -> Axis:
        """Return a logarithmic one around values above 0, with ticks at 1, 2 and 5, or at more."""
        known = [value for value in values if value > 0] or [1.0]
        low, high = min(known) / MARGIN, max(known) * MARGIN
        length = math.log(high / low)
        decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
        inside: list[float] = []
        for factors in FACTORS:
            steps = [factor * 10.0**power for power in decades for factor in factors]
            inside = [step for step in steps if low <= step <= high]
            if len(inside) >= FEWEST:
                break
        places = [math.log(step / low) / length for step in inside]
        shown = apart(inside, places, LINE if upright else _room(inside))
        return cls(low, high, ticks(shown, ""), label, log=True)


def lines(
    name: str,
    title: str,
    description: str,
    x: Axis,
    panels: tuple[Axis, Axis],
    found: Sequence[tuple[str, Sequence[Point]]],
    limit: Sequence[Point] = (),
    *,
    points: bool = False,
) -> Picture:
    """Return the picture of at most MOST things by their names, each with its points in order.

    `limit` is what cannot be exceeded, drawn dashed. `points`: they are not joined by lines.
    """
    names = [name for name, _ in found]
    longest = max(map(len, names))
    columns = next((count for count, letters in LEGENDS.items() if longest <= letters), 2)
    first, second = panels
    variables: dict[str, Value] = {
        "series": len(found),
        "titles": labels.names(names, [LEGENDS[columns]] * len(names), len),
        "narrow_titles": labels.names(
            names, [NARROW_LEGEND] * len(names), lambda text: labels.width(text, labels.SVG_SIZE)
        ),
        "colours": list(COLOURS[: len(found)]),
        "legend_columns": columns,
        "points": int(points),
        "limit": int(bool(limit)),
        "from": x.low,
        "to": x.high,
        "x_log": int(x.log),
        "x_ticks": x.ticks,
        "x_label": x.label,
    }
    for place, axis in (("y1", first), ("y2", second)):
        variables |= {
            f"{place}_from": axis.low,
            f"{place}_to": axis.high,
            f"{place}_log": int(axis.log),
            f"{place}_ticks": axis.ticks,
            f"{place}_label": axis.label,
        }
    blocks = [*found, *([("what cannot be exceeded", limit)] if limit else [])]
    return Picture(
        name=name,
        template=TEMPLATES / "lines.gp",
        title=title,
        description=description,
        variables=variables,
        data="\n\n".join(_block(name, block) for name, block in blocks),
    )


def apart(values: Sequence[float], places: Sequence[float], room: float) -> list[float]:
    """Return those of the values whose labels do not touch, the first and the last among them.

    `places` has where each is on the axis, from 0 to 1; `room` is what a label takes, in pixels.
    """
    kept: list[int] = []
    for at, place in enumerate(places):
        if not kept or (place - places[kept[-1]]) * PANEL >= room:
            kept.append(at)
    last = len(values) - 1
    if kept and kept[-1] != last:
        if len(kept) > 1:
            kept.pop()
        kept.append(last)
    return [values[at] for at in kept]


def _room(values: Sequence[float]) -> float:
    """Return what the widest label takes beside others."""
    widths = (labels.width(text, TICK_SIZE) for text in tick_texts(values, ""))
    return max(widths, default=0.0) + TICK_GAP


def _block(name: str, found: Sequence[Point]) -> str:
    # A line break would begin a line of data.
    head = f"# {' '.join(name.split())}"
    return "\n".join([head, *(point.line for point in found)]) + "\n"


def share_axis(shares: Iterable[float], label: str) -> Axis:
    """Return a logarithmic axis of shares, whose lower end stands for none.

    What is drawn of a share is `drawn()`.
    """
    least = min((share for share in shares if share > 0), default=0.1)
    first = min(math.floor(math.log10(least)), -1)
    powers = range(first, 1, math.ceil((1 - first) / MOST_POWERS))
    floor = 10.0 ** (first - 0.6)
    low = floor / EDGE
    words = [f"{quoted('none')} {floor:g}"]
    words += [f'"{100 * 10.0**power:g} %%" {10.0**power:g}' for power in powers]
    return Axis(low, EDGE, ", ".join(words), label, log=True)


def drawn(share: float, axis: Axis) -> float:
    """Return where a share is on its axis: none is at the lower end."""
    return max(share, axis.low * EDGE)
