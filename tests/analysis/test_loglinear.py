# SPDX-License-Identifier: GPL-2.0-or-later
"""The histogram: its buckets as the probes fill them, and what may be read from it."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skblab_analysis.base.histogram import TAIL_SAMPLES, Histogram, bounds, index

values = st.integers(min_value=0, max_value=2**63)
samples = st.lists(values, max_size=200)


def reference_index(value: int) -> int:
    """The probe's formula, in its own words: e = floor(log2 v); (e-3)*16 + ((v>>(e-4)) & 15)."""
    if value < 16:
        return value
    e = math.floor(math.log2(value)) if value < 2**48 else value.bit_length() - 1
    return (e - 3) * 16 + ((value >> (e - 4)) & 15)


@given(values)
def test_index_is_the_probes_formula(value: int) -> None:
    assert index(value) == reference_index(value)


@given(values)
def test_value_lies_in_its_bucket_and_width_is_a_sixteenth(value: int) -> None:
    lower, upper = bounds(index(value))
    assert lower <= value <= upper
    assert (upper - lower) * 16 <= lower


@given(st.integers(min_value=0, max_value=960))
def test_buckets_leave_no_gap_and_keep_order(bucket: int) -> None:
    assert bounds(bucket)[1] + 1 == bounds(bucket + 1)[0]
    assert index(bounds(bucket)[0]) == index(bounds(bucket)[1]) == bucket


@given(samples, samples)
def test_merge_is_the_histogram_of_all(left: list[int], right: list[int]) -> None:
    assert Histogram.of(left).merge(Histogram.of(right)) == Histogram.of(left + right)


@given(samples.filter(bool))
def test_mean_is_exact(data: list[int]) -> None:
    assert Histogram.of(data).mean == sum(data) / len(data)


@given(
    st.lists(values, min_size=20, max_size=2000),
    st.sampled_from([0.1, 0.5, 0.9, 0.99, 0.999]),
)
def test_quantile_is_within_a_sixteenth_of_the_true_sample(data: list[int], q: float) -> None:
    got = Histogram.of(data).quantile(q)
    if len(data) * (1 - Fraction(str(q))) < TAIL_SAMPLES:
        assert got is None
        return
    true = sorted(data)[math.ceil(Fraction(str(q)) * len(data)) - 1]
    assert got is not None
    # One part in 2**50 more for the float arithmetic of values near 2**63.
    assert abs(got - true) <= true / 16 * (1 + 2**-50)
    assert min(data) <= got <= max(data)


@pytest.mark.parametrize(
    ("q", "needed"), [(0.5, 20), (0.9, 100), (0.99, 1000), (0.999, 10_000), (0.99999, 1_000_000)]
)
def test_percentile_needs_ten_samples_beyond_it(q: float, needed: int) -> None:
    assert Histogram({5: needed}, 5 * needed, 5, 5).quantile(q) == 5
    assert Histogram({5: needed - 1}, 5 * (needed - 1), 5, 5).quantile(q) is None


def test_quantile_spreads_samples_evenly_inside_a_bucket() -> None:
    # Bucket 32..33, 40 samples: the 20th lies at 32 + 1 * 19.5 / 40.
    assert Histogram({32: 40}, 40 * 32 + 20, 32, 33).quantile(0.5) == pytest.approx(32.4875)


def test_empty_has_no_mean_and_no_percentile() -> None:
    empty = Histogram.of([])
    assert (empty.count, empty.mean, empty.quantile(0.5), empty.rows()) == (0, None, None, [])


@pytest.mark.parametrize(
    ("histogram", "reason"),
    [
        (({3: 0}, 0, 3, 3), "count > 0"),
        (({-1: 2}, 0, 0, 0), "index >= 0"),
        (({}, 4, 0, 0), "empty"),
        (({3: 1, 9: 1}, 12, 4, 9), "minimum"),
        (({3: 1, 9: 1}, 12, 3, 8), "maximum"),
        (({3: 1, 9: 1}, 13, 3, 9), "sum"),
    ],
)
def test_contradiction_is_refused(
    histogram: tuple[dict[int, int], int, int, int], reason: str
) -> None:
    with pytest.raises(ValueError, match=reason):
        Histogram(*histogram)


def test_negative_value_and_bad_quantile_are_refused() -> None:
    with pytest.raises(ValueError, match="never negative"):
        index(-1)
    with pytest.raises(ValueError, match="never negative"):
        bounds(-1)
    for q in (0.0, 1.0, -0.1):
        with pytest.raises(ValueError, match="between 0 and 1"):
            Histogram.of([1]).quantile(q)
