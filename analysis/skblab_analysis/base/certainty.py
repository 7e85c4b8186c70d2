# SPDX-License-Identifier: GPL-2.0-or-later
"""Is this difference real? The one answer that everything here gives: see docs/explain/method.md.

A block is a repeat of everything, in a fresh boot, and has one figure of each setting: what changes
from boot to boot is in the intervals. They are Student's (1908), of 95 %, for the mean of all
blocks there could be. A difference is significant if its interval does not hold 0.

On the wall clock a difference is taken block by block first, so that what a whole block has in
common cancels. Boots that count instructions have next to nothing in common, and are few: there
the two settings are two samples, with Welch's degrees of freedom (B. L. Welch, Biometrika 34,
1947), for one setting may well repeat worse than another. Where one has fewer boots, because some
failed, the degrees of freedom are its own, the fewest that Welch's can be. Rates and times differ
by factors: their interval is that of the logarithm.

No interval is narrower than the resolution, which is what a figure may be off by however well
blocks agree: the width of a search or of a histogram's bucket, the clock's unit, a count's chance.

Each comparison has a false-alarm rate of 5 %: of twenty settings that change nothing, one comes out
significant. A/A: the baseline runs under two names, and the share of significant differences
between these is the false-alarm rate of this suite, on this testbed, in this run.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from statistics import fmean
from typing import Literal

CONFIDENCE = 0.95
# How often the smallest detectable difference comes out significant.
POWER = 0.8
# The baseline under another name.
AGAIN = "baseline again"

# Figures by block, and those that are a count of how many.
Sample = Mapping[int, float]
Counts = Mapping[int, tuple[int, int]]
# Of a difference that is not significant: of one block, or of only those blocks that have a figure,
# nothing is known; or what decides is the resolution, wider than the blocks' scatter, or that.
Why = Literal["one block", "some blocks", "resolution", "scatter"]


@dataclass(frozen=True)
class Interval:
    """A mean of `count` values; half of its interval is `noise`, but not below `resolution`.

    `noise` is None of a single value. All in the unit of the values.
    """

    mean: float
    noise: float | None
    count: int
    resolution: float = 0.0

    @property
    def half(self) -> float | None:
        """Half of its length; None of a single value."""
        return None if self.noise is None else max(self.noise, self.resolution)

    @property
    def low(self) -> float | None:
        """The interval's lower end."""
        return None if self.half is None else self.mean - self.half

    @property
    def high(self) -> float | None:
        """The interval's upper end."""
        return None if self.half is None else self.mean + self.half

    @property
    def share(self) -> float | None:
        """What more blocks would narrow, as part of the mean; None of a single value, or 0."""
        return None if self.noise is None or not self.mean else self.noise / abs(self.mean)


@dataclass(frozen=True)
class Difference:
    """What a setting differs from the baseline, whose mean is `of`, in so many blocks.

    `effect` has the unit of the figures; of a `relative` one it is a part of the baseline, and
    `noise` (half of Student's interval) and `resolution` are those of the logarithm. `noise` and
    `detectable` are None of a single block.

    `detectable` is the smallest detectable difference: a true one so great is significant in 80 %
    of such runs. It is greater than half of the interval, which a true one so great exceeds in half
    of them (L. A. Currie, Analytical Chemistry 40, 1968).

    `partial`: either was measured in further blocks and had no figure there. Blocks that have one
    are the better ones, and their interval is not that of all blocks there could be.
    """

    effect: float
    of: float
    noise: float | None
    resolution: float
    detectable: float | None
    blocks: int
    relative: bool = False
    partial: bool = False

    @property
    def scale(self) -> float:
        """What one of it is in the figure's unit: a relative one is a part of the baseline's."""
        return self.of if self.relative else 1.0

    def in_unit(self, value: float | None) -> float | None:
        """Return an end or the smallest detectable difference in the figure's unit."""
        return None if value is None else value * self.scale

    @property
    def margin(self) -> float | None:
        """Half of the interval, of the logarithm if it is relative; None of a single block."""
        return None if self.noise is None else max(self.noise, self.resolution)

    @property
    def low(self) -> float | None:
        """The interval's lower end, as `effect` is; None of a single block."""
        return None if self.margin is None else self._moved(-self.margin)

    @property
    def high(self) -> float | None:
        """The interval's upper end, as `effect` is; None of a single block."""
        return None if self.margin is None else self._moved(self.margin)

    @property
    def significant(self) -> bool | None:
        """Whether it is significant; None of one block or if `partial`: it is not known."""
        if self.partial or self.low is None or self.high is None:
            return None
        return not self.low <= 0 <= self.high

    @property
    def why(self) -> Why | None:
        """Why it is not significant; None if it is."""
        if self.significant:
            return None
        if self.noise is None:
            return "one block"
        if self.partial:
            return "some blocks"
        return "resolution" if self.resolution > self.noise else "scatter"

    @property
    def share(self) -> float:
        """The difference as part of the baseline."""
        return self._share(self.effect)

    @property
    def ends(self) -> tuple[float, float] | None:
        """The interval's ends as parts of the baseline; None of a single block."""
        if self.low is None or self.high is None:
            return None
        return self._share(self.low), self._share(self.high)

    @property
    def detectable_share(self) -> float | None:
        """The smallest detectable difference as part of the baseline; None of a single block."""
        return None if self.detectable is None else self._share(self.detectable)

    def _moved(self, by: float) -> float:
        return (1 + self.effect) * math.exp(by) - 1 if self.relative else self.effect + by

    def _share(self, value: float) -> float:
        return value if self.relative else value / self.of


