# SPDX-License-Identifier: GPL-2.0-or-later
"""Values of knobs, as experiment files have them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from pydantic import Field

Value = bool | int | float | str | tuple[int | str, ...]
NAME = r"^[a-z][a-z0-9_]*$"
Name = Annotated[str, Field(pattern=NAME)]
Knobs = dict[Name, Value]


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
