# SPDX-License-Identifier: GPL-2.0-or-later
"""Data races that KCSAN reports on a console, and which of them are in code of our series.

A kernel has data races of its own. One of ours is a report in which one of the two accesses stands
in a line that the series adds, or was inlined from there. The form of a report is that of
print_report() in kernel/kcsan/report.c.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from skblab.lab.kernel import Kernel
from skblab.lab.kernel.ownlines import Lines
from skblab.lab.labroot import Bind, LabRoot

# A symbol and an offset in it, as "%pS" prints them.
Place = tuple[str, int]
# A file of the kernel tree and a line in it.
Line = tuple[str, int]

_STAMP = re.compile(r"^(?:<\d+>)?\[\s*\d+\.\d+\](?:\[[^]]*\])? ?")
_TITLE = re.compile(r"BUG: (KCSAN: .*)")
_ACCESS = re.compile(r"(?:read|write|assert no|race at unknown).* of \d+ bytes by .* on cpu \d+:$")
_FRAME = re.compile(r"^\s+([\w.]+)\+0x([0-9a-f]+)/0x[0-9a-f]+")
_SYMBOL = re.compile(r"^([0-9a-f]+) \w ([\w.]+)$", re.M)
# An address without debug information is at "??:0".
_SOURCE = re.compile(r"^(?!\?\?)(?:/skblab/src/)?(?:\./)?(\S+?):(\d+)(?: \(discriminator \d+\))?$")


@dataclass(frozen=True)
class Race:
    """One report: its `title`, and the place of each access that it names."""

    title: str
    places: tuple[Place, ...]


def read(console: str) -> list[Race]:
    """Return the races that a console tells of, in order; what is cut off has fewer places."""
    found: list[Race] = []
    title, wanted = "", False
    places: list[Place] = []
    for raw in console.splitlines():
        line = _STAMP.sub("", raw)
        if begun := _TITLE.search(line):
            if title:
                found.append(Race(title, tuple(places)))
            title, places, wanted = begun[1].strip(), [], False
        elif _ACCESS.search(line):
            wanted = True
        elif wanted and title and (frame := _FRAME.match(line)):
            places.append((frame[1], int(frame[2], 16)))
            wanted = False
    return [*found, Race(title, tuple(places))] if title else found


def split(
    races: Iterable[Race],
    sources: Callable[[frozenset[Place]], Mapping[Place, set[Line]]],
    ours: Lines,
) -> tuple[list[str], list[str]]:
    """Return the titles of the races of our lines and those of all others, each once.

    `sources` tells the lines of places. A report that does not say where both accesses are may be
    one of ours.
    """
    listed = list(races)
    lines = sources(frozenset(place for race in listed for place in race.places))

    def own(race: Race) -> bool:
        known = [lines.get(place) for place in race.places]
        if len(known) < 2 or not all(known):
            return True
        return any(
            number in ours.get(file, ()) for found in known if found for file, number in found
        )

    sorted_out: tuple[list[str], list[str]] = ([], [])
    for race in listed:
        titles = sorted_out[0] if own(race) else sorted_out[1]
        if race.title not in titles:
            titles.append(race.title)
    return sorted_out


def resolver(
    kernel: Kernel, labroot: LabRoot
) -> Callable[[frozenset[Place]], Mapping[Place, set[Line]]]:
    """Return what tells the lines of places in a kernel: each with all that it was inlined into.

    A place is where a call of KCSAN's returns to, so it is the instruction before that counts.
    """

    def sources(places: frozenset[Place]) -> dict[Place, set[Line]]:
        addresses: dict[str, list[int]] = {}
        for value, name in _SYMBOL.findall((kernel.path / "System.map").read_text()):
            addresses.setdefault(name, []).append(int(value, 16))
        wanted: dict[int, list[Place]] = {}
        for name, offset in sorted(places):
            for address in addresses.get(name, ()):
                wanted.setdefault(address + offset - 1, []).append((name, offset))
        if not wanted:
            return {}
        said = labroot.run(
            ["addr2line", "-a", "-i", "-e", "/skblab/kernel/vmlinux", *map(hex, wanted)],
            binds=[Bind(kernel.path, "kernel")],
            what="addr2line",
        )
        found: dict[Place, set[Line]] = {}
        here: list[Place] = []
        for line in said.splitlines():
            if line.startswith("0x"):
                here = wanted.get(int(line, 16), [])
            elif where := _SOURCE.match(line):
                for place in here:
                    found.setdefault(place, set()).add((where[1], int(where[2])))
        return found

    return sources
