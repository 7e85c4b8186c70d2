# SPDX-License-Identifier: GPL-2.0-or-later
"""The three sweeps of a tune by their names, and the request that each of them is."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from typing import Literal

from skblab.sweep import kept as keeping
from skblab.sweep.budget import fitting
from skblab.sweep.experiment import Experiment
from skblab.sweep.plan import Plan
from skblab.sweep.request import Request
from skblab.tune import deriving
from skblab.tune.asked import Asked
from skblab_analysis.base import disk
from skblab_analysis.base.words import rough_time

# Each has its experiment in a file of that name.
StageName = Literal["sweep", "each", "confirm"]
STAGES: tuple[StageName, StageName, StageName] = ("sweep", "each", "confirm")
SWEEP, EACH, CONFIRM = STAGES


def file(folder: Path, stage: str) -> Path:
    """Return the experiment file of a stage, in the folder of a tune."""
    return folder / f"{stage}.toml"


def requested(
    asked: Asked, wanted: Experiment, folder: Path, stage: str, minutes: float
) -> Request:
    """Write the experiment of a stage to its file, and return the sweep of it in some minutes."""
    there = file(folder, stage)
    disk.write(there, deriving.text(wanted))
    keeping.keep(folder, wanted.rules)
    return dataclasses.replace(asked.request, file=str(there), minutes=round(minutes, 1))


def no_time(asked: Asked, request: Request, plan: Plan) -> str:
    """Return why not even one block of a stage fits in its minutes; nothing if one does."""
    minutes = request.minutes
    if minutes is None or fitting(plan, request.at_once):
        return ""
    block = plan.seconds(1, request.at_once) / 60
    enough = math.ceil(block * asked.minutes / minutes)
    return (
        f"--minutes {asked.minutes:g}: {minutes:.1f} of them are for this sweep, and one block "
        f"of it takes about {rough_time(60 * block)}; expected at least --minutes {enough}"
    )
