# SPDX-License-Identifier: GPL-2.0-or-later
"""Flows by setting over all blocks: packets, rates and times.

A figure of a setting is the median of its blocks; the smallest and the largest time are those of
all blocks. Settings are compared block by block with the first one, by the 99th percentile of how
far inter-arrival times are from what was asked for; of flows without an interval, by their rate.
A setting that asks for another rate than the first one is not compared with it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median

from skblab_analysis.base import certainty
from skblab_analysis.base.certainty import Change
from skblab_analysis.base.rows import by_trial
from skblab_analysis.formats.published import Published, of_parameters
from skblab_analysis.load import Run, once
from skblab_analysis.traffic.rows import MEASURE, FlowTimesRow, Kind, TimeKind
from skblab_analysis.traffic.times import Times, by_kind
from skblab_analysis.trials.rows import TrialRow

# A receiver's percentiles are those of a histogram whose buckets are so wide.
BUCKET = 1 / 128
# What settings are compared by.
COMPARED: Kind = "inter_arrival_error"


@dataclass(frozen=True)
class Losses:
    """Shares: of packets that were tried those not sent, of those that were sent the others.

    None: not known.
    """

    unsent: float | None
    dropped: float | None
    lost: float | None


def _known(values: Iterable[int | None]) -> int | None:
    """Return a sum; None if one of them is not known."""
    found = list(values)
    return None if None in found else sum(value or 0 for value in found)


def _share(part: int | None, whole: int) -> float | None:
    return part / whole if part is not None and whole else None


@dataclass(frozen=True)
class Exchange:
    """A setting of a flow: its good trials, one in each block, and its times by kind."""

    setting: str
    trials: tuple[TrialRow, ...]
    times: dict[TimeKind, Times]
    rows: tuple[FlowTimesRow, ...]
    published: Published | None = None

    @property
    def rate(self) -> int | None:
        """Packets a second that were asked for; None: no rate was."""
        return self.trials[0].rate

    @property
    def off(self) -> float | None:
        """How far the rate that was sent is from it, a share of it; None if one is not known."""
        sent, asked = self.send_rate, self.rate
        return sent / asked - 1 if sent is not None and asked else None

    @property
    def send_rate(self) -> float | None:
        """Packets a second that were sent, the median of blocks."""
        rates = [row.send_rate for row in self.trials if row.send_rate is not None]
        return median(rates) if rates else None

    @property
    def receive_rate(self) -> float | None:
        """Packets a second that came, the median of blocks."""
        rates = [row.receive_rate for row in self.trials if row.receive_rate is not None]
        return median(rates) if rates else None

    @property
    def sent(self) -> int:
        """Packets that were sent, in all blocks."""
        return sum(row.sent or 0 for row in self.trials)

    @property
    def lost(self) -> int:
        """Packets that disappeared between sender and receiver, in all blocks."""
        return sum(row.lost or 0 for row in self.trials)

    @property
    def dropped(self) -> int | None:
        """Packets that the receiver's own socket dropped, in all blocks; None if it never said."""
        return _known(row.dropped for row in self.trials)

    @property
    def unsent(self) -> int | None:
        """Packets that the sender could not send, in all blocks; None if it never said."""
        return _known(row.unsent for row in self.trials)

    @property
    def losses(self) -> Losses:
        """What became of packets that did not come."""
        sent, unsent = self.sent, self.unsent
        return Losses(
            unsent=_share(unsent, sent + (unsent or 0)),
            dropped=_share(self.dropped, sent),
            lost=_share(self.lost, sent),
        )

    def sample(self) -> certainty.Sample:
        """Return what it is compared by: a figure of each block."""
        errors = {
            row.block: float(row.p99) for row in self.rows if row.kind == COMPARED and row.p99
        }
        if errors:
            return errors
        return {row.block: row.receive_rate for row in self.trials if row.receive_rate}

    @property
    def by_time(self) -> bool:
        """Whether that is a time, and not a rate."""
        return any(row.kind == COMPARED and row.p99 for row in self.rows)


@dataclass(frozen=True)
class FlowSummary:
    """All settings of one flow, the baseline first; `rate`: the one that this asks for."""

    flow: str
    rate: int | None
    baseline: str
    exchanges: tuple[Exchange, ...]
    changes: tuple[Change, ...]

    @property
    def by_time(self) -> bool:
        """Whether settings are compared by a time, and not by a rate."""
        first = [one for one in self.exchanges if one.setting == self.baseline]
        return all(one.by_time for one in first or self.exchanges)

    def change(self, setting: str) -> Change | None:
        """Return what a setting differs from the baseline; None if it is not compared."""
        return next((change for change in self.changes if change.setting == setting), None)


@once
def of(run: Run) -> list[FlowSummary]:
    """Return the flows of a run."""
    good = [row for row in run.trials if row.measure == MEASURE and row.state == "good"]
    times = by_trial(run.rows(FlowTimesRow))
    published = of_parameters(run.document.plan.parameters)
    return [
        _flow(run, flow, [row for row in good if row.traffic == flow], times, published)
        for flow in dict.fromkeys(row.traffic for row in good)
    ]


def _flow(
    run: Run,
    flow: str,
    good: Sequence[TrialRow],
    times: dict[int, list[FlowTimesRow]],
    published: dict[str, Published],
) -> FlowSummary:
    # Those of the plan in its order, and first what others are compared with.
    found = dict.fromkeys(row.setting for row in good)
    names = run.setting_order(found)
    exchanges = tuple(
        _exchange(
            name,
            tuple(row for row in good if row.setting == name),
            times,
            published.get(name),
        )
        for name in names
    )
    order = run.document.plan.settings
    baseline = order[0] if order else names[0]
    return FlowSummary(
        flow=flow,
        rate=next((one.rate for one in exchanges if one.setting == baseline), None),
        baseline=baseline,
        exchanges=exchanges,
        changes=tuple(_changes(exchanges, baseline)),
    )


def _exchange(
    name: str,
    trials: tuple[TrialRow, ...],
    times: dict[int, list[FlowTimesRow]],
    published: Published | None,
) -> Exchange:
    rows = tuple(row for trial in trials for row in times.get(trial.trial, ()))
    return Exchange(
        setting=name,
        trials=trials,
        times=by_kind(rows),
        rows=rows,
        published=published,
    )


def _changes(exchanges: Sequence[Exchange], baseline: str) -> list[Change]:
    by_name = {exchange.setting: exchange for exchange in exchanges}
    first = by_name.get(baseline)
    if first is None:
        return []
    resolution = BUCKET if first.by_time else 0.0
    found = [
        (
            other.setting,
            certainty.difference(
                first.sample(), other.sample(), resolution=resolution, relative=True
            ),
        )
        for other in exchanges
        if other.setting != baseline and other.by_time == first.by_time and other.rate == first.rate
    ]
    return [Change(setting, change) for setting, change in found if change is not None]