@dataclass(frozen=True)
class Change:
    """What a setting differs from the baseline."""

    setting: str
    difference: Difference


@dataclass(frozen=True)
class FalseAlarms:
    """Of comparisons of the baseline with itself, how many were significant."""

    comparisons: int
    alarms: int


def mean(values: Sequence[float]) -> float:
    """As statistics.mean, but for a rounding error, in a tenth of its time.

    Of values that are all the same it is that value: two samples of exact counts, one of three
    blocks and one of four, must not differ by a rounding error.
    """
    return values[0] if values.count(values[0]) == len(values) else fmean(values)


def interval(values: Sequence[float], resolution: float = 0.0) -> Interval:
    """Return mean and interval of at least one value; `resolution` in the values' unit."""
    if len(values) < 2:
        return Interval(mean(values), None, len(values), resolution)
    noise = _student(len(values) - 1) * math.sqrt(_variance(values) / len(values))
    return Interval(mean(values), noise, len(values), resolution)


def difference(
    baseline: Sample,
    other: Sample,
    *,
    resolution: float = 0.0,
    relative: bool = False,
    paired: bool = True,
    chosen_of: int = 1,
) -> Difference | None:
    """Return what the other differs from the baseline; None if there is nothing to compare.

    That is so, too, where no number is large enough: figures of a damaged run, or blocks that
    differ by many powers of ten.

    `relative` is of figures above 0, by their quotient; blocks with others are left out. If
    `paired`, blocks that both have are compared one by one, and else all that either has.
    `resolution` is in the figures' unit, or a part of the baseline if `relative`.

    `chosen_of`: so many were compared, of which this is one that was chosen for its difference. Its
    interval is Bonferroni's: wider, so that all of them together hold with 95 %.
    """
    confidence = 1 - (1 - CONFIDENCE) / chosen_of
    if relative:
        baseline, other = _logarithms(baseline), _logarithms(other)
        resolution = math.log1p(resolution)
    if paired:
        both = sorted(baseline.keys() & other.keys())
        baseline = {block: baseline[block] for block in both}
        other = {block: other[block] for block in both}
    if not baseline or not other:
        return None
    samples = [list(other.values()), list(baseline.values())]
    blocks = min(len(baseline), len(other))
    noise = detectable = None
    try:
        of = mean(samples[1])
        effect = mean(samples[0]) - of
        if blocks > 1:
            if paired:
                samples = [[other[block] - baseline[block] for block in baseline]]
            error, freedom = _standard_error(samples)
            noise = _student(freedom, confidence) * error
            # Either hurdle is cleared in 80 % of all runs.
            detectable = max(
                _noncentrality(freedom, confidence) * error,
                resolution + _student(freedom, 2 * POWER - 1) * error,
            )
        if relative:
            effect, of = math.expm1(effect), math.exp(of)
            detectable = None if detectable is None else math.expm1(detectable)
        found = Difference(effect, of, noise, resolution, detectable, blocks, relative)
        figures = [found.effect, found.low, found.high, found.detectable]
    except OverflowError:
        return None
    # As they are, in the figure's unit and in per cent.
    largest = max(abs(figure) for figure in figures if figure is not None)
    return found if math.isfinite(largest * max(found.scale, 100)) else None


