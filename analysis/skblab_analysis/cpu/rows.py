# SPDX-License-Identifier: GPL-2.0-or-later
"""What a trial of CPU time hands over, and how it is stored."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Annotated

from skblab_analysis.base.checked import RefusedError
from skblab_analysis.base.offered import AtRate
from skblab_analysis.base.real import Real
from skblab_analysis.base.rows import NO_UNIT, Column, Numbered, Row, Table, by_trial
from skblab_analysis.base.whole import Positive, Whole
from skblab_analysis.trials.rows import OfRow, OfTrial, TrialRow, offered_trial

# /proc/stat counts in hundredths of a second (USER_HZ), whatever the kernel's own tick.
TICK_NS = 10_000_000


class Times(Row):
    """What one CPU did in a trial, by /proc/stat."""

    cpu: Annotated[Whole, Column(NO_UNIT, "Number of the CPU.")]
    user: Annotated[Whole, Column("ns", "In programs, those with a nice value included.")]
    system: Annotated[Whole, Column("ns", "In the kernel for programs and its own threads.")]
    interrupt: Annotated[Whole, Column("ns", "In interrupt handlers.")]
    softirq: Annotated[Whole, Column("ns", "In softirqs.")]
    idle: Annotated[Whole, Column("ns", "With nothing to do, or waiting for a disk.")]
    steal: Annotated[Whole, Column("ns", "Waiting for the host, where it is a guest's CPU.")]

    @property
    def busy(self) -> int:
        """All that it worked, in ns."""
        return self.user + self.system + self.interrupt + self.softirq


class TimesRow(Times, OfRow):
    """What one CPU did, and in which trial."""

    rate: Annotated[Whole, Column("packets/s", "Rate that was asked for.")]


class Interval(Times):
    """What one CPU did in a part of a trial: from `begin` to `end`, since it was first read."""

    begin: Annotated[Whole, Column("ns", "When it begins, since the trial's first reading.")]
    end: Annotated[Whole, Column("ns", "When it ends.")]


class IntervalRow(Interval, OfRow):
    """What one CPU did in a part of a trial, and of which trial."""

    rate: Annotated[Whole, Column("packets/s", "Rate that was asked for.")]


class Worked(OfTrial):
    """A trial of CPU time: packets put out and forwarded, rates a second, and each CPU's times.

    `intervals` are what they did in its parts, if they were read more often.
    """

    rate: Positive
    tried: Whole
    forwarded: Whole
    offered_rate: Real
    times: tuple[Times, ...]
    intervals: tuple[Interval, ...] = ()

    @property
    def per_packet(self) -> float:
        """CPU time of a forwarded packet in ns, all CPUs together; 0 if none was forwarded."""
        busy = sum(cpu.busy for cpu in self.times)
        return busy / self.forwarded if self.forwarded else 0.0

    def row(self, trial: int) -> TrialRow:
        """Return the trial's row."""
        return self.offered(trial, "cpu", self.rate, self.tried, self.forwarded, self.offered_rate)

    def rows(self, trial: int) -> Iterator[Numbered]:
        """Yield a row for each CPU; RefusedError if there is no packet to divide by."""
        if not self.forwarded:
            raise RefusedError(f"of {self.tried} packets none was forwarded")
        for cpu in self.times:
            yield TimesRow(**self.head(trial), rate=self.rate, **dict(cpu))
        for part in self.intervals:
            yield IntervalRow(**self.head(trial), rate=self.rate, **dict(part))


@dataclass(frozen=True)
class Trial(AtRate):
    """A good trial as it was recorded: its packets, and the times of each CPU."""

    setting: str
    block: int
    traffic: str
    forwarded: int
    times: tuple[Times, ...]
    intervals: tuple[Interval, ...] = ()

    def per_packet(self, name: str = "busy") -> float:
        """Return one of its times a packet, in ns, all CPUs together."""
        spent: list[int] = [getattr(cpu, name) for cpu in self.times]
        return sum(spent) / self.forwarded

    @property
    def resolution(self) -> float:
        """What reading each CPU in whole ticks may make of its figure, as a part of it."""
        return len(self.times) * TICK_NS / (self.per_packet() * self.forwarded or 1)


def trials(
    rows: Iterable[TimesRow], of: Iterable[TrialRow], parts: Iterable[IntervalRow] = ()
) -> list[Trial]:
    """Return the good trials of CPU time, from rows of these tables."""
    times, intervals = by_trial(rows), by_trial(parts)
    return [
        Trial(
            **offered_trial(row),
            forwarded=row.forwarded,
            times=tuple(times[row.trial]),
            intervals=tuple(intervals.get(row.trial, ())),
        )
        for row in of
        if row.state == "good" and row.trial in times and row.rate and row.forwarded
    ]


def by_setting(found: Iterable[Trial]) -> list[list[float]]:
    """Return each setting's CPU time a packet in its blocks, in ns, at each rate and traffic.

    Of blocks that kept the rate.
    """
    figures: dict[tuple[str, int, str], list[float]] = {}
    for trial in found:
        blocks = figures.setdefault((trial.traffic, trial.rate, trial.setting), [])
        if trial.kept:
            blocks.append(trial.per_packet())
    return list(figures.values())


TABLES = (
    Table(
        TimesRow,
        "cpu",
        "what one CPU of the device under test did while packets were offered at a rate",
        later=True,
    ),
    Table(
        IntervalRow,
        "cpu_intervals",
        "what one CPU did in a part of a trial of CPU time, where `every_seconds` asks for it",
        later=True,
    ),
)
