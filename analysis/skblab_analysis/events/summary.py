# SPDX-License-Identifier: GPL-2.0-or-later
"""Events per packet by setting, over all blocks, at each traffic and rate.

What is counted is divided by the packets that were forwarded while it was; shares and rates are
means over blocks. What perf counts is added up over CPUs and sockets.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import mean

from skblab_analysis.base.certainty import Sample
from skblab_analysis.base.offered import AtRate
from skblab_analysis.base.rows import by_trial
from skblab_analysis.events.rows import EventRow, Scope
from skblab_analysis.latency.summary import in_order
from skblab_analysis.load import Run, once
from skblab_analysis.trials.rows import TrialRow, offered_trial

PERF = "perf: "
# Units of what is counted, and so divided by packets; ns are of perf's clocks. All but joules are
# whole numbers.
WHOLE_COUNTS = ("", "bytes", "count", "ns")
COUNTED = (*WHOLE_COUNTS, "J")


@dataclass(frozen=True)
class Place:
    """What a figure is of."""

    collector: str
    scope: Scope
    number: int | None
    socket: int | None
    name: str


@dataclass(frozen=True)
class Figure:
    """One figure of a setting: per packet if `each`, else a mean.

    `running` is the least share of the time in which it was counted: below 1 it is an estimate,
    and no ratio is made of it. Without a value `why` says so.
    """

    value: float | None
    unit: str
    each: bool
    running: float = 1.0
    why: str = ""

    @property
    def estimated(self) -> bool:
        """Whether it was counted for a part of the time only."""
        return self.value is not None and self.running < 1


@dataclass(frozen=True)
class Counts:
    """A setting at a rate: its figures by place, and its trials."""

    setting: str
    figures: Mapping[Place, Figure]
    trials: tuple[Trial, ...]

    def of(self, collector: str, name: str, scope: Scope = "system") -> Figure | None:
        """Return a figure of the whole system, or of one scope without a number."""
        return self.figures.get(Place(collector, scope, None, None, name))

    def ratio(self, collector: str, of: str, to: str) -> float | None:
        """Return how many of one event there are to one of another, None if that is not known.

        Both have to have been counted all the time, and together.
        """
        above, below = self.of(collector, of), self.of(collector, to)
        if above is None or below is None or above.value is None or not below.value:
            return None
        if above.estimated or below.estimated:
            return None
        return above.value / below.value


@dataclass(frozen=True)
class Trial(AtRate):
    """A good trial as it was recorded."""

    setting: str
    block: int
    traffic: str
    rows: tuple[EventRow, ...]

    @property
    def sent(self) -> bool:
        """Whether packets were sent: nothing is where no collector can count."""
        return any(row.counted for row in self.rows)

    def has(self, collector: str) -> bool:
        """Whether a collector counted in it."""
        return any(row.counted for row in self.rows if row.collector == collector)


@dataclass(frozen=True)
class EventsSummary:
    """All settings at one rate of one traffic, the baseline first, then in the order given."""

    traffic: str
    rate: int
    settings: tuple[Counts, ...]
    baseline: str | None = None

    @property
    def collectors(self) -> list[str]:
        """What counted, in the order that it did."""
        places = (place for counts in self.settings for place in counts.figures)
        return list(dict.fromkeys(place.collector for place in places))

    def samples(self, counts: Counts) -> Iterator[tuple[Place, str, Sample, float, bool]]:
        """Yield figures of the whole system by block, of blocks that kept the rate.

        With each the unit in which it is recorded, its resolution, which is one count in all, and
        whether some block has none. What was counted for a part of the time only is left out.
        """
        kept = [trial for trial in counts.trials if trial.kept and trial.sent]
        by_block = {trial.block: (_figures([trial]), trial.rows) for trial in kept}
        for place, figure in counts.figures.items():
            if place.scope != "system" or figure.estimated:
                continue
            values = {
                block: found.value
                for block, (figures, _) in by_block.items()
                if (found := figures.get(place)) is not None and found.value is not None
            }
            if not values:
                continue
            packets = min(
                row.counted
                for _, rows in by_block.values()
                for row in rows
                if row.collector == place.collector and row.counted
            )
            resolution = 1 / packets if figure.unit in WHOLE_COUNTS else 0.0
            yield place, figure.unit, values, resolution, len(values) < len(by_block)

    def names(self, collector: str, scope: Scope = "system") -> list[str]:
        """Return the events of a collector, in its order."""
        places = (place for counts in self.settings for place in counts.figures)
        return list(
            dict.fromkeys(
                place.name
                for place in places
                if (place.collector, place.scope) == (collector, scope)
            )
        )


@once
def of(run: Run) -> list[EventsSummary]:
    """Return the events of a run, of each traffic and rate."""
    found = run.in_order(_trials(run.rows(EventRow), run.trials))
    kinds = in_order([(trial.traffic, trial.rate) for trial in found])
    baseline = run.document.plan.baseline
    return [
        EventsSummary(*kind, settings=_settings(found, kind, baseline), baseline=baseline)
        for kind in kinds
    ]


def _trials(rows: Iterable[EventRow], of: Iterable[TrialRow]) -> list[Trial]:
    events = by_trial(rows)
    return [
        Trial(
            **offered_trial(row),
            rows=tuple(events[row.trial]),
        )
        for row in of
        if row.state == "good" and row.trial in events and row.rate
    ]


def _settings(
    found: Sequence[Trial], kind: tuple[str, int], baseline: str | None
) -> tuple[Counts, ...]:
    of = [trial for trial in found if (trial.traffic, trial.rate) == kind]
    names = list(dict.fromkeys(trial.setting for trial in of))
    names.sort(key=lambda name: name != baseline)
    own = {name: tuple(trial for trial in of if trial.setting == name) for name in names}
    return tuple(Counts(name, _figures(trials), trials) for name, trials in own.items())


@dataclass
class _Sum:
    """The rows of one place, over blocks: a value of each trial, and its packets."""

    unit: str
    values: dict[int, float] = field(default_factory=dict)
    packets: dict[int, int] = field(default_factory=dict)
    running: float = 1.0
    why: str = ""

    def add(self, row: EventRow) -> None:
        self.packets[row.trial] = row.counted
        if row.value is None:
            self.why = row.why
            return
        self.values[row.trial] = self.values.get(row.trial, 0.0) + row.value
        self.running = min(self.running, 1.0 if row.running is None else row.running)

    def figure(self) -> Figure:
        each = self.unit in COUNTED
        # A part of the places says nothing of the whole.
        if self.why or not self.values:
            return Figure(None, self.unit, each, why=self.why)
        if not each:
            return Figure(mean(self.values.values()), self.unit, each, self.running)
        packets = sum(self.packets[trial] for trial in self.values)
        if not packets:
            return Figure(None, self.unit, each, why="no packet was forwarded")
        return Figure(sum(self.values.values()) / packets, self.unit, each, self.running)


def _figures(trials: Iterable[Trial]) -> dict[Place, Figure]:
    sums: dict[Place, _Sum] = {}
    for row in (row for trial in trials for row in trial.rows):
        if row.collector.startswith(PERF):
            place = Place(row.collector, "system", None, None, row.name)
        else:
            place = Place(row.collector, row.scope, row.number, row.socket, row.name)
        sums.setdefault(place, _Sum(row.unit)).add(row)
    return {place: of.figure() for place, of in sums.items()}
