# SPDX-License-Identifier: GPL-2.0-or-later
"""Exact figures: guest instructions per packet by setting, and what a setting adds.

A trial counts the instructions of one run of packets. Part `whole` holds the tester (generator,
links and sink) and the path under test; part `tester` is calibrated with nothing in between, so
the path's own cost is whole - tester. Differences are taken between wholes: the tester cancels.
In per cent a difference is of the baseline's path; of the whole, where no tester was measured.
A setting that another boot has than the baseline, such as one of another kernel, has a tester of
its own: there each is taken from its whole first.
A trial whose packets did not all reach the sink is refused: a lost packet costs less. A few more
than were sent (STRAY_LIMIT) are let through: a kernel announces its addresses by itself.

Two trials of one setting should agree; their spread is largest - smallest. A setting's
figure of a boot is the mean of its trials there, and boots are two samples: see base/certainty.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from skblab_analysis.base.certainty import Change, Difference, Sample, difference, mean
from skblab_analysis.base.checked import RefusedError
from skblab_analysis.exact.rows import ExactTrial
from skblab_analysis.load import Run, once

# The project's own promise for two boots of the same setting, as a part of all that is counted.
SPREAD_LIMIT = 0.001
# What two boots of the same setting are apart, as a part of all that is counted.
RESOLUTION = 0.0003


@dataclass(frozen=True)
class Cost:
    """Instructions per packet of a setting and part; `by_boot` has the mean of its trials there."""

    setting: str
    boot_knobs: str
    trials: int
    by_boot: Mapping[int, float]
    mean: float
    low: float
    high: float

    @property
    def boots(self) -> int:
        """In how many boots it was counted."""
        return len(self.by_boot)

    @property
    def spread(self) -> float | None:
        """Largest less smallest trial, in instructions; None when there is one trial only."""
        return self.high - self.low if self.trials > 1 else None

    @property
    def limit(self) -> float:
        """The greatest spread that trials of one setting should have, in instructions."""
        return SPREAD_LIMIT * self.mean

    @property
    def repeats(self) -> bool | None:
        """Whether the spread keeps its limit; None when there is one trial only."""
        return None if self.spread is None else self.spread <= self.limit


@dataclass(frozen=True)
class ExactSummary:
    """Costs by setting in the order first run; the first is the baseline.

    `differences` are in instructions per packet. Each way of booting has a tester of its own.
    """

    costs: tuple[Cost, ...]
    differences: tuple[Change, ...]
    testers: tuple[Cost, ...]
    traffic: str = ""

    @property
    def baseline(self) -> Cost:
        """The setting the others are compared with."""
        return self.costs[0]

    @property
    def whole(self) -> float:
        """What shares are of: the baseline's path; path and tester where no tester was measured."""
        path = self.path(self.baseline)
        return self.baseline.mean if path is None else path

    @property
    def of_path(self) -> bool:
        """Whether shares are of the path alone."""
        return self.tester(self.baseline) is not None

    def share(self, difference: Difference) -> float:
        """Return a difference as a part of `whole`."""
        return difference.effect / self.whole

    def path(self, cost: Cost) -> float | None:
        """The path's own instructions per packet; None without calibration."""
        tester = self.tester(cost)
        return None if tester is None else cost.mean - tester.mean

    def tester(self, cost: Cost) -> Cost | None:
        """Return the tester of a setting's boots; None without calibration."""
        return _tester(cost, self.testers)


def tester_name(boot_knobs: str) -> str:
    """Return what the tester is called that is booted so."""
    return f"tester alone{f', {boot_knobs}' if boot_knobs else ''}"


@once
def of(run: Run) -> list[ExactSummary]:
    """Return the exact figures of a run, of each traffic; none when it has none."""
    trials = [ExactTrial.of_row(row) for row in run.trials if row.counted]
    return summaries(run.in_order(trials), run.document.plan.baseline)


