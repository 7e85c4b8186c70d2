# SPDX-License-Identifier: GPL-2.0-or-later
"""Jobs side by side: all of them, at most so many at once, and none that outlives a failure."""

from __future__ import annotations

import _thread
import threading
import time
from functools import partial

import pytest

from skblab.sweep.parallel import side_by_side
from waiting import PATIENCE


@pytest.mark.parametrize("at_once", [1, 2, 8])
def test_each_job_is_done_once_and_no_more_at_once_than_are_asked_for(at_once: int) -> None:
    lock, now, most, done = threading.Lock(), [0], [0], list[int]()
    together = threading.Event()

    def job(number: int) -> None:
        with lock:
            now[0] += 1
            most[0] = max(most[0], now[0])
            if now[0] >= at_once:
                together.set()
        # The first of them until all that are to be at once have begun.
        assert together.wait(PATIENCE)
        with lock:
            now[0] -= 1
            done.append(number)

    side_by_side([partial(job, number) for number in range(9)], at_once, lambda: None)
    assert sorted(done) == list(range(9))
    assert most[0] == at_once
    if at_once == 1:
        assert done == list(range(9))


@pytest.mark.parametrize("how", ["failure", "signal"])
def test_what_ends_one_ends_all(how: str) -> None:
    stopped, done = threading.Event(), list[str]()
    under_way = threading.Event()

    def waiting() -> None:
        under_way.set()
        assert stopped.wait(PATIENCE)
        done.append("stopped")

    def breaking() -> None:
        under_way.wait(PATIENCE)
        if how == "failure":
            raise KeyError("broken")
        _thread.interrupt_main()
        assert stopped.wait(PATIENCE)

    def never() -> None:
        done.append("never")

    with pytest.raises(KeyError if how == "failure" else KeyboardInterrupt):
        side_by_side([waiting, breaking, *[never] * 20], 2, stopped.set)
    assert "stopped" in done
    # One may have begun before all were told.
    assert done.count("never") <= 1


def test_what_began_while_all_were_stopped_is_stopped_too() -> None:
    """A guest that was about to be started is not among those that are ended first."""
    there, ended, stops = threading.Event(), threading.Event(), [0]

    def late() -> None:
        time.sleep(0.2)
        there.set()
        assert ended.wait(PATIENCE)

    def breaking() -> None:
        raise KeyError("broken")

    def stop() -> None:
        stops[0] += 1
        if there.is_set():
            ended.set()

    with pytest.raises(KeyError):
        side_by_side([late, breaking], 2, stop)
    assert stops[0] > 1


def test_the_first_failure_in_time_is_the_one_that_is_said() -> None:
    broken = threading.Event()

    def stopped() -> None:
        assert broken.wait(PATIENCE)
        time.sleep(0.1)
        raise OSError("its guest was ended")

    def breaking() -> None:
        broken.set()
        raise KeyError("broken")

    with pytest.raises(KeyError):
        side_by_side([stopped, breaking], 2, lambda: None)
