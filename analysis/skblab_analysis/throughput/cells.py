# SPDX-License-Identifier: GPL-2.0-or-later
"""The figures of tables of rates, as text."""

from __future__ import annotations

from dataclasses import dataclass

from skblab_analysis.base.differences import difference_text, half_text
from skblab_analysis.base.words import ABSENT, number
from skblab_analysis.throughput.rows import Judgement
from skblab_analysis.throughput.summary import GoalSummary, Rate

# What a table has room for.
LIMITS: dict[Judgement | None, str] = {
    "device": "device",
    "tester": "tester",
    "maximum load": "not met",
    "no good load": "no load",
    "not known": "not known",
    None: "",
}


@dataclass(frozen=True)
class RateCells:
    """The row of a setting: rate and difference, each with half of its interval."""

    setting: str
    rate: str
    half: str
    difference: str
    difference_half: str
    blocks: str
    limit: str

    @property
    def in_blocks(self) -> str:
        """In how many blocks a load was good, if not in all."""
        return f"in {self.blocks} blocks" if " of " in self.blocks else ""


def rows(goal: GoalSummary, space: str = " ") -> list[RateCells]:
    """Return a row for every setting, and last ones for the tester if it was searched."""
    made = [_cells(rate, goal, space) for rate in goal.rates]
    for rate in goal.testers:
        tester = _cells(rate, goal, space)
        made.append(RateCells(rate.setting, tester.rate, tester.half, "", "", tester.blocks, ""))
    return made


def difference_words(goal: GoalSummary, setting: str) -> tuple[str, str]:
    """Return what a setting differs from the baseline, and half of the interval."""
    if setting == goal.baseline:
        return "baseline", ""
    change = goal.change(setting)
    if change is None:
        return ABSENT, ""
    return difference_text(change.difference), half_text(change.difference)


def _cells(rate: Rate, goal: GoalSummary, space: str) -> RateCells:
    found = rate.interval
    difference, difference_half = difference_words(goal, rate.setting)
    return RateCells(
        setting=rate.setting,
        rate=ABSENT if found is None else number(found.mean, 0, space),
        half="" if found is None or found.half is None else f"±{number(found.half, 0, space)}",
        difference=difference,
        difference_half=difference_half,
        blocks=rate.of_blocks,
        # Whatever limits it in the other blocks.
        limit=LIMITS["no good load" if rate.none else rate.judgement],
    )
