# SPDX-License-Identifier: GPL-2.0-or-later
"""Rates that a study published, beside ours: as parameters of a run's plan."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from skblab_analysis.base.checked import RecordError

Parameters = Mapping[str, str | int | float | bool]
STUDY, DIFFERS = "study", "what differs from the study"
_PARAMETER = re.compile(r"published (before|with) (.+)")


@dataclass(frozen=True)
class PublishedRate:
    """Frames a second of the study's own baseline, and with a setting; both are above 0."""

    before: float
    with_it: float

    @property
    def change(self) -> float:
        """What the setting makes of the rate, a share of the baseline's."""
        return self.with_it / self.before - 1


@dataclass(frozen=True)
class PublishedStudy:
    """A study by its name, what of ours differs from it, and its rates by setting."""

    name: str
    differs: str
    rates: Mapping[str, PublishedRate]


def parameters(study: PublishedStudy) -> dict[str, str | float]:
    """Return a study as parameters of a plan, which `of_parameters` reads."""
    found: dict[str, str | float] = {STUDY: study.name}
    if study.differs:
        found[DIFFERS] = study.differs
    for setting, rate in study.rates.items():
        found[f"published before {setting}"] = rate.before
        found[f"published with {setting}"] = rate.with_it
    return found


def of_parameters(known: Parameters) -> PublishedStudy | None:
    """Return the study of a plan's parameters; RecordError if a rate is none."""
    if STUDY not in known:
        return None
    found: dict[str, dict[str, float]] = {}
    for name, value in known.items():
        if (told := _PARAMETER.fullmatch(name)) is None:
            continue
        if isinstance(value, str | bool) or not value > 0:
            raise RecordError(f"run.json: {name} is {value!r}: expected frames a second above 0")
        found.setdefault(told[2], {})[told[1]] = float(value)
    rates = {
        setting: PublishedRate(both["before"], both["with"])
        for setting, both in found.items()
        if both.keys() == {"before", "with"}
    }
    return PublishedStudy(str(known[STUDY]), str(known.get(DIFFERS, "")), rates)
