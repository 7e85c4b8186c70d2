# SPDX-License-Identifier: GPL-2.0-or-later
"""How long a guest may take to come up, and what is said of one that has taken longer."""

from __future__ import annotations

import math
import os

from skblab.lab import environment
from skblab.lab.guest.errors import GuestError
from skblab.lab.guest.spec import STALL_SECONDS, GuestSpec

VARIABLE = "SKBLAB_BOOT_SECONDS"
# Emulation on a loaded machine is slow and not dead: these are for the hopeless only. A kernel that
# lost a timer while it started is booted again once RCU has said so, a stall's time after it began.
BOOT_SECONDS = STALL_SECONDS + 60
# The debug flavour looks at each access to memory, a plugin at each instruction; guests that
# count instructions come up several at a time.
SLOW_BOOT_SECONDS = 600


def limit(spec: GuestSpec) -> float:
    """Return how many seconds a guest may take; UsageError when $SKBLAB_BOOT_SECONDS is wrong."""
    slow = spec.patient or spec.exact or spec.plugin is not None
    return _given() or (SLOW_BOOT_SECONDS if slow else BOOT_SECONDS)


def longest() -> int:
    """Return for how many seconds a client has to wait for any guest, a whole number."""
    return math.ceil(max(SLOW_BOOT_SECONDS, _given() or 0))


def _given() -> float | None:
    return environment.above_zero(VARIABLE, "seconds", 2 * BOOT_SECONDS)


def late(seconds: float, waited_for: str) -> GuestError:
    """Return the error for a guest that was not up in time, and what it was waited for last."""
    load, cpus = os.getloadavg()[0], len(os.sched_getaffinity(0))
    busy = "this machine is busy, and the guest may only be slow: " if load > cpus else ""
    return GuestError(
        f"the guest was not up after {seconds:.0f} s: skblab waited for {waited_for}; {busy}load "
        f"average {load:.1f} on {cpus} CPUs; to give it more time, set "
        f"{VARIABLE}={max(2 * seconds, 1):.0f}"
    )
