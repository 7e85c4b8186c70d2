# SPDX-License-Identifier: GPL-2.0-or-later
"""Pictures of one trial of the probe: shares of the path, and how the times are distributed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from skblab_analysis.base import pictures
from skblab_analysis.base.pictures import (
    INK,
    MISSING,
    SMALLEST,
    Curve,
    Picture,
    colour,
    decades,
    linear,
    powers,
    quoted,
    slowest_words,
    ticks,
)
from skblab_analysis.base.words import quantity, share
from skblab_analysis.layers.series import Series
from skblab_analysis.layers.words import PATHS, label


def distribution(name: str, what: str, title: str, found: Sequence[Series]) -> Picture:
    """Return the distributions of series, each of which holds a value; `what` is counted."""
    curves = [Curve(label(one), one.histogram, one.kind == "total") for one in found]
    return pictures.distribution(name, what, title, found[0].unit, curves)


def share_picture(name: str, found: Sequence[Series], without: Series | None = None) -> Picture:
    """Mean times laid end to end, with median and tail beside them. One row a layer.

    `found` holds the layers in order and the whole path, with a value in each. `without` is a
    layer to leave out; shares are then of the others' time.
    """
    unit = found[0].unit
    layers = [one for one in found if one.kind == "layer"]
    packets = max(one.histogram.count for one in found)
    coloured = {one.layer: colour(place) for place, one in enumerate(layers)}
    shown = [one for one in layers if one is not without]
    whole = sum(one.histogram.total for one in shown)
    lines, start = [], 0.0
    for one in shown:
        # Over all packets, also those that skip this layer: only so do the bars add up.
        width = one.histogram.total / packets
        words = f"{share(one.histogram.total / whole if whole else None)} · {quantity(width, unit)}"
        lines.append(_share_line(one, label(one), start, start + width, coloured[one.layer], words))
        start += width
    totals = [one for one in found if one.kind == "total"]
    if without is None:
        for one in totals:
            mean = one.histogram.total / packets
            lines.append(_share_line(one, "whole path", 0, mean, INK, quantity(mean, unit)))
            start = max(start, mean)
        shown = [*shown, *totals]
    low = min(_median(one) for one in shown)
    high = max(one.histogram.maximum for one in shown)
    tail_low, tail_high = decades(low, high)
    title = f"Where {PATHS[found[0].path or 'receive']} goes"
    return Picture(
        name=name,
        template=Path(__file__).with_name("share.gp"),
        title=title if without is None else f"{title}, without {label(without)}",
        description=_share_words(shown),
        variables={
            "rows": len(lines),
            "mean_max": max(start, SMALLEST) * 1.02,
            "mean_ticks": ticks(linear(0, max(start, SMALLEST)), unit),
            "tail_min": tail_low,
            "tail_max": tail_high,
            "tail_ticks": ticks(powers(tail_low, tail_high), unit),
        },
        data="# layer start end colour p50 p99 max text text\n" + "".join(lines),
    )


def _share_line(one: Series, name: str, start: float, end: float, paint: int, words: str) -> str:
    histogram = one.histogram
    p50, p99 = histogram.quantile(0.5), histogram.quantile(0.99)
    marks = [_mark(p50), _mark(p99), _mark(histogram.maximum)]
    tail = " · ".join(quantity(value, one.unit) for value in (p50, p99) if value is not None)
    return " ".join(
        [
            quoted(name),
            f"{start:.3f} {end:.3f} {paint}",
            *marks,
            quoted(words),
            f"{quoted(tail)}\n",
        ]
    )


def _mark(value: float | None) -> str:
    return MISSING if value is None else f"{max(value, SMALLEST):.3f}"


def _median(one: Series) -> float:
    """The leftmost mark of a row: the median, or the maximum where that alone is given."""
    median = one.histogram.quantile(0.5)
    return one.histogram.maximum if median is None else median


def _share_words(found: Sequence[Series]) -> str:
    parts = []
    for one in found:
        name = "the whole path" if one.kind == "total" else label(one)
        histogram = one.histogram
        figures = [
            f"mean {quantity(histogram.mean, one.unit)}",
            f"median {quantity(histogram.quantile(0.5), one.unit)}",
            f"99 % {quantity(histogram.quantile(0.99), one.unit)}",
            slowest_words(histogram, one.unit),
        ]
        parts.append(f"{name}: {', '.join(figures)}")
    return "; ".join(parts) + "."
