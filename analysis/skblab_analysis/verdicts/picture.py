# SPDX-License-Identifier: GPL-2.0-or-later
"""The picture of what each workload costs on further sides, beside the first."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from skblab_analysis.base import labels
from skblab_analysis.base.pictures import (
    COLOURS,
    MISSING,
    NARROW_PANEL,
    Picture,
    linear,
    quoted,
    ticks,
)
from skblab_analysis.base.words import share
from skblab_analysis.verdicts.all_sides import Cost

# Pixels for the name of a workload, for the names of sides in a line, and for that of the first one
# where there is less room.
NAMES = 200.0
LEGEND = 610.0
NARROW_NAME = 200.0
# Of a point and what is around it in the legend.
MARK = 40.0
# Per cent that are shown at least: two boots differ by less, and that is not to fill the picture.
LEAST = 0.5
# The points of sides; a colour that comes again has another one.
CIRCLE, SQUARE = 7, 5


def picture(name: str, sides: Sequence[str], costs: Sequence[Cost]) -> Picture | None:
    """Return a row for each workload that the first side and another one can do; None of none.

    `sides` are their names, the first one's first.
    """
    first, *others = (" ".join(side.split()) for side in sides)
    shown = [
        (cost, shares)
        for cost in costs
        for shares in [[cost.beside_first(side) for side in range(1, len(sides))]]
        if any(one is not None for one in shares)
    ]
    if not shown or not others:
        return None
    values = [100 * one for _, shares in shown for one in shares if one is not None]
    low, high = min(-LEAST, *values), max(LEAST, *values)
    widest = max(map(_width, others)) + MARK
    columns = max(1, min(len(others), int(LEGEND / widest)))
    names = labels.names(
        [cost.workload.name for cost, _ in shown],
        [NAMES] * len(shown),
        _width,
    )
    return Picture(
        name=name,
        template=Path(__file__).with_suffix(".gp"),
        title=f"Instructions per packet or unit, relative to {first}",
        description=_in_words(first, others, shown),
        variables={
            "rows": len(shown),
            "series": len(others),
            "baseline": labels.elided(first, LEGEND, _width),
            "narrow_baseline": labels.elided(first, NARROW_NAME, _width),
            "titles": labels.names(others, [LEGEND - MARK] * len(others), _width),
            "narrow_titles": labels.names(others, [NARROW_PANEL - MARK] * len(others), _width),
            "legend_rows": -(-len(others) // columns),
            "colours": [COLOURS[place % len(COLOURS)] for place in range(len(others))],
            "marks": [SQUARE if place >= len(COLOURS) else CIRCLE for place in range(len(others))],
            "low": low - 0.03 * (high - low),
            "high": high + 0.03 * (high - low),
            "ticks": ticks(linear(low, high), "%"),
        },
        data="# workload and what each side adds, in per cent\n"
        + "".join(
            f"{quoted(label)} {' '.join(map(_cell, shares))}\n"
            for label, (_, shares) in zip(names, shown, strict=True)
        ),
    )


def _width(text: str) -> float:
    return labels.width(text, labels.PNG_SIZE)


def _cell(value: float | None) -> str:
    return MISSING if value is None else f"{100 * value:.3f}"


def _in_words(
    first: str, others: Sequence[str], shown: Sequence[tuple[Cost, Sequence[float | None]]]
) -> str:
    told = [
        f"{cost.workload.name}: "
        + ", ".join(
            f"{other} {share(value, 1, sign=True)}"
            for other, value in zip(others, shares, strict=True)
        )
        for cost, shares in shown
    ]
    return f"Relative to {first}. {'; '.join(told)}."
