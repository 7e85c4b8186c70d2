# SPDX-License-Identifier: GPL-2.0-or-later
"""Boots of a plan side by side, where what is measured does not depend on how busy a machine is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait

STOP_SECONDS = 0.5


def side_by_side(
    jobs: Sequence[Callable[[], None]], at_once: int, stop: Callable[[], None]
) -> None:
    """Run all jobs, so many `at_once` and begun in their order; one at a time in this thread.

    The first that fails, or a signal, ends all: jobs that have not begun do not begin, `stop` has
    those under way end, and the failure is raised once they have.
    """
    if at_once == 1:
        for job in jobs:
            job()
        return
    failures: list[BaseException] = []

    def kept(job: Callable[[], None]) -> None:
        try:
            job()
        except BaseException as error:
            failures.append(error)
            raise

    waiting: list[Future[None]] = []
    with ThreadPoolExecutor(at_once) as pool:
        try:
            waiting += (pool.submit(kept, job) for job in jobs)
            if wait(waiting, return_when=FIRST_EXCEPTION).not_done:
                # One of those that are done has failed.
                _end(pool, waiting, stop)
        except BaseException:
            _end(pool, waiting, stop)
            raise
    # What others failed with was mostly that they were stopped.
    for first in failures:
        raise first


def _end(
    pool: ThreadPoolExecutor, waiting: Sequence[Future[None]], stop: Callable[[], None]
) -> None:
    pool.shutdown(wait=False, cancel_futures=True)
    begun = [job for job in waiting if not job.cancelled()]
    stop()
    # Again for what had begun by then, and was not yet there to be stopped.
    while wait(begun, timeout=STOP_SECONDS).not_done:
        stop()
