# SPDX-License-Identifier: GPL-2.0-or-later
"""TCP flows by setting over all blocks: what was completed, rates and times.

A figure of a setting is the median of its blocks; the smallest and the largest time are those of
all blocks. Settings are compared block by block with the first one. Requests and connections that
had times are compared by the 99th percentile of the time from when one was due until its answer was
whole. All else is by what was reached, transactions or bits a second. A setting that asks for
another rate, or for other times, than the first one is not compared with it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Literal

from skblab_analysis.base import certainty
from skblab_analysis.base.certainty import Change
from skblab_analysis.base.rows import by_trial
from skblab_analysis.load import Run, once
from skblab_analysis.tcp.rows import MEASURE, Kind, TcpRow, Unit
from skblab_analysis.traffic.rows import FlowTimesRow, TimeKind
from skblab_analysis.traffic.summary import BUCKET
from skblab_analysis.traffic.times import Times, by_kind

# What requests that were due at a time are compared by.
COMPARED: TimeKind = "since_due"


@dataclass(frozen=True)
class Asked:
    """A setting of a TCP flow: its good trials, one in each block, and its times by kind."""

    setting: str
    rows: tuple[TcpRow, ...]
    times: Mapping[TimeKind, Times]
    of_blocks: tuple[FlowTimesRow, ...]

    @property
    def asked(self) -> int | None:
        """Transactions or bits a second that were asked for; None: as many as possible."""
        return self.rows[0].asked

    @property
    def intervals(self) -> str:
        """Times between transactions that were asked for; empty: none were."""
        return self.rows[0].intervals

    @property
    def due(self) -> bool:
        """Whether transactions were due at times."""
        return COMPARED in self.times

    @property
    def reached(self) -> float | None:
        """Transactions or bits a second, the median of blocks."""
        found = [row.reached for row in self.rows if row.reached is not None]
        return median(found) if found else None

    @property
    def failed(self) -> float | None:
        """Transactions that failed, of a stream connections: a share of those begun."""
        attempted = sum(row.attempted for row in self.rows)
        return sum(row.failed for row in self.rows) / attempted if attempted else None

    @property
    def retransmitted(self) -> float | None:
        """Segments that were sent again, a share of all; None: not known."""
        known = [row for row in self.rows if row.segments and row.retransmitted is not None]
        segments = sum(row.segments or 0 for row in known)
        return sum(row.retransmitted or 0 for row in known) / segments if segments else None

    def sample(self, by_time: bool) -> certainty.Sample:
        """Return what it is compared by, a figure of each block: a time in ns, or a rate."""
        if by_time:
            return {
                row.block: float(row.p99)
                for row in self.of_blocks
                if row.kind == COMPARED and row.p99
            }
        return {row.block: row.reached for row in self.rows if row.reached}


@dataclass(frozen=True)
class TcpSummary:
    """All settings of one TCP flow, the baseline first if it was measured."""

    flow: str
    kind: Kind
    unit: Unit
    baseline: str
    asked: tuple[Asked, ...]
    changes: tuple[Change, ...]
    by_time: bool

    @property
    def figure(self) -> str:
        """What settings are compared by: a percentile, or the rate."""
        return "p99" if self.by_time else "rate"

    @property
    def part(self) -> str:
        """The kind of time that is compared; empty: it is the rate."""
        return COMPARED if self.by_time else ""

    @property
    def compared_in(self) -> Literal["ns", "1/s", "bits/s"]:
        """The unit of that."""
        return "ns" if self.by_time else self.unit

    def change(self, setting: str) -> Change | None:
        """Return what a setting differs from the baseline; None if it is not compared."""
        return next((change for change in self.changes if change.setting == setting), None)


@once
def of(run: Run) -> list[TcpSummary]:
    """Return the TCP flows of a run."""
    good = {row.trial for row in run.trials if row.measure == MEASURE and row.state == "good"}
    rows = [row for row in run.rows(TcpRow) if row.trial in good]
    times = by_trial(row for row in run.rows(FlowTimesRow) if row.trial in good)
    return [
        _flow(run, flow, [row for row in rows if row.traffic == flow], times)
        for flow in dict.fromkeys(row.traffic for row in rows)
    ]


def _flow(
    run: Run, flow: str, rows: Sequence[TcpRow], times: Mapping[int, Sequence[FlowTimesRow]]
) -> TcpSummary:
    found = dict.fromkeys(row.setting for row in rows)
    names = run.setting_order(found)
    asked = [
        _asked(name, tuple(row for row in rows if row.setting == name), times) for name in names
    ]
    baseline = run.document.plan.baseline or names[0]
    first = next((one for one in asked if one.setting == baseline), None)
    by_time = bool(first and first.sample(True))
    return TcpSummary(
        flow=flow,
        kind=rows[0].kind,
        unit=rows[0].unit,
        baseline=baseline,
        asked=tuple(asked),
        changes=tuple(_changes(first, asked, by_time)) if first else (),
        by_time=by_time,
    )


def _asked(
    name: str, rows: tuple[TcpRow, ...], times: Mapping[int, Sequence[FlowTimesRow]]
) -> Asked:
    of_blocks = tuple(row for one in rows for row in times.get(one.trial, ()))
    return Asked(setting=name, rows=rows, times=by_kind(of_blocks), of_blocks=of_blocks)


def resolution(by_time: bool) -> float:
    """Return what two figures may differ by and be the same, a share: a histogram's bucket."""
    return BUCKET if by_time else 0.0


def _changes(first: Asked, asked: Sequence[Asked], by_time: bool) -> list[Change]:
    found = [
        (
            other.setting,
            certainty.difference(
                first.sample(by_time),
                other.sample(by_time),
                resolution=resolution(by_time),
                relative=True,
            ),
        )
        for other in asked
        if other is not first
        and (other.asked, other.intervals, other.due) == (first.asked, first.intervals, first.due)
    ]
    return [Change(setting, change) for setting, change in found if change is not None]
