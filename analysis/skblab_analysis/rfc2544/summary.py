# SPDX-License-Identifier: GPL-2.0-or-later
"""RFC 2544's other tests: latency, frame loss, back-to-back and recovery, by setting.

Each is of the throughput that a search found in the same trial. Repetitions and blocks are taken
together: of a mean there is a standard deviation, as RFC 9004 has it, and no interval.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import mean, stdev

from skblab_analysis.load import Run, once
from skblab_analysis.rfc2544.rows import CLEAN, FigureRow, Test


@dataclass(frozen=True)
class Mean:
    """A mean, its standard deviation (None of a single value), of how many; `open`: a bound."""

    mean: float
    deviation: float | None
    count: int
    open: bool


@dataclass(frozen=True)
class Untold:
    """Of a test's `of` repetitions, or loads, `count` have no figure, for these reasons."""

    test: Test
    count: int
    of: int
    reasons: tuple[str, ...]


@dataclass(frozen=True)
class OfSetting:
    """What was found with a setting; None what was not measured, or could not be.

    `loss` is in per cent by share of the tester's most, the greatest first. `floor_ns` is the
    tester's own latency, and by `within_s` the recovery may be shorter. `untold` has every test
    of which a figure is missing.
    """

    setting: str
    tests: frozenset[Test]
    latency_ns: Mean | None
    floor_ns: Mean | None
    burst: Mean | None
    buffer_s: Mean | None
    recovery_s: Mean | None
    within_s: Mean | None
    loss: dict[float, float]
    untold: tuple[Untold, ...]
    # So many overloads the device did not recover from.
    lasting: int

    def missing(self, test: Test) -> Untold | None:
        """Return what is missing of a test; None if nothing is."""
        return next((reasons for reasons in self.untold if reasons.test == test), None)


@dataclass(frozen=True)
class Rfc2544Summary:
    """All that was tested with one traffic."""

    traffic: str
    settings: tuple[OfSetting, ...]

    def tested(self, test: Test) -> bool:
        """Whether any setting was asked for it."""
        return any(test in setting.tests for setting in self.settings)


@once
def of(run: Run) -> list[Rfc2544Summary]:
    """Return what RFC 2544's other tests found in a run, of each traffic; none if it has none."""
    return summaries(run.in_order(run.rows(FigureRow)))


def summaries(found: Sequence[FigureRow]) -> list[Rfc2544Summary]:
    """Sum up the figures of each traffic, settings in the order given."""
    made = []
    for traffic in dict.fromkeys(row.traffic for row in found):
        ours = [row for row in found if row.traffic == traffic]
        by_setting: dict[str, list[FigureRow]] = {}
        for row in ours:
            by_setting.setdefault(row.setting, []).append(row)
        settings = tuple(_setting(name, rows) for name, rows in by_setting.items())
        made.append(Rfc2544Summary(traffic, settings))
    return made


def _setting(name: str, found: Sequence[FigureRow]) -> OfSetting:
    tests = dict.fromkeys(row.test for row in found)
    return OfSetting(
        setting=name,
        tests=frozenset(tests),
        latency_ns=_mean((row.latency_ns, False) for row in found),
        # It is the same one for all repetitions of a trial.
        floor_ns=_mean((row.floor_ns, False) for row in found if row.repeat == 0),
        burst=_mean((row.burst, row.open) for row in found),
        buffer_s=_mean((row.buffer_s, row.open) for row in found),
        recovery_s=_mean((row.recovery_s, False) for row in found),
        within_s=_mean((row.within_s, False) for row in found),
        loss=_loss([row for row in found if row.test == "frame loss"]),
        untold=tuple(filter(None, (_untold(test, found) for test in tests))),
        lasting=sum(row.open for row in found if row.test == "recovery"),
    )


def _untold(test: Test, found: Sequence[FigureRow]) -> Untold | None:
    ours = [row for row in found if row.test == test]
    reasons = [row.reason for row in ours if row.reason is not None]
    return Untold(test, len(reasons), len(ours), tuple(dict.fromkeys(reasons))) if reasons else None


def _loss(found: Sequence[FigureRow]) -> dict[float, float]:
    """Return the mean loss at each load.

    A block whose loads ended because two in a row lost nothing has none at those below, either: it
    would be missing where another block lost something, whose mean would be of the bad ones only.
    """
    blocks: dict[int, dict[float, float | None]] = {}
    for row in found:
        if row.share is not None:
            blocks.setdefault(row.block, {})[round(row.share, 4)] = row.loss_percent
    shares = sorted({share for loads in blocks.values() for share in loads}, reverse=True)
    losses: dict[float, list[float]] = {share: [] for share in shares}
    for loads in blocks.values():
        least = sorted(loads)[:CLEAN]
        clean = len(least) == CLEAN and all(loads[share] == 0 for share in least)
        for share in shares:
            lost = loads.get(share, 0.0 if clean and share < least[0] else None)
            if lost is not None:
                losses[share].append(lost)
    return {share: mean(lost) for share, lost in losses.items() if lost}


def _mean(values: Iterable[tuple[float | None, bool]]) -> Mean | None:
    known = [(value, is_open) for value, is_open in values if value is not None]
    if not known:
        return None
    numbers = [value for value, _ in known]
    return Mean(
        mean(numbers),
        stdev(numbers) if len(numbers) > 1 else None,
        len(numbers),
        any(is_open for _, is_open in known),
    )