def significant_among(found: Difference, count: int) -> bool | None:
    """Return whether a difference is significant if it is one of so many that are looked at.

    None if it is not known. By Bonferroni, with the degrees of freedom of as many pairs as there
    are blocks: two samples have more, and would need less.
    """
    if found.noise is None or found.blocks < 2:
        return found.significant
    freedom = found.blocks - 1
    wider = _student(freedom, 1 - (1 - CONFIDENCE) / max(1, count)) / _student(freedom)
    return replace(found, noise=found.noise * wider).significant


def chance(chosen_of: int = 1) -> float:
    """Return how many standard deviations of what is normally distributed an interval has.

    To each side; `chosen_of` as in difference().
    """
    return _student(math.inf, 1 - (1 - CONFIDENCE) / chosen_of)


def difference_of_shares(baseline: Counts, other: Counts) -> Difference | None:
    """Return what the shares of counts differ, block by block; None if no block has both.

    Of each block how many were counted of how many. What was counted once may as well have been
    counted twice or not at all: the resolution is half of the interval that chance alone leaves a
    difference of shares (A. Agresti and B. Caffo, The American Statistician 54, 2000). Where
    packets are late together, blocks differ by more, which Student's interval has.
    """
    both = sorted(baseline.keys() & other.keys())
    shares, chance = [], 0.0
    for sample in (baseline, other):
        counted, of = (sum(sample[block][place] for block in both) for place in (0, 1))
        share = (counted + 1) / (of + 2)
        chance += share * (1 - share) / (of + 2)
        shares.append({block: sample[block][0] / sample[block][1] for block in both})
    return difference(*shares, resolution=_student(math.inf) * math.sqrt(chance))


def false_alarms(found: Sequence[Difference]) -> FalseAlarms:
    """Return how many of the differences of one thing from itself are significant."""
    known = [change.significant for change in found if change.significant is not None]
    return FalseAlarms(len(known), sum(known))


def widest(found: Iterable[Sequence[float]]) -> float | None:
    """Return the widest interval's half, as part of its mean, of one that each of these has.

    By the blocks' scatter alone: no further block makes a search narrower. None if there are none,
    or one has no interval yet.
    """
    shares = [interval(values).share if values else None for values in found]
    known = [share for share in shares if share is not None]
    return max(known) if known and len(known) == len(shares) else None


def _logarithms(sample: Sample) -> Sample:
    return {block: math.log(figure) for block, figure in sample.items() if figure > 0}


def _standard_error(samples: Sequence[Sequence[float]]) -> tuple[float, float]:
    """Return that of a sum or difference of means, and its degrees of freedom.

    They are Welch's, or those of the smaller sample: of two figures that scatter more than many
    others, their scatter is hardly known, and Welch's would alarm twice as often as promised.
    """
    parts = [(_variance(values) / len(values), len(values) - 1) for values in samples]
    whole = sum(part for part, _ in parts)
    freedom = min(own for _, own in parts) + 0.0
    if whole and len({own for _, own in parts}) == 1:
        freedom = whole**2 / sum(part**2 / own for part, own in parts)
    return math.sqrt(whole), freedom


def _variance(values: Sequence[float]) -> float:
    """As statistics.variance, but for a rounding error, in a tenth of its time."""
    center = mean(values)
    return math.fsum((value - center) ** 2 for value in values) / (len(values) - 1)


@cache
def _student(freedom: float, confidence: float = CONFIDENCE) -> float:
    """Return how many standard errors an interval reaches to each side."""
    # It takes half a second to load, which every command would pay for.
    from scipy.special import ndtri, stdtrit

    quantile = (1 + confidence) / 2
    return float(ndtri(quantile) if math.isinf(freedom) else stdtrit(freedom, quantile))


@cache
def _noncentrality(freedom: float, confidence: float = CONFIDENCE) -> float:
    """Return of how many standard errors a difference is significant in 80 % of all runs."""
    from scipy.special import nctdtrinc

    return float(nctdtrinc(freedom, 1 - POWER, _student(freedom, confidence)))
