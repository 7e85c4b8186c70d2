# SPDX-License-Identifier: GPL-2.0-or-later
"""What the echo, the round trips and the wake-ups of `skblab-traffic` print.

runners/traffic/src/report.rs writes it. Sender and receiver are in `pathlat`, which runs with them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from pydantic import Field, model_validator

from skblab_analysis.base.real import Real
from skblab_analysis.base.whole import Count
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
