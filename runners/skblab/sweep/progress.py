# SPDX-License-Identifier: GPL-2.0-or-later
"""How far a sweep has come, from its run folder alone: what is done, and what was only attempted.

A measurement is named by setting, block, knobs of its boot (a block has a tester in each), traffic
and what is measured. It is done when the folder's table has a row of it, good or invalid. An
attempt is in the journal before it begins, and the death of its guest is, too: what broke a guest
twice is not tried a third time, and what the user ended is.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path

from pydantic import BaseModel, JsonValue

from skblab.sweep.planned import Boot, Measurement, SettingMeasurements
from skblab_analysis.load import load
from skblab_analysis.runfolder import RunFolder
from skblab_analysis.trials.rows import Clock, TrialRow

# Deaths of its guest after which a measurement is not tried again.
DEATHS = 2


@dataclass(frozen=True)
class Key:
    """What names a measurement of a plan."""

    setting: str
    block: int
    traffic: str
    measure: str
    # Packets a second, of what is measured at a given rate.
    rate: int | None = None
    # Those that the boot was chosen by, in words.
    boot_knobs: str = ""

    @classmethod
    def of(cls, boot: Boot, setting: str, measurement: Measurement) -> Key:
        """Return what names it."""
        return cls(
            setting,
            boot.block,
            str(measurement.stream),
            measurement.recorded_as,
            measurement.rate,
            str(boot),
        )

    @classmethod
    def of_row(cls, row: TrialRow) -> Key:
        """Return the name of the trial that has this row."""
        measure = row.measure or ""
        return cls(row.setting, row.block, row.traffic, measure, row.rate, row.boot_knobs)

    def words(self) -> dict[str, JsonValue]:
        """Return it as the journal has it."""
        return asdict(self)


def record_invalid(folder: RunFolder, clock: Clock, key: Key, why: str) -> None:
    """Have a measurement recorded as one that cannot be used."""
    folder.record_invalid(
        clock,
        key.setting,
        why,
        block=key.block,
        boot_knobs=key.boot_knobs,
        traffic=key.traffic,
        measure=key.measure,
        rate=key.rate,
    )


class _Tried(BaseModel):
    """A Key, as the journal has it."""

    setting: str
    block: int
    traffic: str
    measure: str
    rate: int | None
    boot_knobs: str


class Progress:
    """What is done, and what was attempted how often; `attempt`, `die` and `end` keep it so."""

    def __init__(self, done: set[Key], attempts: Counter[Key], deaths: Counter[Key]) -> None:
        self._done, self._attempts, self._deaths = done, attempts, deaths
        # The one that is under way in each boot.
        self._current: dict[tuple[int, str], Key] = {}

    @classmethod
    def read(cls, folder: Path) -> Progress:
        """Return how far the run in a folder has come; RecordError if it cannot be read."""
        run = load(folder)
        done = {Key.of_row(row) for row in run.trials}
        attempts: Counter[Key] = Counter()
        deaths: Counter[Key] = Counter()
        counts = {"attempt": attempts, "death": deaths}
        for event in run.journal:
            if event.event in counts:
                counts[event.event][Key(**event.told(_Tried).model_dump())] += 1
        return cls(done, attempts, deaths)

    def attempted(self, boot: Boot) -> int:
        """Return how many attempts there were in a boot."""
        ours = (boot.block, str(boot))
        return sum(
            count for key, count in self._attempts.items() if (key.block, key.boot_knobs) == ours
        )

    def current(self, boot: Boot) -> Key | None:
        """Return what is under way in a boot, if one is."""
        return self._current.get((boot.block, str(boot)))

    def __len__(self) -> int:
        """Return how many are done."""
        return len(self._done)

    def done(self, key: Key) -> bool:
        """Whether it has a row."""
        return key in self._done

    def left(self, boot: Boot) -> list[SettingMeasurements]:
        """Return the settings of a boot with something that is still to do, and with all else."""
        return [setting for setting in boot.settings if self.waiting(boot, setting)]

    def waiting(self, boot: Boot, setting: SettingMeasurements) -> list[tuple[Key, Measurement]]:
        """Return what is still to do of a setting."""
        named = {Key.of(boot, setting.setting, wanted): wanted for wanted in setting.measurements}
        return [(key, wanted) for key, wanted in named.items() if key not in self._done]

    def missing(self, boot: Boot) -> list[Key]:
        """Return the names of all that is still to do of a boot."""
        return [key for setting in boot.settings for key, _ in self.waiting(boot, setting)]

    def begun(self, block: int) -> bool:
        """Whether any trial of a block was attempted."""
        return any(key.block == block for key in (*self._done, *self._attempts))

    def attempt(self, key: Key) -> None:
        """Note that it begins."""
        self._attempts[key] += 1
        self._current[key.block, key.boot_knobs] = key

    def end(self, key: Key) -> None:
        """Note that it has a row."""
        self._done.add(key)
        self._over(key)

    def die(self, key: Key) -> None:
        """Note that its guest died."""
        self._deaths[key] += 1
        self._over(key)

    def _over(self, key: Key) -> None:
        self._current.pop((key.block, key.boot_knobs), None)

    def spent(self, key: Key) -> bool:
        """Whether its guest died as often as it may."""
        return self._deaths[key] >= DEATHS
