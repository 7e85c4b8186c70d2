# SPDX-License-Identifier: GPL-2.0-or-later
"""The time of a tune: what its sweeps get of it, what one took, and what more would buy."""

from __future__ import annotations

import math

from skblab.sweep.plan import Plan
from skblab.sweep.request import Request
from skblab.sweep.spent import spent
from skblab.tune.deriving import LEAST_BLOCKS
from skblab_analysis.base.words import counted
from skblab_analysis.formats.journal import JOURNAL, Journal
from skblab_analysis.load import Run

# Of the time that is given, so much is for the sweep over all settings, and at least so much for
# the last one, of what was chosen.
SWEEP_SHARE, CONFIRM_SHARE = 0.5, 0.25


def minutes_of(run: Run) -> float:
    """Return the minutes that a sweep took."""
    return spent(Journal(run.folder / JOURNAL).read()) / 60


def least_minutes(plan: Plan, request: Request, part: float) -> int:
    """Return in how many minutes of a tune a plan has enough blocks, with this part of them."""
    seconds = plan.seconds(min(LEAST_BLOCKS, plan.experiment.repeats.most), request.at_once)
    return math.ceil(seconds / 60 / part)


def more_time(run: Run, minutes: float, part: float = SWEEP_SHARE) -> str:
    """Say what more time would buy, where a verdict had too few blocks; nothing where it had.

    The run had this part of the time, and took so many minutes.
    """
    blocks = len({row.block for row in run.trials})
    if blocks >= LEAST_BLOCKS:
        return ""
    enough = math.ceil(LEAST_BLOCKS * minutes / blocks / part)
    return (
        f" The time was enough for {counted(blocks, 'block')}; {LEAST_BLOCKS} of them take about "
        f"--minutes {enough}."
    )
