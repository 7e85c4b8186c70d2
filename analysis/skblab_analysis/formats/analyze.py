# SPDX-License-Identifier: GPL-2.0-or-later
"""What `skblab analyze` says of files of packets, as analysis/pktstat counts them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from skblab_analysis.base.checked import Closed
from skblab_analysis.base.real import Real

# Of a run folder.
FILE = "packets.json"
# Names of all percentiles that there may be.
PERCENTILES = ("50", "90", "99", "99.9", "99.99", "99.999", "99.9999")

# The program counts in 64 bits; what lies between two moments takes one more.
Natural = Annotated[int, Field(ge=0, lt=2**64)]
Counted = Annotated[int, Field(ge=1, lt=2**64)]
Moment = Annotated[int, Field(gt=-(2**65), lt=2**65)]


def _rising(begins: Sequence[int], width_ns: int) -> None:
    """Raise ValueError unless bins of a width begin one after the other."""
    for before, begin in pairwise(begins):
        if begin - before < width_ns:
            raise ValueError(f"a bin of {width_ns} ns begins at {before}, the next one at {begin}")


class Times(Closed):
    """One kind of time or of distance; its unit is in the name of the field that has it.

    `negative` values are counted and in no other figure. `percentiles`: those with ten values
    beyond them. `histogram`: smallest and largest value of a bucket, and how many are in it.
    """

    count: Natural
    negative: Natural
    min: Natural | None
    mean: Real | None
    sd: Real | None
    max: Natural | None
    percentiles: Mapping[str, Natural]
    histogram: tuple[tuple[Natural, Natural, Counted], ...]

    @model_validator(mode="after")
    def _agrees(self) -> Self:
        before = -1
        for low, high, _ in self.histogram:
            if not before < low <= high:
                raise ValueError(f"a bucket of {low} … {high} follows one that ends at {before}")
            before = high
        held = sum(count for *_, count in self.histogram)
        if held != self.count:
            raise ValueError(f"the buckets hold {held} of {self.count} values")
        ends = (self.min, self.max)
        if not self.histogram:
            if ends != (None, None):
                raise ValueError("no value, and a smallest or a largest one")
            return self
        for end, (low, high, _) in zip(ends, (self.histogram[0], self.histogram[-1]), strict=True):
            if end is None or not low <= end <= high:
                raise ValueError(f"{end} is not in the bucket of {low} … {high}")
        return self


class Density(Closed):
    """By how many places packets are away from where they belong (RFC 5236).

    `packets`: displacement, below 0 where a packet came early, and how many have it. `beyond`:
    those that are displaced by more than `threshold`, or came so many packets after their turn.
    `occupancy`: how many packets wait after an arrival for one that is still to come, and how often
    it is so many; a document of before has none.
    """

    threshold: Counted
    packets: tuple[tuple[Moment, Counted], ...]
    beyond: Natural
    occupancy: tuple[tuple[Natural, Counted], ...] = ()


class Reordered(Closed):
    """Packets that came after a higher number, and by how many packets (RFC 4737).

    `share` is of all new packets; `at_least` extents are lower bounds. Of one flow among several
    there is no `density`.
    """

    count: Natural
    share: Real | None
    extent_packets: Times
    at_least: Natural
    density: Density | None


class Anomaly(Closed):
    """Packets in a row that were all late; `place` is the first one's among those that count.

    Times are of the receiver's clock; `min_ns`, `mean_ns`, `max_ns` are latencies. The data begins
    or ends within an anomaly that is open there.
    """

    place: Natural
    sequence: Natural | None
    packets: Counted
    first_ns: Moment
    last_ns: Moment
    duration_ns: Natural
    min_ns: Natural
    mean_ns: Real
    max_ns: Natural
    open_begin: bool
    open_end: bool


class Durations(Closed):
    """How long anomalies last: from the arrival of the first packet to that of the last."""

    total: Natural
    min: Natural | None
    mean: Real | None
    max: Natural | None


class LateBin(Closed):
    """Anomalies that begin in one bin: latencies of their packets, and how long the longest lasts.

    `begin_ns` is after the origin.
    """

    begin_ns: Moment
    anomalies: Counted
    packets: Counted
    min_ns: Natural
    mean_ns: Real
    max_ns: Natural
    longest_ns: Natural


class LateOverTime(Closed):
    """Bins of one width in which anomalies begin, in order; `origin_ns` as in `OverTime`."""

    width_ns: Counted
    origin_ns: Moment
    rows: tuple[LateBin, ...]

    @model_validator(mode="after")
    def _agrees(self) -> Self:
        _rising([row.begin_ns for row in self.rows], self.width_ns)
        return self


class Late(Closed):
    """Anomalies: maximal runs of at least `least` packets, each with `late_ns` or more.

    `of_median` times the median is `late_ns`, if that was asked for. `share` is that of `packets`
    of all. `longest` are up to ten of them, by packets.
    """

    least: Counted
    late_ns: Natural
    of_median: Real | None
    count: Natural
    packets: Natural
    share: Real | None
    open_begin: bool
    open_end: bool
    duration_ns: Durations
    longest: tuple[Anomaly, ...]
    over_time: LateOverTime


class Flow(Closed):
    """New packets of a flow, and their latency.

    `percentiles` and `histogram` as in `Times`; null of a flow that is not among the 256 with the
    most packets, or without a latency, and in a document of before.
    """

    flow: Natural
    packets: Counted
    bytes: Natural
    seconds: Real
    rate: Real | None
    min_ns: Natural | None
    mean_ns: Real | None
    sd_ns: Real | None
    max_ns: Natural | None
    percentiles: Mapping[str, Natural] | None = None
    histogram: tuple[tuple[Natural, Natural, Counted], ...] | None = None


class Bin(Closed):
    """Packets that came in one bin, and their latency; `begin_ns` is after the origin."""

    begin_ns: Moment
    packets: Natural
    min_ns: Natural | None
    mean_ns: Real | None
    max_ns: Natural | None

    @model_validator(mode="after")
    def _agrees(self) -> Self:
        known = {value is not None for value in (self.min_ns, self.mean_ns, self.max_ns)}
        if len(known) > 1 or (known == {True} and not self.packets):
            raise ValueError("a latency of no packet, or a part of one")
        return self


class OverTime(Closed):
    """Bins of one width, in order and without a gap.

    `origin_ns` is when the first packet of the file came, of whatever kind.
    """

    width_ns: Counted
    origin_ns: Moment
    rows: tuple[Bin, ...]

    @model_validator(mode="after")
    def _agrees(self) -> Self:
        _rising([row.begin_ns for row in self.rows], self.width_ns)
        return self


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
    received: Natural
    packets: Natural
    bytes: Natural | None
    duplicates: Natural | None
    too_old: Natural | None
    beyond: Natural | None
    other_transmission: Natural | None
    foreign: Natural | None
    not_by_kernel: Natural | None
    bad_times: Natural
    not_kept: Natural
    missing: Natural | None
    lost: Natural | None
    lost_share: Real | None
    reordered: Reordered | None
    first_ns: Moment | None
    latest_ns: Moment | None
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
