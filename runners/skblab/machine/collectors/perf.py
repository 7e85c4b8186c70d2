# SPDX-License-Identifier: GPL-2.0-or-later
"""perf stat: events that are counted together, on all CPUs of a machine."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from skblab.machine.collectors.base import Tool
from skblab.machine.transport import Transport
from skblab_analysis.base.errors import SkblabError, one_line
from skblab_analysis.events.rows import Event, Scope
from skblab_analysis.formats import perfstat

# Where a processor's slots go, level 1. Only beside `slots`, as its group's first, are they counted
# (arch/x86/events/intel/core.c: is_metric_event).
SLOTS = "slots"
TOP_DOWN = ("topdown-retiring", "topdown-bad-spec", "topdown-fe-bound", "topdown-be-bound")
# What a processor counts together has to fit its counters: four or more beside its cycles.
GROUPS: Mapping[str, tuple[str, ...]] = {
    "cycles": ("cycles", "instructions", "branches", "branch-misses"),
    "stalls": ("cycles", "stalled-cycles-frontend", "stalled-cycles-backend"),
    "l1": ("cycles", "L1-dcache-loads", "L1-dcache-load-misses", "L1-icache-load-misses"),
    "llc": ("cycles", "LLC-loads", "LLC-load-misses"),
    "topdown": (SLOTS, *TOP_DOWN),
    "tlb": ("cycles", "dTLB-loads", "dTLB-load-misses", "iTLB-load-misses"),
    "software": ("context-switches", "cpu-migrations", "page-faults"),
}
TOOL = Tool("perf", "linux-perf on Debian, linux-tools-generic on Ubuntu")
STAT = ("perf", "stat", "-j", "-a", "-A", "--log-fd", "1")
# Each event alone, or with the one that it needs: one that perf does not know would spoil others.
ASKING = """
for event; do
	echo "== $event"
	LC_ALL=C perf stat -j -a --log-fd 1 -e "$event" -- true 2>&1 || echo '== failed'
done
"""
FAILED = "== failed"
# Units that perf gives events of some PMUs, as ours, and by what a figure is multiplied.
UNITS: Mapping[str, tuple[str, float]] = {
    "msec": ("ns", 1e6),
    "KiB": ("bytes", 2.0**10),
    "MiB": ("bytes", 2.0**20),
    "GiB": ("bytes", 2.0**30),
    "Bytes": ("bytes", 1.0),
    "Joules": ("J", 1.0),
}
TOGETHER = "not counted together with the others of its group: the counters are too few"
# Where perf counts, and in whose number that is: S0-D0-C1 is core 1.
_PLACES: Mapping[str, Scope] = {"cpu": "core", "socket": "socket", "node": "socket"}
_LAST = re.compile(r"(\d+)$")


@dataclass(frozen=True)
class Perf:
    """The Collector: a group's name, one of GROUPS or the user's, and its events."""

    group: str
    events: tuple[str, ...]

    @property
    def name(self) -> str:
        """What its events are listed by."""
        return f"perf: {self.group}"

    @property
    def tool(self) -> Tool:
        """What it needs on the machine."""
        return TOOL

    def able(self, transport: Transport) -> tuple[Perf | None, tuple[Event, ...]]:
        """Return a group of the events that the machine counts, and those that it does not."""
        why = refused(self.events, transport)
        there = tuple(event for event in self.events if not why.get(event))
        if len(there) > 1:
            # The kernel refuses an event that has no place beside those before it.
            together = transport.run([*STAT, "-e", self._group(there), "--", "true"])
            known = {
                event.name
                for event in replace(self, events=there).read(together.stdout)
                if event.value is None
            }
            why |= dict.fromkeys(there if together.status else known, TOGETHER)
            there = tuple(event for event in there if not why.get(event))
        gaps = tuple(
            Event(collector=self.name, name=event, why=why[event])
            for event in self.events
            if why.get(event)
        )
        return (replace(self, events=there) if there else None), gaps

    def argv(self, command: Sequence[str]) -> list[str]:
        """Return the command line that counts while a command runs."""
        return [*STAT, "-e", self._group(self.events), "--", *command]

    def asks(self) -> Iterator[str]:
        """Yield what is run before the first trial of a boot, to know what can be counted."""
        for events in (*self.events, self._group(self.events)):
            yield shlex.join([*STAT, "-e", events, "--", "true"])

    @staticmethod
    def _group(events: Sequence[str]) -> str:
        return f"{{{','.join(events)}}}"

    def read(self, printed: str) -> tuple[Event, ...]:
        """Return what each CPU counted of each event, by the name that it was asked for by.

        perf may name it otherwise, such as `page-faults [software]`, and keeps their order.
        """
        counts = [count for count in perfstat.parse(printed) if count.event]
        printed_names = list(dict.fromkeys(count.event for count in counts))
        named = dict(zip(printed_names, printed_names, strict=True))
        if len(printed_names) == len(self.events):
            named = dict(zip(printed_names, self.events, strict=True))
        return tuple(
            Event(
                collector=self.name,
                scope=scope,
                number=number,
                name=named[count.event],
                unit=UNITS.get(count.unit, (count.unit, 1.0))[0],
                value=_scaled(count),
                running=count.running,
                why=count.why,
            )
            for count in counts
            for scope, number in [_place(count)]
        )


def _scaled(count: perfstat.Count) -> float | None:
    return None if count.value is None else count.value * UNITS.get(count.unit, ("", 1.0))[1]


def _place(count: perfstat.Count) -> tuple[Scope, int | None]:
    for place, scope in _PLACES.items():
        if place in count.where and (found := _LAST.search(count.where[place])):
            return scope, int(found[1])
    return "system", None


def refused(events: Sequence[str], transport: Transport) -> dict[str, str]:
    """Return why a machine cannot count each of these events; nothing for one that it can."""
    asked = {f"{{{SLOTS},{event}}}" if event in TOP_DOWN else event: event for event in events}
    done = transport.run(["sh", "-c", ASKING, "sh", *asked])
    found = refusals(done.check("asking perf for its events").stdout)
    return {asked[event]: why for event, why in found if event in asked}


def refusals(printed: str) -> Iterator[tuple[str, str]]:
    """Yield each event that was asked for, and why it cannot be counted; nothing if it can be."""
    event, lines = "", list[str]()
    for line in [*printed.splitlines(), "== "]:
        if line == FAILED or not line.startswith("== "):
            lines.append(line)
            continue
        if event:
            yield event, _refusal(lines)
        event, lines = line.removeprefix("== "), []


def _refusal(lines: Sequence[str]) -> str:
    if FAILED in lines:
        said = [line.strip() for line in lines if line.strip() and line != FAILED]
        return one_line(said[0], 120) if said else "perf failed"
    try:
        counts = [count for count in perfstat.parse("\n".join(lines)) if count.event]
    except SkblabError as error:
        return one_line(str(error), 200)
    if not counts:
        return "perf says nothing of it"
    return next((count.why for count in counts if count.value is None), "")
