# SPDX-License-Identifier: GPL-2.0-or-later
"""RFC 2544, section 26.2: latency at the throughput rate, as a plan of trials.

The stream lasts at least 120 s, one frame in it is tagged after 60 s, and the trial is repeated at
least 20 times; the average is reported. Only who runs the trials can time their frames; this says
which to run.
"""

from __future__ import annotations

from dataclasses import dataclass

from skblab_analysis.base.errors import UsageError

SECONDS = 120.0
TAG_AFTER = 60.0
REPEATS = 20


@dataclass(frozen=True)
class LatencyTrial:
    """A trial in which at least the frame that is sent after `tag_after` seconds is timed."""

    load: float
    seconds: float
    tag_after: float

    @property
    def full_length(self) -> bool:
        """Whether it is as long as the RFC asks."""
        return self.seconds >= SECONDS


def trials(load: float, seconds: float = SECONDS, repeats: int = REPEATS) -> list[LatencyTrial]:
    """Return the trials at a load in packets per second; in shorter ones the tag comes sooner."""
    if not (load > 0 and seconds > 0) or repeats < 1:
        raise UsageError(
            f"latency: {repeats} trials of {seconds} s at {load} packets/s, "
            "expected at least one, and more than 0 of both"
        )
    tag = min(TAG_AFTER, seconds * TAG_AFTER / SECONDS)
    return [LatencyTrial(load, seconds, tag)] * repeats
