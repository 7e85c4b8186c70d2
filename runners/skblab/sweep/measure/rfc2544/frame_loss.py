# SPDX-License-Identifier: GPL-2.0-or-later
"""RFC 2544, section 26.3: the frame loss rate at falling loads.

From the maximum rate down, in steps of at most a tenth of it, until two trials in a row lose
nothing.
"""

from __future__ import annotations

from skblab.sweep.measure.throughput.trial import Measurer, Trial
from skblab_analysis.base.errors import UsageError
from skblab_analysis.rfc2544.rows import CLEAN

SECONDS = 60.0
FINEST, COARSEST = 0.001, 0.1


def percent(trial: Trial) -> float:
    """Return what the device lost, in percent of what was put in; the sink's losses are not its.

    It knows nothing of what a generator at its limit did not put in: the trial's limit does.
    """
    arrived = trial.received
    if trial.limit == "sink" and trial.forwarded is not None:
        arrived = trial.forwarded
    return 100 * (trial.sent - arrived) / trial.sent if trial.sent else 0.0


def frame_loss(
    measurer: Measurer, max_load: float, seconds: float = SECONDS, step: float = COARSEST
) -> list[Trial]:
    """Run the trials, from `max_load` down; `step` is the part of it between two of them."""
    if not FINEST <= step <= COARSEST:
        raise UsageError(f"frame loss: steps of {step}, expected {FINEST} to {COARSEST}")
    trials: list[Trial] = []
    # By whole numbers, so that no rounding adds a step near zero.
    steps = round(1 / step)
    for left in range(steps, 0, -1):
        trials.append(measurer.measure(max_load * left / steps, seconds))
        last = trials[-CLEAN:]
        if len(last) == CLEAN and all(trial.loss_ratio == 0 for trial in last):
            break
    return trials
