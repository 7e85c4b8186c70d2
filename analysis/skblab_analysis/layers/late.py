# SPDX-License-Identifier: GPL-2.0-or-later
"""Late packets, as `probe layers --late` prints them: sentences on all, a table of the slowest.

Roles are known of tasks by process id: of those that our own load started, and of readers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from rich.markup import escape
from rich.table import Table

from skblab_analysis.base.tables import titled
from skblab_analysis.base.words import number, scale
from skblab_analysis.formats.pathlat import Doer, LateDocument, LatePacket

# Rows of the table: the slowest.
MOST_LATE = 20
# Layers, and what ran, in a sentence: the most frequent.
MOST_NAMED = 4

BEFORE = "an earlier path"
IDLE = 0


def sentences(late: LateDocument, roles: Mapping[int, str] | None = None) -> list[str]:
    """Return a line on the layers that made packets late, and one on what ran meanwhile.

    `roles` of process ids; readers are known without. Nothing if no packet was recorded.
    """
    if not late.packets:
        return []
    known = _known(late.packets, roles)
    many = len({packet.path for packet in late.packets}) > 1
    (layer, count), *others = _counted(_layer(packet, many) for packet in late.packets)
    said = [f"{number(count)} of {number(len(late.packets))} recorded packets were late in {layer}"]
    said += [f"{number(count)} in {layer}" for layer, count in others]
    ran = [
        f"{name} for {number(count)}"
        for name, count in _counted(_ran(packet, known) for packet in late.packets)
    ]
    lines = [f"{', '.join(said)}."]
    if any(packet.longest for packet in late.packets):
        lines.append(f"What their CPU ran longest meanwhile: {', '.join(ran)}.")
    return lines


def table(late: LateDocument, roles: Mapping[int, str] | None = None) -> Table:
    """Return the slowest of the late packets: which layer made each late, and what its CPU did."""
    slowest = sorted(late.packets, key=lambda packet: -packet.since_entry_ns)[:MOST_LATE]
    known = _known(late.packets, roles)
    ns = scale("ns", slowest[0].since_entry_ns if slowest else late.threshold_ns)
    limit = scale("ns", late.threshold_ns)
    row = f", {late.in_a_row} in a row" if late.in_a_row > 1 else ""
    title = "Late packets" if len(slowest) == len(late.packets) else f"The {MOST_LATE} slowest"
    made = titled(f"{title} ({limit.text(late.threshold_ns)} {limit.name} or more{row})")
    made.add_column("path", no_wrap=True)
    made.add_column(f"{ns.name}", justify="right", no_wrap=True)
    made.add_column("made late by", no_wrap=True)
    made.add_column(f"{ns.name}", justify="right", no_wrap=True)
    made.add_column("CPU", justify="right", no_wrap=True)
    made.add_column("which ran longest", overflow="fold")
    made.add_column(f"{ns.name}", justify="right", no_wrap=True)
    for packet in slowest:
        layer, took = packet.slowest
        longest = packet.longest
        made.add_row(
            packet.path,
            ns.text(packet.since_entry_ns),
            layer,
            ns.text(took),
            str(packet.cpu),
            escape(_name(longest[0], known)) if longest else "",
            ns.text(longest[1]) if longest else "",
        )
    made.caption = _recorded(late)
    return made


def _recorded(late: LateDocument) -> str:
    said = [
        f"{number(late.packets_late)} late in {number(late.runs)} runs: {number(late.recorded)} "
        "recorded"
    ]
    if late.limited:
        said.append(f"{number(late.limited)} not, for there were enough")
    if late.lost:
        said.append(f"{number(late.lost)} not, for want of room")
    if late.early_in_a_row:
        said.append(f"{number(late.early_in_a_row)} before a run was long enough")
    if late.tracing_stopped:
        said.append("tracing stopped at the first")
    return ", ".join(said)


def _known(packets: Iterable[LatePacket], roles: Mapping[int, str] | None) -> dict[int, str]:
    """Return roles by process id: a received packet's path ends while its reader runs."""
    read = (packet for packet in packets if (packet.path, packet.end) == ("receive", "delivered"))
    return {packet.pid: "reader" for packet in read if packet.pid != IDLE} | dict(roles or {})


def _layer(packet: LatePacket, many: bool) -> str:
    name = packet.slowest[0]
    if name == "before":
        return BEFORE
    return f"{packet.path}'s {name}" if many else name


def _ran(packet: LatePacket, known: Mapping[int, str]) -> str:
    return _name(packet.longest[0], known) if packet.longest else "what is not known"


def _name(doer: Doer, known: Mapping[int, str]) -> str:
    """Return a task's name with its process id and its role, or that of what interrupted tasks."""
    if doer.pid is None:
        return doer.name
    if doer.pid == IDLE:
        return "idle"
    role = f", {known[doer.pid]}" if doer.pid in known else ""
    return f"{doer.name} (PID {doer.pid}{role})"


def _counted(names: Iterable[str]) -> list[tuple[str, int]]:
    """Return each name and how many have it, the most frequent first, and the rest as others."""
    counts = Counter(names).most_common()
    shown, rest = counts[:MOST_NAMED], counts[MOST_NAMED:]
    return [*shown, *([("others", sum(count for _, count in rest))] if rest else [])]
