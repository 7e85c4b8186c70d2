# SPDX-License-Identifier: GPL-2.0-or-later
"""States that are one text, or one of each port of the router."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from string import punctuation
from urllib.parse import quote, unquote

from skblab.machine.device import Machine

# Stands for the port where there is but one text.
WHOLE = "-"
EMPTY = "''"
# Of a text of several: all but spaces and what is not ASCII is as it is.
_PLAIN = "".join(character for character in punctuation if character != "%")


def ports(machine: Machine, *, each: bool) -> Sequence[str]:
    """Return what there is a text of: each port, or the whole."""
    return [device.name for device in machine.devices] if each else [WHOLE]


def written(texts: Mapping[str, str]) -> str:
    """Return the state that these texts are."""
    if WHOLE in texts:
        return texts[WHOLE] or EMPTY
    return " ".join(f"{port}={quote(text, safe=_PLAIN)}" for port, text in texts.items())


def read(machine: Machine, state: str, *, each: bool) -> dict[str, str]:
    """Return the texts of a state; ValueError if it is none."""
    if not each:
        return {WHOLE: "" if state == EMPTY else state}
    found = {}
    for word in state.split(" "):
        port, equals, text = word.partition("=")
        if not equals:
            raise ValueError(f"{word!r}: expected PORT=TEXT")
        found[port] = unquote(text)
    if missing := [port for port in ports(machine, each=True) if port not in found]:
        raise ValueError(f"it has nothing of {missing[0]}")
    return found


def likely(machine: Machine, *, each: bool) -> str:
    """Return a state of each port, by which it is seen that one is missing."""
    return written(dict.fromkeys(ports(machine, each=True), "")) if each else ""
