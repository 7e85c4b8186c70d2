# SPDX-License-Identifier: GPL-2.0-or-later
"""How far a sweep has come, from its run folder alone: what is done, and what was only attempted.

A trial is named by setting, block and traffic. It is done when the folder's table has a row of it,
good or void. An attempt is in the journal before the trial begins: what broke a guest twice is not
tried a third time.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from skblab.sweep.plan import Boot, Change, Trial
from skblab_analysis.records import load

ATTEMPTS = 2


@dataclass(frozen=True)
class Key:
    """A trial of a plan."""

    setting: str
    block: int
    traffic: str

    @classmethod
    def of(cls, boot: Boot, change: Change, trial: Trial) -> Key:
        """Return the trial's name."""
        return cls(change.setting, boot.block, str(trial.stream))


class Progress:
    """What is done, and what was attempted how often; `attempt` and `end` keep it up to date."""

    def __init__(self, done: set[Key], attempts: Counter[Key]) -> None:
        self._done, self._attempts = done, attempts
        # The one that is under way.
        self.current: Key | None = None

    @classmethod
    def read(cls, folder: Path) -> Progress:
        """Return how far the run in a folder has come; RecordError if it cannot be read."""
        run = load(folder)
        done = {Key(row["setting"], row["boot"], row["traffic"] or "") for row in run.trials}
        attempts: Counter[Key] = Counter()
        for event in run.journal:
            if event.event == "attempt":
                data = event.model_dump()
                attempts[Key(data["setting"], data["block"], data["traffic"])] += 1
        return cls(done, attempts)

    def __len__(self) -> int:
        """Return how many are done."""
        return len(self._done)

    def left(self, boot: Boot) -> list[Change]:
        """Return the changes of a boot with a trial that is still to do."""
        return [
            change
            for change in boot.changes
            if any(Key.of(boot, change, trial) not in self._done for trial in change.trials)
        ]

    def todo(self, key: Key) -> bool:
        """Whether this trial is still to do."""
        return key not in self._done

    def attempt(self, key: Key) -> None:
        """Note that it begins."""
        self._attempts[key] += 1
        self.current = key

    def end(self, key: Key) -> None:
        """Note that it has a row."""
        self._done.add(key)
        self.current = None

    def spent(self, key: Key) -> bool:
        """Whether it was attempted as often as it may be."""
        return self._attempts[key] >= ATTEMPTS
