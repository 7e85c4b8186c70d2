# SPDX-License-Identifier: GPL-2.0-or-later
"""What a packet misses in simulated caches, by function and by layer, from sections of counts."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from skblab.bench.functions import Chosen, Section, Symbols
from skblab.bench.functions.layout import STRUCTURES, Structure
from skblab_analysis.formats import functions as figures
from skblab_analysis.formats import memory, stacks
from skblab_analysis.formats.bylayer import AROUND, BEGIN, by_layer
from skblab_analysis.formats.memory import Misses, Touched


@dataclass
class Missing:
    """What the runs of one row missed: of each kind, by stack."""

    runs: dict[str, list[figures.Counted]] = field(default_factory=dict)
    # The same by type, accesses to an object's words, by `WORD TYPE`, and an object's bytes.
    by_type: dict[str, list[figures.Counted]] = field(default_factory=dict)
    by_word: list[figures.Counted] = field(default_factory=list)
    sizes: dict[str, int] = field(default_factory=dict)

    def add(self, run: figures.Run, sections: Sequence[Section], symbols: Symbols) -> None:
        """Add a run of the row."""
        found: dict[str, Counter[str]] = {kind: Counter() for kind in memory.KINDS}
        for section in sections:
            for kind, missed in section.missed_by_stack(symbols).items():
                for stack, lines in missed.items():
                    found[kind][stacks.joined(stack)] += lines
        for kind, by_stack in found.items():
            self.runs.setdefault(kind, []).append(figures.Counted(run, by_stack))
        for kind in memory.KINDS:
            of_type: Counter[str] = Counter()
            for section in sections:
                of_type.update({name: of.missed.get(kind, 0) for name, of in section.types.items()})
            self.by_type.setdefault(kind, []).append(figures.Counted(run, of_type))
        words: Counter[str] = Counter()
        for section in sections:
            for name, of in section.types.items():
                self.sizes[name] = of.size
                words.update({f"{word} {name}": count for word, count in of.words.items()})
        self.by_word.append(figures.Counted(run, words))

    def of(self, case: figures.Case) -> dict[str, Misses]:
        """Return what a packet misses, by stack."""
        return _each(self.runs, case)

    def types(self, case: figures.Case) -> dict[str, Object]:
        """Return what a packet touches, by type; nothing where that was not told."""
        if not self.sizes:
            return {}
        missed = _each(self.by_type, case)
        words: dict[str, dict[int, float]] = {}
        for key, accesses in figures.cost(self.by_word, case, agreement=math.inf).by_name.items():
            word, _, name = key.partition(" ")
            words.setdefault(name, {})[int(word)] = accesses
        return {
            name: Object(size, words.get(name, {}), missed[name])
            for name, size in self.sizes.items()
            if name in missed
        }


@dataclass(frozen=True)
class Object:
    """What a packet touches of the objects of a type: bytes of one, accesses to 8-byte words."""

    size: int
    words: Mapping[int, float]
    missed: Misses

    def lines(self, length: int) -> int:
        """Return how many lines of an object, of so many bytes, every second packet touches."""
        return sum(accesses >= _TOUCHED for accesses in self.by_line(length).values())

    def by_line(self, length: int) -> dict[int, float]:
        """Return a packet's accesses to each line of an object, of so many bytes."""
        by_line: dict[int, float] = {}
        for word, accesses in self.words.items():
            line = word * WORD // length
            by_line[line] = by_line.get(line, 0.0) + accesses
        return by_line


WORD = 8
# Accesses a packet: what a tick of the timer touches is no packet's.
_TOUCHED = 0.5
_NOTHING = Object(0, {}, Misses())


def _each(runs: Mapping[str, list[figures.Counted]], case: figures.Case) -> dict[str, Misses]:
    # The clock counts instructions: nothing has to add up to it.
    return memory.by_name(
        {
            kind: figures.cost(counted, case, agreement=math.inf).by_name
            for kind, counted in runs.items()
        }
    )


