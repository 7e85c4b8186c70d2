# SPDX-License-Identifier: GPL-2.0-or-later
"""The picture of latency and loss by offered rate, where there are several."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from skblab_analysis.base import lines
from skblab_analysis.base.certainty import AGAIN
from skblab_analysis.base.lines import Axis, Figure, Point
from skblab_analysis.base.pictures import Picture, decades, powers, ticks
from skblab_analysis.base.words import joined, number, quantity, share
from skblab_analysis.latency.rows import COMPARED
from skblab_analysis.latency.summary import Delay, LatencySummary


@dataclass(frozen=True)
class Rates:
    """One traffic at several rates, the lowest first."""

    traffic: str
    by_rate: tuple[LatencySummary, ...]

    @property
    def settings(self) -> list[str]:
        """Settings that were measured at two rates or more."""
        names = [delay.setting for found in self.by_rate for delay in found.delays]
        return [name for name in dict.fromkeys(names) if names.count(name) > 1 and name != AGAIN]

    @property
    def shown(self) -> list[str]:
        """The settings that are drawn: the baseline, and those that differ most from it."""
        known = (found.baseline for found in self.by_rate)
        baseline = next((name for name in known if name is not None), None)
        return lines.chosen(self.settings, baseline, self._differs)

    def _differs(self, setting: str) -> float:
        """Return the largest difference at any rate."""
        changes = (found.change(setting) for found in self.by_rate)
        known = (one.compared for one in changes if one is not None)
        return max((abs(one.share) for one in known if one is not None), default=0.0)

    def delays(self, setting: str) -> list[tuple[int, Delay]]:
        """Return what was measured of a setting, by rate."""
        return [
            (found.rate, delay)
            for found in self.by_rate
            for delay in found.delays
            if delay.setting == setting and delay.latency.count
        ]


def of(found: Sequence[LatencySummary]) -> list[Rates]:
    """Return each traffic that was offered at two rates or more."""
    by_traffic: dict[str, list[LatencySummary]] = {}
    for summary in found:
        by_traffic.setdefault(summary.traffic, []).append(summary)
    made = [Rates(traffic, tuple(summaries)) for traffic, summaries in by_traffic.items()]
    return [one for one in made if any(len(one.delays(name)) > 1 for name in one.settings)]


def picture(rates: Rates, suffix: str = "") -> Picture:
    """Return the 99th percentile, the median and the loss of each setting by rate."""
    delays = {name: rates.delays(name) for name in rates.shown}
    every = [delay for found in delays.values() for _, delay in found]
    times = [
        time
        for delay in every
        for part in (0.5, COMPARED)
        if (time := delay.latency.quantile(part)) is not None
    ] or [1.0]
    low, high = decades(min(times), max(times))
    loss = lines.share_axis(map(_lost, every), "Lost, of what was offered")
    measured = sorted({rate for found in delays.values() for rate, _ in found})
    return lines.lines(
        f"by-rate{suffix}",
        f"Latency and loss by offered rate, {rates.traffic}",
        _in_words(rates),
        Axis.at(measured, "offered, packets/s"),
        (
            Axis(low, high, ticks(powers(low, high), "ns"), "p99; thin: median", log=True),
            loss,
        ),
        [
            (name, [_point(rate, delay, loss) for rate, delay in found])
            for name, found in delays.items()
        ],
    )


def _point(rate: int, delay: Delay, loss: Axis) -> Point:
    found = delay.latency.quantile(COMPARED)
    blocks = list(delay.compared().values())
    ends = (min(blocks), max(blocks)) if blocks and found is not None else (None, None)
    return Point(
        rate,
        Figure(found, *ends),
        Figure(lines.drawn(_lost(delay), loss)),
        thin=delay.latency.quantile(0.5),
    )


def _lost(delay: Delay) -> float:
    return delay.lost / delay.tried if delay.tried else 0.0


def _in_words(rates: Rates) -> str:
    parts = []
    for name in rates.shown:
        said = [
            f"at {number(rate)} packets/s p99 {quantity(delay.latency.quantile(COMPARED), 'ns')}, "
            f"median {quantity(delay.latency.quantile(0.5), 'ns')}, lost {share(_lost(delay))}"
            for rate, delay in rates.delays(name)
        ]
        parts.append(f"{name}: {joined(said)}")
    return f"{'; '.join(parts)}."
