# SPDX-License-Identifier: GPL-2.0-or-later
"""How much disk skblab needs, and how much its cache may take."""

from __future__ import annotations

import math

from skblab.lab import environment

GIB = 2**30
# From an empty cache to all of our kernels: lab root 2, source 2, kernels 4, what a build
# needs while it runs 4. README and docs/reference/files.md say the same; a test compares them.
NEED_GIB = 12
# What the cache may take, if SKBLAB_CACHE_GIB says nothing else.
BOUND_GIB = 20.0
VARIABLE = "SKBLAB_CACHE_GIB"
# Of the bound, the compiler cache's, which keeps it by itself.
CCACHE_SHARE = 0.25


def bound() -> int:
    """Return how much the cache may take, in bytes; UsageError when $SKBLAB_CACHE_GIB is wrong."""
    return int((environment.above_zero(VARIABLE, "GiB", 20) or BOUND_GIB) * GIB)


def ccache_limit() -> str:
    """Return the compiler cache's share of the bound, as ccache reads it (CCACHE_MAXSIZE)."""
    return f"{max(1, int(bound() * CCACHE_SHARE / 2**20))}Mi"


def words(number: int) -> str:
    """Return a size in bytes as people read it."""
    if number >= GIB:
        return f"{number / GIB:.1f} GiB"
    return f"{number / 2**20:.1f} MiB" if number >= 2**20 else f"{math.ceil(number / 2**10)} KiB"
