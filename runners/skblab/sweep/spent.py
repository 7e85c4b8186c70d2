# SPDX-License-Identifier: GPL-2.0-or-later
"""The time that a run has taken, and whether its budget has room for another block."""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path

from skblab_analysis.formats.journal import JOURNAL, Event, Journal


def over_budget(
    folder: Path,
    budget_minutes: float | None,
    blocks: int,
    *,
    boots: int = 1,
    at_once: int = 1,
) -> str | None:
    """Return why a run has no time for another block, in words; None if it has.

    `blocks` of it have begun, of so many `boots` each; `at_once` boots run side by side.
    """
    if budget_minutes is None:
        return None
    minutes = spent(Journal(folder / JOURNAL).read()) / 60
    # What takes a boot's time: as many as run side by side.
    rounds, more = boots * blocks / at_once, math.ceil(boots / at_once)
    if minutes * (1 + more / rounds) <= budget_minutes:
        return None
    return f"another block would exceed the budget of {budget_minutes:g} min"


def spent(journal: Iterable[Event]) -> float:
    """Return the seconds that a run has taken, from when its boots were ready, until a stop."""
    found, last = 0.0, None
    for event in journal:
        if event.event == "resumed":
            # Until boots are ready again, which may need a kernel to be built.
            last = None
        elif last is not None or event.event == "began":
            found += (event.at - (last or event.at)).total_seconds()
            last = event.at
    return found
