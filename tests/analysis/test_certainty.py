# SPDX-License-Identifier: GPL-2.0-or-later
"""Intervals over blocks: as wide as they have to be, and what is told from nothing."""

from __future__ import annotations

import random

import pytest

from skblab_analysis.base.certainty import (
    CONFIDENCE,
    Difference,
    Interval,
    difference,
    false_alarms,
    interval,
)


def test_students_interval_is_that_of_the_textbooks() -> None:
    # t(4; 97.5 %) is 2.776, the standard deviation 1.5811.
    found = interval([1, 2, 3, 4, 5])
    assert (found.mean, found.count) == (3, 5)
    assert found.half == pytest.approx(2.776 * 1.5811 / 5**0.5, rel=1e-3)
    assert found.low == pytest.approx(1.037, abs=1e-3)
    assert found.high == pytest.approx(4.963, abs=1e-3)
    assert found.share == pytest.approx(0.654, abs=1e-3)


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


def test_a_difference_is_of_blocks_and_not_of_means() -> None:
    # Blocks differ a lot, and both alike: paired, that cancels.
    theirs = {0: 100.0, 1: 200.0, 2: 300.0}
    found = difference({0: 110.0, 1: 211.0, 2: 309.0}, theirs)
    assert found is not None
    assert found.interval.mean == 10
    assert found.of == 200
    assert found.share == 0.05
    assert found.interval.half == pytest.approx(4.303 / 3**0.5, rel=1e-3)
    assert found.half_share == pytest.approx(0.0124, abs=1e-4)
    assert found.seen


def test_only_blocks_that_have_both_count() -> None:
    found = difference({0: 1.0, 2: 5.0}, {2: 4.0, 3: 9.0})
    assert found == Difference(Interval(1.0, None, 1), 4.0, None)
    assert found.seen is None
    assert (found.half_share, found.seeable_share) == (None, None)
    assert difference({0: 1.0}, {1: 1.0}) is None


def test_what_a_figure_is_not_sure_to_is_not_seen() -> None:
    # Blocks agree to the last packet, for loads are on a grid.
    found = difference({0: 102.0, 1: 102.0}, {0: 100.0, 1: 100.0}, sure=0.02)
    assert found is not None
    assert (found.interval.half, found.seeable, found.seeable_share) == (0, 2, 0.02)
    assert found.seen is False


def test_false_alarms_are_about_as_many_as_promised() -> None:
    rng = random.Random(5)

    def blocks() -> dict[int, float]:
        return {block: rng.gauss(1000, 10) for block in range(4)}

    made = [difference(blocks(), blocks()) for _ in range(2000)]
    found = false_alarms([one for one in made if one is not None])
    assert found.comparisons == 2000
    assert found.alarms / found.comparisons == pytest.approx(1 - CONFIDENCE, abs=0.015)
    assert false_alarms([Difference(Interval(1.0, None, 1), 4.0, None)]).comparisons == 0
