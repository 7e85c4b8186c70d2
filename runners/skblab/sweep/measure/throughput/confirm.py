# SPDX-License-Identifier: GPL-2.0-or-later
"""RFC 2544, section 26.1: the strict rate confirmed by one trial of full length.

A search of short trials finds the rate; that it holds for a minute is another claim. Section 24
asks for at least 60 s; whoever takes less has to say so, and `full_length` says it.
"""

from __future__ import annotations

from dataclasses import dataclass

from skblab.sweep.measure.throughput.result import GoalResult
from skblab.sweep.measure.throughput.trial import Measurer, Trial

SECONDS = 60.0


@dataclass(frozen=True)
class Confirmation:
    """The trial that was to confirm a rate."""

    trial: Trial

    @property
    def confirmed(self) -> bool:
        """Whether nothing was lost."""
        return self.trial.loss_ratio == 0

    @property
    def full_length(self) -> bool:
        """Whether it is as long as the RFC asks."""
        return self.trial.seconds >= SECONDS


def confirm(measurer: Measurer, found: GoalResult, seconds: float = SECONDS) -> Confirmation | None:
    """Run one trial at the lower bound; None where there is none."""
    if found.lower is None:
        return None
    return Confirmation(measurer.measure(found.lower, seconds))
