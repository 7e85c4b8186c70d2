# SPDX-License-Identifier: GPL-2.0-or-later
"""Times of any number of packets in fixed memory, as runners/traffic/src/distribution.rs has them.

The histogram is log-linear: 128 buckets per power of two. A double has its bucket in it: the upper
bits of its pattern are the exponent and the first seven bits of the fraction. A shift finds them.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from skblab_analysis.formats.traces.document import Times

_SUB_BITS = 7
# By how much of its value a percentile may be off: half of a bucket's width.
ERROR = 0.5 / (1 << _SUB_BITS)
# Values that have to lie beyond a percentile, else it is not given.
TAIL = 10
# Each percentile, and the share of values beyond it in 100 000ths.
PERCENTILES = (
    *(("50", 50_000), ("90", 10_000), ("99", 1_000)),
    *(("99.9", 100), ("99.99", 10), ("99.999", 1)),
)
WHOLE = 100_000
_SHIFT = 52 - _SUB_BITS
# The bucket of 1 has number 128, and that of 0 number 0.
_BELOW = 1022 << _SUB_BITS

# Whole nanoseconds, as integers or as doubles that are whole.
Nanoseconds: TypeAlias = npt.NDArray[Any]


class TimesCount:
    """What was observed of one kind of time."""

    def __init__(self) -> None:
        self.count = 0
        self.negative = 0
        self._min = 0
        self._max = 0
        self._mean = 0.0
        self._squares = 0.0
        self._buckets = np.zeros(1, np.int64)

    def add(self, values: Nanoseconds) -> None:
        """Add values; those below zero are only counted."""
        if not len(values):
            return
        least = values.min()
        if least < 0:
            kept = values[values >= 0]
            self.negative += len(values) - len(kept)
            self.add(kept)
            return
        doubles = values if values.dtype == np.float64 else values.astype(np.float64)
        self._add_extremes(int(least), int(values.max()))
        self._add_moments(doubles)
        numbers = doubles.view(np.int64) >> _SHIFT
        numbers -= _BELOW
        if least < 1:
            np.maximum(numbers, 0, out=numbers)
        self._add_buckets(np.bincount(numbers))

    def _add_extremes(self, least: int, most: int) -> None:
        self._min = min(self._min, least) if self.count else least
        self._max = max(self._max, most)

    def _add_moments(self, values: npt.NDArray[np.float64]) -> None:
        """Join mean and squares of these with those of the values before (Chan's formula)."""
        count = len(values)
        mean = float(values.mean())
        off = values - mean
        # Not by a product of vectors: BLAS would have threads wait for each other.
        np.multiply(off, off, out=off)
        squares = float(off.sum())
        both = self.count + count
        apart = mean - self._mean if self.count else 0.0
        self._mean = self._mean + apart * count / both if self.count else mean
        self._squares += squares + apart * apart * self.count * count / both
        self.count = both

    def _add_buckets(self, counts: npt.NDArray[np.int64]) -> None:
        if len(counts) > len(self._buckets):
            counts[: len(self._buckets)] += self._buckets
            self._buckets = counts
        else:
            self._buckets[: len(counts)] += counts

    def percentile(self, beyond: int) -> int | None:
        """Return the percentile with so many 100 000ths above it, None for too few values."""
        if self.count * beyond < TAIL * WHOLE:
            return None
        rank = -(-self.count * (WHOLE - beyond) // WHOLE)
        number = int(np.searchsorted(np.cumsum(self._buckets), rank))
        return min(max(_middle(number), self._min), self._max)

    def report(self) -> Times:
        """Return all figures."""
        found = {name: self.percentile(beyond) for name, beyond in PERCENTILES}
        some = self.count > 0
        return Times(
            count=self.count,
            negative=self.negative,
            min_ns=self._min if some else None,
            mean_ns=self._mean if some else None,
            sd_ns=(self._squares / (self.count - 1)) ** 0.5 if self.count > 1 else None,
            max_ns=self._max if some else None,
            percentiles_ns={name: value for name, value in found.items() if value is not None},
        )


def _middle(number: int) -> int:
    """Return the value in the middle of a bucket."""
    if not number:
        return 0
    power, part = divmod(number + _BELOW, 1 << _SUB_BITS)
    power -= 1023
    # Below 128 each value has a bucket of its own.
    if power < _SUB_BITS:
        return ((1 << _SUB_BITS) + part) >> (_SUB_BITS - power)
    shift = power - _SUB_BITS
    return (((1 << _SUB_BITS) + part) << shift) + ((1 << shift) >> 1)
