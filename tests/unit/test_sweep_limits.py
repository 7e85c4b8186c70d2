# SPDX-License-Identifier: GPL-2.0-or-later
"""Who was the limit: generator, device or sink; and whether a trial's counts can be true."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulated import Device, Testbed
from skblab.sweep.measure.throughput import limits
from skblab.sweep.measure.throughput.goals import STRICT, SearchRequest
from skblab.sweep.measure.throughput.limits import MARGIN, Tolerances
from skblab.sweep.measure.throughput.result import SearchResult
from skblab.sweep.measure.throughput.search import search
from skblab.sweep.measure.throughput.trial import Trial
from skblab_analysis.base.errors import SkblabError
from skblab_analysis.throughput.rows import Judgement, Limit

REQUEST = SearchRequest(min_load=1000, max_load=1e6, trials=5)


@pytest.mark.parametrize(
    ("sent", "forwarded", "received", "who"),
    [
        (10_000, 10_000, 10_000, "none"),
        (10_000, 9_999, 9_999, "device"),
        (10_000, 10_000, 9_999, "sink"),
        # Both lost: what the sink missed is no measure of the device.
        (10_000, 9_000, 8_999, "sink"),
        # Within the generator's tolerance, 10 packets.
        (9_990, 9_990, 9_990, "none"),
        (9_989, 9_989, 9_989, "generator"),
        (9_000, 8_000, 7_000, "generator"),
        (10_011, 10_011, 10_011, "generator"),
        # The device cannot be asked.
        (10_000, None, 9_999, "device"),
        (10_000, None, 10_000, "none"),
    ],
)
def test_a_verdict(sent: int, forwarded: int | None, received: int, who: Limit) -> None:
    assert Trial(10_000, 1.0, sent, forwarded, received).limit == who


def test_a_sink_may_be_forgiven_a_little() -> None:
    lenient = Tolerances(sink=0.001)
    assert Trial(10_000, 1.0, 10_000, 10_000, 9_990, lenient).limit == "device"
    assert Trial(10_000, 1.0, 10_000, 10_000, 9_989, lenient).limit == "sink"


def test_one_packet_is_how_load_and_seconds_divide() -> None:
    assert Trial(10, 1.0, 9, 9, 9).limit == "none"
    assert Trial(10, 1.0, 8, 8, 8).limit == "generator"


def test_a_load_that_was_not_there_was_not_carried() -> None:
    assert Trial(10_000, 1.0, 9_995, 9_995, 9_995).loss_ratio == 0
    assert Trial(10_000, 1.0, 5_000, 5_000, 5_000).loss_ratio == 0.5
    assert Trial(10_000, 1.0, 20_000, 10_000, 10_000).loss_ratio == 0.5
    assert Trial(0.1, 1.0, 0, 0, 0).loss_ratio == 0


@pytest.mark.parametrize("counts", [(10, 11, 11), (10, 9, 10), (10, None, 11), (10, 10, -1)])
def test_counts_that_contradict_each_other_are_refused(
    counts: tuple[int, int | None, int],
) -> None:
    with pytest.raises(SkblabError, match="counts contradict each other: sent 10"):
        Trial(10, 1.0, *counts)


@pytest.mark.parametrize(("load", "seconds"), [(0, 1), (1, 0), (math.nan, 1)])
def test_a_trial_without_traffic_is_none(load: float, seconds: float) -> None:
    with pytest.raises(SkblabError, match="is none"):
        Trial(load, seconds, 0, 0, 0)


@given(st.floats(1, 1e7), st.integers(0, 10**7), st.integers(0, 10**7), st.integers(0, 10**7))
def test_any_counts_have_a_verdict_and_a_loss(load: float, one: int, two: int, three: int) -> None:
    received, forwarded, sent = sorted((one, two, three))
    trial = Trial(load, 1.0, sent, forwarded, received)
    assert 0 <= trial.loss_ratio <= 1
    if trial.limit == "none":
        assert sent == forwarded == received
        assert trial.loss_ratio == 0
    if trial.limit == "device":
        assert received < sent


def test_who_was_the_limit_most_often() -> None:
    assert limits.most_often([]) == "none"
    assert limits.most_often(["none", "none", "device"]) == "device"
    assert limits.most_often(["device", "sink"]) == "sink"
    assert limits.most_often(["device", "device", "sink"]) == "device"


# A whole search, with its tester searched first.


BARE = Testbed(None)


def bare(tester: Testbed = BARE) -> SearchResult:
    return search(replace(tester), REQUEST)


def judged(found: SearchResult, ceiling: SearchResult, margin: float = MARGIN) -> list[Judgement]:
    """Judge each goal as a sweep does, by what the tester reached for the same one."""
    return [
        limits.judge(goal.lower, goal.upper, goal.limit, ceiling[goal.goal.name].lower, margin)
        for goal in found.goals
    ]


def test_a_device_below_the_testers_ceiling_was_measured() -> None:
    ceiling = bare(Testbed(None, generator=6e5, sink=5e5))
    found = search(Testbed(Device(2e5), generator=6e5, sink=5e5), REQUEST)
    assert [goal.limit for goal in found.goals] == ["device"] * 3
    assert judged(found, ceiling) == ["device"] * 3


@pytest.mark.parametrize("counting", [True, False])
@pytest.mark.parametrize(
    ("tester", "who"),
    [(Testbed(None, generator=3e5), "generator"), (Testbed(None, sink=3e5), "sink")],
)
def test_a_tester_at_its_limit_is_not_the_device(
    tester: Testbed, who: Limit, counting: bool
) -> None:
    ceiling = bare(tester)
    strict = ceiling["strict"]
    assert strict.lower == pytest.approx(3e5, rel=STRICT.width)
    found = search(replace(tester, device=Device(8e5), counting=counting), REQUEST)
    if counting or who == "generator":
        assert {goal.limit for goal in found.goals} == {who}
    # Without the device's counters only the ceiling tells.
    assert judged(found, ceiling) == ["tester"] * 3


@pytest.mark.parametrize(
    ("lower", "upper", "limit", "ceiling", "judgement"),
    [
        (1e5, 1.1e5, "device", 1e6, "device"),
        # The tester was worse with the device than without it.
        (1e5, 1.1e5, "sink", 1e6, "tester"),
        (1e5, 1.1e5, "generator", 1e6, "tester"),
        (9.8e5, 9.9e5, "device", 1e6, "tester"),
        (9.7e5, 9.8e5, "device", 1e6, "device"),
        # The tester alone had no good load.
        (1e5, 1.1e5, "device", None, "tester"),
        (None, 1e3, "device", 1e6, "no good load"),
        (None, 1e3, "generator", 1e6, "tester"),
        (1e6, None, "none", 1e6, "maximum load"),
        # More than the tester can by itself: this says nothing of the device.
        (1e6, None, "none", 9e5, "tester"),
    ],
)
def test_a_judgement(
    lower: float | None, upper: float | None, limit: Limit, ceiling: float | None, judgement: str
) -> None:
    assert limits.judge(lower, upper, limit, ceiling) == judgement


@pytest.mark.parametrize(
    ("lower", "upper", "limit", "judgement"),
    [
        (1e5, 1.1e5, "device", "not known"),
        (1e5, 1.1e5, "generator", "tester"),
        (1e5, 1.1e5, "sink", "tester"),
        (None, 1e3, "generator", "tester"),
        (None, 1e3, "device", "no good load"),
        (1e6, None, "none", "maximum load"),
    ],
)
def test_a_tester_that_was_not_measured_alone_is_blamed_only_for_what_was_seen(
    lower: float | None, upper: float | None, limit: Limit, judgement: str
) -> None:
    assert limits.judge(lower, upper, limit, None, alone=False) == judgement


def test_near_the_ceiling_is_the_tester() -> None:
    ceiling = bare(Testbed(None, sink=3e5))
    near = search(Testbed(Device(2.97e5), sink=3e5), REQUEST)
    assert near["NDR"].limit == "device"
    assert judged(near, ceiling)[1] == "tester"
    assert judged(near, ceiling, margin=0.001)[1] == "device"


def test_a_tester_that_loses_by_itself_measures_no_device() -> None:
    ceiling = search(Testbed(Device(1e7, random_loss=0.01)), REQUEST)
    found = search(Testbed(Device(1e5, random_loss=0.01)), REQUEST)
    assert ceiling["strict"].lower is None
    assert judged(found, ceiling)[0] == "tester"


def test_a_dead_device_and_one_that_was_not_brought_to_its_limit() -> None:
    ceiling = bare()
    dead = search(Testbed(Device(0)), REQUEST)
    assert judged(dead, ceiling) == ["no good load"] * 3
    assert judged(search(Testbed(Device(1e7)), REQUEST), ceiling) == ["maximum load"] * 3


@pytest.mark.parametrize(
    ("sent", "took", "limit", "loss"),
    [
        # In time, or as good as.
        (1000, 0.999, "none", 0.0),
        (1000, 1.0005, "none", 0.0),
        # All was sent, but a tenth too late: so was the load.
        (1000, 1.1, "generator", 1 - 1000 / 1100),
        # It was stopped.
        (300, 1.5, "generator", 0.8),
    ],
)
def test_a_generator_that_is_late_did_not_offer_the_load(
    sent: int, took: float, limit: Limit, loss: float
) -> None:
    trial = Trial(1000, 1.0, sent, sent, sent, took=took)
    assert trial.limit == limit
    assert trial.loss_ratio == pytest.approx(loss)
    assert trial.lasted == max(took, 1.0)


def test_a_device_whose_queue_is_full_is_the_limit_and_not_the_late_generator() -> None:
    # What was refused was put out, and took its time.
    trial = Trial(1000, 1.0, 1250, 1000, 1000, took=1.25)
    assert (trial.limit, trial.loss_ratio) == ("device", 0.2)
