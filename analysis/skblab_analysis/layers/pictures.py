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
from skblab_analysis.layers.words import label, whose


def distribution(name: str, what: str, title: str, found: Sequence[Series]) -> Picture:
    """Return the distributions of series, each of which holds a value; `what` is counted."""
    curves = [Curve(label(series), series.histogram, series.kind == "path") for series in found]
    return pictures.distribution(name, what, title, found[0].unit, curves)


def share_picture(name: str, found: Sequence[Series], without: Series | None = None) -> Picture:
    """Mean times laid end to end, with median and tail beside them. One row a layer.

    `found` holds the layers in order and the whole path, with a value in each. `without` is a
    layer to leave out; shares are then of the others' time.
    """
    unit = found[0].unit
    layers = [series for series in found if series.kind == "layer"]
    totals = [series for series in found if series.kind == "path"]
    packets = sum(series.histogram.count for series in totals)
    coloured = {series.layer: colour(place) for place, series in enumerate(layers)}
    shown = [series for series in layers if series is not without]
    # Over all packets, also those that skip this layer: only so do the bars add up. Of a layer that
    # others pass as well the bar is the mean of all.
    widths = [series.histogram.total / max(packets, series.histogram.count) for series in shown]
    whole = sum(widths)
    lines, start = [], 0.0
    for series, width in zip(shown, widths, strict=True):
        words = f"{share(width / whole if whole else None)} · {_brief(width, unit)}"
        lines.append(
            _share_line(series, label(series), start, start + width, coloured[series.layer], words)
        )
        start += width
    if without is None:
        for series in totals:
            mean = series.histogram.total / packets
            lines.append(_share_line(series, "whole path", 0, mean, INK, _brief(mean, unit)))
            start = max(start, mean)
        shown = [*shown, *totals]
    low = min(_median(series) for series in shown)
    high = max(series.histogram.maximum for series in shown)
    tail_low, tail_high = decades(low, high)
    title = f"Where {whose(found)} goes"
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


def _share_line(series: Series, name: str, start: float, end: float, paint: int, words: str) -> str:
    histogram = series.histogram
    p50, p99 = histogram.quantile(0.5), histogram.quantile(0.99)
    marks = [_mark(p50), _mark(p99), _mark(histogram.maximum)]
    tail = " · ".join(_brief(value, series.unit) for value in (p50, p99) if value is not None)
    return " ".join(
        [
            quoted(name),
            f"{start:.3f} {end:.3f} {paint}",
            *marks,
            quoted(words),
            f"{quoted(tail)}\n",
        ]
    )


def _brief(value: float | None, unit: str) -> str:
    """Return a value in few letters: that instructions are meant the heading says."""
    return quantity(value, unit).removesuffix(" instructions")


def _mark(value: float | None) -> str:
    return MISSING if value is None else f"{max(value, SMALLEST):.3f}"


def _median(series: Series) -> float:
    """The leftmost mark of a row: the median, or the maximum where that alone is given."""
    median = series.histogram.quantile(0.5)
    return series.histogram.maximum if median is None else median


def _share_words(found: Sequence[Series]) -> str:
    parts = []
    for series in found:
        name = "the whole path" if series.kind == "path" else label(series)
        histogram = series.histogram
        figures = [
            f"mean {quantity(histogram.mean, series.unit)}",
            f"median {quantity(histogram.quantile(0.5), series.unit)}",
            f"99 % {quantity(histogram.quantile(0.99), series.unit)}",
            slowest_words(histogram, series.unit),
        ]
        parts.append(f"{name}: {', '.join(figures)}")
    return "; ".join(parts) + "."
