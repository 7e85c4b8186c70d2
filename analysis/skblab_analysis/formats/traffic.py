# SPDX-License-Identifier: GPL-2.0-or-later
"""What `skblab-traffic` prints of echoes, round trips, compared clocks and wake-ups.

runners/traffic/src/report.rs writes it. Sender and receiver are in `pathlat`, which runs with them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from pydantic import Field, model_validator

from skblab_analysis.base.real import Real
from skblab_analysis.base.whole import Count, Signed, Whole
from skblab_analysis.formats.pathlat import (
    ArrivalStamps,
    Late,
    PacketTimes,
    Recorded,
    ToolDocument,
)

Schema = Literal["skblab.traffic/2"]
Stopped = Literal["count", "idle", "seconds", "signal"]


class Process(ToolDocument):
    """How the program ran: in real time or not, page faults, and how often others had its CPU."""

    realtime: str | None
    cpu: Count | None
    rt_runtime_us: int | None
    rt_period_us: int | None
    minor_faults: Count
    major_faults: Count
    involuntary_switches: Count


class Refused(ToolDocument):
    """Datagrams that were not sent back: without a known header, from the echo's port, others."""

    foreign: Count
    own_port: Count
    by_kernel: Count


class EchoDocument(ToolDocument):
    """What `skblab-traffic echo` says: received = echoed + refused."""

    schema_: Schema = Field(alias="schema")
    role: Literal["echo"]
    bind: str
    received: Count
    echoed: Count
    bytes: Count
    refused: Refused
    errors: Mapping[str, Count]
    drops: Count
    seconds: Real
    rate: Real | None
    stopped_by: Stopped
    process: Process

    @model_validator(mode="after")
    def _agrees(self) -> EchoDocument:
        refused = self.refused.foreign + self.refused.own_port + self.refused.by_kernel
        if self.received != self.echoed + refused:
            raise ValueError(
                f"received {self.received} is not echoed {self.echoed} + refused {refused}"
            )
        return self


class RoundTripDocument(ToolDocument):
    """What `skblab-traffic rtt` says: sent = distinct + lost.

    received = distinct + duplicates + too_old + beyond + foreign. `round_trip` is from the sender's
    stamp to the kernel's stamp of the packet that came back, and `jitter` the difference of that of
    successive packets.
    """

    schema_: Schema = Field(alias="schema")
    role: Literal["round_trip"]
    to: str
    asked: Count | None
    attempted: Count
    sent: Count
    unsent: Count
    errors: Mapping[str, Count]
    payload_bytes: Count
    transmission: Count
    rate_asked: Count
    intervals: str | None
    rate_planned: Real | None
    rate_reached: Real | None
    seconds: Real
    late: Late
    received: Count
    distinct: Count
    duplicates: Count
    reordered: Count
    too_old: Count
    beyond: Count
    foreign: Count
    lost: Count
    drops: Count
    stamps: ArrivalStamps
    inter_arrival: PacketTimes
    jitter: PacketTimes
    round_trip: PacketTimes
    percentile_error: Real
    record: Recorded | None
    stopped_by: Stopped
    process: Process

    @model_validator(mode="after")
    def _agrees(self) -> RoundTripDocument:
        if self.attempted != self.sent + self.unsent:
            raise ValueError(f"attempted {self.attempted} is not sent {self.sent} + unsent")
        held = self.distinct + self.duplicates + self.too_old + self.beyond + self.foreign
        if self.received != held:
            raise ValueError(f"received {self.received} is not all that came, {held}")
        return self


class WakeupDocument(ToolDocument):
    """What `skblab-traffic wakeup` says: how late a task ran that slept until a time.

    `missed` times were over before it could sleep until them.
    """

    schema_: Schema = Field(alias="schema")
    role: Literal["wakeup"]
    rate: Count
    missed: Count
    late: PacketTimes
    percentile_error: Real
    stopped_by: Stopped
    process: Process


class ClockKept(ToolDocument):
    """What a kernel says of its clock: whether a program keeps it right, and how fast it runs."""

    synchronized: bool
    max_error_us: Count
    frequency_ppb: Signed


class ClockBound(ToolDocument):
    """A bound of how far a clock is ahead, ns, and when it held by the sender's clock, ns."""

    at_ns: Whole
    ahead_ns: Signed


class ClockAhead(ToolDocument):
    """By how much a clock is ahead, and how much more or less that may be, ns.

    `at_ns` is when, by this machine's clock, and `there_ns` by the other, ns since 1970.
    """

    ahead_ns: Signed
    off_ns: Count
    at_ns: Whole
    there_ns: Whole


class ClockDocument(ToolDocument):
    """What `skblab-traffic clock` says: how far the echo's clock is ahead, by two-way probes.

    It is ahead by `most` at most and by `least` at least; `ahead` is their middle, or null, and
    `unknown` says why. `round_trip_ns` is the shortest way there and back.
    """

    schema_: Schema = Field(alias="schema")
    role: Literal["clock"]
    to: str
    sent: Count
    unsent: Count
    answered: Count
    errors: Mapping[str, Count]
    not_by_kernel: Count
    round_trip_ns: Whole | None
    ahead: ClockAhead | None
    unknown: str | None
    most: ClockBound | None
    least: ClockBound | None
    near: ClockKept
    far: ClockKept | None
    stepped_ns: Signed
    process: Process

    @model_validator(mode="after")
    def _agrees(self) -> ClockDocument:
        if (self.ahead is None) == (self.unknown is None):
            raise ValueError("expected `ahead`, or why it is unknown")
        if self.ahead and not (self.most and self.least and self.far):
            raise ValueError("`ahead` without both bounds, or without what the echo says")
        return self
