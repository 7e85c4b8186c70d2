# SPDX-License-Identifier: GPL-2.0-or-later
"""What `skblab analyze` says of files of packets, as analysis/pktstat counts them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from pydantic import NonNegativeInt, PositiveInt

from skblab_analysis.base.checked import Closed
from skblab_analysis.base.real import Real

# Of a run folder.
FILE = "packets.json"


class Times(Closed):
    """One kind of time or of distance; its unit is in the name of the field that has it.

    `negative` values are counted and in no other figure. `percentiles`: those with ten values
    beyond them. `histogram`: smallest and largest value of a bucket, and how many are in it.
    """

    count: NonNegativeInt
    negative: NonNegativeInt
    min: NonNegativeInt | None
    mean: Real | None
    sd: Real | None
    max: NonNegativeInt | None
    percentiles: Mapping[str, NonNegativeInt]
    histogram: tuple[tuple[NonNegativeInt, NonNegativeInt, PositiveInt], ...]


class Density(Closed):
    """By how many places packets are away from where they belong (RFC 5236).

    `packets`: displacement, below 0 where a packet came early, and how many have it. `beyond`:
    those that are displaced by more than `threshold`, or came so many packets after their turn.
    """

    threshold: PositiveInt
    packets: tuple[tuple[int, PositiveInt], ...]
    beyond: NonNegativeInt


class Reordered(Closed):
    """Packets that came after a higher number, and by how many packets (RFC 4737).

    `share` is of all new packets; `at_least` extents are lower bounds.
    """

    count: NonNegativeInt
    share: Real | None
    extent_packets: Times
    at_least: NonNegativeInt
    density: Density


class Anomaly(Closed):
    """Packets in a row that were all late; `place` is the first one's among those that count.

    Times are of the receiver's clock; `min_ns`, `mean_ns`, `max_ns` are latencies. The data begins
    or ends within an anomaly that is open there.
    """

    place: NonNegativeInt
    sequence: NonNegativeInt | None
    packets: PositiveInt
    first_ns: int
    last_ns: int
    duration_ns: NonNegativeInt
    min_ns: NonNegativeInt
    mean_ns: Real
    max_ns: NonNegativeInt
    open_begin: bool
    open_end: bool


class Durations(Closed):
    """How long anomalies last: from the arrival of the first packet to that of the last."""

    total: NonNegativeInt
    min: NonNegativeInt | None
    mean: Real | None
    max: NonNegativeInt | None


class LateBin(Closed):
    """Anomalies that begin in one bin: latencies of their packets, and how long the longest lasts.

    `begin_ns` is after the origin.
    """

    begin_ns: int
    anomalies: PositiveInt
    packets: PositiveInt
    min_ns: NonNegativeInt
    mean_ns: Real
    max_ns: NonNegativeInt
    longest_ns: NonNegativeInt


class LateOverTime(Closed):
    """Bins of one width in which anomalies begin, in order; `origin_ns` as in `OverTime`."""

    width_ns: PositiveInt
    origin_ns: int
    rows: tuple[LateBin, ...]


class Late(Closed):
    """Anomalies: maximal runs of at least `least` packets, each with `late_ns` or more.

    `of_median` times the median is `late_ns`, if that was asked for. `share` is that of `packets`
    of all. `longest` are up to ten of them, by packets.
    """

    least: PositiveInt
    late_ns: NonNegativeInt
    of_median: Real | None
    count: NonNegativeInt
    packets: NonNegativeInt
    share: Real | None
    open_begin: bool
    open_end: bool
    duration_ns: Durations
    longest: tuple[Anomaly, ...]
    over_time: LateOverTime


class Flow(Closed):
    """New packets of a flow, and their latency."""

    flow: NonNegativeInt
    packets: PositiveInt
    bytes: NonNegativeInt
    seconds: Real
    rate: Real | None
    min_ns: NonNegativeInt | None
    mean_ns: Real | None
    sd_ns: Real | None
    max_ns: NonNegativeInt | None


class Bin(Closed):
    """Packets that came in one bin, and their latency; `begin_ns` is after the origin."""

    begin_ns: int
    packets: NonNegativeInt
    min_ns: NonNegativeInt | None
    mean_ns: Real | None
    max_ns: NonNegativeInt | None


class OverTime(Closed):
    """Bins of one width, in order and without a gap; `origin_ns` is when the first packet came."""

    width_ns: PositiveInt
    origin_ns: int
    rows: tuple[Bin, ...]


class FileFigures(Closed):
    """All figures of a file; `unknown` says by field why one is null.

    `received` = `packets` (new, with times) + `duplicates` + `too_old` + `beyond` +
    `other_transmission` + `foreign` + `bad_times`, where all are known. `missing` numbers are in no
    packet of the file; `lost` is the same, and null if packets that came are not in it.
    """

    file: str
    format: Literal["records", "timestamps", "pairs"]
    troubles: tuple[str, ...]
    unknown: Mapping[str, str]
    received: NonNegativeInt
    packets: NonNegativeInt
    bytes: NonNegativeInt | None
    duplicates: NonNegativeInt | None
    too_old: NonNegativeInt | None
    beyond: NonNegativeInt | None
    other_transmission: NonNegativeInt | None
    foreign: NonNegativeInt | None
    not_by_kernel: NonNegativeInt | None
    bad_times: NonNegativeInt
    not_kept: NonNegativeInt
    missing: NonNegativeInt | None
    lost: NonNegativeInt | None
    lost_share: Real | None
    reordered: Reordered | None
    first_ns: int | None
    latest_ns: int | None
    seconds: Real
    rate: Real | None
    latency_ns: Times | None
    latency_of: Literal["one way", "round trip"] | None
    jitter_ns: Times | None
    inter_arrival_ns: Times
    late: tuple[Late, ...] | None
    flows: tuple[Flow, ...] | None
    over_time: OverTime


class AnalyzeDocument(Closed):
    """What `skblab analyze --json` prints, and `--report` keeps: figures of each file, as given.

    In version 1 anomalies had no `over_time`, and reordering no `density`.
    """

    schema_name: Literal["skblab.analyze/2"] = "skblab.analyze/2"
    files: tuple[FileFigures, ...]
