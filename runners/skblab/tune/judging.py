# SPDX-License-Identifier: GPL-2.0-or-later
"""What of a sweep is good for a goal: what to measure again, and what held when it was."""

from __future__ import annotations

from collections.abc import Sequence

from skblab.sweep.experiment import Experiment
from skblab.tune import choosing
from skblab.tune.adding import Added
from skblab.tune.choosing import Chosen, Goal
from skblab.tune.deriving import BEST_ALONE, LEAST_BLOCKS, TOGETHER, WHOLE
from skblab.tune.timing import CONFIRM_SHARE, minutes_of, more_time
from skblab_analysis.base.words import counted
from skblab_analysis.load import Run
from skblab_analysis.report import advice
from skblab_analysis.report.advice import Setting
from skblab_analysis.trials.rows import TrialRow

NOTHING = Chosen((), {})


def choice(
    goal: Goal,
    found: Experiment,
    names: Sequence[str],
    whole: Chosen,
    each: Run | None,
    added: Added | None,
) -> tuple[Chosen, Chosen | None]:
    """Return what to measure again, and all of which it was chosen, but for what is harmful."""
    if each is None or added is None:
        return choosing.combine(found, names), None
    harmful = {name for name, _ in added.harmful}
    others = choosing.combine(found, [name for name in whole.settings if name not in harmful])
    needed = [name for name, _ in added.needed]
    if needed or names:
        # Of two that make up for each other, neither is needed.
        return choosing.combine(found, needed or names), others
    better = {one.name for one in advice.of(each).ranked if gain(one, goal) > 0}
    return (others if TOGETHER in better else NOTHING), None


def held(
    chosen: Chosen,
    best: Chosen | None,
    others: Chosen | None,
    second: Run,
    found: Experiment,
    goal: Goal,
) -> tuple[Chosen, str, str]:
    """Return what of the chosen is better again, what was found in words, and why nothing is."""
    advised = advice.of(second)
    ranked = {one.name: one for one in advised.ranked if gain(one, goal) > 0}
    mixed = {one.name: one for one in advised.mixed}
    blocks = {
        name: len({row.block for row in second.trials if row.setting == name and good(row)})
        for name in second.document.plan.settings
    }
    # What more settings do not make better needs no more settings: the fewest come first.
    sets = {
        BEST_ALONE: best or choosing.combine(found, chosen.settings[:1]),
        TOGETHER: chosen,
        **({WHOLE: others} if others else {}),
    }
    sets = {name: made for name, made in sets.items() if name in blocks}
    said, kept = [], ""
    for name, made in sets.items():
        what = " and ".join(made.settings) + (" alone" if name == BEST_ALONE else "")
        if name in ranked:
            said.append(f"Measured again, {what}: {ranked[name].gains}.")
            if not kept or _clearly(ranked[name], ranked[kept], goal):
                kept = name
        elif name in mixed:
            said.append(f"Measured again, {what}: {mixed[name].gains}; but {mixed[name].losses}.")
        elif blocks[name] < LEAST_BLOCKS:
            said.append(
                f"Measured again, {what}: figures of {counted(blocks[name], 'block')} only, so "
                "that it is not known whether it is better."
            )
        else:
            said.append(f"Measured again, {what}: not significantly better.")
    words = " ".join(said)
    if kept:
        return sets[kept], words, ""
    if min(blocks[name] for name in sets) < LEAST_BLOCKS:
        more = more_time(second, minutes_of(second), CONFIRM_SHARE)
        return NOTHING, words, f"There was no time to measure it again.{more}"
    if any(name in mixed for name in sets):
        return NOTHING, words, "What is better by one figure is worse by another."
    return NOTHING, words, "What was better in the sweep was not so when measured again."


def gain(setting: Setting, goal: Goal) -> float:
    """Return by which part a setting is better for a goal; 0 if it is not."""
    worths = (worth for worth in setting.better if worth.of.measure == goal)
    return max((worth.gain for worth in worths), default=0.0)


def _clearly(one: Setting, other: Setting, goal: Goal) -> bool:
    """Return whether one is better than another by more than its own interval."""
    found = [worth for worth in one.better if worth.of.measure == goal]
    worth = max(found, key=lambda each: each.gain)
    margin = worth.difference.margin or 0.0
    part = worth.of.of_whole(worth.difference, margin) or 0.0
    return worth.gain - gain(other, goal) > abs(part)


def good(row: TrialRow) -> bool:
    """Return whether a trial has a figure."""
    return row.state == "good"
