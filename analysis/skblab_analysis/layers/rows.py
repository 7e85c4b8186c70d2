# SPDX-License-Identifier: GPL-2.0-or-later
"""What a trial of the layer probe hands over in a sweep, and how histograms are stored."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal

from skblab_analysis.base.checked import RefusedError
from skblab_analysis.base.real import Real
from skblab_analysis.base.rows import BY_ROW, NO_UNIT, Column, Numbered, Plain, Table, Text
from skblab_analysis.base.whole import Positive, Whole
from skblab_analysis.formats.pathlat import AnyPath, PathlatDocument, PathName
from skblab_analysis.formats.pktsink import ArrivalsDocument
from skblab_analysis.late.rows import rows as late_rows
from skblab_analysis.trials.rows import OfTrial, TrialRow

# The path of a router's packets.
PATH: PathName = "forward"
# Of packets that came in, before it is known which path they go.
IN: AnyPath = "in"
Kind = Literal["layer", "path", "since_entry", "napi", "arrival"]
Counted = Literal["packet", "poll"]
Unit = Literal["ns", "instructions"]
BY_COUNTED = "by column `counted`"
Quantile = Real | None


class Probed(OfTrial):
    """What a trial of the layer probe is of: packets put out and forwarded, rates a second.

    `arrivals`: what the tester saw of them, where late packets were asked for.
    """

    rate: Positive
    tried: Whole
    forwarded: Whole
    offered_rate: Real
    arrivals: ArrivalsDocument | None = None

    def check(self, document: PathlatDocument, limit: float) -> None:
        """Raise RefusedError if the probe saw fewer packets leave than were forwarded.

        By more than `limit` per cent; those that were merged are seen as one. Also if the tester's
        times are not to be trusted.
        """
        if self.arrivals is not None and (doubts := list(self.arrivals.doubts())):
            raise RefusedError(f"the tester's times are not to be trusted: {'; '.join(doubts)}")
        seen = document.path(PATH).ends.transmitted + document.merged
        if self.forwarded - seen > limit / 100 * self.forwarded:
            raise RefusedError(f"the probe saw {seen} of {self.forwarded} forwarded packets")

    def row(self, trial: int) -> TrialRow:
        """Return the trial's row."""
        return TrialRow(
            **self.head(trial),
            clock="wall",
            measure="layers",
            rate=self.rate,
            tried=self.tried,
            forwarded=self.forwarded,
            lost=max(self.tried - self.forwarded, 0),
            send_rate=self.offered_rate,
        )

    def late(self, trial: int, document: PathlatDocument) -> Iterator[Numbered]:
        """Yield rows of late packets, if they were asked for."""
        if document.late is not None and self.arrivals is not None:
            yield from late_rows(
                *(self, trial, document.late, self.arrivals),
                rate=self.rate,
                forwarded=self.forwarded,
            )


class OfSeries(Numbered):
    """What a histogram is of."""

    path: Annotated[
        AnyPath | None,
        Column(
            NO_UNIT,
            "Path of the packets: `receive`, `forward` or `send`; `in` for all that came in, "
            "before their path is known; null for `napi` and `arrival`.",
        ),
    ]
    kind: Annotated[
        Kind,
        Column(
            NO_UNIT,
            "`layer`, `path` (path time), `since_entry` (time since first entry), `napi`, "
            "or `arrival` (a tester's: latency, inter-arrival time, jitter).",
        ),
    ]
    layer: Annotated[
        Text, Column(NO_UNIT, "Name of the interval, unique within trial, path and kind.")
    ]
    from_point: Annotated[Text, Column(NO_UNIT, "Point where the interval begins.")]
    to_point: Annotated[Text, Column(NO_UNIT, "Point where the interval ends.")]
    context: Annotated[
        Text | None,
        Column(
            NO_UNIT,
            "For `napi`: where the poll ran (softirq, ksoftirqd, kthread, busy_poll, netpoll).",
        ),
    ]
    counted: Annotated[Counted, Column(NO_UNIT, "What one count is: `packet` or `poll`.")]
    unit: Annotated[Unit, Column(NO_UNIT, "Unit of the values: `ns` or `instructions`.")]


class BucketRow(OfSeries):
    """A bucket."""

    lower: Annotated[Whole, Column(BY_ROW, "Smallest value of the bucket, inside it.")]
    upper: Annotated[Whole, Column(BY_ROW, "Largest value of the bucket, inside it.")]
    count: Annotated[Whole, Column(BY_COUNTED, "Values in the bucket.")]


class SeriesRow(OfSeries):
    """A histogram without its buckets."""

    count: Annotated[Whole, Column(BY_COUNTED, "Values in the histogram.")]
    negative: Annotated[Whole, Column(BY_COUNTED, "Values below zero, kept out of the histogram.")]
    overflow: Annotated[
        Whole, Column(BY_COUNTED, "Values too large to store, kept out of the histogram.")
    ]
    work: Annotated[
        Whole | None,
        Column("packets", "For NAPI times: packets that these polls handled in all."),
    ]
    sum: Annotated[Whole, Column(BY_ROW, "Exact sum of the values.")]
    min: Annotated[Whole | None, Column(BY_ROW, "Smallest value, exact.")]
    max: Annotated[Whole | None, Column(BY_ROW, "Largest value, exact.")]
    bounded: Annotated[
        bool | None,
        Column(NO_UNIT, "Whether `min` and `max` are not exact but bounds; null: they are exact."),
    ]
    mean: Annotated[Quantile, Column(BY_ROW, "Exact sum over count.")]
    p50: Annotated[
        Quantile, Column(BY_ROW, "Median, to 1/16, if `bounded` to 1/8; null below 20 values.")
    ]
    p90: Annotated[Quantile, Column(BY_ROW, "As `p50`; null below 100 values.")]
    p99: Annotated[Quantile, Column(BY_ROW, "As `p50`; null below 1 000 values.")]
    p99_9: Annotated[Quantile, Column(BY_ROW, "As `p50`; null below 10 000 values.")]
    p99_99: Annotated[Quantile, Column(BY_ROW, "As `p50`; null below 100 000 values.")]


# What kinds were called in version 1.
_KINDS = {"total": "path", "entry": "since_entry"}


def _older(row: Plain) -> Plain:
    return row | {"kind": _KINDS.get(row["kind"], row["kind"])}


BUCKETS = Table(
    BucketRow,
    "layers",
    "one bucket of one histogram that holds at least one value",
    version=3,
    older=_older,
)
SUMMARIES = Table(
    SeriesRow,
    "layers_summary",
    "one histogram: its exact figures, and percentiles from its buckets",
    version=3,
    older=_older,
)
TABLES = (BUCKETS, SUMMARIES)
