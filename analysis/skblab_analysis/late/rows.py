# SPDX-License-Identifier: GPL-2.0-or-later
"""What is stored of packets that were late in a sweep: each trial's numbers, and each packet."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

from skblab_analysis.base.rows import NO_UNIT, Column, Numbered, Table, Text
from skblab_analysis.base.whole import Count, Positive, Whole
from skblab_analysis.formats.pathlat import LateDocument, LatePacket
from skblab_analysis.formats.pktsink import ArrivalsDocument
from skblab_analysis.trials.rows import OfRow, OfTrial

# The probe has the lower bits of numbers, the tester all of them.
BITS = 32


class LateTrialRow(OfRow):
    """How many packets were late in a trial, in the router and at the tester."""

    rate: Annotated[Positive, Column("packets/s", "Rate that packets were offered at.")]
    threshold: Annotated[Positive, Column("ns", "From which on a packet is late.")]
    in_a_row: Annotated[
        Positive,
        Column("packets", "The probe recorded the packet of this number in a row, and later ones."),
    ]
    forwarded: Annotated[Whole, Column("packets", "Packets that the router gave to the link.")]
    late: Annotated[Count, Column("packets", "Late in the router: from the driver to its end.")]
    recorded: Annotated[Count, Column("packets", "Of these, those that the probe recorded.")]
    not_recorded: Annotated[
        Count, Column("packets", "Of these, those beyond the probe's limits, or without room.")
    ]
    tester_late: Annotated[
        Count, Column("packets", "Late at the tester: from the generator's device to the sink.")
    ]
    tester_recorded: Annotated[
        Count, Column("packets", "Of these, those whose numbers the tester recorded.")
    ]
    both: Annotated[
        Count | None,
        Column(
            "packets",
            "Recorded as late by the tester and by the probe, by their numbers; null: packets were "
            "lost or overtaken, and the tester's runs do not tell their numbers.",
        ),
    ]


class LatePacketRow(OfRow):
    """A packet that was late in the router, as the probe recorded it."""

    rate: Annotated[Positive, Column("packets/s", "Rate that packets were offered at.")]
    sequence: Annotated[
        Whole | None,
        Column(NO_UNIT, "Its number in the trial, from 1, the lower 32 bits; null: not known."),
    ] = None
    end: Annotated[Whole, Column("ns", "When its path ended, of the router's CLOCK_MONOTONIC.")]
    took: Annotated[Whole, Column("ns", "From the driver to the end of its path.")]
    layer: Annotated[Text, Column(NO_UNIT, "The layer that took most; `before`: an earlier path.")]
    in_layer: Annotated[Whole, Column("ns", "Time in that layer.")]
    cpu: Annotated[Whole, Column(NO_UNIT, "The CPU that saw its end.")]
    ran: Annotated[
        Text | None,
        Column(
            NO_UNIT,
            "What that CPU was longest at since the packet came: a task's name, a softirq, an "
            "interrupt, or `idle`; null: not known.",
        ),
    ] = None
    ran_for: Annotated[Whole | None, Column("ns", "For how long in all.")] = None
    backlog: Annotated[Whole, Column("packets", "Packets that waited in that CPU's backlog.")]
    tester_late: Annotated[
        bool | None,
        Column(
            NO_UNIT,
            "Whether the tester recorded it as late, too; null: its number is not known, or `both` "
            "is null.",
        ),
    ] = None


def numbers(arrivals: ArrivalsDocument) -> frozenset[int] | None:
    """Return the numbers of packets that the tester recorded as late, their lower bits.

    A run has its first number and how many packets it has. Those are the next numbers only if all
    packets came, once and in their order: else None.
    """
    packets = arrivals.packets
    if packets.lost or packets.reordered or packets.duplicates:
        return None
    [late] = arrivals.late
    return frozenset(
        number % (1 << BITS)
        for run in late.runs.recorded
        for number in range(run.sequence, run.sequence + run.packets)
    )


def rows(
    of: OfTrial,
    trial: int,
    late: LateDocument,
    arrivals: ArrivalsDocument,
    *,
    rate: int,
    forwarded: int,
) -> Iterator[Numbered]:
    """Yield the rows of a trial: what the probe and the tester saw of packets of one threshold.

    The tester was asked for this threshold alone, and for runs of one packet and more.
    """
    [seen] = arrivals.late
    known = numbers(arrivals)
    head = of.head(trial) | {"rate": rate}
    yield LateTrialRow(
        **head,
        threshold=late.threshold_ns,
        in_a_row=late.in_a_row,
        forwarded=forwarded,
        late=late.packets_late,
        recorded=late.recorded,
        not_recorded=late.limited + late.lost,
        tester_late=seen.packets_late,
        tester_recorded=sum(run.packets for run in seen.runs.recorded),
        both=None if known is None else sum(one.sequence in known for one in late.packets),
    )
    for packet in late.packets:
        yield _packet(head, packet, known)


def _packet(
    head: dict[str, object], packet: LatePacket, known: frozenset[int] | None
) -> LatePacketRow:
    layer, took = packet.slowest
    ran = packet.longest
    return LatePacketRow.model_validate(
        {
            **head,
            "sequence": packet.sequence,
            "end": packet.end_ns,
            "took": packet.since_entry_ns,
            "layer": layer,
            "in_layer": took,
            "cpu": packet.cpu,
            "ran": ran[0].words if ran else None,
            "ran_for": ran[1] if ran else None,
            "backlog": packet.backlog,
            "tester_late": None
            if packet.sequence is None or known is None
            else packet.sequence in known,
        }
    )


TABLES = (
    Table(LateTrialRow, "late_trials", "late packets of a trial, counted", later=True),
    Table(LatePacketRow, "late_packets", "one packet that was late in the router", later=True),
)
