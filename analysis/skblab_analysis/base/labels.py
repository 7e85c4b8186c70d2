# SPDX-License-Identifier: GPL-2.0-or-later
"""Labels of a picture: how wide a text is, and names that are cut so that nothing overlaps.

Widths are those of DejaVu Sans, the widest of the fonts that pictures and pages are shown in. A
name that is cut stands in full in the table beside its picture.
"""

from __future__ import annotations

import bisect
import re
from collections.abc import Callable, Sequence

# Heights of text in pixels of a picture's width: in SVG, and in PNG, whose points are larger.
SVG_SIZE = 13.0
PNG_SIZE = 13.0 * 96 / 72
# Between two texts in a line.
GAP = 14.0
ELLIPSIS = "…"

# Parts of the height; what is not there is as wide as most letters.
_EMS = {
    **dict.fromkeys("ijlI'|", 0.34),
    **dict.fromkeys(".,:;/\\!()[] \u00a0\u202ftfr-`", 0.42),
    **dict.fromkeys('_"*ckszvxyJLF?', 0.6),
    **dict.fromkeys("w=+−±~<>NQOGDHU&#→≤≥", 0.84),
    **dict.fromkeys("mM%W@…■●", 1.0),
}
_LETTER = 0.64
_CAPITAL = 0.72


# What cannot stand in a script of gnuplot's, or in SVG.
_UNFIT = re.compile(r'["\\`\x00-\x1f\x7f-\x9f\ud800-\udfff]')


def fit(text: str) -> str:
    """Return a text as a picture can have it: another sign for what cannot stand in its script."""
    return _UNFIT.sub("?", text)


def width(text: str, size: float) -> float:
    """Return how wide a text is at most, in the unit of `size`, its height."""
    return size * sum(
        _EMS.get(letter, _CAPITAL if letter.isupper() else _LETTER) for letter in text
    )


def elided(text: str, room: float, measure: Callable[[str], float]) -> str:
    """Return a text that has room by its measure: without its middle if it has not.

    A text that begins or ends with another must measure no less than that one.
    """
    if measure(text) <= room:
        return text

    def cut(kept: int) -> str:
        head = (kept + 1) // 2
        return f"{text[:head].rstrip()}{ELLIPSIS}{text[len(text) - (kept - head) :].lstrip()}"

    # One that keeps more measures no less: a name of 20 000 letters is measured 15 times.
    numbers = range(2, len(text))
    fitting = bisect.bisect_right(numbers, room, key=lambda kept: measure(cut(kept)))
    return cut(numbers[fitting - 1]) if fitting else ELLIPSIS


def names(
    found: Sequence[str], rooms: Sequence[float], measure: Callable[[str], float]
) -> list[str]:
    """Return each name in its room; those that would be alike get the number of their row."""
    made = [elided(name, room, measure) for name, room in zip(found, rooms, strict=True)]
    numbered = []
    for place, (name, room) in enumerate(zip(found, rooms, strict=True), 1):
        cut = made[place - 1]
        if cut != name and made.count(cut) > 1:
            first = f"{place}: "
            cut = first + elided(name, room - measure(first), measure)
        numbered.append(cut)
    return numbered


def in_lines(
    found: Sequence[str], beside: Sequence[Sequence[str]], of: float, size: float
) -> list[str]:
    """Return names that stand in lines `of` a length, each with any of these texts as well."""

    def measure(text: str) -> float:
        return width(text, size)

    rooms = [of - GAP - max(map(measure, texts)) for texts in beside]
    return names(found, rooms, measure)
