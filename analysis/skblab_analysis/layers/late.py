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
from skblab_analysis.formats.pathlat import IDLE_PID, Doer, LateDocument, LatePacket

# Rows of the table: the slowest.
MOST_LATE = 20
# What pathlat records without --late-max and --late-rate.
MOST_RECORDED, RATE = 1000, 100
# Layers, and what ran, in a sentence: the most frequent.
MOST_NAMED = 4

BEFORE = "an earlier path"


def sentences(late: LateDocument, roles: Mapping[int, str] | None = None) -> list[str]:
    """Return a line on the layers that made packets late, and one on what ran meanwhile.

    `roles` of process ids; readers are known without. Nothing if no packet was recorded.
    """
    if not late.packets:
        return []
    known = _known(late.packets, roles)
    if len(late.packets) == 1:
        return _sentences_on_one(late.packets[0], known)
    many = len({packet.path for packet in late.packets}) > 1
    (layer, count), *others = _counted(_layer(packet, many) for packet in late.packets)
    were = "was" if count == 1 else "were"
    said = [
        f"{number(count)} of {number(len(late.packets))} recorded packets {were} late in {layer}"
    ]
    said += [f"{number(count)} in {layer}" for layer, count in others]
    ran = [
        f"{name} for {_packets(count)}"
        for name, count in _counted(_ran(packet, known) for packet in late.packets)
    ]
    lines = [f"{', '.join(said)}."]
    if any(packet.longest for packet in late.packets):
        lines.append(f"What their CPU ran longest meanwhile: {', '.join(ran)}.")
    return lines


def table(
    late: LateDocument,
    roles: Mapping[int, str] | None = None,
    *,
    most: int | None = None,
    rate: int | None = None,
) -> Table:
    """Return the slowest of the late packets: which layer made each late, and what its CPU did.

    `most` in all and `rate` a second (0: any number) were to be recorded; None: as usual. Where
    tracing was stopped each row also has when the packet's path ended.
    """
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
    if late.tracing_stopped:
        made.add_column("end, s", justify="right", no_wrap=True)
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
            *([_as_ftrace(packet.end_ns)] if late.tracing_stopped else []),
        )
    made.caption = _recorded(late, most or MOST_RECORDED, rate)
    return made


def _sentences_on_one(packet: LatePacket, known: Mapping[int, str]) -> list[str]:
    lines = [f"The one recorded packet was late in {_layer(packet, False)}."]
    if packet.longest:
        lines.append(f"What its CPU ran longest meanwhile: {_ran(packet, known)}.")
    return lines


def _packets(count: int) -> str:
    return f"{number(count)} packet" + ("s" if count != 1 else "")


def _as_ftrace(ns: int) -> str:
    """Return a time as ftrace prints it with the clock mono: it cuts off what is below a µs."""
    return f"{ns // 10**9}.{ns % 10**9 // 1000:06}"


def _recorded(late: LateDocument, most: int, rate: int | None) -> str:
    runs = f"{number(late.runs)} run" + ("s" if late.runs != 1 else "")
    long = f" of {number(late.in_a_row)} or more in a row" if late.in_a_row > 1 else ""
    said = [f"{number(late.packets_late)} late, {runs}{long}: {number(late.recorded)} recorded"]
    if late.limited:
        said.append(f"{number(late.limited)} not recorded ({_beyond(late, most, rate)})")
    if late.lost:
        said.append(f"{number(late.lost)} not recorded (no room)")
    if late.early_in_a_row:
        said.append(f"{number(late.early_in_a_row)} before a run was long enough")
    if late.tracing_stopped:
        said.append("tracing stopped at the first")
    return ", ".join(said)


def _beyond(late: LateDocument, most: int, rate: int | None) -> str:
    """Return which limit was reached; the kernel counts what is beyond either in one number."""
    in_all = f"{number(most)} in all"
    a_second = f"{number(RATE if rate is None else rate)} a second"
    if late.recorded + late.lost < most:
        return f"beyond {a_second}"
    return f"beyond {in_all}" if rate == 0 else f"beyond {in_all} or {a_second}"


def _known(packets: Iterable[LatePacket], roles: Mapping[int, str] | None) -> dict[int, str]:
    """Return roles by process id: a received packet's path ends while its reader runs."""
    read = (packet for packet in packets if (packet.path, packet.end) == ("receive", "delivered"))
    return {packet.pid: "reader" for packet in read if packet.pid != IDLE_PID} | dict(roles or {})


def _layer(packet: LatePacket, many: bool) -> str:
    name = packet.slowest[0]
    if name == "before":
        return BEFORE
    return f"{packet.path}'s {name}" if many else name


def _ran(packet: LatePacket, known: Mapping[int, str]) -> str:
    return _name(packet.longest[0], known) if packet.longest else "what is not known"


def _name(doer: Doer, known: Mapping[int, str]) -> str:
    """Return a task's name with its process id and its role, or that of what interrupted tasks."""
    if doer.pid is None or doer.pid == IDLE_PID:
        return doer.words
    role = f", {known[doer.pid]}" if doer.pid in known else ""
    return f"{doer.name} (PID {doer.pid}{role})"


def _counted(names: Iterable[str]) -> list[tuple[str, int]]:
    """Return each name and how many have it, the most frequent first, and the rest as others."""
    counts = Counter(names).most_common()
    shown, rest = counts[:MOST_NAMED], counts[MOST_NAMED:]
    return [*shown, *([("others", sum(count for _, count in rest))] if rest else [])]
