# SPDX-License-Identifier: GPL-2.0-or-later
"""TOML files that users write: read, validated, and what is wrong said with its line."""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from skblab_analysis.base import textfile
from skblab_analysis.base.errors import UsageError

Model = TypeVar("Model", bound=BaseModel)
Place = tuple[int | str, ...]

SHOWN_FAULTS = 3
_TABLE = re.compile(r"\s*\[(\[)?([^\[\]]+)\](\])?\s*(?:#.*)?")
_PART = r"""(?:[A-Za-z0-9_-]+|"[^"]*"|'[^']*')"""
_KEY = re.compile(rf"\s*({_PART}(?:\s*\.\s*{_PART})*)\s*=")


def read(model: type[Model], file: Path, what: str) -> Model:
    """Return a validated file; UsageError says `FILE:LINE: what was found, what is expected`.

    `what` names it when it cannot be read, such as "the experiment".
    """
    text = textfile.read(file, what)
    try:
        return model.model_validate(parse(text, f"{what} {file}"))
    except ValidationError as error:
        faults = error.errors(include_url=False, include_context=False)
        said = [
            (fault["loc"], _said(fault["type"], fault["msg"]))
            for fault in faults
            # A list whose items are wrong counts as too short, which it is not.
            if fault["type"] != "too_short"
            or not any(_inside(other["loc"], fault["loc"]) for other in faults)
        ]
        raise _complaint(file, text, said) from error


def _inside(place: Place, other: Place) -> bool:
    """Return whether a place lies within another one."""
    return len(place) > len(other) and place[: len(other)] == other


def _said(kind: str, message: str) -> str:
    """Return what pydantic says of a fault in words of a file and its keys."""
    own = {"missing": "is missing: write it", "extra_forbidden": "there is no such key"}
    return own.get(kind, message.removeprefix("Value error, "))


def parse(text: str, what: str) -> dict[str, Any]:
    """Return a TOML document; UsageError says what is wrong in which line."""
    try:
        return tomllib.loads(text)
    except RecursionError as error:
        raise UsageError(f"{what} is no TOML: it is nested too deeply") from error
    # A number of too many digits is no TOMLDecodeError.
    except ValueError as error:
        raise UsageError(f"{what} is no TOML: {error}") from error


def complaint(file: Path, faults: Sequence[tuple[Place, str]]) -> UsageError:
    """Return the error that says what is wrong at which places of a TOML file, with their lines."""
    return _complaint(file, textfile.read(file, "the file"), faults)


def _complaint(file: Path, text: str, faults: Sequence[tuple[Place, str]]) -> UsageError:
    lines = dict(places(text))
    shown = [_words(lines, place, sentence) for place, sentence in faults[:SHOWN_FAULTS]]
    more = f"; and {len(faults) - SHOWN_FAULTS} more" if len(faults) > SHOWN_FAULTS else ""
    return UsageError(f"{file}:{'; line '.join(shown)}{more}")


def places(text: str) -> Iterator[tuple[Place, int]]:
    """Yield where each table and each key of a TOML text begins: its path, and its line from 1.

    A key inside a value (an inline table, a string of many lines) has the line of the value, or a
    line of its own that no fault will name.
    """
    table: Place = ()
    count: Counter[Place] = Counter()
    for number, line in enumerate(text.splitlines(), 1):
        if found := _TABLE.fullmatch(line):
            table = _path(found[2], count)
            if found[1]:
                table = (*table, count[table])
                count[table[:-1]] += 1
            yield table, number
        elif found := _KEY.match(line):
            yield (*table, *_names(found[1])), number


def _path(header: str, count: Counter[Place]) -> Place:
    """Return the place of a table; below an array of tables it is in the last of them."""
    place: Place = ()
    names = _names(header)
    for at, name in enumerate(names):
        place = (*place, name)
        if at < len(names) - 1 and count[place]:
            place = (*place, count[place] - 1)
    return place


def _names(dotted: str) -> list[str]:
    return [key.strip().strip("\"'") for key in re.findall(r"\"[^\"]*\"|'[^']*'|[^.]+", dotted)]


def _line(lines: dict[Place, int], place: Place) -> int:
    """Return the line of the innermost part of a place that is in the file; 1 if none is."""
    while place:
        if place in lines:
            return lines[place]
        place = place[:-1]
    return 1


def _words(lines: dict[Place, int], place: Place, said: str) -> str:
    if not place:
        # Of several parts; its words begin with the first of them.
        return f"{_line(lines, (said.partition(':')[0],))}: {said}"
    return f"{_line(lines, place)}: {'.'.join(map(str, place))}: {said}"
