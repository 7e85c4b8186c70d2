# SPDX-License-Identifier: GPL-2.0-or-later
"""Waiting for what others bring about, never for a time."""

from __future__ import annotations

import time
from collections.abc import Callable

# Seconds for what another process does at once where a machine is idle.
PATIENCE = 120.0


def until(said: str, seconds: float, holds: Callable[[], object]) -> None:
    """Wait for something, at most so long; `said` names it."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, said
        time.sleep(0.02)
