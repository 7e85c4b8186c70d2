# SPDX-License-Identifier: GPL-2.0-or-later
"""What the TCP commands of `skblab-traffic` print.

runners/traffic/src/tcp/report.rs writes it. Errors are counted by their kernel names, such as
ECONNREFUSED; `closed` is that the other end closed a connection too early, `garbled` that what came
was no answer of ours, and `foreign` that it was no request of ours.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from pydantic import Field, model_validator

from skblab_analysis.base.real import Real
from skblab_analysis.base.whole import Count, Whole
from skblab_analysis.formats.pathlat import Late, PacketTimes, ToolDocument
from skblab_analysis.formats.traffic import Process, Schema

Ended = Literal["count", "seconds", "signal", "unreachable"]
Errors = Mapping[str, Count]


class Tally(ToolDocument):
    """How many there were: attempted = completed + failed + unfinished."""

    attempted: Count
    completed: Count
    failed: Count
    unfinished: Count

    @model_validator(mode="after")
    def _agrees(self) -> Tally:
        told = self.completed + self.failed + self.unfinished
        if self.attempted != told:
            raise ValueError(f"attempted {self.attempted} is not what became of them, {told}")
        return self


class ErrorsByStage(ToolDocument):
    """What went wrong: while connecting, from a request to its end, while a connection waited."""

    connect: Errors
    request: Errors
    idle: Errors


class _ClientDocument(ToolDocument):
    """What all clients say; `unreachable`: no connection came about."""

    schema_: Schema = Field(alias="schema")
    to: str
    from_: str | None = Field(alias="from")
    asked: Count | None
    connections: Tally
    errors: ErrorsByStage
    rate_planned: Real | None
    rate_reached: Real | None
    seconds: Real
    late: Late | None
    percentile_error: Real
    stopped_by: Ended
    process: Process


class TcpExchangeDocument(_ClientDocument):
    """What `skblab-traffic tcp-rr` and `tcp-crr` say. Rates are transactions per second.

    `connect` is from when a connection was begun until it was there, `request` from a request until
    its answer was whole, `transaction` from its beginning, with `tcp-crr` the connection's, and
    `since_due` from when it was due. `transactions` of `tcp-crr` end with their connections.
    """

    role: Literal["tcp_rr", "tcp_crr"]
    flows: Count
    request_bytes: Count
    response_bytes: Count
    close: Literal["server", "client", "reset"] | None
    transactions: Tally
    rate_asked: Real | Count
    intervals: str | None
    connect: PacketTimes
    request: PacketTimes
    transaction: PacketTimes
    since_due: PacketTimes | None
    retransmitted: Count | None

    @model_validator(mode="after")
    def _times_agree(self) -> TcpExchangeDocument:
        answered, done = self.request.count, self.transactions
        if not done.completed <= answered <= done.attempted:
            raise ValueError(
                f"{answered} answers of {done.attempted} transactions, {done.completed} completed"
            )
        if self.connect.count != self.connections.completed:
            raise ValueError(
                f"{self.connect.count} times of {self.connections.completed} connections"
            )
        return self


class TcpFlow(ToolDocument):
    """One connection of a stream; what came is null if the server did not tell.

    `rtt_ns` is the kernel's last smoothed round-trip time, `retransmitted` counts segments.
    """

    sent_bytes: Whole
    received_bytes: Whole | None
    received_seconds: Real | None
    rtt_ns: Whole
    min_rtt_ns: Whole | None
    retransmitted: Count


class TcpStreamDocument(_ClientDocument):
    """What `skblab-traffic tcp-stream` says. Rates are bits per second.

    `rate_reached` is of what the kernel took, first to last write; `received_rate` of what came,
    until the server had told of all. `connections` are completed when it had. With `reverse` the
    server sends, and what only a sender knows is null.
    """

    role: Literal["tcp_stream"]
    reverse: bool
    write_bytes: Count | None
    writes: Count | None
    sent_bytes: Whole
    received_bytes: Whole
    rate_asked: Whole
    received_rate: Real | None
    received_seconds: Real
    rtt: PacketTimes
    segments: Count | None
    retransmitted: Count
    retransmitted_bytes: Whole | None
    flows: tuple[TcpFlow, ...]

    @model_validator(mode="after")
    def _flows_agree(self) -> TcpStreamDocument:
        sent = sum(flow.sent_bytes for flow in self.flows)
        received = sum(flow.received_bytes or 0 for flow in self.flows)
        if (self.sent_bytes, self.received_bytes) != (sent, received):
            raise ValueError(
                f"sent {self.sent_bytes} and received {self.received_bytes} bytes are not the "
                f"flows' {sent} and {received}"
            )
        if received > sent:
            raise ValueError(f"{received} bytes came of {sent}")
        return self


class TcpClosed(ToolDocument):
    """Connections that ended between requests, by who ended them."""

    by_client: Count
    by_server: Count
    by_reset: Count


class TcpServeDocument(ToolDocument):
    """What `skblab-traffic tcp-serve` says: accepted = closed + failed + open."""

    schema_: Schema = Field(alias="schema")
    role: Literal["tcp_serve"]
    bind: str
    accepted: Count
    closed: TcpClosed
    failed: Count
    open: Count
    most_open: Count
    answered: Count
    streams: Count
    received_bytes: Whole
    sent_bytes: Whole
    errors: Errors
    full: Count
    stopped_by: Ended
    process: Process

    @model_validator(mode="after")
    def _agrees(self) -> TcpServeDocument:
        closed = self.closed.by_client + self.closed.by_server + self.closed.by_reset
        if self.accepted != closed + self.failed + self.open:
            raise ValueError(
                f"accepted {self.accepted} is not closed {closed} + failed {self.failed} + open"
            )
        return self
