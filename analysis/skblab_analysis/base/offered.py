# SPDX-License-Identifier: GPL-2.0-or-later
"""What a generator really put out: its rate, and whether that is the one it was asked for."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

# Below the rate asked for, by more than this part of it, it was not kept.
KEPT = 0.01


def offered_rate(sent: int, seconds: float, took: float) -> float:
    """Return the packets per second of a trial of so many seconds, which may have taken longer."""
    return sent / max(seconds, took)


@dataclass(frozen=True)
class AtRate:
    """A trial at a rate: the one asked for, and what the generator really put out a second."""

    rate: int
    offered_rate: float

    @property
    def kept(self) -> bool:
        """Whether the generator kept the rate."""
        return self.offered_rate >= (1 - KEPT) * self.rate


def behind(trials: Iterable[AtRate]) -> int:
    """Return in how many trials, one of each block, the generator did not keep the rate."""
    return sum(not trial.kept for trial in trials)
