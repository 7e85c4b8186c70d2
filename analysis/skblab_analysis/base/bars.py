# SPDX-License-Identifier: GPL-2.0-or-later
"""The picture of one figure of several things: a bar for each, with its name and what it is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from skblab_analysis.base import labels
from skblab_analysis.base.pictures import (
    COLOURS,
    MUTED,
    NARROW_PANEL,
    TEMPLATES,
    Picture,
    linear,
    quoted,
    ticks,
)

# Pixels of a line that has a name where the picture is wide.
WIDE = 830.0
# Of a difference: what is more, what is less.
MORE, LESS = COLOURS[1], COLOURS[2]


@dataclass(frozen=True)
class Bar:
    """A bar: from 0 to `value`, which `text` says; `muted` if it may be chance."""

    name: str
    value: float
    text: str
    muted: bool = False


def bars(name: str, title: str, axis: str, found: Sequence[Bar], *, compared: bool) -> Picture:
    """Return the picture of at least one bar; `compared`: of differences, by their sign.

    `axis` stands above the bars, and is what they are of, with its unit.
    """
    beside = [(bar.text,) for bar in found]
    names = [bar.name for bar in found]
    wide = labels.in_lines(names, beside, WIDE, labels.PNG_SIZE)
    narrow = labels.in_lines(names, beside, NARROW_PANEL, labels.SVG_SIZE)
    low = min(0.0, *(bar.value for bar in found))
    high = max(0.0, *(bar.value for bar in found))
    if low == high:
        high = 1.0
    lines = (
        f"{quoted(wide_name)} {bar.value:.6g} {_colour(bar, compared=compared)} "
        f"{quoted(bar.text)} {quoted(narrow_name)}\n"
        for bar, wide_name, narrow_name in zip(found, wide, narrow, strict=True)
    )
    said = "; ".join(f"{bar.name}: {bar.text}" for bar in found)
    return Picture(
        name=name,
        template=TEMPLATES / "bars.gp",
        title=title,
        description=f"{title}, {axis}. {said}.",
        variables={
            "rows": len(found),
            "axis": axis,
            "low": low * 1.02,
            "high": high * 1.02,
            "bar_ticks": ticks(linear(low, high), ""),
        },
        data="# name value colour text name\n" + "".join(lines),
    )


def _colour(bar: Bar, *, compared: bool) -> int:
    if bar.muted:
        return MUTED
    if not compared:
        return COLOURS[0]
    return MORE if bar.value > 0 else LESS
