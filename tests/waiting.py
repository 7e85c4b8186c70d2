# SPDX-License-Identifier: GPL-2.0-or-later
"""Waiting for what others bring about, never for a time."""

from __future__ import annotations

import time
from collections.abc import Callable

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
