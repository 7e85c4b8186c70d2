# SPDX-License-Identifier: GPL-2.0-or-later
"""What a latency trial hands over, and how it is stored."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Annotated, Literal

from skblab_analysis.base.checked import RefusedError
from skblab_analysis.base.offered import AtRate, offered_rate
from skblab_analysis.base.real import PositiveReal, Real
from skblab_analysis.base.rows import NO_UNIT, Column, Numbered, Table
from skblab_analysis.base.whole import Positive, Signed, Whole
from skblab_analysis.formats.pktsink import ArrivalsDocument, Gap
from skblab_analysis.layers.series import Series, from_arrivals
from skblab_analysis.trials.rows import OfRow, OfTrial, TrialRow, older_head

# By which percentile settings are compared.
COMPARED = 0.99


class LateRow(OfRow):
    """Packets that were late by one threshold."""

    rate: Annotated[Whole, Column("packets/s", "Rate that was asked for.")]
    threshold: Annotated[Whole, Column("ns", "Latency from which on a packet is late.")]
    in_a_row: Annotated[Whole, Column("packets", "Late packets in a row that are an anomaly.")]
    packets: Annotated[Whole, Column("packets", "Packets of which the latency is known.")]
    late: Annotated[Whole, Column("packets", "Late ones among them.")]
    anomalies: Annotated[Whole, Column(NO_UNIT, "Maximal runs of so many late packets, or more.")]
    in_anomalies: Annotated[Whole, Column("packets", "Packets in all of these.")]
    longest: Annotated[Whole, Column("packets", "Packets in the longest of these.")]
    not_recorded: Annotated[Whole, Column(NO_UNIT, "Those of which `anomalies` has no row.")]


class AnomalyRow(Numbered):
    """Packets late in a row, or numbers left out in one place."""

    kind: Annotated[
        Literal["late", "gap"],
        Column(NO_UNIT, "`late`, or `gap`: packets that did not come then."),
    ]
    threshold: Annotated[
        Whole | None, Column("ns", "Latency of a late packet; null for `gap`.")
    ] = None
    sequence: Annotated[
        Whole,
        Column(NO_UNIT, "Number of its first packet; of a gap, of the first packet behind it."),
    ]
    packets: Annotated[Whole, Column("packets", "Packets in it.")]
    begin: Annotated[Whole, Column("ns", "Its first packet's arrival, since the trial's first.")]
    end: Annotated[Whole, Column("ns", "Its last packet's arrival, since the trial's first.")]
    sent_span: Annotated[
        Signed | None, Column("ns", "From the first one's stamp to the last one's.")
    ] = None
    latency_min: Annotated[Whole | None, Column("ns", "The smallest latency in it.")] = None
    latency_mean: Annotated[Real | None, Column("ns", "The mean latency in it.")] = None
    latency_max: Annotated[Whole | None, Column("ns", "The largest latency in it.")] = None
    open_begin: Annotated[bool | None, Column(NO_UNIT, "Whether the data begins with it.")] = None
    open_end: Annotated[bool | None, Column(NO_UNIT, "Whether the data ends with it.")] = None


class Arrivals(OfTrial):
    """A latency trial: what was sent at which rate (packets per second), and how it arrived.

    `tried` are packets that the generator put out, those among them that the first device refused
    included; `took` is in seconds.
    """

    rate: Positive
    tried: Whole
    seconds: PositiveReal
    took: Real
    document: ArrivalsDocument

    @property
    def lost(self) -> int:
        """Packets that never came."""
        return max(self.document.packets.missing(self.tried), 0)

    def row(self, trial: int) -> TrialRow:
        """Return the trial's row."""
        packets = self.document.packets
        return TrialRow(
            **self.head(trial),
            clock="wall",
            measure="tester" if self.part == "tester" else "latency",
            rate=self.rate,
            tried=self.tried,
            received=packets.distinct,
            lost=self.lost,
            duplicates=packets.duplicates,
            reordered=packets.reordered,
            send_rate=offered_rate(self.tried, self.seconds, self.took),
            packets=packets.distinct,
        )

    def rows(self, trial: int) -> Iterator[Numbered]:
        """Yield its histograms and the rows of `late` and `anomalies`.

        RefusedError if its times are not to be trusted.
        """
        document = self.document
        doubts = list(document.doubts())
        if not document.packets.distinct:
            doubts.append(f"of {self.tried} packets none came")
        if doubts:
            raise RefusedError(f"the times are not to be trusted: {'; '.join(doubts)}")
        for series in from_arrivals(trial, document):
            yield from series.rows()
        head = self.head(trial)
        for late in document.late:
            yield LateRow(
                **head,
                rate=self.rate,
                threshold=late.threshold_ns,
                in_a_row=late.in_a_row,
                packets=document.latency.count,
                late=late.packets_late,
                anomalies=late.runs.count,
                in_anomalies=late.runs.packets,
                longest=late.runs.longest,
                not_recorded=late.runs.not_recorded,
            )
        for late in document.late:
            for run in late.runs.recorded:
                yield _anomaly(trial, "late", run).model_copy(
                    update={
                        "threshold": late.threshold_ns,
                        "sent_span": run.sent_ns,
                        "latency_min": run.min_ns,
                        "latency_mean": run.mean_ns,
                        "latency_max": run.max_ns,
                        "open_begin": run.open_begin,
                        "open_end": run.open_end,
                    }
                )
        for gap in document.gaps.recorded:
            yield _anomaly(trial, "gap", gap)


def by_setting(
    trials: Iterable[TrialRow], of_trial: Callable[[int], Sequence[Series]]
) -> list[list[float]]:
    """Return each setting's compared percentile in its blocks, in ns, at each rate and traffic.

    Of blocks that kept the rate. `of_trial` has the histograms of a trial by its number.
    """
    delays: dict[tuple[str, int, str], list[float]] = {}
    for row in trials:
        if row.measure != "latency" or row.state != "good" or row.rate is None:
            continue
        blocks = delays.setdefault((row.traffic, row.rate, row.setting), [])
        if AtRate(row.rate, row.send_rate or 0.0).kept:
            [found] = [series for series in of_trial(row.trial) if series.layer == "latency"]
            value = found.histogram.quantile(COMPARED)
            blocks += [] if value is None else [value]
    return list(delays.values())


def _anomaly(trial: int, kind: Literal["late", "gap"], found: Gap) -> AnomalyRow:
    return AnomalyRow(
        trial=trial,
        kind=kind,
        sequence=found.sequence,
        packets=found.packets,
        begin=found.begin_ns,
        end=found.end_ns,
    )


TABLES = (
    Table(
        LateRow,
        "late",
        "packets of one latency trial that were late by one threshold",
        later=True,
        version=2,
        older=older_head,
    ),
    Table(
        AnomalyRow,
        "anomalies",
        "one anomaly of a latency trial: packets late in a row, or numbers left out in one place",
        later=True,
    ),
)
