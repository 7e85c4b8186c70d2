# SPDX-License-Identifier: GPL-2.0-or-later
"""What one flow of a trial hands over, and how it is stored."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

from skblab_analysis.base.checked import RefusedError
from skblab_analysis.base.real import Real
from skblab_analysis.base.rows import NO_UNIT, Column, Numbered, Table
from skblab_analysis.base.whole import Positive, Whole
from skblab_analysis.base.words import share
from skblab_analysis.formats.pathlat import PacketTimes, ReceiverDocument, SenderDocument
from skblab_analysis.trials.rows import OfRow, OfTrial, TrialRow

MEASURE = "traffic"
# Of more delays below zero, a share, the others say nothing of all.
MOST_BELOW_ZERO = 0.001
Kind = Literal["inter_arrival", "inter_arrival_error", "jitter", "delay"]
KINDS: tuple[Kind, ...] = ("inter_arrival", "inter_arrival_error", "jitter", "delay")
# Of TCP, see tcp/rows.py.
TcpKind = Literal["connect", "request", "transaction", "since_due", "rtt"]
TimeKind = Literal[Kind, TcpKind]


class FlowTimesRow(OfRow):
    """One kind of time of a flow in a trial, as its receiver says; of TCP, as its client says."""

    kind: Annotated[
        TimeKind,
        Column(
            NO_UNIT,
            "`inter_arrival`, `inter_arrival_error` (how far that is from the interval that was "
            "asked for), `jitter` (RFC 4689) or `delay` (one-way). Of TCP: `connect` "
            "(until a connection was there), `request` (until its answer was whole), `transaction` "
            "(both), `since_due` (from when it was due) or `rtt` (smoothed, of the kernel).",
        ),
    ]
    count: Annotated[Whole, Column(NO_UNIT, "Times that were taken.")]
    least: Annotated[Whole, Column("ns", "The smallest.")]
    mean: Annotated[Real, Column("ns", "The mean.")]
    deviation: Annotated[Real, Column("ns", "The standard deviation.")]
    most: Annotated[Whole, Column("ns", "The largest.")]
    p50: Annotated[Whole | None, Column("ns", "Median; null: too few.")] = None
    p99: Annotated[Whole | None, Column("ns", "99th percentile; null: too few.")] = None
    p99_9: Annotated[Whole | None, Column("ns", "99.9th percentile; null: too few.")] = None
    negative: Annotated[
        Whole | None,
        Column(NO_UNIT, "Times below zero, which are in no other figure; null: not known."),
    ] = None
    clock_off: Annotated[
        Whole | None,
        Column(
            "ns",
            "A delay between two machines may be longer or shorter by so much, as nobody knows "
            "better what their clocks differ by; null: one clock, or no delay.",
        ),
    ] = None

    @classmethod
    def of(
        cls,
        head: Mapping[str, Any],
        kind: TimeKind,
        times: PacketTimes,
        clock_off: int | None = None,
    ) -> FlowTimesRow | None:
        """Return the row of a trial with this head; None if no time was taken."""
        if times.min_ns is None or times.max_ns is None:
            return None
        return cls(
            **head,
            kind=kind,
            count=times.count,
            least=times.min_ns,
            mean=times.mean_ns or 0.0,
            deviation=times.sd_ns or 0.0,
            most=times.max_ns,
            p50=times.percentiles_ns.get("50"),
            p99=times.percentiles_ns.get("99"),
            p99_9=times.percentiles_ns.get("99.9"),
            negative=times.negative,
            clock_off=clock_off,
        )


class Exchanged(OfTrial):
    """A flow of a trial: what its sender and its receiver said; `rate` was asked for.

    `clock_off` is how far delays may be off, ns, where the clocks of two machines were compared.
    """

    rate: Positive | None = None
    sender: SenderDocument
    receiver: ReceiverDocument
    clock_off: Whole | None = None

    def by_clocks(self, off: int | str) -> Exchanged:
        """Return it with how far delays may be off, ns, or without delays, and why."""
        stamps, delay = self.receiver.stamps, self.receiver.delay
        why = off if isinstance(off, str) else None
        if why is None and stamps is not None and stamps.stepped_ns:
            why = "the receiver's clock was set while packets came"
        if why is None and delay is not None and delay.negative:
            below = delay.negative / (delay.count + delay.negative)
            # All figures are of the others.
            if below > MOST_BELOW_ZERO:
                why = f"{share(below, 0)} of them are below zero by what is known of the clocks"
        if isinstance(off, str) or why is not None:
            without = {"delay": None, "delay_unknown": why}
            return self.model_copy(update={"receiver": self.receiver.model_copy(update=without)})
        return self.model_copy(update={"clock_off": off})

    def row(self, trial: int) -> TrialRow:
        """Return the trial's row."""
        sender, receiver = self.sender, self.receiver
        late = sender.late
        missing = sender.sent - receiver.distinct
        # A socket also drops what is not of this flow, which nobody misses.
        dropped = min(receiver.socket.drops, max(missing, 0)) if receiver.socket else None
        return TrialRow(
            **self.head(trial),
            clock="wall",
            measure=MEASURE,
            rate=self.rate,
            sent=sender.sent,
            received=receiver.distinct,
            lost=missing - (dropped or 0),
            unsent=sender.unsent,
            dropped=dropped,
            duplicates=receiver.duplicates,
            reordered=receiver.reordered,
            send_rate=sender.rate_reached,
            receive_rate=receiver.rate,
            late=late.count if late else None,
            late_threshold=late.threshold_ns if late else None,
            late_mean=late.mean_ns if late else None,
            late_max=late.max_ns if late else None,
            packets=receiver.distinct,
        )

    def rows(self, trial: int) -> Iterator[Numbered]:
        """Yield a row for each kind of time; RefusedError if no packet came, or others did."""
        if not self.receiver.distinct:
            raise RefusedError(f"of {self.sender.sent} packets none came")
        if self.receiver.distinct > self.sender.sent:
            raise RefusedError(
                f"{self.receiver.distinct} packets came of {self.sender.sent} that were sent"
            )
        head = self.head(trial)
        for kind in KINDS:
            times: PacketTimes | None = getattr(self.receiver, kind)
            off = self.clock_off if kind == "delay" else None
            if times is not None and (row := FlowTimesRow.of(head, kind, times, off)):
                yield row


TABLES = (
    Table(
        FlowTimesRow,
        "flow_times",
        "one kind of time of a flow in a trial",
        later=True,
    ),
)
