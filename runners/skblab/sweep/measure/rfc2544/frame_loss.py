# SPDX-License-Identifier: GPL-2.0-or-later
"""RFC 2544, section 26.3: the frame loss rate at falling loads.

From the maximum rate down, in steps of at most a tenth of it, until two trials in a row lose
nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

from skblab.sweep.measure.throughput.trial import Measurer, Trial
from skblab_analysis.base.errors import UsageError
from skblab_analysis.rfc2544.rows import CLEAN

SECONDS = 60.0
FINEST, COARSEST = 0.001, 0.1


@dataclass(frozen=True)
class FrameLoss:
    """The trials, from the greatest load down."""

    trials: tuple[Trial, ...]

    @property
    def complete(self) -> bool:
        """Whether two trials in a row lost nothing; if not, the loads ended before that."""
        last = self.trials[-CLEAN:]
        return len(last) == CLEAN and all(one.loss_ratio == 0 for one in last)

    @property
    def percent(self) -> list[float]:
        """The frame loss rate of each trial, in percent of what was put in.

        It knows nothing of what a generator at its limit did not put in: the trial's limit does.
        """
        return [percent(one) for one in self.trials]


def percent(trial: Trial) -> float:
    """Return what the device lost, in percent of what was put in; the sink's losses are not its."""
    arrived = trial.received
    if trial.limit == "sink" and trial.forwarded is not None:
        arrived = trial.forwarded
    return 100 * (trial.sent - arrived) / trial.sent if trial.sent else 0.0


def frame_loss(
    measurer: Measurer, max_load: float, seconds: float = SECONDS, step: float = COARSEST
) -> FrameLoss:
    """Run the trials; `step` is the part of `max_load` between two of them."""
    if not FINEST <= step <= COARSEST:
        raise UsageError(f"frame loss: steps of {step}, expected {FINEST} to {COARSEST}")
    trials: list[Trial] = []
    # By whole numbers, so that no rounding adds a step near zero.
    steps = round(1 / step)
    for left in range(steps, 0, -1):
        trials.append(measurer.measure(max_load * left / steps, seconds))
        if FrameLoss(tuple(trials)).complete:
            break
    return FrameLoss(tuple(trials))
