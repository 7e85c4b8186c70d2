# SPDX-License-Identifier: GPL-2.0-or-later
"""Whole numbers as documents have them, bounded: beyond that a document is damaged.

A table's columns have 64 bits. Counts that tools print have 53, up to where every reader of JSON
has whole numbers (RFC 8259, section 6): so what is summed up of them has its place in a column.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from skblab_analysis.base.errors import one_line

MOST = 2**63 - 1
MOST_COUNTED = 2**53

Count = Annotated[int, Field(ge=0, le=MOST_COUNTED)]
Whole = Annotated[int, Field(ge=0, le=MOST)]
Signed = Annotated[int, Field(ge=-MOST, le=MOST)]
Positive = Annotated[int, Field(gt=0, le=MOST)]


def whole(word: object, most: int = MOST) -> int:
    """Return the number that a word is; ValueError if it is more than its ASCII digits.

    `int` takes signs, underscores and the digits of all scripts, and a number of any length.
    """
    text = str(word)
    if text.isascii() and text.isdecimal() and len(text) <= 20 and (number := int(text)) <= most:
        return number
    raise ValueError(f"{one_line(text, 40)!r}: expected a whole number from 0 to {most}")
