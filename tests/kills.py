# SPDX-License-Identifier: GPL-2.0-or-later
"""Kills at moments that are chosen by what is done, so that a busy machine changes nothing."""

from __future__ import annotations

import itertools
import os
import signal
import sys
from collections.abc import Callable

# What a process asks of its files, by Python's own events.
STEPS = {"open", "os.rename", "os.remove", "os.truncate"}


def killed_after(steps: int, seconds: float, job: Callable[[], object]) -> bool:
    """Do a job in a process that is killed then; False if it came to its end before.

    A step is what it asks of a file: however busy the machine is, it comes so far.
    """
    child = os.fork()
    if child == 0:
        left = itertools.count(steps, -1)

        def step(event: str, _: object) -> None:
            if event in STEPS and next(left) == 0:
                signal.setitimer(signal.ITIMER_REAL, seconds)

        try:
            # Nobody catches it, so the kernel ends the process.
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            sys.addaudithook(step)
            job()
        except BaseException:
            os._exit(3)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) in (0, -signal.SIGALRM)
    return status != 0
