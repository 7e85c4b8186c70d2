# SPDX-License-Identifier: GPL-2.0-or-later
"""What a plan consists of: boots, the settings of each, and what is measured with a setting."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from skblab.knobs.values import Value, words
from skblab.testbeds.asked import Stream

# What is measured before a boot's first setting: the tester, with nothing in between.
TESTER = "tester"


@dataclass(frozen=True)
class Measurement:
    """What a measure does once with a setting and one kind of traffic: a search, or a trial.

    `rate` in packets a second is that of measures at given rates. `tester`: of the tester alone.
    """

    number: int
    measure: str
    stream: Stream
    rate: int | None = None
    tester: bool = False

    @property
    def recorded_as(self) -> str:
        """The name that records have for what is measured."""
        return TESTER if self.tester else self.measure

    def __str__(self) -> str:
        """Return it in words."""
        rate = "" if self.rate is None else f" at {self.rate}/s"
        return f"{self.recorded_as}{rate}, {self.stream}"


@dataclass(frozen=True)
class SettingMeasurements:
    """A setting, and what is measured with it."""

    setting: str
    knobs: Mapping[str, Value]
    measurements: tuple[Measurement, ...]


@dataclass(frozen=True)
class Boot:
    """A boot of the device under test with knobs that need one, then settings in this order."""

    block: int
    knobs: Mapping[str, Value]
    settings: tuple[SettingMeasurements, ...]

    def __str__(self) -> str:
        """Return its knobs in words, by which boots of a block are told apart; none if none."""
        return words(self.knobs)
