# SPDX-License-Identifier: GPL-2.0-or-later
"""From addresses to names of kernel functions, by a System.map or /proc/kallsyms."""

from __future__ import annotations

import functools
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from skblab_analysis.base.errors import SkblabError, one_line

# Lower addresses are a process's, or offsets into memory of one CPU.
KERNEL = 1 << 63
CODE = frozenset("tTwW")
# The room before a function that the compiler leaves for patching.
PREFIX = "__pfx_"
# What /proc/kallsyms says of code that is in no module: BPF programs, trampolines of ftrace.
LOADED = ("[bpf]", "[__builtin__")


@dataclass(frozen=True)
class Symbols:
    """Names by address. `names` has None where data begins: no code is there."""

    addresses: tuple[int, ...]
    names: tuple[str | None, ...]

    @classmethod
    def parse(cls, *texts: str) -> Symbols:
        """Parse lines "address type name", with a module's name in brackets or without.

        Raises SkblabError for a line that is none.
        """
        largest, *others = sorted(texts, key=len, reverse=True)
        found = dict(_parsed(largest))
        for text in others:
            _merge(found, _lines(text))
        ordered = sorted(found)
        return cls(tuple(ordered), tuple(found[address] for address in ordered))

    def name_of(self, address: int) -> str | None:
        """Return the function at an address; None where the list knows none.

        The pieces that a compiler makes of a function (.cold, .part.0, .isra.0) go by its name, so
        that two kernels can be compared; so does a module's function, without the module.
        Functions of one name in different files are one.
        """
        at = bisect_right(self.addresses, address) - 1
        name = self.names[at] if at >= 0 else None
        return None if name is None else _plain(name)

    def offset_of(self, address: int) -> tuple[str, int] | None:
        """Return the symbol at an address as it is written, and how far into it that is."""
        at = bisect_right(self.addresses, address) - 1
        name = self.names[at] if at >= 0 else None
        return None if name is None else (name, address - self.addresses[at])


# A kernel's own list, of a hundred thousand lines, is asked for once a boot.
@functools.lru_cache(maxsize=2)
def _parsed(text: str) -> Mapping[int, str | None]:
    """Return names by address, None for data."""
    found: dict[int, str | None] = {}
    _merge(found, _lines(text))
    return found


def _lines(text: str) -> Iterator[tuple[int, str | None]]:
    for line in text.splitlines():
        try:
            where, kind, name = line.split(maxsplit=2)
            address = int(where, 16)
        except ValueError:
            raise SkblabError(
                f"the list of symbols has {one_line(line, 80)!r}: expected address, type, name"
            ) from None
        if address >= KERNEL:
            yield address, name.replace("\t", " ") if kind in CODE else None


def _merge(found: dict[int, str | None], more: Iterable[tuple[int, str | None]]) -> None:
    """Add names: of several for one address always the same one, whatever their order."""
    for address, name in more:
        known = found.setdefault(address, name)
        if name is not None and (known is None or _rank(name) < _rank(known)):
            found[address] = name


def require_same(listed: str, seen: str, place: Path) -> bool:
    """Raise SkblabError if the kernel that ran is not that of a list, the file `place`.

    `seen` are lines of the running kernel's /proc/kallsyms: those of no module are compared.
    Return whether there were any: a kernel may show none, or hide where they are.
    """
    ran = [line.split() for line in seen.splitlines()]
    own = {words[2]: int(words[0], 16) for words in ran if len(words) == 3}
    there: dict[str, set[int]] = {name: set() for name in own}
    for line in listed.splitlines():
        where, _, name = line.split(maxsplit=2)
        if name in there:
            there[name].add(int(where, 16))
    for name, address in own.items():
        if address and address not in there[name]:
            has = ", ".join(f"{one:x}" for one in sorted(there[name])) or "nowhere"
            raise SkblabError(
                f"{place}: it cannot be told what was counted: the kernel that ran has {name} at "
                f"{address:x}, and this list {has}; remove {place.parent} and run the command again"
            )
    return any(own.values())


def _plain(name: str) -> str:
    bare, blank, module = name.partition(" ")
    # What one kernel has in a module, another has built in.
    loaded = module.startswith(LOADED)
    return bare.removeprefix(PREFIX).split(".")[0] + (f"{blank}{module}" if loaded else "")


def _rank(name: str) -> tuple[bool, int, int, str]:
    # The linker's marks are no functions.
    mark = name.endswith(("text", "text_start", "text_end"))
    bare = name.lstrip("_")
    return mark, len(name) - len(bare), len(bare), bare
