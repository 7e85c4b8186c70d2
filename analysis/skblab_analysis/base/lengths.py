# SPDX-License-Identifier: GPL-2.0-or-later
"""How long the trials of a sweep last that has `--scale`."""

from __future__ import annotations

# No trial is made shorter than that.
LEAST_SECONDS = 1.0


def scaled(seconds: float, scale: float) -> float:
    """Return a trial's length: shorter than LEAST_SECONDS only if it was, and to a millisecond."""
    return round(max(min(seconds, LEAST_SECONDS), seconds * scale), 3)


def is_length(key: str) -> bool:
    """Return whether a key of an experiment file's `[measure]` is a length in seconds."""
    return key == "seconds" or key.endswith("_seconds")
