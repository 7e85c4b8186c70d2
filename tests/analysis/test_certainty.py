# SPDX-License-Identifier: GPL-2.0-or-later
"""Intervals over blocks: as wide as they have to be, and what is significant."""

from __future__ import annotations

import random
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import stdtrit

from skblab_analysis.base.certainty import (
    CONFIDENCE,
    POWER,
    Difference,
    FalseAlarms,
    Interval,
    difference,
    difference_of_shares,
    false_alarms,
    interval,
    significant_among,
)
from skblab_analysis.base.differences import brackets


def test_students_interval_is_that_of_the_textbooks() -> None:
    # t(4; 97.5 %) is 2.776, the standard deviation 1.5811.
    found = interval([1, 2, 3, 4, 5])
    assert (found.mean, found.count) == (3, 5)
    assert found.half == pytest.approx(2.776 * 1.5811 / 5**0.5, rel=1e-3)
    assert found.low == pytest.approx(1.037, abs=1e-3)
    assert found.high == pytest.approx(4.963, abs=1e-3)
    assert found.share == pytest.approx(0.654, abs=1e-3)


def test_what_brackets_mean_is_said_of_those_that_are_there() -> None:
    base = {0: 1.0, 1: 2.0, 2: 3.0}
    clear = difference(base, {0: 11.0, 1: 12.0, 2: 13.1})
    unclear = difference(base, {0: 2.0, 1: 1.0, 2: 3.0})
    unknown = difference({0: 1.0}, {0: 2.0})
    for found, said in (
        ([clear, None], []),
        ([clear, unclear], ["A difference in brackets: not significant."]),
        ([unknown], ["A difference in brackets: significance not known."]),
    ):
        assert list(brackets(found)) == said


@given(st.lists(st.floats(-1e9, 1e9), min_size=2, max_size=9))
def test_the_scatter_is_that_of_pythons_own_statistics(values: list[float]) -> None:
    found = interval(values).noise
    quantile = float(stdtrit(len(values) - 1, 0.975))
    expected = quantile * statistics.stdev(values) / len(values) ** 0.5
    assert found == pytest.approx(expected, rel=1e-6, abs=1e-9)
    assert interval([values[0]] * len(values)).noise == 0


def test_two_values_are_hardly_anything() -> None:
    # t(1; 97.5 %) is 12.706.
    assert interval([100, 102]).half == pytest.approx(12.706, abs=1e-3)


def test_one_value_has_no_interval() -> None:
    assert interval([7.0]) == Interval(7.0, None, 1)
    assert (interval([7.0]).low, interval([7.0]).high, interval([7.0]).share) == (None, None, None)


@pytest.mark.parametrize("count", [2, 3, 8])
def test_the_truth_is_inside_as_often_as_promised(count: int) -> None:
    rng = random.Random(count)
    inside = 0
    for _ in range(2000):
        found = interval([rng.gauss(50, 4) for _ in range(count)])
        assert found.low is not None and found.high is not None
        inside += found.low <= 50 <= found.high
    # Three standard errors of a share of 2000.
    assert inside / 2000 == pytest.approx(CONFIDENCE, abs=0.015)


def test_an_interval_is_never_narrower_than_the_resolution() -> None:
    found = interval([100, 100, 100], resolution=2)
    assert (found.noise, found.half, found.low, found.high) == (0, 2, 98, 102)
    # What more blocks would narrow.
    assert found.share == 0
    assert interval([90, 110], resolution=2).half == pytest.approx(127.06, abs=0.01)
    assert interval([100], resolution=2).half is None


def test_a_difference_is_of_blocks_and_not_of_means() -> None:
    # Blocks differ a lot, and both alike: paired, that cancels.
    baseline = {0: 100.0, 1: 200.0, 2: 300.0}
    found = difference(baseline, {0: 110.0, 1: 211.0, 2: 309.0})
    assert found is not None
    assert (found.effect, found.of, found.blocks, found.share) == (10, 200, 3, 0.05)
    assert found.margin == pytest.approx(4.303 / 3**0.5, rel=1e-3)
    assert found.ends == pytest.approx((0.05 - 0.0124, 0.05 + 0.0124), abs=1e-4)
    assert (found.significant, found.why) == (True, None)


def test_only_blocks_that_have_both_count() -> None:
    found = difference({2: 4.0, 3: 9.0}, {0: 1.0, 2: 5.0})
    assert found == Difference(1.0, 4.0, None, 0.0, None, 1)
    assert (found.significant, found.why) == (None, "one block")
    assert (found.margin, found.low, found.high, found.ends) == (None, None, None, None)
    assert found.detectable_share is None
    assert difference({0: 1.0}, {1: 1.0}) is None


def test_samples_that_are_not_paired_have_welchs_degrees_of_freedom() -> None:
    # The variances of both means are 1 and 1/3: t of (4/3)² / (1²/2 + (1/3)²/2) = 3.2 is 3.08.
    found = difference(
        {0: 10.0, 1: 11.0, 2: 12.0}, {5: 20.0, 6: 20 + 3**0.5, 7: 20 + 12**0.5}, paired=False
    )
    assert found is not None
    assert found.effect == pytest.approx(9 + 3**0.5)
    assert found.margin == pytest.approx(3.075 * (4 / 3) ** 0.5, rel=1e-3)


def test_figures_without_any_scatter_are_sure_to_the_resolution() -> None:
    for paired in (True, False):
        found = difference({0: 100.0, 1: 100.0}, {0: 102.0, 1: 102.0}, resolution=2, paired=paired)
        assert found is not None
        assert (found.noise, found.margin, found.detectable) == (0, 2, 2)
        assert (found.significant, found.why) == (False, "resolution")
        more = difference({0: 100.0, 1: 100.0}, {0: 102.1, 1: 102.1}, resolution=2, paired=paired)
        assert more is not None and more.significant


