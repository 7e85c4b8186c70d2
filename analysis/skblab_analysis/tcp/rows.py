# SPDX-License-Identifier: GPL-2.0-or-later
"""What one TCP flow of a trial hands over, and how it is stored."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Final, Literal

from skblab_analysis.base.checked import RefusedError
from skblab_analysis.base.real import Real
from skblab_analysis.base.rows import BY_ROW, NO_UNIT, Column, Numbered, Table, Text
from skblab_analysis.base.whole import Positive, Whole
from skblab_analysis.formats.pathlat import PacketTimes
from skblab_analysis.formats.tcp import (
    Tally,
    TcpExchangeDocument,
    TcpServeDocument,
    TcpStreamDocument,
)
from skblab_analysis.traffic.rows import FlowTimesRow, TcpKind
from skblab_analysis.trials.rows import OfRow, OfTrial, TrialRow

MEASURE: Final = "tcp"
Kind = Literal["connections", "requests", "stream"]
Unit = Literal["1/s", "bits/s"]
KINDS: Mapping[str, Kind] = {"tcp_crr": "connections", "tcp_rr": "requests"}
# In the order in which a table has them; `since_due` contains all others.
TIMES: tuple[TcpKind, ...] = ("connect", "request", "transaction", "since_due", "rtt")


class TcpRow(OfRow):
    """A TCP flow of a trial, as its client says."""

    kind: Annotated[
        Kind,
        Column(
            NO_UNIT,
            "`connections` (one for each request), `requests` (on connections that are kept) or "
            "`stream`.",
        ),
    ]
    unit: Annotated[
        Unit, Column(NO_UNIT, "Unit of `asked` and `reached`: `1/s`; of `stream`, `bits/s`.")
    ]
    asked: Annotated[
        Whole | None,
        Column(BY_ROW, "Transactions or bits a second asked for; null: none, see `intervals`."),
    ] = None
    intervals: Annotated[
        Text, Column(NO_UNIT, "Times between transactions that were asked for; empty: none were.")
    ] = ""
    reached: Annotated[
        Real | None,
        Column(BY_ROW, "Transactions a second that were completed, or bits a second that came."),
    ] = None
    attempted: Annotated[
        Whole, Column(NO_UNIT, "Transactions that were begun; of `stream`, connections.")
    ]
    completed: Annotated[Whole, Column(NO_UNIT, "Of these, those that came to their end.")]
    failed: Annotated[Whole, Column(NO_UNIT, "Of these, those that failed: see `errors`.")]
    errors: Annotated[
        Text, Column(NO_UNIT, "What failed, how often and when: `3 ETIMEDOUT (connect)`.")
    ] = ""
    received_bytes: Annotated[
        Whole | None, Column("bytes", "Of `stream`: bytes that came; else null.")
    ] = None
    segments: Annotated[
        Whole | None, Column(NO_UNIT, "Of `stream`: segments that were sent; null: nobody told.")
    ] = None
    retransmitted: Annotated[
        Whole | None,
        Column(NO_UNIT, "Segments that were sent again; null of `connections`: nobody told."),
    ] = None


class TcpAsked(OfTrial):
    """A TCP flow of a trial: what its client and its server said; `asked` is in the row's unit."""

    asked: Positive | None = None
    client: TcpExchangeDocument | TcpStreamDocument
    server: TcpServeDocument

    @property
    def _tally(self) -> Tally:
        client = self.client
        if isinstance(client, TcpStreamDocument):
            return client.connections
        return client.transactions

    def row(self, trial: int) -> TrialRow:
        """Return the trial's row: TCP has no packets that anybody counts."""
        return TrialRow(**self.head(trial), clock="wall", measure=MEASURE)

    def rows(self, trial: int) -> Iterator[Numbered]:
        """Yield the flow's row and one for each kind of time; RefusedError if nothing came of it.

        So it is if somebody else answered: the server took fewer connections than there were.
        """
        tally, made = self._tally, self.client.connections.completed
        if not tally.completed:
            failed = f": {self.errors}" if self.errors else ""
            what = f"of {tally.attempted} begun none was completed"
            raise RefusedError(f"{what if tally.attempted else 'no connection was made'}{failed}")
        if self.server.accepted < made:
            raise RefusedError(
                f"{made} connections were made, and the server took {self.server.accepted}: "
                "something else answered, or the server was overloaded"
            )
        yield self._flow(trial)
        for kind in TIMES:
            # On a connection that is kept a transaction is its request.
            if kind == "transaction" and self.client.role == "tcp_rr":
                continue
            times: PacketTimes | None = getattr(self.client, kind, None)
            if times is not None and (row := FlowTimesRow.of(self.head(trial), kind, times)):
                yield row

    @property
    def errors(self) -> str:
        """What failed, in words."""
        stages = self.client.errors
        return ", ".join(
            f"{count} {name} ({stage})"
            for stage in type(stages).model_fields
            for name, count in getattr(stages, stage).items()
        )

    def _flow(self, trial: int) -> TcpRow:
        client, tally = self.client, self._tally
        head = self.head(trial) | {
            "attempted": tally.attempted,
            "completed": tally.completed,
            "failed": tally.failed,
            "errors": self.errors,
            "retransmitted": client.retransmitted,
            "asked": self.asked,
            "intervals": getattr(client, "intervals", None) or "",
        }
        if isinstance(client, TcpStreamDocument):
            return TcpRow(
                **head,
                kind="stream",
                unit="bits/s",
                reached=client.received_rate,
                received_bytes=client.received_bytes,
                segments=client.segments,
            )
        return TcpRow(**head, kind=KINDS[client.role], unit="1/s", reached=client.rate_reached)


TABLES = (Table(TcpRow, "tcp", "one TCP flow of a trial", later=True),)
