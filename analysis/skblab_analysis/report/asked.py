# SPDX-License-Identifier: GPL-2.0-or-later
"""What the experiment file in a run's folder says that nothing else there does."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import BaseModel, ConfigDict, StrictStr

from skblab_analysis.base import tomlfile
from skblab_analysis.load import Run, once

EXPERIMENT = "experiment.toml"


class Asked(BaseModel):
    """Parts of an experiment file; it was checked before the run, maybe by another version."""

    model_config = ConfigDict(frozen=True)

    # By knob: `set`, `get` and `restore`.
    commands: dict[str, dict[str, StrictStr]] = {}


@once
def of(run: Run) -> Asked | None:
    """Return what a run was asked; None if it has no experiment file. UsageError: it is broken."""
    file = run.folder / EXPERIMENT
    return tomlfile.read(Asked, file, "the experiment") if file.exists() else None


def commands(run: Run, knob: str) -> Mapping[str, str]:
    """Return the commands that a knob is, by their names; none if skblab has the knob."""
    found = of(run)
    return {} if found is None else found.commands.get(knob, {})
