# SPDX-License-Identifier: GPL-2.0-or-later
"""What a tune is asked for."""

from __future__ import annotations

from dataclasses import dataclass

from skblab.sweep.request import Request
from skblab.tune.choosing import Goal


@dataclass(frozen=True)
class Asked:
    """What is tuned for what, where, and in which time."""

    file: str
    goal: Goal
    minutes: float
    request: Request
