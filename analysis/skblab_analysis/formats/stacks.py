# SPDX-License-Identifier: GPL-2.0-or-later
"""Instructions by stack: files for flame graphs, and what a function takes with all that it calls.

A stack is the functions that had called each other, the outermost first, as `a;b;c`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

from skblab_analysis.base.checked import RecordError
from skblab_analysis.base.errors import one_line

BETWEEN = ";"
# Of what the plugin follows, and a few more.
DEEPEST = 255
# Flame graphs take whole numbers, and a packet's instructions are few.
PACKETS = 1000
_NUMBER = re.compile("[0-9]{1,15}")


def file_of(row: str) -> str:
    """Return the name of a row's file."""
    return f"stacks-{row}.folded"


def joined(stack: Iterable[str]) -> str:
    """Return a stack as a file has it."""
    return BETWEEN.join(stack)


def inclusive(stacks: Mapping[str, int]) -> Counter[str]:
    """Return what was executed in each function and in all that it called; once where it recurs."""
    found: Counter[str] = Counter()
    for stack, count in stacks.items():
        for name in set(stack.split(BETWEEN)):
            found[name] += count
    return found


def folded(stacks: Mapping[str, float]) -> str:
    """Return a line a stack, with instructions per 1 000 packets, from instructions a packet.

    So speedscope, inferno, flamegraph.pl and the Firefox Profiler read them. Stacks that take
    less than one are left out: what begins and ends a run leaves such.
    """
    lines = {stack: round(value * PACKETS) for stack, value in stacks.items()}
    return "".join(f"{stack} {value}\n" for stack, value in sorted(lines.items()) if value > 0)


def read(path: Path) -> dict[str, float]:
    """Return the stacks of a file, in instructions a packet; RecordError for what is none."""
    found: dict[str, float] = {}
    try:
        lines = path.read_bytes().decode().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise RecordError(f"{path}: cannot be read: {error}") from error
    for number, line in enumerate(lines, 1):
        stack, _, value = line.rpartition(" ")
        fits = _NUMBER.fullmatch(value) and stack.count(BETWEEN) < DEEPEST
        if not stack or not fits or stack in found:
            raise RecordError(
                f"{path}, line {number}: {one_line(line, 80)!r}: expected a stack and its "
                "instructions per 1000 packets, such as `ip_rcv;ip_rcv_core 118000`, each once"
            )
        found[stack] = int(value) / PACKETS
    return found
