# SPDX-License-Identifier: GPL-2.0-or-later
"""Inputs from outside, gone wrong: true samples with lines, words, fields and bytes changed.

A reader is given what it was made for, and what a torn pipe, another version of a tool, a counter
that wrapped or a user's slip makes of that. It returns a value, or raises the project's own error
in one line, within seconds of CPU time: `value_or_line` holds it to that.

What is changed is chosen by numbers, which Hypothesis draws, or a random generator.
"""

from __future__ import annotations

import copy
import json
import re
import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from hypothesis import settings
from hypothesis import strategies as st

from skblab_analysis.base.errors import SkblabError

Json = Any
T = TypeVar("T")
# Returns a number from the first to the second, both inside.
Number = Callable[[int, int], int]

# There are many such tests, and one of them finds most of what it will within few inputs.
examples = settings(max_examples=settings().max_examples // 5 * 2)
# Of CPU time, for one input; far more than any takes.
SECONDS = 2.0
LONGEST_MESSAGE = 1000
DEEP = 20_000

# What may stand where a number or a word stood.
WORDS = (
    *("", "0", "-1", "-0", "+1", "1_000", "007", "1.5", "1e3", "1e999", "-1e999", "nan", "inf"),
    *("4294967296", "9223372036854775807", "9223372036854775808", "18446744073709551615"),
    *("-9223372036854775809", "9" * 30, "9" * 5000, "f" * 300, "0x", "0xg", "(null)", "null"),
    # Digits, by what str.isdigit or int take for such.
    *("²", "٣", "１", "-", "--", "=", ":", "|", ",", "%", "[]", "{}", '""', "''", "[", "}"),
    *("true", "é", "\ufffd", "\x00", "\x1b[31m", "\x1c", "\x85", "\u2028", "a b", "\t"),
    *("[" * DEEP, '{"a":' * DEEP, "(" * DEEP, "x" * 5000, " " * 5000),
    *("../../etc/passwd", "$(reboot)", "<END>", "{0}"),
)
# What may stand where a value of a document stood.
VALUES: tuple[Json, ...] = (
    *(None, True, False, 0, 1, -1, 2**31, 2**53 + 1, 2**63 - 1, 2**63, 2**64, 10**40, -(10**40)),
    *(0.5, -0.0, 1e308, float("nan"), float("inf"), float("-inf"), "", "x", "é", "\x00", "\ud800"),
    *("-1", "1", "x" * 5000, "a\nb", [], {}, [None], [[]], {"": None}, [0, 0], [-1, 1], [1, 2, 3]),
)
BYTES = (b"\xff", b"\x00", b"\xc3", b"\xed\xa0\x80", b"\r\n", b"\xef\xbb\xbf")


def value_or_line(read: Callable[[], T]) -> T | None:
    """Return what `read` returns, None for the project's own error; all else it raises fails."""
    begun = time.process_time()
    try:
        return read()
    except SkblabError as error:
        said = str(error)
        assert said.strip() and "\n" not in said and len(said) <= LONGEST_MESSAGE, repr(said)
        return None
    finally:
        assert time.process_time() - begun < SECONDS


def one(number: Number, some: Sequence[T]) -> T:
    """Return one of some."""
    return some[number(0, len(some) - 1)]


def changed_text(number: Number, sample: str) -> str:
    """Return a text with some of its lines and words changed, and seldom cut."""
    lines = sample.split("\n")
    for _ in range(number(1, 3)):
        _change_line(number, lines)
    text = "\n".join(lines)
    return text[: number(0, len(text))] if number(0, 9) == 0 else text


def _change_line(number: Number, lines: list[str]) -> None:
    if not lines:
        lines.append("")
    at, other = (number(0, len(lines) - 1) for _ in range(2))
    how = number(0, 9)
    if how == 0:
        del lines[at]
    elif how == 1:
        lines.insert(other, lines[at])
    elif how == 2:
        lines[at], lines[other] = lines[other], lines[at]
    elif how == 3:
        lines[at] = one(number, WORDS)
    else:
        lines[at] = _changed_words(number, lines[at], lines[other])


def _changed_words(number: Number, line: str, other: str) -> str:
    words = re.findall(r"\s+|\w+|.", line) or [""]
    at, how = number(0, len(words) - 1), number(0, 4)
    if how == 0:
        del words[at]
    elif how == 1:
        words.insert(at, words[at])
    elif how == 2:
        words[at] = one(number, re.findall(r"\w+|\S", other) or [""])
    else:
        words[at] = one(number, WORDS)
    return "".join(words)


def changed_bytes(number: Number, data: bytes) -> bytes:
    """Return data with a part of it cut, or other bytes in it, which may be no UTF-8."""
    first, last = sorted(number(0, len(data)) for _ in range(2))
    how = number(0, 4)
    if how == 0:
        return data[:first]
    if how == 1:
        return data[:first] + data[last:]
    return data[:first] + one(number, BYTES) + data[first + number(0, 1) :]


def changed_document(number: Number, sample: Json) -> Json:
    """Return a document with some of its fields gone, twice, swapped, or of another value."""
    document = copy.deepcopy(sample)
    for _ in range(number(1, 3)):
        if not (isinstance(document, dict | list) and document):
            return one(number, VALUES)
        holder, key = _place(number, document)
        how = number(0, 9)
        if how == 0:
            del holder[key]
        elif how == 1 and isinstance(holder, list):
            holder.insert(key, copy.deepcopy(holder[key]))
        elif how == 1:
            holder[one(number, WORDS)] = holder[key]
        elif how == 2:
            other, there = _place(number, document)
            holder[key] = copy.deepcopy(other[there])
        elif how <= 5 and type(holder[key]) is int:
            holder[key] += one(number, (1, -1))
        else:
            holder[key] = copy.deepcopy(one(number, VALUES))
    return document


def _place(number: Number, document: Json) -> tuple[Any, Any]:
    """Return a place in a document, at any depth: what holds it, and its key there."""
    while True:
        keys = list(document) if isinstance(document, dict) else range(len(document))
        key = one(number, keys)
        below = document[key]
        if not (isinstance(below, dict | list) and below) or number(0, 3) == 0:
            return document, key
        document = below


def _drawn(draw: st.DrawFn) -> Number:
    return lambda low, high: draw(st.integers(low, high))


@st.composite
def texts(draw: st.DrawFn, *samples: str) -> str:
    """A changed text; seldom any text at all."""
    number = _drawn(draw)
    if number(0, 19) == 0:
        return draw(st.text(max_size=200))
    return changed_text(number, one(number, samples))


@st.composite
def contents(draw: st.DrawFn, *samples: str) -> bytes:
    """What a file may hold: such a text, its bytes changed as well, or not."""
    data = draw(texts(*samples)).encode(errors="surrogatepass")
    return changed_bytes(_drawn(draw), data) if draw(st.booleans()) else data


@st.composite
def documents(draw: st.DrawFn, *samples: Json) -> Json:
    """A changed document."""
    number = _drawn(draw)
    return changed_document(number, one(number, samples))


@st.composite
def json_texts(draw: st.DrawFn, *samples: Json) -> str:
    """Such a document as text, which may be changed as text as well."""
    plain = json.dumps(draw(documents(*samples)))
    number = _drawn(draw)
    return changed_text(number, plain) if number(0, 4) == 0 else plain
