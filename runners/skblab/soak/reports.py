# SPDX-License-Identifier: GPL-2.0-or-later
"""Reports of KCSAN and KMSAN on a console, and which of them are of code of our series.

A kernel has faults of its own. A data race is one of ours if one of the two accesses stands in a
line that the series adds, or was inlined from there; a use of memory that nobody has written is, if
any call stands there on the ways to the use, to the memory, and to where it was copied. The forms
are those of print_report() in kernel/kcsan/report.c and kmsan_report() in mm/kmsan/report.c.
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
_TITLE = re.compile(r"BUG: (K[CM]SAN: .*)")
_ACCESS = re.compile(r"(?:read|write|assert no|race at unknown).* of \d+ bytes by .* on cpu \d+:$")
# What follows the stacks of KMSAN's reports.
_NO_STACK = re.compile(r"CPU: \d|={20}")
_FRAME = re.compile(r"^\s+([\w.]+)\+0x([0-9a-f]+)/0x[0-9a-f]+")
_SYMBOL = re.compile(r"^([0-9a-f]+) \w ([\w.]+)$", re.M)
# An address without debug information is at "??:0".
_SOURCE = re.compile(r"^(?!\?\?)(?:/skblab/src/)?(?:\./)?(\S+?):(\d+)(?: \(discriminator \d+\))?$")


@dataclass(frozen=True)
class Report:
    """One report: its `title`, and the places that it names.

    KCSAN: of each access. KMSAN: of each call in each stack.
    """

    title: str
    places: tuple[Place, ...]

    @property
    def race(self) -> bool:
        """Tell whether KCSAN made it, which reports data races."""
        return self.title.startswith("KCSAN")


def read(console: str) -> list[Report]:
    """Return the reports on a console, in order; what is cut off has fewer places."""
    found: list[Report] = []
    title, wanted = "", False
    places: list[Place] = []
    for raw in console.splitlines():
        line = _STAMP.sub("", raw)
        if begun := _TITLE.search(line):
            if title:
                found.append(Report(title, tuple(places)))
            title, places = begun[1].strip(), []
            wanted = title.startswith("KMSAN")
        elif not title:
            continue
        elif title.startswith("KMSAN"):
            wanted = wanted and not _NO_STACK.match(line)
            if wanted and (frame := _FRAME.match(line)):
                places.append((frame[1], int(frame[2], 16)))
        elif _ACCESS.search(line):
            wanted = True
        elif wanted and (frame := _FRAME.match(line)):
            places.append((frame[1], int(frame[2], 16)))
            wanted = False
    return [*found, Report(title, tuple(places))] if title else found


def split(
    reports: Iterable[Report],
    sources: Callable[[frozenset[Place]], Mapping[Place, set[Line]]],
    ours: Lines,
) -> tuple[list[str], list[str]]:
    """Return the titles of the reports of our lines and those of all others, each once.

    `sources` tells the lines of places. A report that does not say where both accesses are, or
    where the memory was used, may be one of ours.
    """
    listed = list(reports)
    lines = sources(frozenset(place for report in listed for place in report.places))

    def own(report: Report) -> bool:
        known = [lines.get(place) for place in report.places]
        if len(known) < 1 + report.race or not all(known):
            return True
        return any(
            number in ours.get(file, ()) for found in known if found for file, number in found
        )

    sorted_out: tuple[list[str], list[str]] = ([], [])
    for report in listed:
        titles = sorted_out[0] if own(report) else sorted_out[1]
        if report.title not in titles:
            titles.append(report.title)
    return sorted_out


def resolver(
    kernel: Kernel, labroot: LabRoot
) -> Callable[[frozenset[Place]], Mapping[Place, set[Line]]]:
    """Return what tells the lines of places in a kernel: each with all that it was inlined into.

    A place is where a call returns to, so it is the instruction before that counts.
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
