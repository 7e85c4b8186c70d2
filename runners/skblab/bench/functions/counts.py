# SPDX-License-Identifier: GPL-2.0-or-later
"""What probes/functions/count.c wrote: sections of counts by address, by function, by stack.

And, where caches were simulated, what was missed in them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache

from skblab.bench.functions.symbols import KERNEL, Symbols
from skblab_analysis.base.errors import SkblabError, one_line
from skblab_analysis.formats.memory import KINDS

# For what is in no function of the kernel.
USER = "(user space)"
UNKNOWN = "(unknown)"
_WORDS = {"user": USER, "elsewhere": UNKNOWN}
# Of what is counted of data, in the order of a line of types.
KINDS_OF_DATA = tuple(kind for kind in KINDS if kind != "code")
# No caller of it is known.
BOTTOM = 0
# Of what found no place in the plugin's table of stacks.
NOWHERE = 0
Stack = tuple[str, ...]


@dataclass(frozen=True)
class Frame:
    """A call: where in the caller it returns to, and the frame that the caller ran in."""

    caller: int
    back: int


@dataclass(frozen=True)
class Touched:
    """Objects of one type: bytes of each, accesses to its 8-byte words, what was missed.

    `missed` is as formats.memory.KINDS, but for fetches of code.
    """

    size: int
    words: Mapping[int, int]
    missed: Mapping[str, int]


@dataclass
class Section:
    """What was counted from one mark to the next; `number` says which marks.

    A string instruction is in `by_address` once for each time it was come to; its further
    iterations, which the emulator counts as instructions, too, are in `again`. `total` has both.
    `by_frame` has instructions by frame and by where their block begins, without iterations; a
    block that was left half way is in it as a whole. `frames` are all that the file told of.
    `missed` has, of each of formats.memory.KINDS, lines by the same keys; they are empty where no
    caches were simulated. `types` has what was touched by type: slab caches, and in brackets what
    is in none; it is empty where the kernel's layout is not known.
    """

    number: int
    total: int
    by_address: Counter[int] = field(default_factory=Counter)
    again: Counter[int] = field(default_factory=Counter)
    others: Counter[str] = field(default_factory=Counter)
    by_frame: Counter[tuple[int, int]] = field(default_factory=Counter)
    frames: Mapping[int, Frame] = field(default_factory=dict)
    missed: Mapping[str, Counter[tuple[int, int]]] = field(
        default_factory=lambda: {kind: Counter() for kind in KINDS}
    )
    types: dict[str, Touched] = field(default_factory=dict)

    @property
    def sized(self) -> bool:
        """Whether any object's type is known."""
        return any(of.size for of in self.types.values())

    def by_function(self, symbols: Symbols) -> Counter[str]:
        """Return the instructions executed in each function, without further iterations."""
        return Counter(self.others) + _named(self.by_address, symbols)

    def again_by_function(self, symbols: Symbols) -> Counter[str]:
        """Return the further iterations of string instructions in each function."""
        return _named(self.again, symbols)

    def by_stack(self, symbols: Symbols) -> Counter[Stack]:
        """Return the instructions by function and by who called it, the outermost caller first."""
        return self._stacks(self.by_frame, symbols)

    def missed_by_stack(self, symbols: Symbols) -> dict[str, Counter[Stack]]:
        """Return what was missed in the same way, of each kind."""
        return {kind: self._stacks(of, symbols) for kind, of in self.missed.items() if of}

    def _stacks(self, by_frame: Mapping[tuple[int, int], int], symbols: Symbols) -> Counter[Stack]:
        @cache
        def callers(frame: int) -> Stack:
            if frame == BOTTOM:
                return ()
            known = self.frames[frame]
            # A call may be its function's last instruction.
            return *callers(known.caller), symbols.name_of(known.back - 1) or UNKNOWN

        found: Counter[Stack] = Counter()
        for (frame, address), count in by_frame.items():
            if address >= KERNEL or address == NOWHERE:
                name = symbols.name_of(address) or UNKNOWN
            else:
                name = USER
            found[*callers(frame), name] += count
        return found


def _named(counts: Counter[int], symbols: Symbols) -> Counter[str]:
    found: Counter[str] = Counter()
    for address, count in counts.items():
        found[symbols.name_of(address) or UNKNOWN] += count
    return found


def _follow(
    word: str, numbers: list[str], frames: dict[int, Frame], sections: list[Section]
) -> None:
    """Take in a line of frames; ValueError or IndexError if it is none."""
    if word == "frame":
        first, middle, final = numbers
        number, caller, back = int(first), int(middle), int(final, 16)
        # Callers are told first, so that there is no circle.
        if number in frames or number == BOTTOM or (caller != BOTTOM and caller not in frames):
            raise ValueError
        frames[number] = Frame(caller, back)
        return
    first, middle, final, *missed = numbers
    frame, address, count = int(first), int(middle, 16), int(final)
    lines = list(map(int, missed))
    if (frame != BOTTOM and frame not in frames) or len(lines) not in (0, len(KINDS)):
        raise ValueError
    if min(count, *lines, 0) < 0:
        raise ValueError
    sections[-1].by_frame[frame, address] += count
    for kind, number in zip(KINDS, lines, strict=False):
        if number:
            sections[-1].missed[kind][frame, address] += number


def _touched(line: str, sections: list[Section]) -> None:
    """Take in a line of a type; ValueError or IndexError if it is none."""
    _, size, *missed, words, name = line.split(maxsplit=len(KINDS_OF_DATA) + 3)
    lines = [int(number) for number in missed]
    if int(size) < 0 or min(lines) < 0 or len(lines) != len(KINDS_OF_DATA):
        raise ValueError
    types = sections[-1].types
    pairs = (pair.split(":") for pair in words.split(",")[1:])
    counts = {int(word): int(count) for word, count in pairs}
    if min((*counts, *counts.values()), default=0) < 0:
        raise ValueError
    kinds = Counter(dict(zip(KINDS_OF_DATA, lines, strict=True)))
    of_words = Counter(counts)
    if (before := types.get(name)) is not None:
        # Until 6.12 several caches could have one name.
        kinds.update(before.missed)
        of_words.update(before.words)
    types[name] = Touched(int(size), of_words, kinds)


def parse(text: str) -> list[Section]:
    """Parse a file of counts; SkblabError for a line that is none or a sum that is wrong."""
    sections: list[Section] = []
    frames: dict[int, Frame] = {}
    for line in text.splitlines():
        try:
            word, *numbers = line.split()
            if word in ("frame", "at"):
                _follow(word, numbers, frames, sections)
                continue
            if word == "type":
                _touched(line, sections)
                continue
            first, *rest = (int(number) for number in numbers)
            if word == "section":
                (total,) = rest
                sections.append(Section(first, total, frames=frames))
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
                f"the counts have {one_line(line, 80)!r}: expected `section NUMBER TOTAL`, a type, "
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
