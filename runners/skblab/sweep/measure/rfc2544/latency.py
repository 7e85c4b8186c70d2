# SPDX-License-Identifier: GPL-2.0-or-later
"""RFC 2544, section 26.2: latency at the throughput rate, as a trial that somebody else runs.

The stream lasts at least 120 s, one frame in it is tagged after 60 s, and the trial is repeated at
least 20 times; the average is reported. Only who runs the trials can time their frames; this says
which to run.
"""

from __future__ import annotations

from dataclasses import dataclass

SECONDS = 120.0
TAG_AFTER = 60.0
REPEATS = 20


@dataclass(frozen=True)
class LatencyTrial:
    """A trial in which at least the frame that is sent after `tag_after` seconds is timed."""

    load: float
    seconds: float
    tag_after: float

    @classmethod
    def of(cls, load: float, seconds: float = SECONDS) -> LatencyTrial:
        """Return a trial at a load in packets per second; in shorter ones the tag comes sooner."""
        return cls(load, seconds, min(TAG_AFTER, seconds * TAG_AFTER / SECONDS))
