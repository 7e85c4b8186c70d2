# SPDX-License-Identifier: GPL-2.0-or-later
"""Boots of a plan side by side, where what is measured does not depend on how busy a machine is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait


def side_by_side(jobs: Sequence[Callable[[], None]], lanes: int, stop: Callable[[], None]) -> None:
    """Run all jobs, `lanes` at a time and begun in their order; with one lane, in this thread.

    The first that fails, or a signal, ends all: jobs that have not begun do not begin, `stop` has
    those under way end, and the failure is raised once they have.
    """
    if lanes == 1:
        for job in jobs:
            job()
        return
    waiting: list[Future[None]] = []
    with ThreadPoolExecutor(lanes) as pool:
        try:
            waiting += (pool.submit(job) for job in jobs)
            if wait(waiting, return_when=FIRST_EXCEPTION).not_done:
                # One of those that are done has failed.
                _end(pool, stop)
        except BaseException:
            _end(pool, stop)
            raise
    for one in waiting:
        # What was stopped for another's sake has returned without a word.
        if not one.cancelled():
            one.result()


def _end(pool: ThreadPoolExecutor, stop: Callable[[], None]) -> None:
    pool.shutdown(wait=False, cancel_futures=True)
    stop()
