# SPDX-License-Identifier: GPL-2.0-or-later
"""What a tune would do, as a person reads it."""

from __future__ import annotations

import json
from collections.abc import Iterator

from skblab.knobs.base import DEVICE
from skblab.tune.ahead import OrderedBoot, Stage, TunePlan
from skblab.tune.stages import SWEEP
from skblab_analysis.base.words import counted, number, rough_time

# The baseline is measured under two names, in each block.
TWICE = 2


def lines(plan: TunePlan) -> Iterator[str]:
    """Yield the plan of a tune, line by line."""
    yield f"{plan.experiment}: {plan.question}"
    yield (
        f"For {plan.goal}, testbed {plan.testbed}, kernel {plan.kernel}: about "
        f"{rough_time(60 * plan.estimated_minutes)} of {plan.minutes:g} min, in "
        f"{counted(len(plan.stages), 'sweep')}"
    )
    yield from (f"it cannot run: {why}" for why in plan.cannot_run)
    for position, stage in enumerate(plan.stages, 1):
        yield ""
        yield from _stage(position, stage)
    if plan.not_covered:
        yield "\nWhat this time does not cover, or this testbed cannot tell:"
        yield from (f"  {sentence}" for sentence in plan.not_covered)
    yield "\nThis was a dry run: nothing was started, and no folder was made."


def _stage(position: int, stage: Stage) -> Iterator[str]:
    most = "" if stage.known else "at most "
    took = rough_time(60 * stage.estimated_minutes)
    yield (
        f"{position}. {stage.name}: {most}{counted(len(stage.settings) - TWICE, 'setting')} beside "
        f"the baseline (twice), {counted(stage.blocks, 'block')}, about {took} of "
        f"{stage.minutes:g} min"
    )
    yield f"   It decides: {stage.decides}"
    if not stage.known:
        yield "   Its settings depend on the sweep before; as many as these can be:"
    for one in stage.settings:
        words = " ".join(f"{knob}={value}" for knob, value in one.knobs.items())
        yield f"   - {one.name}: {words or 'the router as it is'}"
    yield "   Measured of each of them, in each block:"
    for at, trial in enumerate(stage.trials):
        rate = "" if trial.rate is None else f" at {number(trial.rate)}/s"
        who = "the tester alone: " if trial.tester else ""
        yield f"   {at}: {who}{trial.measure}{rate}, {trial.traffic}, about {trial.seconds:g} s"
    for name, section in stage.measure.items():
        words = ", ".join(f"{key} = {json.dumps(value)}" for key, value in _items(section))
        yield f"   {name}: {words}" if words else f"   {name}: counted, not timed"
    if stage.order:
        yield "   Order (the numbers are those of trials):"
        yield from (f"   {_boot(boot)}" for boot in stage.order)
    if stage.name == SWEEP:
        yield f"   What sets each value by hand ({DEVICE}: each network device of the router):"
        hands = {(k, v): one.by_hand[k] for one in stage.settings for k, v in one.knobs.items()}
        yield from (f"   {knob} = {value}: {hand}" for (knob, value), hand in hands.items())


def _items(section: object) -> Iterator[tuple[str, object]]:
    if isinstance(section, dict):
        yield from section.items()


def _boot(boot: OrderedBoot) -> str:
    ordered = "; ".join(
        f"{one.setting} ({', '.join(map(str, one.trials))})" for one in boot.settings
    )
    return f"block {boot.block}{f', {boot.boot}' if boot.boot else ''}: {ordered}"
