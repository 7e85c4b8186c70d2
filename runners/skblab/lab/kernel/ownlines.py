# SPDX-License-Identifier: GPL-2.0-or-later
"""Which lines of a patched source tree are ours: pure text, from the patches of the series."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

Lines = dict[str, frozenset[int]]

_FILE = re.compile(r"^diff --git a/.* b/(.*)$", re.M)
_HUNK = re.compile(r"^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")


def added(patches: Iterable[str]) -> Lines:
    """Return file -> numbers of the lines that these patches, one after the other, have added.

    Numbers are those of the tree with all of them, counted from 1. The patches are git's, and
    apply without any offset.
    """
    ours: dict[str, frozenset[int]] = {}
    for patch in patches:
        _, *parts = _FILE.split(patch)
        for name, text in zip(parts[::2], parts[1::2], strict=True):
            ours[name] = frozenset(_moved(ours.get(name, frozenset()), text))
    return {name: lines for name, lines in ours.items() if lines}


def _moved(before: frozenset[int], text: str) -> Iterator[int]:
    """Yield our lines of a file after a patch: those `before` where they are now, and the new."""
    # `old` and `new` are the next lines in either file; between hunks both grow alike.
    old = new = 1
    kept = sorted(before)
    lines = iter(text.splitlines())
    for line in lines:
        hunk = _HUNK.match(line)
        if hunk is None:
            continue
        begin = int(hunk[1]) + (hunk[2] == "0")
        yield from (number + new - old for number in kept if old <= number < begin)
        new += begin - old
        old = begin
        left, right = (1 if size is None else int(size) for size in (hunk[2], hunk[4]))
        while left or right:
            # An empty line of context may have lost its blank.
            kind = next(lines, "")[:1] or " "
            if kind == "\\":
                continue
            if kind == "+" or (kind == " " and old in before):
                yield new
            if kind in "- ":
                old, left = old + 1, left - 1
            if kind in "+ ":
                new, right = new + 1, right - 1
            if kind not in "-+ " or left < 0 or right < 0:
                raise ValueError(f"no hunk of a patch: {line}")
    yield from (number + new - old for number in kept if number >= old)
