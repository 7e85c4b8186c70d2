# SPDX-License-Identifier: GPL-2.0-or-later
"""How much of a plan fits in its budget, by the estimate: pure, known before the run.

A block is measured as a whole or not at all, for a setting is compared with the baseline of its own
block. The last blocks are cut first. While it runs, a sweep goes by the time that blocks really
take (see spent.py): it may come to more blocks than the estimate, or to fewer.

`at_once` boots run side by side: more than one only where instructions are counted.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from functools import partial

from skblab.sweep.plan import Plan
from skblab_analysis.base.words import counted, rough_time


def fitting(plan: Plan, at_once: int) -> int:
    """Return how many blocks fit in the budget; all without one, 0 if not even one does."""
    repeats = plan.experiment.repeats
    if repeats.budget_minutes is None:
        return repeats.most
    counts = range(1, repeats.most + 1)
    seconds = partial(plan.seconds, at_once=at_once)
    return bisect_right(counts, 60 * repeats.budget_minutes, key=seconds)


def refusal(plan: Plan, at_once: int) -> str | None:
    """Return why a plan is not begun, and what to change; None if a block fits in its budget."""
    budget = plan.experiment.repeats.budget_minutes
    if budget is None or fitting(plan, at_once):
        return None
    seconds = plan.seconds(1, at_once)
    exact = "" if plan.exact else ", count instructions with --exact"
    return (
        f"one block takes about {rough_time(seconds)}, and the budget is {budget:g} min: "
        f"ask for fewer settings, less traffic or shorter trials{exact}, or give it more: "
        f"--minutes {-(-seconds // 60):.0f}"
    )


def told(plan: Plan, at_once: int) -> Iterator[str]:
    """Yield when a sweep ends, and what of its plan is not measured then, in sentences."""
    repeats, blocks = plan.experiment.repeats, fitting(plan, at_once)
    if repeats.width is not None and not plan.exact and repeats.least < repeats.most:
        yield (
            f"It ends after {counted(repeats.least, 'block')} at the earliest (about "
            f"{rough_time(plan.seconds(repeats.least, at_once))}), once the scatter between "
            f"blocks is within {repeats.width:.2%} of each mean."
        )
    if repeats.budget_minutes is None or not blocks:
        return
    budget = f"the budget of {repeats.budget_minutes:g} min"
    if blocks == repeats.most:
        yield f"All of it fits in {budget}."
        return
    first = blocks + 1
    cut = f"Block {first} is" if first == repeats.most else f"Blocks {first} to {repeats.most} are"
    yield (
        f"{blocks} of {counted(repeats.most, 'block')} fit in {budget} (about "
        f"{rough_time(plan.seconds(blocks, at_once))}). {cut} not measured: skblab leaves out "
        "whole blocks, the last ones first."
    )
    if blocks < repeats.least:
        why = " With one block no difference is significant." if blocks == 1 else ""
        yield f"That is fewer than repeats.least = {repeats.least}.{why}"
