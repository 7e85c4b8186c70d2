# SPDX-License-Identifier: GPL-2.0-or-later
"""A TCP flow in a traffic file: connections, requests or streams, of our own client and server."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, field_validator, model_validator

from skblab.traffic.flow import MOST_OWN_RATE, PACES, Between, Interval, checked_interval, one_of

Kind = Literal["connections", "requests", "stream"]
# The client's command of each kind.
COMMANDS: dict[Kind, str] = {
    "connections": "tcp-crr",
    "requests": "tcp-rr",
    "stream": "tcp-stream",
}
# A message begins with a header; see runners/traffic/src/tcp/message.rs and cli/tcp.rs.
LEAST_MESSAGE = 16
MOST_MESSAGE = 1 << 24
MOST_WRITE = 1 << 20
MOST_CONNECTIONS = 65_535
MOST_STREAMS = 1024
MOST_BITS = 10**13
# Keys that not every kind has.
OF_KIND: dict[str, tuple[Kind, ...]] = {
    "interval": ("connections", "requests"),
    "request": ("connections", "requests"),
    "response": ("connections", "requests"),
    "seed": ("connections", "requests"),
    "close": ("connections",),
    "write": ("stream",),
    "reverse": ("stream",),
}
# What the server does as fast as it can.
NOT_REVERSED = ("rate", "write")


class TcpFlow(Between):
    """TCP from one host to another; what is not given is as `skblab traffic` has it."""

    kind: Annotated[
        Kind,
        Field(description="a connection for each request, requests on kept connections, or data"),
    ]
    connections: Annotated[
        int, Field(ge=1, le=MOST_CONNECTIONS, description="connections at once, at most")
    ] = 1
    rate: Annotated[
        int | None,
        Field(ge=1, le=MOST_BITS, description="transactions a second; of a stream, bits a second"),
    ] = None
    interval: Annotated[
        Interval | None, Field(description="times between transactions, of a generator")
    ] = None
    request: Annotated[
        int, Field(ge=LEAST_MESSAGE, le=MOST_MESSAGE, description="bytes of each request")
    ] = LEAST_MESSAGE
    response: Annotated[
        int, Field(ge=LEAST_MESSAGE, le=MOST_MESSAGE, description="bytes of each answer")
    ] = LEAST_MESSAGE
    close: Annotated[
        Literal["server", "client", "reset"],
        Field(description="who closes a connection; the client by a reset"),
    ] = "server"
    write: Annotated[
        int, Field(ge=1, le=MOST_WRITE, description="bytes of each write of a stream")
    ] = 128 << 10
    reverse: Annotated[bool, Field(description="the receiver sends the stream")] = False
    timeout: Annotated[
        float,
        Field(gt=0, le=3600, description="seconds until a connection or an answer has failed"),
    ] = 5.0

    _is_interval = field_validator("interval")(checked_interval)

    @model_validator(mode="after")
    def _fits(self) -> TcpFlow:
        one_of(self, PACES)
        for name in sorted(self.model_fields_set & OF_KIND.keys()):
            if self.kind not in OF_KIND[name]:
                raise ValueError(f"{name} with kind = {self.kind!r}: expected none")
        if self.reverse and (given := self.model_fields_set & set(NOT_REVERSED)):
            raise ValueError(
                f"{min(given)} with reverse: expected none, the receiver sends as fast as it can"
            )
        if self.kind == "stream" and self.connections > MOST_STREAMS:
            raise ValueError(
                f"connections = {self.connections} of a stream: expected {MOST_STREAMS} at most"
            )
        if self.kind != "stream" and self.rate is not None and self.rate > MOST_OWN_RATE:
            raise ValueError(f"rate = {self.rate}: expected {MOST_OWN_RATE} at most")
        return self

    @property
    def longest(self) -> float:
        """The longest time that it may take: connections come before it, the last answers after."""
        return self.seconds + 2 * self.timeout

    def __str__(self) -> str:
        """Return what is asked for, in words."""
        if self.kind == "stream":
            plural = "s" if self.connections > 1 else ""
            pace = f"{self.rate} bits/s" if self.rate else "as fast as it goes"
            back = ", sent by the receiver" if self.reverse else ""
            return (
                f"{self.name}, TCP over IPv{self.family}, data on {self.connections} "
                f"connection{plural}, {pace}{back}"
            )
        at_once = f"{self.connections} at once" if self.connections > 1 else "one at a time"
        pace = f"{self.rate}/s" if self.rate else self.interval or "as fast as it goes"
        what = f"{self.request} bytes for {self.response}"
        return f"{self.name}, TCP over IPv{self.family}, {self.kind}, {at_once}, {what}, {pace}"
