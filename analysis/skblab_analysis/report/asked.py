# SPDX-License-Identifier: GPL-2.0-or-later
"""What the experiment file in a run's folder says that nothing else there does.

That is what commands of the user's own are, and how figures were measured.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

from pydantic import BaseModel, ConfigDict, Field, StrictStr

from skblab_analysis.base import lengths, tomlfile
from skblab_analysis.base.errors import one_line
from skblab_analysis.load import Run, once
from skblab_analysis.measures import VIEWS

EXPERIMENT = "experiment.toml"
WARM_UP = "repeats.warm_up_seconds"
# What the figures of measures depend on, as `[measure.NAME]` has it, and what it is if not given.
# What tells figures apart anyway is none of it, as goals and rates, nor what the rows say.
DEPENDS = {name: value for view in VIEWS for name, value in view.depends.items()}
# How long trials last, of measures whose figures do not depend on it.
LENGTHS = {name: value for view in VIEWS for name, value in view.lengths.items()}
WARM_UP_SECONDS = 2.0
# Characters of a value, such as a list of rates, in a sentence.
LONGEST = 80
NOT_GIVEN = "not given"
NOT_KNOWN = "not known"


class Repeats(BaseModel):
    """How often, and what comes before."""

    model_config = ConfigDict(frozen=True)

    warm_up_seconds: float = WARM_UP_SECONDS


class Asked(BaseModel):
    """Parts of an experiment file; it was checked before the run, maybe by another version."""

    model_config = ConfigDict(frozen=True)

    # By knob: `set`, `get` and `restore`.
    commands: dict[str, dict[str, StrictStr]] = {}
    # By measure and key.
    measure: dict[str, dict[str, object]] = {}
    repeats: Repeats = Field(default_factory=Repeats)


@once
def of(run: Run) -> Asked | None:
    """Return what a run was asked; None if it has no experiment file. UsageError: it is broken."""
    file = run.folder / EXPERIMENT
    return tomlfile.read(Asked, file, "the experiment") if file.exists() else None


def commands(run: Run, knob: str) -> Mapping[str, str]:
    """Return the commands that a knob is, by their names; none if skblab has the knob."""
    found = of(run)
    return {} if found is None else found.commands.get(knob, {})


def how(run: Run, measure: str) -> Mapping[str, str]:
    """Return by its name each thing that a run was asked for and a measure's figures depend on.

    Nothing of measures that no experiment file describes, such as instructions.
    """
    names = [name for name in DEPENDS if name.startswith(f"{measure}.")]
    if not names:
        return {}
    found = of(run)
    if found is None:
        ours = dict.fromkeys((*(f"measure.{name}" for name in names), WARM_UP), NOT_KNOWN)
        # All trials were made longer or shorter by it.
        return ours | {"--scale": _text(_scale(run))}
    given = _lasted({**DEPENDS, **_given(found)}, run)
    ours = {f"measure.{name}": _text(given[name]) for name in names}
    return ours | {WARM_UP: _text(found.repeats.warm_up_seconds)}


def differing(ours: Run, theirs: Run) -> Iterator[tuple[str, str, str]]:
    """Yield what two runs were not asked alike of how to measure: its name, and both values.

    Nothing if that is not known of one of them.
    """
    asked = of(ours), of(theirs)
    if asked[0] is None or asked[1] is None:
        return
    one, other = _of_measures(asked[0], ours), _of_measures(asked[1], theirs)
    for name in dict.fromkeys((*one, *other)):
        values = one.get(name, NOT_GIVEN), other.get(name, NOT_GIVEN)
        if values[0] != values[1]:
            yield name, one_line(values[0], LONGEST), one_line(values[1], LONGEST)


def _of_measures(found: Asked, run: Run) -> Mapping[str, str]:
    defaults = {
        name: value
        for name, value in (DEPENDS | LENGTHS).items()
        if name.partition(".")[0] in found.measure
    }
    lasted = _lasted({**defaults, **_given(found)}, run)
    return {WARM_UP: _text(found.repeats.warm_up_seconds)} | {
        f"measure.{name}": _text(value) for name, value in lasted.items()
    }


def _scale(run: Run) -> object:
    return run.document.plan.parameters.get("scale", 1)


def _lasted(given: Mapping[str, object], run: Run) -> Mapping[str, object]:
    """Return keys with the lengths that trials had: `--scale` need not have changed them."""
    scale = _scale(run)
    return {
        name: lengths.scaled(value, scale)
        if isinstance(value, int | float)
        and isinstance(scale, int | float)
        and lengths.is_length(name.partition(".")[2])
        else value
        for name, value in given.items()
    }


def _given(found: Asked) -> Mapping[str, object]:
    return {
        f"{measure}.{key}": value
        for measure, section in found.measure.items()
        for key, value in section.items()
    }


def _text(value: object) -> str:
    """Return a value in words; 1 and 1.0 are the same."""
    if isinstance(value, float):
        return f"{value:.12g}"
    return json.dumps(value, default=str, ensure_ascii=False)
