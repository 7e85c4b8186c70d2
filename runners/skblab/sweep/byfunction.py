# SPDX-License-Identifier: GPL-2.0-or-later
"""The settings of an experiment for `skblab profile`, which counts what each costs by function."""

from __future__ import annotations

from collections.abc import Iterator

from skblab.bench import asked
from skblab.bench.asked import Settings
from skblab.knobs.values import Knobs
from skblab.sweep.experiment import knobs_of
from skblab.sweep.measure.exact import uncountable
from skblab.sweep.request import read
from skblab_analysis.base.errors import UsageError

# What of an experiment a profile has in its own way.
TRAFFIC = (
    "Packets are one flow of the smallest frames to one destination, whatever the experiment "
    "sends; a sweep counts them as it says."
)


def settings_of(file: str, family: int) -> tuple[Settings, tuple[str, ...]]:
    """Return the settings that can be counted, and what is to be known of them, in sentences.

    UsageError for a file that is no experiment, whose baseline cannot be counted, or whose packets
    are not of that address family.
    """
    found = read(file)
    if family not in (sent := [int(of) for of in found.traffic.family]):
        raise UsageError(
            f"--family {family}: the packets of {file} are of IPv{sent[0]}; give --family {sent[0]}"
        )
    if why := next(_unable(found.baseline), None):
        raise UsageError(f"{file}: baseline.{why}")
    others: dict[str, Knobs] = {}
    notes = [TRAFFIC]
    for setting in found.settings():
        if why := next(_unable(setting.knobs), None):
            notes.append(f"{setting.name} is left out: {why}")
        else:
            others[setting.name] = dict(knobs_of(found, setting))
    return Settings(file, dict(found.baseline), others, found.catalogue), tuple(notes)


def _unable(knobs: Knobs) -> Iterator[str]:
    """Yield why knobs cannot be set or counted in a profile, in words."""
    yield from uncountable(knobs)
    for knob in knobs:
        if why := asked.unable(knob):
            yield f"{knob}: {why}"
