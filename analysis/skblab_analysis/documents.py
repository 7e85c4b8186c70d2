# SPDX-License-Identifier: GPL-2.0-or-later
"""What the tools print: the JSON of `pathlat` (layers) and of `skblab-traffic` (packets).

Counts are whole and never negative. A field the tools gain later is let through, so an older
reader reads a newer tool; a field that is missing or contradicts another is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    NonNegativeFloat,
    NonNegativeInt,
    StringConstraints,
    model_validator,
)

from skblab_analysis.loglinear import SUB_BUCKETS, Histogram

# Names travel into pictures and pages, so they are kept plain.
Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]*$", max_length=64)]
Bucket = tuple[NonNegativeInt, Annotated[int, Field(gt=0)]]


class _Tool(BaseModel):
    """A document written by another program: frozen, strict types, extra fields let through."""

    model_config = ConfigDict(frozen=True, strict=True, extra="allow")


class _Distribution(_Tool):
    """A histogram as the tools print it: [[bucket index, count], …] with exact figures.

    `negative` (below zero) and `overflow` (too long to store) count values in no bucket.
    """

    count: NonNegativeInt
    sum: NonNegativeInt
    min: NonNegativeInt
    max: NonNegativeInt
    negative: NonNegativeInt = 0
    overflow: NonNegativeInt = 0
    buckets: tuple[Bucket, ...]

    @model_validator(mode="after")
    def _agrees(self) -> _Distribution:
        indices = [bucket for bucket, _ in self.buckets]
        if len(set(indices)) != len(indices):
            raise ValueError("a bucket index is given twice")
        held = sum(count for _, count in self.buckets)
        if held != self.count:
            raise ValueError(f"count is {self.count} but the buckets hold {held}")
        self.histogram()
        return self

    def histogram(self) -> Histogram:
        """Return the checked histogram."""
        if not self.buckets:
            return Histogram({})
        return Histogram(dict(self.buckets), self.sum, self.min, self.max)


class LayerDistribution(_Distribution):
    """Time from one point to the next one the packet passed; `total` marks the whole path.

    A packet that skipped a point is in the interval that spans it; one that skipped all between
    first and last is in the total only, where `direct` counts such packets.
    """

    from_point: Name = Field(alias="from")
    to_point: Name = Field(alias="to")
    total: bool = False
    direct: NonNegativeInt = 0


class NapiDistribution(_Distribution):
    """A per-poll figure: `delay` (schedule to poll start) or `time` (in the poll).

    `work` is what these polls handled in all, in packets; given with `time`.
    """

    name: Name
    work: NonNegativeInt | None = None
    context: Name


class Samples(_Tool):
    """Sample events by outcome, in packets.

    `incomplete` of the delivered ones lack the first or the last point and are in no layer.
    """

    delivered: NonNegativeInt
    dropped: NonNegativeInt
    other_end: NonNegativeInt = 0
    filtered: NonNegativeInt = 0
    incomplete: NonNegativeInt = 0


class StampsOn(_Tool):
    """Whether the kernel stamped packets when the probe began and ended; null: not known."""

    start: bool | None = None
    end: bool | None = None


class PathlatDocument(_Tool):
    """One run of `pathlat`: layer histograms and the counts for the ledger."""

    schema_: Literal["skblab.pathlat/1"] = Field(alias="schema")
    kernel: str
    clock_unit: Literal["ns"]
    sub_buckets: Literal[16]
    stamps_on: StampsOn = StampsOn()
    samples: Samples
    seen: Mapping[Name, NonNegativeInt]
    seen_dropped: Mapping[Name, NonNegativeInt] = Field(default_factory=dict)
    drop_reasons: Mapping[Name, NonNegativeInt] = Field(default_factory=dict)
    unplaced: Mapping[Name, NonNegativeInt]
    layers: tuple[LayerDistribution, ...]
    napi: tuple[NapiDistribution, ...] = ()

    @model_validator(mode="after")
    def _agrees(self) -> PathlatDocument:
        for layer in self.layers:
            for point in (layer.from_point, layer.to_point):
                if point not in self.seen:
                    raise ValueError(f"layer point {point!r} is not among the points of `seen`")
        pairs = [(layer.from_point, layer.to_point) for layer in self.layers]
        if len(set(pairs)) != len(pairs):
            raise ValueError("a layer is given twice")
        if sum(layer.total for layer in self.layers) != 1:
            raise ValueError("not exactly one layer is marked as the total")
        for point, count in self.seen.items():
            if count > self.samples.delivered:
                raise ValueError(
                    f"point {point} was seen by {count} of {self.samples.delivered} delivered"
                )
        return self

    @property
    def total(self) -> LayerDistribution:
        """The interval that is the whole path."""
        return next(layer for layer in self.layers if layer.total)


class Late(_Tool):
    """How far behind its schedule the sender was; `count` packets more than `threshold_ns`."""

    threshold_ns: NonNegativeInt
    count: NonNegativeInt
    mean_ns: NonNegativeFloat
    max_ns: NonNegativeInt


class SenderDocument(_Tool):
    """What the sender of `skblab-traffic` says: datagrams the kernel took, and those it refused."""

    schema_: Literal["skblab.traffic/1"] = Field(alias="schema")
    role: Literal["send"]
    sent: NonNegativeInt
    unsent: NonNegativeInt
    rate_reached: NonNegativeFloat | None = None
    late: Late | None = None


class Foreign(_Tool):
    """Datagrams that are not of this run."""

    total: NonNegativeInt


class ReceiverDocument(_Tool):
    """What the receiver of `skblab-traffic` says, by sequence number.

    received = distinct + duplicates + too_old + beyond + foreign; `lost` is expected - distinct,
    or where nothing was expected the gaps below the highest number.
    """

    schema_: Literal["skblab.traffic/1"] = Field(alias="schema")
    role: Literal["receive"]
    expected: NonNegativeInt | None
    received: NonNegativeInt
    distinct: NonNegativeInt
    duplicates: NonNegativeInt
    reordered: NonNegativeInt
    lost: NonNegativeInt
    too_old: NonNegativeInt
    beyond: NonNegativeInt
    foreign: Foreign
    rate: NonNegativeFloat | None = None

    @model_validator(mode="after")
    def _agrees(self) -> ReceiverDocument:
        held = self.distinct + self.duplicates + self.other
        if self.received != held:
            raise ValueError(
                f"received {self.received} is not distinct {self.distinct} + duplicates "
                f"{self.duplicates} + others {self.other}"
            )
        if self.expected is not None and self.expected != self.distinct + self.lost:
            raise ValueError(
                f"expected {self.expected} is not distinct {self.distinct} + lost {self.lost}"
            )
        return self

    @property
    def other(self) -> int:
        """Datagrams read that are neither a packet of this run nor a copy known as such."""
        return self.too_old + self.beyond + self.foreign.total


assert SUB_BUCKETS == 16, "PathlatDocument.sub_buckets names the histogram's own number"
