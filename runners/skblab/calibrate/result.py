# SPDX-License-Identifier: GPL-2.0-or-later
"""What a calibration found: `skblab traffic calibrate --json` prints it, and it is kept."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from pydantic import NonNegativeFloat, NonNegativeInt, PositiveInt

from skblab_analysis.base.checked import Finite
from skblab_analysis.formats.traces.document import Times

SCHEMA = "skblab.traffic-calibration/1"
Mode = Literal["normal", "real time"]
PlaceName = Literal["loopback", "veth"]


class Wakeup(Finite):
    """How late a task was woken that slept until each millisecond, as cyclictest counts it.

    `missed` milliseconds were over before the task could sleep until them.
    """

    mode: Mode
    late: Times
    missed: NonNegativeInt


class Spacing(Finite):
    """Times between packets at the receiver, sent at 1 000 packets per second.

    `error_sd_ns` is how far they are from a millisecond: the root of the mean square.
    """

    mode: Mode
    inter_arrival: Times
    error_sd_ns: NonNegativeFloat | None
    late_packets: NonNegativeInt


class Rate(Finite):
    """Packets per second asked for, and reached; `batch`: given to the kernel at once, at most."""

    asked: PositiveInt
    reached: NonNegativeFloat | None
    off_percent: float | None
    batch: PositiveInt
    sent: NonNegativeInt
    lost: NonNegativeInt


class Largest(Finite):
    """The largest rate without loss, packets per second, and the least that lost some.

    `least_with_loss` is null where nothing was lost: the sender cannot send faster.
    """

    without_loss: NonNegativeFloat | None
    least_with_loss: NonNegativeFloat | None
    batch: PositiveInt


class Place(Finite):
    """What was measured over one of both; null where there was no time for it.

    `latency` is from the sender's stamp to the kernel's stamp at the receiver, and `jitter` the
    difference of that of successive packets, at `latency_rate` packets per second.
    """

    name: PlaceName
    latency_rate: PositiveInt
    latency: Times | None
    jitter: Times | None
    round_trip: Times | None
    spacing: tuple[Spacing, ...]
    rates: tuple[Rate, ...]
    largest: Largest | None


class Calibration(Finite):
    """What this machine adds as a tester. `machine` is made of its ID, and does not tell it.

    `seconds` is how long it took; `skipped` says what was not measured, and why.
    """

    schema_name: Literal["skblab.traffic-calibration/1"] = "skblab.traffic-calibration/1"
    machine: str
    kernel: str
    cpu: str
    cpus: PositiveInt
    when: datetime
    seconds: NonNegativeFloat
    wakeup: tuple[Wakeup, ...]
    places: tuple[Place, ...]
    skipped: tuple[str, ...]
