# SPDX-License-Identifier: GPL-2.0-or-later
"""Waiting for what others bring about, never for a time."""

from __future__ import annotations

import time
from collections.abc import Callable
from multiprocessing.process import BaseProcess
from pathlib import Path

# Seconds for what another process does at once where a machine is idle.
PATIENCE = 120.0
# Seconds for a script of many steps in a guest. Loading the probe's programs, attaching them and
# taking them away is 18 s under emulation, on a busy machine twice that, and some do it 17 times.
SCRIPT_SECONDS = 1800.0


def until(said: str, seconds: float, holds: Callable[[], object]) -> None:
    """Wait for something, at most so long; `said` names it."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, said
        time.sleep(0.02)


def at_lock(pid: int | None) -> bool:
    """Whether a process waits for a lock of a file that another one has, as the kernel says."""
    locks = (line.split() for line in Path("/proc/locks").read_text().splitlines())
    return any(words[1] == "->" and words[5] == str(pid) for words in locks)


def until_at_lock(process: BaseProcess) -> None:
    """Wait until a process waits for a lock; it must not have ended without one."""
    until("it waits for a lock", PATIENCE, lambda: at_lock(process.pid) or not process.is_alive())
    assert process.is_alive()