def summaries(trials: Sequence[ExactTrial], baseline: str | None = None) -> list[ExactSummary]:
    """Sum up the trials of each traffic, in the order first run."""
    return [
        summarise([trial for trial in trials if trial.traffic == traffic], baseline)
        for traffic in dict.fromkeys(trial.traffic for trial in trials)
    ]


def summarise(trials: Sequence[ExactTrial], baseline: str | None = None) -> ExactSummary:
    """Sum up exact trials of one traffic.

    Raises RefusedError when there is nothing to sum up or it contradicts.
    """
    for trial in trials:
        trial.check()
    wholes = [trial for trial in trials if trial.part == "whole"]
    if not wholes:
        raise RefusedError("no exact trial holds the whole path, so there is nothing to compare")
    names = list(dict.fromkeys(trial.setting for trial in wholes))
    if baseline is not None:
        if baseline not in names:
            raise RefusedError(f"no exact trial has the baseline setting {baseline!r}")
        names.sort(key=lambda name: name != baseline)
    costs = tuple(
        _cost(name, [trial for trial in wholes if trial.setting == name]) for name in names
    )
    calibrations = [trial for trial in trials if trial.part == "tester"]
    testers = tuple(
        _cost(tester_name(knobs), [trial for trial in calibrations if trial.boot_knobs == knobs])
        for knobs in dict.fromkeys(trial.boot_knobs for trial in calibrations)
    )
    summary = ExactSummary(
        costs=costs,
        differences=tuple(_change(costs[0], cost, testers) for cost in costs[1:]),
        testers=testers,
        traffic=trials[0].traffic,
    )
    for cost in costs:
        path = summary.path(cost)
        if path is not None and path <= 0:
            raise RefusedError(
                f"{cost.setting}: the tester alone costs {cost.mean - path:.0f} instructions "
                f"a packet, no less than the whole path's {cost.mean:.0f}"
            )
    return summary


def compare(baseline: Sample, other: Sample, whole: float) -> Difference | None:
    """Return the difference of two figures by boot; `whole` is all that the baseline counts."""
    return difference(baseline, other, resolution=RESOLUTION * whole, paired=False)


def path_by_boot(summary: ExactSummary, cost: Cost) -> Sample:
    """Return the path's own cost by boot; of path and tester where no tester was measured."""
    tester = summary.tester(cost)
    return cost.by_boot if tester is None else _less(cost.by_boot, tester)


def _cost(name: str, trials: Sequence[ExactTrial]) -> Cost:
    figures = [trial.per_packet for trial in trials]
    by_boot: dict[int, list[float]] = {}
    for trial in trials:
        by_boot.setdefault(trial.block, []).append(trial.per_packet)
    return Cost(
        setting=name,
        boot_knobs=trials[0].boot_knobs,
        trials=len(trials),
        by_boot={boot: mean(counts) for boot, counts in by_boot.items()},
        mean=mean(figures),
        low=min(figures),
        high=max(figures),
    )


def _tester(cost: Cost, testers: Sequence[Cost]) -> Cost | None:
    return next((tester for tester in testers if tester.boot_knobs == cost.boot_knobs), None)


def _change(baseline: Cost, cost: Cost, testers: Sequence[Cost]) -> Change:
    theirs, ours = baseline.by_boot, cost.by_boot
    tester, other = _tester(baseline, testers), _tester(cost, testers)
    if tester is not None and other is not None and other is not tester:
        theirs, ours = _less(theirs, tester), _less(ours, other)
    found = compare(theirs, ours, baseline.mean)
    assert found is not None
    return Change(cost.setting, replace(found, of=baseline.mean))


def _less(wholes: Sample, tester: Cost) -> Sample:
    """Return the path's own cost by boot, with the mean of testers where a boot has none."""
    return {boot: whole - tester.by_boot.get(boot, tester.mean) for boot, whole in wholes.items()}
