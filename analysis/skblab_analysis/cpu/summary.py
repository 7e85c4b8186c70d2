# SPDX-License-Identifier: GPL-2.0-or-later
"""CPU time per packet at given rates: by setting over all blocks, and what settings differ.

Settings are compared within a traffic and a rate only, block by block, by all CPU time of a
forwarded packet. A block in which the generator did not keep the rate is in no comparison.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from skblab_analysis.base import certainty
from skblab_analysis.base.certainty import AGAIN, Change, FalseAlarms, Sample
from skblab_analysis.cpu.rows import IntervalRow, Times, TimesRow, Trial, trials
from skblab_analysis.latency.summary import in_order
from skblab_analysis.load import Run, once


@dataclass(frozen=True)
class Share:
    """Parts of its time that a CPU was in interrupts and softirqs, and at other work."""

    interrupts: float
    others: float

    @property
    def busy(self) -> float:
        """Both."""
        return self.interrupts + self.others


def share_of(spent: Sequence[Times]) -> Share:
    """Return the parts of a CPU's time in all of these together."""
    whole = sum(times.busy + times.idle + times.steal for times in spent) or 1
    interrupts = sum(times.interrupt + times.softirq for times in spent)
    busy = sum(times.busy for times in spent)
    return Share(interrupts / whole, (busy - interrupts) / whole)


@dataclass(frozen=True)
class Usage:
    """A setting at a rate: its trials, one in each block."""

    setting: str
    trials: tuple[Trial, ...]

    def per_packet(self, name: str = "busy") -> float:
        """Return one of its times a packet over all blocks, in ns, all CPUs together."""
        spent = sum(trial.per_packet(name) * trial.forwarded for trial in self.trials)
        return spent / sum(trial.forwarded for trial in self.trials)

    @property
    def shares(self) -> dict[int, Share]:
        """What part of its time each CPU worked over all blocks, and at what."""
        by_cpu: dict[int, list[Times]] = {}
        for times in (times for trial in self.trials for times in trial.times):
            by_cpu.setdefault(times.cpu, []).append(times)
        return {cpu: share_of(spent) for cpu, spent in sorted(by_cpu.items())}

    @property
    def by_cpu(self) -> dict[int, float]:
        """What part of its time each CPU was busy; of those that were."""
        busy = {cpu: part.busy for cpu, part in self.shares.items()}
        return {cpu: part for cpu, part in busy.items() if part}

    @property
    def over_time(self) -> Trial | None:
        """The first block, of those that kept the rate, in which CPUs were read more often."""
        return next((trial for trial in self.trials if trial.kept and trial.intervals), None)

    @property
    def sample(self) -> Sample:
        """CPU time of a packet by block, in ns, of blocks that kept the rate."""
        return {trial.block: trial.per_packet() for trial in self.trials if trial.kept}


@dataclass(frozen=True)
class CpuSummary:
    """All settings at one rate of one traffic, the baseline first, then in the order given."""

    traffic: str
    rate: int
    baseline: str | None
    usages: tuple[Usage, ...]
    changes: tuple[Change, ...]

    def change(self, setting: str) -> Change | None:
        """Return what a setting differs from the baseline; None if it is not compared."""
        return next((change for change in self.changes if change.setting == setting), None)


@once
def of(run: Run) -> list[CpuSummary]:
    """Return the CPU time of a run's packets, of each traffic and rate."""
    found = run.in_order(trials(run.rows(TimesRow), run.trials, run.rows(IntervalRow)))
    kinds = in_order([(trial.traffic, trial.rate) for trial in found])
    return [
        _summary(
            kind,
            [trial for trial in found if (trial.traffic, trial.rate) == kind],
            run.document.plan.baseline,
        )
        for kind in kinds
    ]


def false_alarms(found: Sequence[CpuSummary]) -> FalseAlarms:
    """Return how often the baseline differed significantly from itself."""
    again = [change for summary in found if (change := summary.change(AGAIN)) is not None]
    return certainty.false_alarms([change.difference for change in again])


def _summary(kind: tuple[str, int], found: Sequence[Trial], baseline: str | None) -> CpuSummary:
    names = list(dict.fromkeys(trial.setting for trial in found))
    names.sort(key=lambda name: name != baseline)
    usages = tuple(
        Usage(name, tuple(trial for trial in found if trial.setting == name)) for name in names
    )
    known = names[0] == baseline
    return CpuSummary(
        *kind,
        baseline=baseline if known else None,
        usages=usages,
        changes=tuple(_changes(usages)) if known else (),
    )


def resolution_of(usages: Sequence[Usage]) -> float:
    """Return that of the means of these: no greater than that of the worst block."""
    return max(trial.resolution for usage in usages for trial in usage.trials)


def _changes(usages: Sequence[Usage]) -> list[Change]:
    first, *others = usages
    resolution = resolution_of(usages)
    compared = [
        (
            usage.setting,
            certainty.difference(first.sample, usage.sample, resolution=resolution, relative=True),
        )
        for usage in others
    ]
    return [Change(setting, found) for setting, found in compared if found is not None]
