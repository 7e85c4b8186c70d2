# SPDX-License-Identifier: GPL-2.0-or-later
"""Which settings are the baseline's own state: they change nothing, whatever is measured."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from skblab_analysis.base.certainty import AGAIN
from skblab_analysis.base.rows import LONGEST_TEXT
from skblab_analysis.settings.rows import SettingRow
from skblab_analysis.trials.rows import TrialRow


def identical(
    readings: Iterable[SettingRow], trials: Sequence[TrialRow], baseline: str | None
) -> frozenset[str]:
    """Return the settings whose every knob was wanted as the baseline has it, in every trial.

    What the baseline has is what was read in its trial of the same block; a knob that it does not
    set has what was read there before any setting touched it. `readings` are in the order of
    trials, and `trials` has each by its number.
    """
    boots = {trial.boot_knobs for trial in trials if trial.setting == baseline}
    untouched: dict[tuple[int, str, str], str] = {}
    held: dict[tuple[int, str, str], str] = {}
    wanted: dict[str, list[tuple[tuple[int, str, str], str]]] = {}
    for row in sorted(readings, key=lambda row: row.trial):
        trial = trials[row.trial]
        where = trial.block, trial.boot_knobs, row.knob
        untouched.setdefault(where, row.before)
        if trial.state != "good":
            continue
        if trial.setting == baseline:
            held[where] = row.after
        elif trial.setting != AGAIN:
            wanted.setdefault(trial.setting, []).append((where, row.wanted))
    known = untouched | held
    return frozenset(
        setting
        for setting, knobs in wanted.items()
        if all(
            # Of a longer text the end is not stored.
            where[1] in boots and len(text) < LONGEST_TEXT and text == known[where]
            for where, text in knobs
        )
    )
