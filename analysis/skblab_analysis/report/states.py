# SPDX-License-Identifier: GPL-2.0-or-later
"""What each setting of a run sets: settings of one name are the same only if all of this is."""

from __future__ import annotations

from collections.abc import Mapping

from skblab_analysis.load import Run, once
from skblab_analysis.report import asked

# What a setting is booted with, among its knobs.
BOOT = "boot"
# A value that names a file of rules, whose text may be another one.
RULES = ".nft"
# Between a knob and one of its commands.
COMMAND = ", command "


@once
def of(run: Run) -> Mapping[str, Mapping[str, str]]:
    """Return what each setting asks for, by knob; what it was booted with is one of these.

    A knob that is commands of the user's own has each of them as well.
    """
    found: dict[str, dict[str, str]] = {}
    for row in run.settings:
        values = found.setdefault(run.trials[row.trial].setting, {})
        # Of a file, what tells its text from others.
        values[row.knob] = row.wanted if row.value.endswith(RULES) else row.value
        for name, command in asked.commands(run, row.knob).items():
            values[f"{row.knob}{COMMAND}`{name}`"] = command
    for trial in run.trials:
        if trial.boot_knobs:
            found.setdefault(trial.setting, {})[BOOT] = trial.boot_knobs
    return found


def knob(name: str) -> str:
    """Return the knob that is meant, by itself or by one of its commands."""
    return name.partition(COMMAND)[0]
