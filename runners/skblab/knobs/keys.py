# SPDX-License-Identifier: GPL-2.0-or-later
"""Names of knobs that are any sysctl: `sysctl.` and its key as sysctl(8) has it.

In a key, dots part names, and a slash is a dot of a name (`net.ipv4.conf.eth0/100.rp_filter`); or
the other way round, if a slash is what parts the first two. `{port}` is each port in turn.
"""

from __future__ import annotations

import re

PREFIX = "sysctl"
PORT = "{port}"
LONGEST = 120
_WORD = r"(?:[A-Za-z0-9_]|\{port\})(?:[A-Za-z0-9_@:/-]|\{port\})*"
SYSCTL = rf"{PREFIX}(?:\.{_WORD}){{2,}}"
_NAME = re.compile(SYSCTL)
_SWAPPED = str.maketrans("./", "/.")


def canonical(name: str) -> str:
    """Return a knob's name with dots between the names of its key; others as they are."""
    head, dot, key = name.partition(".")
    if head != PREFIX or not dot:
        return name
    parting = next((character for character in key if character in "./"), ".")
    return f"{PREFIX}.{key.translate(_SWAPPED) if parting == '/' else key}"


def is_sysctl(name: str) -> bool:
    """Whether a name, a canonical one, is that of a sysctl."""
    return len(name) <= LONGEST and _NAME.fullmatch(name) is not None


def key(name: str) -> str:
    """Return the key of a knob that is a sysctl."""
    return name.removeprefix(f"{PREFIX}.")


def path(name: str) -> str:
    """Return what its file is named below /proc/sys."""
    return key(name).translate(_SWAPPED)
