# SPDX-License-Identifier: GPL-2.0-or-later
"""What of a run is in no figure, and why: what was skipped, and what is invalid."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from skblab_analysis.base.words import counted, joined
from skblab_analysis.trials.rows import UNNAMED, TrialRow

# So many trials are named by their numbers, and of more is said how many they are.
NUMBERED = 3


@dataclass(frozen=True)
class LeftOut:
    """Trials of one setting that are in no figure for the same reason."""

    setting: str
    skipped: bool
    reason: str
    trials: tuple[int, ...]

    @property
    def state(self) -> str:
        """What they are, in a word."""
        return "skipped" if self.skipped else "invalid"

    @property
    def sentence(self) -> str:
        """What became of them, without the reason."""
        if len(self.trials) > NUMBERED:
            trials = counted(len(self.trials), "trial")
        else:
            word = "trial" if len(self.trials) == 1 else "trials"
            trials = f"{word} {joined([str(trial) for trial in self.trials])}"
        if self.skipped:
            return f"{self.setting} was skipped ({trials})"
        named = "" if self.setting == UNNAMED else f" ({self.setting})"
        be = "is" if len(self.trials) == 1 else "are"
        return f"{trials[0].upper()}{trials[1:]}{named} {be} invalid"


def of(trials: Iterable[TrialRow]) -> list[LeftOut]:
    """Return what is left out of these trials, as it came."""
    found: dict[tuple[str, bool, str], list[int]] = {}
    for row in trials:
        if row.state == "invalid":
            found.setdefault((row.setting, row.skipped, row.reason), []).append(row.trial)
    return [LeftOut(*kind, tuple(numbers)) for kind, numbers in found.items()]
