# SPDX-License-Identifier: GPL-2.0-or-later
"""Lists of CPUs as the kernel writes them, such as 0-2,7."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from skblab.knobs.base import Form
from skblab.knobs.values import Value

NONE = "none"
# As many as the kernel can have (CONFIG_NR_CPUS with MAXSMP).
MOST = 8192
_RANGE = re.compile(r"(\d{1,4})(?:-(\d{1,4}))?")


def parse(text: str) -> list[int]:
    """Return the CPUs of a list, in order; ValueError if it is none. An empty one is of no CPU."""
    found: set[int] = set()
    for part in text.split(",") if text else ():
        ends = _RANGE.fullmatch(part)
        first, last = (int(ends[1]), int(ends[2] or ends[1])) if ends else (1, 0)
        if not first <= last < MOST:
            raise ValueError(f"{text!r}: expected CPUs such as '2' or '0-2,7'")
        found.update(range(first, last + 1))
    return sorted(found)


def text(cpus: Iterable[int]) -> str:
    """Return CPUs as the kernel writes them."""
    ranges: list[list[int]] = []
    for cpu in sorted(set(cpus)):
        if ranges and cpu == ranges[-1][1] + 1:
            ranges[-1][1] = cpu
        else:
            ranges.append([cpu, cpu])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in ranges)


def same(listed: str) -> str:
    """Return a list as the kernel would write it: each set of CPUs has one form."""
    return text(parse(listed.strip()))


class Cpus:
    """Values that are a list of CPUs, or none."""

    def __call__(self, value: Value) -> Value:
        """Return the value; ValueError if it is no such list."""
        if value == NONE:
            return value
        if isinstance(value, str) and value:
            parse(value)
            return value
        raise ValueError(f"{value!r}: expected {self}")

    @property
    def forms(self) -> Sequence[Form]:
        """None, or a list."""
        return [Form(NONE), Form("0-2,7", "a list of CPUs")]

    def __str__(self) -> str:
        """Return them in words."""
        return f"'{NONE}', or CPUs such as '2' or '0-2,7'"
