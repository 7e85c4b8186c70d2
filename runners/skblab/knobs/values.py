# SPDX-License-Identifier: GPL-2.0-or-later
"""Values of knobs, as experiment files have them."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

Value = bool | int | float | str | tuple[int | str, ...]
Name = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*$")]
Knobs = dict[Name, Value]


def text(value: Value) -> str:
    """Return a knob's value as one types it."""
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, tuple):
        return ",".join(map(str, value))
    return str(value)
