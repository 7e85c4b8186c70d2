# SPDX-License-Identifier: GPL-2.0-or-later
"""What is said of a knob that there is not: which one was probably meant."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from difflib import get_close_matches

from skblab.knobs import keys
from skblab.knobs.registry import KNOBS

# The page with all knobs, from the top of the tree.
PAGE = "docs/reference/knobs.md"
# So many names are offered.
MOST = 4
# What names of sysctls begin with.
_ROOTS = frozenset(("net", "kernel", "vm", "fs", "dev"))
_SYSCTL = '`sysctl."net.ipv4.tcp_sack"`'
_WORD = re.compile(r"[a-z0-9_-]+")


def unknown(name: str, own: Collection[str] = ()) -> str:
    """Return that there is no such knob, and what to write instead, as far as that is clear.

    `own` are the names of knobs that an experiment has itself.
    """
    if name.partition(".")[0] == keys.PREFIX:
        return f"no such sysctl; write {_SYSCTL}, the key as sysctl(8) has it, quoted"
    *prefix, last = re.split(r"[./]", name.lower())
    plain = last.replace("-", "_")
    if plain in KNOBS and (prefix or plain != name):
        return f"write `{plain}`: knobs are named without {_before(name)}"
    if meant := list(_setting(last)):
        return f"no such knob; write {_one_of(meant)}, which sets {last}"
    if prefix and prefix[0] in _ROOTS and keys.is_sysctl(_of_sysctl(name)):
        return f'no such knob; write `sysctl."{keys.key(_of_sysctl(name))}"`, as any sysctl'
    near = get_close_matches(plain, [*KNOBS, *own], MOST) or [
        knob for knob in sorted(KNOBS) if len(plain) > 2 and (plain in knob or knob in plain)
    ]
    return f"no such knob; {f'the nearest is {_one_of(near)}; ' if near else ''}all are in {PAGE}"


def _of_sysctl(name: str) -> str:
    return keys.canonical(f"{keys.PREFIX}.{name}")


def _before(name: str) -> str:
    """Return what a name has too much: its prefix, or hyphens."""
    return "the prefix" if re.search("[./]", name) else "hyphens and capitals"


def _setting(last: str) -> Iterator[str]:
    """Yield the knobs that set what the kernel or a tool knows by this word."""
    for name, knob in sorted(KNOBS.items()):
        words = {
            word for form in knob.check.forms for word in _WORD.findall(knob.by_hand(form.example))
        }
        # Words of tools, such as `echo` and `dev`, are no names of settings.
        if len(last) > MOST and last in words and last not in _COMMON:
            yield name


def _one_of(names: list[str]) -> str:
    return " or ".join(f"`{name}`" for name in names[:MOST])


_COMMON = frozenset(("sysctl", "ethtool", "device", "kernel", "argument", "queues", "class"))
