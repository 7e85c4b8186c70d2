# SPDX-License-Identifier: GPL-2.0-or-later
"""The further tests of RFC 2544: frame loss, back-to-back, recovery, latency, the full trial."""

from __future__ import annotations

import statistics

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulated import Device, Testbed
from skblab.sweep.measure.rfc2544.back_to_back import applies, back_to_back, buffer_seconds
from skblab.sweep.measure.rfc2544.frame_loss import frame_loss, percent
from skblab.sweep.measure.rfc2544.latency import LatencyTrial
from skblab.sweep.measure.rfc2544.recovery import Recovery, Stepped, overload, recovery
from skblab.sweep.measure.throughput.goals import SearchRequest
from skblab.sweep.measure.throughput.search import confirm, search
from skblab.sweep.measure.throughput.trial import Recorder
from skblab_analysis.base.errors import UsageError

# 26.3


def test_frame_loss_falls_by_tenths_until_two_trials_lose_nothing() -> None:
    found = frame_loss(Testbed(Device(7.5e5)), 1e6, seconds=1)
    assert [trial.load for trial in found] == pytest.approx([1e6, 9e5, 8e5, 7e5, 6e5])
    assert [percent(trial) for trial in found] == pytest.approx([25, 100 * 15 / 90, 6.25, 0, 0])


def test_what_the_generator_did_not_send_is_not_frame_loss() -> None:
    found = frame_loss(Testbed(Device(1e7), generator=6.5e5), 1e6, seconds=1)
    assert [percent(trial) for trial in found] == [0] * 6
    assert [trial.limit for trial in found] == ["generator"] * 4 + ["none"] * 2


def test_a_device_without_loss_needs_two_trials() -> None:
    assert len(frame_loss(Testbed(Device(1e7)), 1e6, seconds=1)) == 2


def test_a_dead_device_is_tried_at_every_load() -> None:
    found = frame_loss(Testbed(Device(0)), 1e6, seconds=1, step=0.05)
    assert [percent(trial) for trial in found] == [100] * 20


@pytest.mark.parametrize("step", [0.2, 0.0, -0.1])
def test_coarser_steps_than_the_rfc_allows_are_refused(step: float) -> None:
    with pytest.raises(UsageError, match=f"frame loss: steps of {step}"):
        frame_loss(Testbed(Device(1e5)), 1e6, step=step)


# 26.4


@settings(max_examples=50, deadline=None)
@given(queue=st.integers(0, 20_000), capacity=st.integers(0, 900_000))
def test_the_buffer_is_what_back_to_back_finds(queue: int, capacity: int) -> None:
    rate = 1e6
    found = back_to_back(Testbed(Device(capacity, queue=queue)), rate, repeats=2, attempts=1)
    assert found.bursts[0] == found.bursts[1]
    assert "none" not in found.limits
    # What the device forwarded while the burst came in left out, its queue remains.
    waited = buffer_seconds(found.bursts[0], rate, capacity)
    assert waited * rate == pytest.approx(queue, abs=2)


def test_a_burst_as_long_as_is_tried_is_at_least_so_long() -> None:
    found = back_to_back(Testbed(Device(2e6)), 1e6, repeats=3, longest_seconds=0.5)
    assert found.bursts == (500_000,) * 3
    assert found.limits == ("none",) * 3


def test_one_accident_does_not_end_a_burst() -> None:
    # In every fifth burst of 2 ms.
    device = Device(5e5, queue=1000, stalls=100, stall_seconds=0.01)
    recorder = Recorder(Testbed(device, seed=1))
    found = back_to_back(recorder, 1e6, repeats=20, attempts=4)
    assert statistics.mean(found.bursts) == pytest.approx(2000, rel=0.01)
    assert set(found.limits) == {"device"}
    assert len(recorder.trials) > 20


def test_a_dead_device_has_no_burst() -> None:
    found = back_to_back(Testbed(Device(0)), 1e6, repeats=1)
    assert found.bursts == (0,)


def test_a_device_as_fast_as_the_tester_has_no_such_benchmark() -> None:
    assert applies(9e5, 1e6)
    assert not applies(9.99e5, 1e6)


def test_no_repetitions_are_refused() -> None:
    with pytest.raises(UsageError, match="back-to-back: 0 repetitions"):
        back_to_back(Testbed(Device(1e5)), 1e6, repeats=0)


# 26.5


class Queue:
    """Empties a queue that an overload has filled, and loses frames for as long."""

    def __init__(self, *times: float | None) -> None:
        self.times = list(times)
        self.asked: list[tuple[float, float, float]] = []

    def step(self, first: float, then: float, seconds: float) -> Stepped:
        self.asked.append((first, then, seconds))
        return Stepped(self.times.pop(0), within=0.01)


def test_recovery_is_the_time_of_the_last_loss_after_an_overload() -> None:
    queue = Queue(0.5, None)
    assert recovery(queue, 1.1e5, 60.0) == Recovery(0.5, within=0.01)
    assert queue.asked == [pytest.approx((1.1e5, 5.5e4, 60.0))]
    assert recovery(queue, 1.1e5, 60.0).seconds == 0.0


def test_a_device_that_loses_until_the_end_does_not_recover() -> None:
    assert recovery(Queue(59.9), 1.1e5, 60.0).seconds is None


def test_no_more_than_can_be_sent_overloads_a_device() -> None:
    assert overload(1e5, 1e6) == pytest.approx(1.1e5)
    assert overload(1e6, 1e6) == 1e6


# 26.2


def test_latency_is_of_a_trial_of_two_minutes() -> None:
    assert LatencyTrial.of(1e5) == LatencyTrial(1e5, 120, 60)
    assert LatencyTrial.of(1e5, seconds=10).tag_after == 5


# 26.1


def test_the_full_trial_confirms_the_strict_rate_or_does_not() -> None:
    request = SearchRequest(1000, 1e6, trials=3)
    steady = Device(2e5)
    found = search(Testbed(steady), request)["strict"]
    good = confirm(Testbed(steady), found, seconds=60)
    assert good is not None
    assert good.loss_ratio == 0
    stalls = confirm(Testbed(Device(2e5, stalls=1, stall_seconds=0.01)), found, seconds=30)
    assert stalls is not None
    assert stalls.loss_ratio > 0
    assert confirm(Testbed(steady), search(Testbed(Device(0)), request)["strict"], 60) is None
