# SPDX-License-Identifier: GPL-2.0-or-later
"""Figures in a text, as a document has it or a command prints it: numbers, tables, and where."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

# Thousands are apart by a space, columns by two.
NUMBER = r"[+−-]?(?:\d{1,3}(?: \d{3})+(?!\d)|\d+)(?:\.\d+)?"
_TIME = r"[nuµm]s|s|(?:second|minute|hour)s?"
_UNIT = rf"(?:{_TIME}|instructions?|%|times|×|[km]?pps|packets (?:a|per) second)"
# What looks like a measurement: a number with its unit, or one that says how much more or less.
MEASURED = re.compile(
    rf"(?<![\w.,:]){NUMBER}[ \n]?{_UNIT}(?!\w)|(?<![\w.])[+−]\d[\d ]*(?:\.\d+)?(?![\w.])"
)
_NUMBER = re.compile(rf"(?<![\w.]){NUMBER}(?!\w)|(?<![\w.]){NUMBER}(?=(?:{_UNIT})(?!\w))")
_RULE = re.compile(r"\s*[─-]{4,}[\s─-]*")
_CELL = re.compile(r"\S+(?: \S+)*")
_CODE = re.compile(r"(?: {4}|\t)")


def numbers(text: str) -> list[float]:
    """Return the numbers in a text."""
    return [number(match[0]) for match in _NUMBER.finditer(text)]


def number(text: str) -> float:
    """Return a number as we print it."""
    return float(text.replace(" ", "").replace("−", "-"))


def flexible(text: str) -> str:
    """Return a pattern for a text, however its lines are broken."""
    return r"\s+".join(re.escape(word) for word in text.split())


@dataclass(frozen=True)
class Row:
    """A row of a printed table: its label, and the numbers of each column, by the column's name."""

    label: str
    columns: tuple[tuple[str, tuple[float, ...]], ...]


Line = Row | str


def lines(text: str) -> Iterator[Line]:
    """Yield what is in a text: a row of a table with its numbers, or else the line without them."""
    header: list[tuple[str, int, int]] = []
    all_lines = text.splitlines()
    for at, line in enumerate(all_lines):
        below = all_lines[at + 1] if at + 1 < len(all_lines) else ""
        cells = [(match[0], match.start(), match.end()) for match in _CELL.finditer(line)]
        if not cells or _RULE.fullmatch(line):
            continue
        filled = [(cell, start, end) for cell, start, end in cells[1:] if numbers(cell)]
        if _RULE.fullmatch(below) or (len(cells) > 2 and not filled):
            header = cells
        elif filled and header:
            found = ((_column(header, *at), tuple(numbers(cell))) for cell, *at in filled)
            yield Row(_without_numbers(cells[0][0]), tuple(found))
        else:
            yield _without_numbers(line.strip())


def _column(header: list[tuple[str, int, int]], start: int, end: int) -> str:
    """Return the name of the column that has most of what is between two places."""
    return max(header, key=lambda cell: (min(cell[2], end) - max(cell[1], start), cell[1]))[0]


def _without_numbers(text: str) -> str:
    return re.sub(r"\d+(?:[ .]\d+)*", "#", text)


def block(text: str, start: int) -> tuple[int, int]:
    """Return where the first table or code after `start` begins and ends; ValueError if none is."""
    at = text.find("\n", start) + 1
    begun, fenced = -1, False
    while 0 < at < len(text):
        end = text.find("\n", at)
        end = len(text) if end < 0 else end
        line = text[at:end]
        fence = line.startswith("```")
        inside = fenced or bool(_CODE.match(line)) or line.startswith("|")
        if fence and fenced and begun >= 0:
            return begun, at
        if fence:
            fenced = not fenced
        elif inside and begun < 0:
            begun = at
        elif begun >= 0 and line.strip() and not inside:
            return begun, at
        at = end + 1
    if begun < 0:
        raise ValueError
    return begun, len(text)


def measured(text: str) -> Iterator[tuple[int, int]]:
    """Yield where a document has what looks like a measurement; in a table of code, each row."""
    for match in MEASURED.finditer(text):
        yield match.span()
    at = 0
    for line in text.splitlines(keepends=True):
        cells = _CELL.findall(line)
        row = sum(bool(re.fullmatch(rf"{NUMBER}(?: ?{_UNIT})?", cell)) for cell in cells[1:])
        if row >= 2:
            yield at, at + len(line)
        at += len(line)