def test_a_ratio_is_that_of_the_logarithms() -> None:
    found = difference({0: 100.0, 1: 1000.0}, {0: 200.0, 1: 2000.0}, resolution=0.1, relative=True)
    assert found is not None
    assert found.effect == found.share == pytest.approx(1)
    # Twice as much, and that by 1.1 either way.
    assert found.ends == pytest.approx((2 / 1.1 - 1, 2 * 1.1 - 1))
    assert found.detectable_share == pytest.approx(0.1)
    assert found.of == pytest.approx((100 * 1000) ** 0.5)
    # Half as much is as far from as much as twice as much.
    back = difference({0: 2.0, 1: 2.1}, {0: 1.0, 1: 1.05}, relative=True)
    there = difference({0: 1.0, 1: 1.05}, {0: 2.0, 1: 2.1}, relative=True)
    assert back is not None and there is not None
    assert back.margin == there.margin
    # A rate of 0 is no multiple of any other.
    assert difference({0: 0.0}, {0: 1.0}, relative=True) is None


def test_the_smallest_detectable_difference_is_significant_in_four_of_five() -> None:
    rng = random.Random(3)
    for count, ncp in ((2, 16.334), (3, 5.6535), (10, 3.1496)):
        error, significant = (2 / count) ** 0.5, 0
        for _ in range(2000):
            found = difference(
                {block: rng.gauss(50, 1) for block in range(count)},
                {block: rng.gauss(50 + ncp * error, 1) for block in range(count)},
            )
            assert found is not None and found.noise is not None and found.detectable is not None
            significant += found.significant is True
            standard_error = found.noise / {2: 12.706, 3: 4.303, 10: 2.262}[count]
            assert found.detectable == pytest.approx(ncp * standard_error, rel=1e-3)
        assert significant / 2000 == pytest.approx(POWER, abs=0.03)


def test_one_late_packet_more_is_chance_and_six_are_not() -> None:
    """However well blocks agree: six and none of one in two is 2 · 0.5⁶, or 3 %, by chance."""
    none = dict.fromkeys(range(3), (0, 10_000))
    for late, significant in ((1, False), (2, True)):
        found = difference_of_shares(none, dict.fromkeys(range(3), (late, 10_000)))
        assert found is not None and found.noise == 0
        assert found.significant is significant
        assert found.effect == pytest.approx(late / 10_000)
    both = difference_of_shares(none, none)
    assert both is not None and both.detectable is not None
    assert (both.effect, both.why) == (0, "resolution")
    assert 2 / 30_000 < both.detectable < 6 / 30_000
    # Packets that are late together are few events: blocks tell.
    stalls = difference_of_shares(none, {0: (500, 10_000), 1: (0, 10_000), 2: (0, 10_000)})
    assert stalls is not None and stalls.why == "scatter"
    assert difference_of_shares(none, {7: (1, 2)}) is None


def test_false_alarms_are_counted_where_there_is_an_answer() -> None:
    found = [
        Difference(1.0, 4.0, None, 0.0, None, 1),
        Difference(1.0, 4.0, 2.0, 0.0, 3.0, 2),
        Difference(3.0, 4.0, 2.0, 0.0, 3.0, 2),
    ]
    assert false_alarms(found) == FalseAlarms(comparisons=2, alarms=1)


def test_any_number_of_blocks_has_a_detectable_difference() -> None:
    """Welch's degrees of freedom are no whole number, and as few as one."""
    rng = random.Random(7)
    before = float("inf")
    for count in (2, 3, 5, 20, 100, 1000):
        one, other = ({block: rng.gauss(50, 1) for block in range(count)} for _ in range(2))
        for paired in (False, True):
            found = difference(one, other, paired=paired)
            assert found is not None and found.detectable is not None and found.margin is not None
            assert found.margin < found.detectable < 2 * found.margin
            if paired:
                assert found.detectable < before
                before = found.detectable


def test_figures_whose_difference_is_no_number_are_not_compared() -> None:
    far = {0: 1e-18, 1: 1e18}, {0: 1e18, 1: 1e-18}
    assert difference(*far, relative=True) is None
    # Their squares have no number, either.
    assert difference({0: 1e200, 1: -1e200}, {0: 1.0, 1: 2.0}) is None
    assert difference({0: 1e200, 1: -1e200}, {0: 1.0, 1: 2.0}, paired=False) is None
    # In one block there is no interval, and the effect alone is a number.
    alone = difference({0: 1.0}, {0: 1e18}, relative=True)
    assert alone is not None
    assert alone.effect == pytest.approx(1e18)


def test_of_many_that_are_looked_at_fewer_are_significant() -> None:
    """Of 400 differences that are none, one in twenty is significant, and of each ten together."""
    source = random.Random(7)

    def none(blocks: int) -> Difference:
        first, second = ({block: source.gauss(100, 1) for block in range(blocks)} for _ in "ab")
        found = difference(first, second)
        assert found is not None
        return found

    found = [none(5) for _ in range(400)]
    alone = sum(bool(one.significant) for one in found)
    together = sum(bool(significant_among(one, 10)) for one in found)
    assert 10 <= alone <= 32 and together <= 6
    assert all(significant_among(one, 1) == one.significant for one in found)
    clear = difference(dict(enumerate((100.0, 100.1, 99.9))), dict(enumerate((90.0, 90.1, 89.9))))
    assert clear is not None and significant_among(clear, 10)
    assert significant_among(none(1), 10) is None
