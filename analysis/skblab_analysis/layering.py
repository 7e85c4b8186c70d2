# SPDX-License-Identifier: GPL-2.0-or-later
"""Where forwarded packets spend their time, by setting: the layer probe's figures of a sweep.

Settings are compared within a traffic and a rate only, block by block, by the mean of each layer:
means of layers add up to that of the whole path, which percentiles do not. The probe's own work is
in every figure, and cancels in a difference.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

from skblab_analysis import certainty
from skblab_analysis.account import Account
from skblab_analysis.certainty import AGAIN, Difference
from skblab_analysis.errors import RefusedError
from skblab_analysis.loglinear import Histogram
from skblab_analysis.series import Series

# The path of a router's packets.
PATH = "forward"
WHOLE = "whole path"
DELAY = "NAPI delay"


@dataclass(frozen=True)
class Probed:
    """What a trial of the layer probe is of: packets sent and forwarded, at which rate a second."""

    boot: int
    boot_knobs: str
    traffic: str
    rate: int
    sent: int
    forwarded: int
    offered_rate: float

    def check(self, found: Account, limit: float) -> None:
        """Raise RefusedError if the probe saw fewer packets than were forwarded.

        By more than `limit` per cent; those that were merged are seen as one.
        """
        seen = found.ended + (found.merged or 0)
        if self.forwarded - seen > limit / 100 * self.forwarded:
            raise RefusedError(f"the probe saw {seen} of {self.forwarded} forwarded packets")


@dataclass(frozen=True)
class Layered:
    """A good trial of the layer probe, as it was recorded."""

    setting: str
    boot: int
    traffic: str
    rate: int
    series: tuple[Series, ...]

    def histograms(self) -> dict[str, Histogram]:
        """Return the histogram of each layer, of the whole path, and of the delay before it.

        The delay is in polls, and of all contexts together.
        """
        found: dict[str, Histogram] = {}
        for one in self.series:
            name = _name(one)
            if name is not None:
                found[name] = found.get(name, Histogram({})).merge(one.histogram)
        return found


@dataclass(frozen=True)
class Setting:
    """A setting: its layers over all blocks, in the order of the path."""

    name: str
    blocks: int
    layers: Mapping[str, Histogram]


@dataclass(frozen=True)
class LayeringSummary:
    """All settings at one rate of one traffic, the baseline first, in the order first run.

    `changes` has by setting what each layer's mean differs from the baseline's, in ns.
    """

    traffic: str
    rate: int
    baseline: str | None
    names: tuple[str, ...]
    settings: tuple[Setting, ...]
    changes: Mapping[str, Mapping[str, Difference]]

    def change(self, setting: str, layer: str) -> Difference | None:
        """Return what a layer differs from the baseline's; None if it is not known."""
        return self.changes.get(setting, {}).get(layer)

    def moved(self, setting: str) -> list[tuple[str, Difference]]:
        """Return the layers that differ for sure, the one that differs most first."""
        found = [
            (name, one)
            for name, one in self.changes.get(setting, {}).items()
            if one.seen and name not in (WHOLE, DELAY) and setting != AGAIN
        ]
        return sorted(found, key=lambda pair: -abs(pair[1].interval.mean))


def summaries(trials: Sequence[Layered], baseline: str | None) -> list[LayeringSummary]:
    """Sum up the trials of each traffic, by their names, and of each rate."""
    kinds = sorted({(one.traffic, one.rate) for one in trials})
    return [
        _summary(*kind, [one for one in trials if (one.traffic, one.rate) == kind], baseline)
        for kind in kinds
    ]


def _summary(
    traffic: str, rate: int, trials: Sequence[Layered], baseline: str | None
) -> LayeringSummary:
    by_setting: dict[str, list[Layered]] = {}
    for one in trials:
        by_setting.setdefault(one.setting, []).append(one)
    order = sorted(by_setting, key=lambda name: name != baseline)
    known = order[0] == baseline
    names = tuple(dict.fromkeys(name for one in trials for name in one.histograms()))
    means = {name: _means(found) for name, found in by_setting.items()}
    changes: dict[str, dict[str, Difference]] = {}
    for name in order[1:] if known else ():
        found = {
            layer: certainty.difference(means[name].get(layer, {}), means[order[0]].get(layer, {}))
            for layer in names
        }
        changes[name] = {layer: one for layer, one in found.items() if one is not None}
    return LayeringSummary(
        traffic=traffic,
        rate=rate,
        baseline=baseline if known else None,
        names=names,
        settings=tuple(_setting(name, by_setting[name], names) for name in order),
        changes=changes,
    )


def _setting(name: str, trials: Sequence[Layered], names: Sequence[str]) -> Setting:
    held = [one.histograms() for one in trials]
    layers = {
        layer: reduce(Histogram.merge, (one[layer] for one in held if layer in one), Histogram({}))
        for layer in names
    }
    return Setting(name, len(trials), {name: one for name, one in layers.items() if one.buckets})


def _means(trials: Sequence[Layered]) -> dict[str, dict[int, float]]:
    """Return the mean of each layer by block."""
    found: dict[str, dict[int, float]] = {}
    for trial in trials:
        for layer, histogram in trial.histograms().items():
            if histogram.mean is not None:
                found.setdefault(layer, {})[trial.boot] = histogram.mean
    return found


def _name(one: Series) -> str | None:
    """Return the name by which settings are compared; None of what is not."""
    if one.kind == "napi" and one.layer.startswith("delay-"):
        return DELAY
    if one.path != PATH:
        return None
    if one.kind == "total":
        return WHOLE
    return one.to_point if one.kind == "layer" else None
