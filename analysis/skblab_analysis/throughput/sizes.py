# SPDX-License-Identifier: GPL-2.0-or-later
"""The picture of rates by frame size: packets per second, and bits on the line."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from skblab_analysis.base import lines
from skblab_analysis.base.certainty import AGAIN
from skblab_analysis.base.lines import Axis, Figure, Point
from skblab_analysis.base.pictures import Picture
from skblab_analysis.base.words import joined, number, spaced
from skblab_analysis.throughput import line
from skblab_analysis.throughput.summary import Rate, ThroughputSummary


@dataclass(frozen=True)
class Sizes:
    """Traffic that differs in nothing but the size of its frames, the smallest first."""

    traffic: str
    goal: str
    by_size: tuple[tuple[int, ThroughputSummary], ...]

    @property
    def settings(self) -> list[str]:
        """Settings that have a rate at two sizes or more, in the order of the first size."""
        names = dict.fromkeys(
            rate.setting for _, found in self.by_size for rate in found.main.rates
        )
        return [name for name in names if len(list(self.rates(name))) > 1 and name != AGAIN]

    @property
    def shown(self) -> list[str]:
        """The settings that are drawn: the baseline, and those that differ most from it."""
        return lines.chosen(self.settings, self.by_size[0][1].main.baseline, self._differs)

    def rates(self, setting: str) -> Iterator[tuple[int, Rate]]:
        """Yield what a setting forwards, by the size of frames."""
        for size, found in self.by_size:
            rate = found.main.rate(setting)
            if rate is not None and rate.interval is not None:
                yield size, rate

    def _differs(self, setting: str) -> float:
        changes = [found.main.change(setting) for _, found in self.by_size]
        return max((abs(one.difference.share) for one in changes if one is not None), default=0.0)


def of(found: Sequence[ThroughputSummary]) -> list[Sizes]:
    """Return traffic by the size of frames, of each kind that has two sizes or more."""
    kinds: dict[tuple[str, str], dict[int, ThroughputSummary]] = {}
    for summary in found:
        size = line.frame_bytes(summary.traffic)
        if size is not None:
            key = line.without_size(summary.traffic), summary.main.goal
            kinds.setdefault(key, {})[size] = summary
    made = [Sizes(*key, tuple(sorted(by_size.items()))) for key, by_size in kinds.items()]
    return [sizes for sizes in made if len(sizes.by_size) > 1 and sizes.settings]


def picture(sizes: Sizes, suffix: str = "", bits: float | None = None) -> Picture:
    """Rates by frame size with their intervals; the line carries so many `bits` a second."""
    shown = sizes.shown
    found = [(name, [_point(size, rate) for size, rate in sizes.rates(name)]) for name in shown]
    measured = [size for size, _ in sizes.by_size]
    most = max(_top(point.first) for _, points in found for point in points)
    most_bits = max(_top(point.second) for _, points in found for point in points)
    step, unit = line.unit_of(most_bits)
    limit = []
    if bits is not None:
        # No further up than there is something: of small frames the line carries far more.
        limit = [
            Point(size, Figure(min(line.rate_of(bits, size), 10 * most)), Figure(bits / step))
            for size in measured
        ]
        if bits <= 1.5 * most_bits:
            most_bits = max(most_bits, bits)
    scaled = [
        (
            name,
            [
                Point(point.x, point.first, _scaled(point.second, step), point.thin)
                for point in points
            ],
        )
        for name, points in found
    ]
    return lines.lines(
        f"sizes{suffix}",
        f"Rate by frame size, {sizes.traffic}" if sizes.traffic else "Rate by frame size",
        _in_words(sizes, shown),
        Axis.at(measured, "frame size, bytes"),
        (
            Axis.from_zero(most, f"Packets per second ({sizes.goal})"),
            Axis.from_zero(most_bits / step, f"{unit} on the line ({sizes.goal})"),
        ),
        scaled,
        limit,
    )


def _point(size: int, rate: Rate) -> Point:
    found = rate.interval
    assert found is not None
    figure = Figure(found.mean, found.low, found.high)
    bits = (
        None if part is None else line.bits(part, size)
        for part in (found.mean, found.low, found.high)
    )
    return Point(size, figure, Figure(*bits))


def _top(figure: Figure) -> float:
    return max(figure.value or 0.0, figure.high or 0.0)


def _scaled(figure: Figure, step: float) -> Figure:
    parts = (figure.value, figure.low, figure.high)
    return Figure(*(None if part is None else part / step for part in parts))


def _in_words(sizes: Sizes, shown: Sequence[str]) -> str:
    parts = []
    for name in shown:
        rates = [
            f"{number(size)} bytes {spaced(rate.interval.mean)}"
            for size, rate in sizes.rates(name)
            if rate.interval is not None
        ]
        parts.append(f"{name}: {joined(rates)} packets/s")
    return f"Rates by {sizes.goal}. {'; '.join(parts)}."