@dataclass(frozen=True)
class Of:
    """What a packet of a row misses by stack, and what it touches by type.

    `layout` has the structures of its kernel.
    """

    by_stack: Mapping[str, Misses] = field(default_factory=dict)
    types: Mapping[str, Object] = field(default_factory=dict)
    layout: Mapping[str, Structure] = field(default_factory=dict)


def compared(
    chosen: Chosen | None, a: Of, b: Of, *, whole: bool, nodes: int = 1
) -> memory.Memory | None:
    """Return what two rows miss as the document has it; None of no caches.

    Without `whole` stacks nothing is said by layer. `nodes` have a CPU each.
    """
    if chosen is None:
        return None
    order = (*BEGIN, AROUND)
    before, after = a.by_stack, b.by_stack
    # Of one row alone it would be no difference.
    told = bool(b.types and (a.types or not before))
    return memory.Memory(
        named=chosen.word,
        processor=chosen.described.model_copy(update={"nodes": nodes}),
        functions=memory.compare(_by_function(before), _by_function(after)),
        layers=memory.compare(_by_layer(before), _by_layer(after), order) if whole else (),
        types=_types(a.types, b.types, chosen.described.line) if told else (),
        structures=tuple(_structures(a, b, chosen.described.line)) if told else (),
    )


def _structures(a: Of, b: Of, length: int) -> Iterator[memory.Structure]:
    """Yield the structures that a packet touches in either row, line by line."""
    for cache, name in STRUCTURES.items():
        sides = [(of.types.get(cache, _NOTHING), of.layout.get(name)) for of in (a, b)]
        sizes = [known.size for touched, known in sides if known and touched is not _NOTHING]
        if not sizes:
            continue
        before, after = (touched.by_line(length) for touched, _ in sides)
        lines = []
        for number in sorted({*before, *after}):
            accesses = before.get(number, 0.0), after.get(number, 0.0)
            if max(accesses) < _TOUCHED or number * length >= max(sizes):
                continue
            places = range(number * length, (number + 1) * length, WORD)
            named = [_fields(known, touched, places) for touched, known in sides]
            lines.append(
                memory.Line(
                    number=number, a=accesses[0], b=accesses[1], fields=named[1], before=named[0]
                )
            )
        if lines:
            yield memory.Structure(name=name, cache=cache, size=max(sizes), lines=tuple(lines))


def _fields(structure: Structure | None, of: Object, places: Iterable[int]) -> tuple[str, ...]:
    """Return the fields at the first bytes of words that have an access in two packets or more."""
    if structure is None:
        return ()
    names = (
        name
        for place in places
        if of.words.get(place // WORD, 0.0) >= _TOUCHED
        for name in structure.at(place, place + WORD)
    )
    return tuple(dict.fromkeys(names))


def _types(a: Mapping[str, Object], b: Mapping[str, Object], line: int) -> tuple[Touched, ...]:
    """Return what either row touches, what differs most first, or of one row the most."""
    found = []
    for name in {**a, **b}:
        before, after = a.get(name, _NOTHING), b.get(name, _NOTHING)
        one = Touched(
            name=name,
            size=max(before.size, after.size),
            a=before.missed,
            b=after.missed,
            a_lines=before.lines(line),
            b_lines=after.lines(line),
        )
        if one.a.seen or one.b.seen:
            found.append(one)
    if not a:
        return tuple(sorted(found, key=lambda one: (-one.b.accesses, one.name)))
    return tuple(
        sorted(
            found,
            key=lambda one: (
                -abs(one.b_lines - one.a_lines),
                -math.fsum(abs(getattr(one.difference, kind)) for kind in memory.KINDS),
                one.name,
            ),
        )
    )


def _by_function(by_stack: Mapping[str, Misses]) -> dict[str, Misses]:
    found: dict[str, Misses] = {}
    for stack, misses in by_stack.items():
        name = stack.rpartition(stacks.BETWEEN)[2]
        found[name] = found.get(name, Misses()) + misses
    return found


def _by_layer(by_stack: Mapping[str, Misses]) -> dict[str, Misses]:
    return memory.by_name(
        {
            kind: by_layer({stack: getattr(of, kind) for stack, of in by_stack.items()})
            for kind in memory.KINDS
        }
    )
