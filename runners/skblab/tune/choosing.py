# SPDX-License-Identifier: GPL-2.0-or-later
"""Which settings are tried together: the best, and then each that contradicts none before it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from skblab.knobs.registry import ALIKE
from skblab.knobs.values import Value, text
from skblab.sweep.experiment import Experiment, differing, ways_apart
from skblab_analysis.base.errors import UsageError

# Each is the name of the measure that it is judged by.
Goal = Literal["throughput", "latency", "instructions"]
GOALS: tuple[Goal, ...] = get_args(Goal)


@dataclass(frozen=True)
class Chosen:
    """Settings that are set together: their names, the best first, and all their knobs.

    `left` are settings that were better, too, each with why it is not among them.
    """

    settings: tuple[str, ...]
    knobs: Mapping[str, Value]
    left: tuple[tuple[str, str], ...] = ()


def require(experiment: Experiment, goal: Goal, file: str) -> None:
    """Raise UsageError if an experiment does not measure what a goal is judged by."""
    if goal == "instructions" or getattr(experiment.measure, goal, None) is not None:
        return
    there = [one for one in GOALS if getattr(experiment.measure, one, None) is not None]
    say = " or ".join(f"--for {one}" for one in (*there, "instructions"))
    raise UsageError(
        f"--for {goal}: {file} has no [measure.{goal}]; write one, or ask for what there is: {say}"
    )


def combine(experiment: Experiment, names: Sequence[str]) -> Chosen:
    """Return what of these settings, the best first, can be set together.

    A setting that wants another value of a knob than a better one does is left out, and so is one
    that adds nothing to them.
    """
    by_name = {setting.name: setting for setting in experiment.settings()}
    settings: list[str] = []
    knobs: dict[str, Value] = {}
    left: list[tuple[str, str]] = []
    for name in names:
        own = differing(experiment, by_name[name])
        clash = next((there for knob in own for there in _against(knob, own[knob], knobs)), None)
        if clash is not None:
            left.append((name, f"what is better wants {clash}={text(knobs[clash])}"))
            continue
        if settings and own.items() <= knobs.items():
            left.append((name, "what is better has all of it"))
            continue
        settings.append(name)
        knobs |= own
    return Chosen(tuple(settings), knobs, tuple(left))


def _against(knob: str, value: Value, chosen: Mapping[str, Value]) -> Iterator[str]:
    """Yield what is chosen already and is not to be had with a knob of this value."""
    if knob in chosen and chosen[knob] != value:
        yield knob
    for other, there in chosen.items():
        if other != knob and ways_apart({other: there, knob: value}):
            yield other
    for alike in ALIKE:
        if knob in alike:
            yield from (other for other in chosen if other in alike and other != knob)
