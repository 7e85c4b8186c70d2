# SPDX-License-Identifier: GPL-2.0-or-later
"""Knobs as a command line has them: NAME=VALUE, the value as in an experiment file."""

from __future__ import annotations

import contextlib
import tomllib
from collections.abc import Sequence
from typing import cast

from skblab.knobs.base import Knob
from skblab.knobs.keys import canonical
from skblab.knobs.naming import unknown
from skblab.knobs.registry import KNOBS
from skblab.knobs.values import Knobs, Value, literal
from skblab_analysis.base.errors import UsageError

SWITCHES = {"on": True, "off": False}


def parse(words: Sequence[str], option: str) -> Knobs:
    """Return the value of each knob; UsageError that begins with `option` for what is none.

    A text needs no quotes, so that a shell's suffice: netfilter='nft-forward 100'.
    """
    found: Knobs = {}
    for word in words:
        name, equals, text = word.partition("=")
        said = f"{option} {word}"
        if not equals or not text.strip():
            raise UsageError(f"{said}: expected NAME=VALUE, such as rp_filter=1")
        name = canonical(name.strip())
        knob = KNOBS.find(name)
        if knob is None:
            raise UsageError(f"{said}: {unknown(name)}")
        if name in found:
            raise UsageError(f"{said}: {name} has a value already; give each knob one")
        try:
            found[name] = _checked(knob, text.strip())
        except (ValueError, TypeError) as error:
            raise UsageError(f"{said}: {error}") from error
    return found


def word(name: str, value: Value) -> str:
    """Return what parse() understands as this value of a knob."""
    bare = isinstance(value, str) and value.strip() == value and _value(value) == value
    return f"{name}={value if bare else literal(value)}"


def _checked(knob: Knob, text: str) -> Value:
    """Return the value that a text is; ValueError says what the knob takes."""
    try:
        return knob.check(_value(text))
    except (ValueError, TypeError):
        # As tables have it; and a list of one CPU is no number.
        for other in (SWITCHES.get(text), text):
            with contextlib.suppress(ValueError, TypeError):
                if other is not None:
                    return knob.check(other)
        raise


def _value(text: str) -> Value:
    try:
        value = tomllib.loads(f"value = {text}")
    except (tomllib.TOMLDecodeError, RecursionError):
        return text
    if value.keys() != {"value"}:
        return text
    of = value["value"]
    if isinstance(of, list) and all(type(item) in (int, str) for item in of):
        return tuple(of)
    return cast(Value, of) if isinstance(of, (bool, int, float, str)) else text
