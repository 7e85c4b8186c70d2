# SPDX-License-Identifier: GPL-2.0-or-later
"""What every trial has, whatever it measures: what it is of, how it ended, its packets."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, Literal, Protocol, Self

from pydantic import StringConstraints, model_validator

from skblab_analysis.base.real import Real
from skblab_analysis.base.rows import NO_UNIT, Column, Lines, Numbered, Plain, Row, Table, Text
from skblab_analysis.base.whole import Signed, Whole

Clock = Literal["wall", "exact"]
Part = Literal["whole", "tester"]
Setting = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_.=:/+, -]+$", max_length=80)]
# Of a trial that is of no setting.
UNNAMED = "default"
# How the reason of a trial begins that was skipped.
NOT_POSSIBLE = "not possible here: "
# A word: which there are only the measures' packages say.
Measure = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_]*$", max_length=40)]


class OfTrial(Row):
    """What a trial is of: trials of other traffic are not compared with it."""

    setting: Annotated[Setting, Column(NO_UNIT, "Setting under test, such as `rp_filter=1`.")] = (
        UNNAMED
    )
    part: Annotated[
        Part,
        Column(
            NO_UNIT,
            "`whole`, or `tester`: generator, links and sink with nothing in between.",
        ),
    ] = "whole"
    block: Annotated[
        Whole,
        Column(NO_UNIT, "Number of the block, which has fresh boots, from 0."),
    ] = 0
    boot_knobs: Annotated[
        Text,
        Column(NO_UNIT, "Knobs that the guest was booted with, such as `kernel=rt`; empty: none."),
    ] = ""
    traffic: Annotated[
        Text,
        Column(
            NO_UNIT,
            "What was sent, where a run compares settings: family, frame size, flows; else empty.",
        ),
    ] = ""

    def head(self, trial: int) -> dict[str, Any]:
        """Return what each row of the trial begins with."""
        return {"trial": trial} | {name: getattr(self, name) for name in OfTrial.model_fields}

    def offered(
        self, trial: int, measure: str, rate: int, tried: int, forwarded: int, send_rate: float
    ) -> TrialRow:
        """Return the row of a trial on the wall clock to which packets were offered at a rate."""
        return TrialRow(
            **self.head(trial),
            clock="wall",
            measure=measure,
            rate=rate,
            tried=tried,
            forwarded=forwarded,
            lost=max(tried - forwarded, 0),
            send_rate=send_rate,
            packets=forwarded,
        )


class OfRow(OfTrial, Numbered):
    """A row that repeats what its trial is of."""


class TrialRow(OfRow):
    """A trial, good or invalid."""

    clock: Annotated[Clock, Column(NO_UNIT, "`wall` (nanoseconds) or `exact` (instructions).")]
    measure: Annotated[
        Measure | None,
        Column(
            NO_UNIT,
            "What it measures: `instructions`, or a measure of an experiment file such as "
            "`latency`, or `tester`: any of these, of the tester alone; null: it is of no sweep.",
        ),
    ] = None
    rate: Annotated[
        Whole | None,
        Column("packets/s", "Rate that it was to be measured at, where one was given."),
    ] = None
    repeat: Annotated[Whole, Column(NO_UNIT, "Number of the repeat within the block, from 0.")] = 0
    state: Annotated[Literal["good", "invalid"], Column(NO_UNIT, "`good` or `invalid`.")] = "good"
    reason: Annotated[Lines, Column(NO_UNIT, "Why the trial is invalid; empty: it is not.")] = ""
    sent: Annotated[
        Whole | None,
        Column(
            "packets", "Packets that a sending program handed to the kernel; null: see `tried`."
        ),
    ] = None
    tried: Annotated[
        Whole | None,
        Column(
            "packets",
            "Packets that a sweep's generator put out, those included that the first device "
            "refused.",
        ),
    ] = None
    forwarded: Annotated[
        Whole | None,
        Column("packets", "Packets that the device under test gave to the link to the sink."),
    ] = None
    received: Annotated[
        Whole | None, Column("packets", "Distinct packets that the program or the sink received.")
    ] = None
    lost: Annotated[
        Signed | None,
        Column("packets", "Packets that never arrived; of `layers`, that were not forwarded."),
    ] = None
    unsent: Annotated[
        Whole | None,
        Column(
            "packets",
            "Of `traffic`: packets that the sender's own socket or device refused; they are not in "
            "`sent`. Null: nobody told.",
        ),
    ] = None
    dropped: Annotated[
        Whole | None,
        Column(
            "packets",
            "Of `traffic`: packets that arrived and found no room in the receiver's own socket; "
            "they are not in `lost`. Null: nobody told, and `lost` has them.",
        ),
    ] = None
    duplicates: Annotated[Whole | None, Column("packets", "Further copies received.")] = None
    reordered: Annotated[
        Whole | None,
        Column("packets", "Packets received after one with a higher sequence number."),
    ] = None
    send_rate: Annotated[
        Real | None,
        Column("packets/s", "Rate the sender reached, first to last packet."),
    ] = None
    receive_rate: Annotated[
        Real | None,
        Column("packets/s", "Rate at the receiver, first to last packet."),
    ] = None
    late: Annotated[
        Whole | None,
        Column("packets", "Packets that left later than `late_threshold`; null without a rate."),
    ] = None
    late_threshold: Annotated[
        Whole | None, Column("ns", "How far behind its schedule a packet counts as late.")
    ] = None
    late_mean: Annotated[Real | None, Column("ns", "Mean time behind schedule, all packets.")] = (
        None
    )
    late_max: Annotated[Whole | None, Column("ns", "The worst time behind schedule.")] = None
    packets: Annotated[Whole, Column("packets", "Packets the trial's figures are taken over.")] = 0
    instructions: Annotated[
        Whole | None,
        Column("instructions", "Guest instructions of the counted run (exact only)."),
    ] = None
    instructions_per_packet: Annotated[
        Real | None,
        Column("instructions/packet", "Instructions over packets (exact only)."),
    ] = None

    @property
    def skipped(self) -> bool:
        """Whether it was not possible where the others were measured."""
        return self.state == "invalid" and self.reason.startswith(NOT_POSSIBLE)

    @property
    def counted(self) -> bool:
        """Whether it is a good trial that counted instructions."""
        return self.state == "good" and self.instructions is not None

    @model_validator(mode="after")
    def _counted_of_packets(self) -> Self:
        if self.counted and not (self.instructions and self.packets and self.received is not None):
            raise ValueError("it counts no instructions, or of no packets")
        return self

    def invalid(self, reason: str) -> Self:
        """Return it as one that cannot be used, for this reason beside what it had."""
        why = f"{self.reason}; {reason}" if self.reason else reason
        return self.model_validate(self.model_dump() | {"state": "invalid", "reason": why})


def offered_trial(row: TrialRow) -> dict[str, Any]:
    """Return what a trial at a rate has of its row, whatever it measures: see AtRate."""
    return {
        "rate": row.rate,
        "offered_rate": row.send_rate or 0.0,
        "setting": row.setting,
        "block": row.block,
        "traffic": row.traffic,
    }


class Measured(Protocol):
    """What was measured in one trial, as it is stored."""

    def row(self, trial: int) -> TrialRow:
        """Return the trial's row, for its number in the run."""

    def rows(self, trial: int) -> Iterable[Numbered]:
        """Return its rows of other tables; RefusedError if its numbers contradict each other."""


class Known(Protocol):
    """What else is known of a trial, whatever became of it."""

    def row(self, trial: int) -> Numbered:
        """Return its row, for the trial's number in the run."""


def _older(row: Plain) -> Plain:
    """Of version 1: `boot` was the block, `void` invalid, packets of sweeps had others' names."""
    made = row | {"block": row["boot"]}
    if row["state"] == "void":
        made["state"] = "invalid"
    made |= {name: row[name] or "" for name in ("boot_knobs", "traffic", "reason")}
    if row["measure"] is not None:
        made |= {"tried": row["sent"], "sent": None}
    if row["measure"] == "layers":
        made |= {"forwarded": row["received"], "received": None}
    return made


def older_head(row: Plain) -> Plain:
    """Return a row of version 1 that repeats what its trial is of: `boot` was the block."""
    return row | {"block": row["boot"], "boot_knobs": row["boot_knobs"] or ""}


TABLES = (Table(TrialRow, "trials", "one trial, good or invalid", version=2, older=_older),)
