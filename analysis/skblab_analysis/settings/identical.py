# SPDX-License-Identifier: GPL-2.0-or-later
"""Which settings are the baseline's own state: they change nothing, whatever is measured."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from skblab_analysis.base.certainty import AGAIN
from skblab_analysis.base.rows import LONGEST_TEXT
from skblab_analysis.settings.rows import SettingRow
from skblab_analysis.trials.rows import TrialRow

# A block, and the knobs that its boot was chosen by.
_Boot = tuple[int, str]


@dataclass
class _Baseline:
    """What the baseline's knobs were in each boot.

    `sets` are the knobs that it sets itself, `untouched` what a knob was before any setting.
    """

    boots: set[str] = field(default_factory=set)
    measured: set[_Boot] = field(default_factory=set)
    sets: set[str] = field(default_factory=set)
    held: dict[tuple[_Boot, str], str] = field(default_factory=dict)
    untouched: dict[tuple[_Boot, str], str] = field(default_factory=dict)

    def has(self, boot: _Boot, knob: str, wanted: str) -> bool | None:
        """Return whether a knob is in the baseline as it is wanted; None: not known."""
        if boot[1] not in self.boots:
            # Of another kernel, or booted in another way.
            return False
        known = self.held if knob in self.sets else self.untouched
        if boot not in self.measured or (boot, knob) not in known:
            return None
        if wanted != known[boot, knob]:
            return False
        # Of a longer text the end is not stored.
        return True if len(wanted) < LONGEST_TEXT else None


def identical(
    readings: Iterable[SettingRow], trials: Sequence[TrialRow], baseline: str | None
) -> Mapping[str, bool | None]:
    """Return of each setting whether every knob was wanted as the baseline has it, in every trial.

    What the baseline has is what was read in its good trial of the same block; a knob that it does
    not set has what was read there before any setting touched it. Where the baseline has no such
    trial or reading, it is None: not known. Settings without any reading are left out. `readings`
    are in the order of trials, and `trials` has each by its number.
    """
    known = _Baseline()
    for trial in trials:
        if trial.setting == baseline:
            known.boots.add(trial.boot_knobs)
            if trial.state == "good":
                known.measured.add((trial.block, trial.boot_knobs))
    wanted: dict[str, list[tuple[_Boot, str, str]]] = {}
    for row in sorted(readings, key=lambda row: row.trial):
        trial = trials[row.trial]
        boot = trial.block, trial.boot_knobs
        known.untouched.setdefault((boot, row.knob), row.before)
        if trial.setting in (baseline, AGAIN):
            known.sets.add(row.knob)
        if trial.state != "good":
            continue
        if trial.setting == baseline:
            known.held[boot, row.knob] = row.after
        elif trial.setting != AGAIN:
            wanted.setdefault(trial.setting, []).append((boot, row.knob, row.wanted))
    return {setting: _all(known.has(*knob) for knob in knobs) for setting, knobs in wanted.items()}


def _all(found: Iterable[bool | None]) -> bool | None:
    """Return whether all are true; None if none is false and one is not known."""
    each = set(found)
    return False if False in each else None if None in each else True
