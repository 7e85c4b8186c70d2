# SPDX-License-Identifier: GPL-2.0-or-later
"""What probes/functions/count.c wrote: sections of counts by address, and those by function."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from skblab.bench.functions.symbols import Symbols
from skblab_analysis.base.errors import SkblabError, one_line

# For what is in no function of the kernel.
USER = "(user space)"
UNKNOWN = "(unknown)"
_WORDS = {"user": USER, "elsewhere": UNKNOWN}


@dataclass
class Section:
    """What was counted from one mark to the next; `number` says which marks.

    A string instruction is in `by_address` once for each time it was come to; its further
    iterations, which the emulator counts as instructions, too, are in `again`. `total` has both.
    """

    number: int
    total: int
    by_address: Counter[int] = field(default_factory=Counter)
    again: Counter[int] = field(default_factory=Counter)
    others: Counter[str] = field(default_factory=Counter)

    def by_function(self, symbols: Symbols) -> Counter[str]:
        """Return the instructions executed in each function, without further iterations."""
        return Counter(self.others) + _named(self.by_address, symbols)

    def again_by_function(self, symbols: Symbols) -> Counter[str]:
        """Return the further iterations of string instructions in each function."""
        return _named(self.again, symbols)


def _named(counts: Counter[int], symbols: Symbols) -> Counter[str]:
    found: Counter[str] = Counter()
    for address, count in counts.items():
        found[symbols.name_of(address) or UNKNOWN] += count
    return found


def parse(text: str) -> list[Section]:
    """Parse a file of counts; SkblabError for a line that is none or a sum that is wrong."""
    sections: list[Section] = []
    for line in text.splitlines():
        try:
            word, *numbers = line.split()
            first, *rest = (int(number) for number in numbers)
            if word == "section":
                (total,) = rest
                sections.append(Section(first, total))
            elif word in _WORDS and not rest:
                sections[-1].others[_WORDS[word]] += first
            else:
                (again,) = rest or (0,)
                if not 0 <= again < first:
                    raise ValueError
                sections[-1].by_address[int(word, 16)] += first - again
                if again:
                    sections[-1].again[int(word, 16)] += again
        except (ValueError, IndexError):
            raise SkblabError(
                f"the counts have {one_line(line, 80)!r}: expected `section NUMBER TOTAL` "
                "or an address, its count, and how many of it were further iterations"
            ) from None
    for section in sections:
        counted = sum(of.total() for of in (section.by_address, section.again, section.others))
        if counted != section.total:
            raise SkblabError(
                f"the counts of a section add up to {counted} instructions, its head says "
                f"{section.total}: the file is not whole"
            )
    return sections
