# SPDX-License-Identifier: GPL-2.0-or-later
"""What a study published, beside ours: as parameters of a run's plan."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from skblab_analysis.base.checked import RecordError

Parameters = Mapping[str, str | int | float | bool]
STUDY, DIFFERS = "study", "what differs from the study"
# What may be published of latency: times in us, and how often so many packets in a row were late.
ANOMALIES = r"anomalies from ([1-9][0-9]{0,8}) us"
LATENCY = rf"min|mean|max|{ANOMALIES}"
_PARAMETER = re.compile(rf"published (?:(?P<figure>{LATENCY}) )?(?P<of>before|with) (?P<name>.+)")


@dataclass(frozen=True)
class Published:
    """A figure of the study's own baseline, and with a setting; both are above 0."""

    before: float
    with_it: float

    @property
    def change(self) -> float:
        """What the setting makes of it, a share of the baseline's."""
        return self.with_it / self.before - 1


@dataclass(frozen=True)
class PublishedStudy:
    """A study by its name, what of ours differs from it, and its figures by setting.

    `rates` are in frames a second; of latency it is a figure by its name, see LATENCY.
    """

    name: str
    differs: str
    rates: Mapping[str, Published]
    latency: Mapping[str, Mapping[str, Published]] = field(default_factory=dict)


def threshold_us(figure: str) -> int | None:
    """Return from which latency on packets are late in a figure of anomalies; None of others."""
    found = re.fullmatch(ANOMALIES, figure)
    return None if found is None else int(found[1])


def parameters(study: PublishedStudy) -> dict[str, str | float]:
    """Return a study as parameters of a plan, which `of_parameters` reads."""
    found: dict[str, str | float] = {STUDY: study.name}
    if study.differs:
        found[DIFFERS] = study.differs
    for figure, setting, published in _each(study):
        found[f"published {figure}before {setting}"] = published.before
        found[f"published {figure}with {setting}"] = published.with_it
    return found


def _each(study: PublishedStudy) -> Iterator[tuple[str, str, Published]]:
    for setting, published in study.rates.items():
        yield "", setting, published
    for setting, by_figure in study.latency.items():
        for figure, published in by_figure.items():
            yield f"{figure} ", setting, published


def of_parameters(known: Parameters) -> PublishedStudy | None:
    """Return the study of a plan's parameters; RecordError if a figure is none."""
    if STUDY not in known:
        return None
    found: dict[tuple[str, str], dict[str, float]] = {}
    for name, value in known.items():
        if (told := _PARAMETER.fullmatch(name)) is None:
            continue
        if isinstance(value, str | bool) or not value > 0:
            unit = "a figure" if told["figure"] else "frames a second"
            raise RecordError(f"run.json: {name} is {value!r}: expected {unit} above 0")
        found.setdefault((told["figure"] or "", told["name"]), {})[told["of"]] = float(value)
    rates: dict[str, Published] = {}
    latency: dict[str, dict[str, Published]] = {}
    for (figure, setting), both in found.items():
        if both.keys() == {"before", "with"}:
            published = Published(both["before"], both["with"])
            of_setting = latency.setdefault(setting, {}) if figure else rates
            of_setting[figure or setting] = published
    return PublishedStudy(str(known[STUDY]), str(known.get(DIFFERS, "")), rates, latency)
