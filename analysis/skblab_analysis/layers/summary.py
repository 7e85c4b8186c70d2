# SPDX-License-Identifier: GPL-2.0-or-later
"""Where forwarded packets spend their time, by setting: the layer probe's figures of a sweep.

Settings are compared within a traffic and a rate only, block by block, by what a packet spends in a
layer on average, those that skip it included: so layers add up to the whole path, as percentiles do
not. A layer is from one point to another, and where packets skip points, as in a flow table, there
are others. Blocks in which the generator did not keep the rate are in the figures of their setting,
and in no comparison. The probe's own work is in every figure, and cancels in a difference. Times
are whole nanoseconds: their resolution is one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

from skblab_analysis.base import certainty
from skblab_analysis.base.certainty import Difference, Sample
from skblab_analysis.base.histogram import Histogram
from skblab_analysis.base.offered import AtRate
from skblab_analysis.latency.summary import in_order
from skblab_analysis.layers.rows import IN, PATH
from skblab_analysis.layers.series import Series
from skblab_analysis.load import Run, once

WHOLE = "whole path"
DELAY = "NAPI delay"
RESOLUTION = 1.0


def _spread(layer: str, histogram: Histogram, packets: int) -> int:
    """Return over how many a layer's time is spread: packets of the path, or all that passed."""
    return histogram.count if layer == DELAY else max(packets, histogram.count)


@dataclass(frozen=True)
class Layered(AtRate):
    """A good trial of the layer probe, as it was recorded."""

    setting: str
    block: int
    traffic: str
    series: tuple[Series, ...]

    def means(self) -> dict[str, float]:
        """Return what a packet spends in each layer on average, in ns, whether it has it or not.

        The delay is that of a poll. Of a layer that others pass as well it is the mean of all.
        """
        found = self.histograms()
        packets = found[WHOLE].count if WHOLE in found else 0
        return {
            name: histogram.total / _spread(name, histogram, packets)
            for name, histogram in found.items()
            if histogram.count and packets
        }

    def histograms(self) -> dict[str, Histogram]:
        """Return the histogram of each layer, of the whole path, and of the delay before it.

        The delay is in polls, and of all contexts together.
        """
        found: dict[str, Histogram] = {}
        for series in self.series:
            name = _name(series)
            if name is not None:
                found[name] = found.get(name, Histogram({})).merge(series.histogram)
        return found


@dataclass(frozen=True)
class Setting:
    """A setting: its layers over all blocks, in the order of the path."""

    name: str
    trials: tuple[Layered, ...]
    layers: Mapping[str, Histogram]

    def mean(self, layer: str) -> float | None:
        """Return what a packet spends in a layer on average, over all blocks; None if none has."""
        found = self.layers.get(layer)
        whole = found if layer == DELAY else self.layers.get(WHOLE)
        return found.total / _spread(layer, found, whole.count) if found and whole else None


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
        """Return the layers that differ significantly and as the whole does, most of it first."""
        whole = self.change(setting, WHOLE)
        if whole is None:
            return []
        found = [
            (name, change)
            for name, change in self.changes.get(setting, {}).items()
            if change.significant and name not in (WHOLE, DELAY)
            if change.effect * whole.effect > 0
        ]
        return sorted(found, key=lambda pair: -abs(pair[1].effect))


@once
def of(run: Run) -> list[LayeringSummary]:
    """Return where a run's packets spent their time, by setting, of each traffic and rate."""
    trials = [
        Layered(
            setting=row.setting,
            block=row.block,
            traffic=row.traffic,
            rate=row.rate,
            offered_rate=row.send_rate or 0.0,
            series=tuple(run.of_trial(row.trial)),
        )
        for row in run.trials
        if row.measure == "layers" and row.state == "good" and row.rate is not None
    ]
    return summaries(run.in_order(trials), run.document.plan.baseline)


def summaries(trials: Sequence[Layered], baseline: str | None) -> list[LayeringSummary]:
    """Sum up the trials of each traffic, in the order given, and of each rate."""
    kinds = in_order([(trial.traffic, trial.rate) for trial in trials])
    return [
        _summary(
            *kind, [trial for trial in trials if (trial.traffic, trial.rate) == kind], baseline
        )
        for kind in kinds
    ]


def _summary(
    traffic: str, rate: int, trials: Sequence[Layered], baseline: str | None
) -> LayeringSummary:
    by_setting: dict[str, list[Layered]] = {}
    for trial in trials:
        by_setting.setdefault(trial.setting, []).append(trial)
    order = sorted(by_setting, key=lambda name: name != baseline)
    known = order[0] == baseline
    names = tuple(dict.fromkeys(name for trial in trials for name in trial.histograms()))
    means = {name: means_by_block(found) for name, found in by_setting.items()}
    changes: dict[str, dict[str, Difference]] = {}
    for name in order[1:] if known else ():
        found = {
            layer: compare(_of(means[order[0]], layer), _of(means[name], layer)) for layer in names
        }
        changes[name] = {layer: change for layer, change in found.items() if change is not None}
    return LayeringSummary(
        traffic=traffic,
        rate=rate,
        baseline=baseline if known else None,
        names=names,
        settings=tuple(_setting(name, by_setting[name], names) for name in order),
        changes=changes,
    )


def _setting(name: str, trials: Sequence[Layered], names: Sequence[str]) -> Setting:
    held = [trial.histograms() for trial in trials]
    layers = {
        layer: reduce(
            Histogram.merge,
            (of_trial[layer] for of_trial in held if layer in of_trial),
            Histogram({}),
        )
        for layer in names
    }
    filled = {layer: histogram for layer, histogram in layers.items() if histogram.buckets}
    return Setting(name, tuple(trials), filled)


def compare(baseline: Sample, other: Sample) -> Difference | None:
    """Return the difference of a layer's means by block, in ns."""
    return certainty.difference(baseline, other, resolution=RESOLUTION)


def means_by_block(trials: Sequence[Layered]) -> dict[str, dict[int, float]]:
    """Return what a packet spends in each layer by block, of blocks that kept the rate.

    In a layer that no packet of a block has, none of its time is spent.
    """
    means = {trial.block: trial.means() for trial in trials if trial.kept}
    names = dict.fromkeys(name for mean in means.values() for name in mean)
    return {
        name: {
            block: mean[name] if name == DELAY else mean.get(name, 0.0)
            for block, mean in means.items()
            if name != DELAY or name in mean
        }
        for name in names
    }


def _of(means: Mapping[str, Mapping[int, float]], layer: str) -> Mapping[int, float]:
    """Return a layer's means by block; 0 in those of a setting of which no packet has it."""
    if layer in means or layer == DELAY:
        return means.get(layer, {})
    return dict.fromkeys(means.get(WHOLE, {}), 0.0)


def _name(one: Series) -> str | None:
    """Return the name by which settings are compared; None of what is not."""
    if one.kind == "napi" and one.layer.startswith("delay-"):
        return DELAY
    if one.path not in (PATH, IN):
        return None
    if one.kind == "path":
        return WHOLE
    return f"{one.from_point}→{one.to_point}" if one.kind == "layer" else None
