# SPDX-License-Identifier: GPL-2.0-or-later
"""The log-linear histogram that every probe of skblab fills: buckets, merge, mean, percentiles.

Buckets: 16 linear sub-buckets per power of two. A value below 16 has a bucket of its own; above
that a bucket's width is at most 1/16 of its lower bound. Values are whole numbers of one unit
(nanoseconds or instructions), which the caller keeps beside the histogram.

Percentile rule. Of n samples, the q-quantile is the k-th smallest with k = ceil(q * n). Inside
its bucket [lower, upper], holding m samples of which it is the j-th, the samples are taken as
evenly spread: lower + (upper - lower) * (j - 1/2) / m, then kept within [min, max]. The true
sample lies in the same bucket, so the answer is off by at most 1/16 of the true value.

A quantile is given only if at least TAIL_SAMPLES samples are expected beyond it,
n * (1 - q) >= TAIL_SAMPLES: p50 needs 20 samples, p99 needs 1 000, p99.9 needs 10 000.

A kernel's own histograms may have other buckets, of which the edges are given, and tell no single
value: minimum and maximum are bounds then, those of the lowest and of the highest bucket. A
quantile in a bucket much wider than ours is not given.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from itertools import chain

SUB_BITS = 4
SUB_BUCKETS = 1 << SUB_BITS
# Of its lower end, the widest part that a bucket may be for a quantile in it. Those of the kernel
# are up to an eighth, before they are rounded.
COARSE = 7
TAIL_SAMPLES = 10
# The bucket of the largest value of 64 bits. One far beyond it would take all memory to write down.
MOST_BUCKET = (64 - SUB_BITS) * SUB_BUCKETS + SUB_BUCKETS - 1


def index(value: int) -> int:
    """Return the bucket of `value` >= 0."""
    if value < 0:
        raise ValueError(f"a histogram value is never negative, got {value}")
    if value < SUB_BUCKETS:
        return value
    exponent = value.bit_length() - 1
    sub = (value >> (exponent - SUB_BITS)) & (SUB_BUCKETS - 1)
    return (exponent - SUB_BITS + 1) * SUB_BUCKETS + sub


def bounds(bucket: int) -> tuple[int, int]:
    """Return the smallest and the largest value of `bucket`, both inside it."""
    if not 0 <= bucket <= MOST_BUCKET:
        raise ValueError(
            f"a bucket index is never negative, and at most {MOST_BUCKET}, got {bucket}"
        )
    if bucket < SUB_BUCKETS:
        return bucket, bucket
    shift = bucket // SUB_BUCKETS - 1
    lower = (SUB_BUCKETS + bucket % SUB_BUCKETS) << shift
    return lower, lower + (1 << shift) - 1


def _coarse(lower: int, upper: int) -> bool:
    return upper - lower > max(1, lower // COARSE)


def _joined(
    *parts: Iterable[tuple[int, int, int]],
) -> tuple[dict[int, int], dict[int, tuple[int, int]]]:
    """Return counts and edges of all rows, numbered from the lowest.

    Each boot measures its clock's frequency anew, so edges of the same bucket may differ by a unit.
    """
    counts: dict[tuple[int, int], int] = {}
    for lower, upper, count in chain(*parts):
        counts[lower, upper] = counts.get((lower, upper), 0) + count
    edges = dict(enumerate(sorted(counts)))
    return {number: counts[edge] for number, edge in edges.items()}, edges


@dataclass(frozen=True)
class Histogram:
    """Counts per bucket with exact count, sum, minimum and maximum.

    `buckets` maps bucket index to a count above zero. `minimum` and `maximum` are 0 when empty, and
    no more than bounds if `bounded`. `edges` has each bucket's smallest and largest value where
    they are not those of `bounds`; neighbours may share one.
    """

    buckets: Mapping[int, int]
    total: int = 0
    minimum: int = 0
    maximum: int = 0
    bounded: bool = False
    edges: Mapping[int, tuple[int, int]] | None = None

    def __post_init__(self) -> None:
        for bucket, count in self.buckets.items():
            if bucket < 0 or count <= 0:
                raise ValueError(f"bucket {bucket} holds {count}: expected index >= 0, count > 0")
        if not self.buckets:
            if self.total or self.minimum or self.maximum:
                raise ValueError("an empty histogram has sum, minimum and maximum 0")
            return
        self._check_edges()
        for name, value, pick in (
            ("minimum", self.minimum, min),
            ("maximum", self.maximum, max),
        ):
            low, high = self.bounds(pick(self.buckets))
            if not low <= value <= high:
                where = "lowest" if pick is min else "highest"
                raise ValueError(f"the {name} {value} is not in the {where} bucket")
        # A kernel counts on while its histograms are read, and its buckets' edges are rounded.
        if self.bounded:
            return
        low, high = self._sum_limits()
        if not low <= self.total <= high:
            raise ValueError(f"the sum {self.total} is outside {low} … {high}, the buckets' limits")

    def _check_edges(self) -> None:
        if self.edges is None:
            return
        if self.edges.keys() != self.buckets.keys():
            raise ValueError("some buckets have no edges, or some edges no bucket")
        before = (-1, -1)
        for _, (low, high) in sorted(self.edges.items()):
            if low > high or low < before[0] or high < before[1] or low < 0:
                raise ValueError(
                    f"a bucket of {low} … {high} follows one of {before[0]} … {before[1]}"
                )
            before = (low, high)

    def bounds(self, bucket: int) -> tuple[int, int]:
        """Return the smallest and the largest value of one of its buckets."""
        return bounds(bucket) if self.edges is None else self.edges[bucket]

    def _sum_limits(self) -> tuple[int, int]:
        limits = [(self.bounds(bucket), count) for bucket, count in self.buckets.items()]
        return (
            sum(lower * count for (lower, _), count in limits),
            sum(upper * count for (_, upper), count in limits),
        )

    @classmethod
    def of(cls, values: Iterable[int]) -> Histogram:
        """Return the histogram of single values."""
        buckets: dict[int, int] = {}
        kept = list(values)
        for value in kept:
            bucket = index(value)
            buckets[bucket] = buckets.get(bucket, 0) + 1
        return cls(buckets, sum(kept), min(kept, default=0), max(kept, default=0))

    @property
    def count(self) -> int:
        """Number of samples."""
        return sum(self.buckets.values())

    @property
    def mean(self) -> float | None:
        """The exact sum over the count; None when empty."""
        return self.total / self.count if self.buckets else None

    def merge(self, other: Histogram) -> Histogram:
        """Return the histogram of both sets of samples."""
        if not self.buckets:
            return other
        if not other.buckets:
            return self
        buckets = dict(self.buckets)
        edges = None
        if self.edges is None and other.edges is None:
            for bucket, count in other.buckets.items():
                buckets[bucket] = buckets.get(bucket, 0) + count
        else:
            buckets, edges = _joined(self.rows(), other.rows())
        return Histogram(
            buckets,
            self.total + other.total,
            min(self.minimum, other.minimum),
            max(self.maximum, other.maximum),
            self.bounded or other.bounded,
            edges,
        )

    def quantile(self, q: float) -> float | None:
        """Return the q-quantile (0 < q < 1) by the rule above; None without enough samples."""
        if not 0 < q < 1:
            raise ValueError(f"a quantile lies between 0 and 1, got {q}")
        # A fraction read from the decimal text: 0.999 as binary float would move the limits.
        share = Fraction(str(q))
        count = self.count
        if count * (1 - share) < TAIL_SAMPLES:
            return None
        rank = math.ceil(share * count)
        for bucket in sorted(self.buckets):
            held = self.buckets[bucket]
            if rank <= held:
                lower, upper = self.bounds(bucket)
                if _coarse(lower, upper):
                    return None
                value = lower + (upper - lower) * (rank - 0.5) / held
                return min(max(value, self.minimum), self.maximum)
            rank -= held
        raise AssertionError("the rank of a quantile is at most the count")

    def rows(self) -> list[tuple[int, int, int]]:
        """Return (lower, upper, count) per bucket in rising order, both bounds inside."""
        return [(*self.bounds(bucket), self.buckets[bucket]) for bucket in sorted(self.buckets)]
