# SPDX-License-Identifier: GPL-2.0-or-later
"""Lists of CPUs as the kernel writes them, such as 0-2,7."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from skblab.knobs.base import Form, Unable
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


def mask(bits: int) -> str:
    """Return a mask of CPUs with commas between words of 32 bits, as the kernel wants it."""
    words = [f"{bits & 0xFFFFFFFF:x}"]
    while bits := bits >> 32:
        words[-1] = words[-1].zfill(8)
        words.append(f"{bits & 0xFFFFFFFF:x}")
    return ",".join(reversed(words))


def present(wanted: Iterable[int], there: Sequence[int], said: str = "there are") -> None:
    """Raise Unable for the first CPU that is not there; `said` tells of those that are."""
    absent = next((cpu for cpu in wanted if cpu not in there), None)
    if absent is not None:
        raise Unable(f"there is no CPU {absent}; {said} {text(there)}")


@dataclass(frozen=True)
class Cpus:
    """Values that are a list of CPUs, or a word: none, unless it is another one."""

    word: str = NONE

    def __call__(self, value: Value) -> Value:
        """Return the value; ValueError if it is no such list."""
        if value == self.word:
            return value
        if isinstance(value, str) and value:
            parse(value)
            return value
        raise ValueError(f"{value!r}: expected {self}")

    @property
    def forms(self) -> Sequence[Form]:
        """The word, or a list."""
        return [Form(self.word), Form("0-2,7", "a list of CPUs")]

    def __str__(self) -> str:
        """Return them in words."""
        return f"'{self.word}', or CPUs such as '2' or '0-2,7'"
