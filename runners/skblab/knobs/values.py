# SPDX-License-Identifier: GPL-2.0-or-later
"""Values of knobs, as experiment files have them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated

from pydantic import BeforeValidator, Field

from skblab.knobs.keys import LONGEST, PREFIX, SYSCTL, canonical

Value = bool | int | float | str | tuple[int | str, ...]
# What knobs of skblab's are named, and those of `[commands]`.
PLAIN = r"^[a-z][a-z0-9_]*$"
PlainName = Annotated[str, Field(pattern=PLAIN)]
NAME = rf"{PLAIN}|^{SYSCTL}$"


def _canonical(name: object) -> object:
    return canonical(name) if isinstance(name, str) else name


def flat(table: object) -> object:
    """Return a table of knobs with `sysctl."KEY"` by the knob's name; ValueError for one twice."""
    if not isinstance(table, Mapping):
        return table
    found: dict[object, object] = {}
    for name, value in _paths(table):
        if name in found:
            raise ValueError(f"{name} is there twice, expected it once")
        found[name] = value
    return found


def _paths(table: Mapping[object, object]) -> Iterator[tuple[object, object]]:
    for name, value in table.items():
        if name == PREFIX and isinstance(value, Mapping) and value:
            yield from _below(PREFIX, value)
        else:
            yield _canonical(name), value


def _below(above: str, table: Mapping[object, object]) -> Iterator[tuple[str, object]]:
    """Yield what TOML makes tables of: a key without quotes, name by name."""
    for name, value in table.items():
        path = f"{above}.{name}"
        if isinstance(value, Mapping) and value:
            yield from _below(path, value)
        else:
            yield canonical(path), value


Name = Annotated[str, BeforeValidator(_canonical), Field(pattern=NAME, max_length=LONGEST)]
Knobs = Annotated[dict[Name, Value], BeforeValidator(flat)]


def literal(value: Value) -> str:
    """Return a value as an experiment file has it."""
    if isinstance(value, tuple):
        return f"[{', '.join(map(literal, value))}]"
    return f'"{value}"' if isinstance(value, str) else str(value).lower()


def text(value: Value) -> str:
    """Return a knob's value as one types it."""
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, tuple):
        return ",".join(map(str, value))
    return str(value)


def words(knobs: Mapping[str, Value]) -> str:
    """Return knobs in words; none are none."""
    return ", ".join(f"{name}={text(value)}" for name, value in knobs.items())
