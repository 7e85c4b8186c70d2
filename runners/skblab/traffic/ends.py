# SPDX-License-Identifier: GPL-2.0-or-later
"""The two ends of a flow: their commands, and what becomes of what they print."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Literal

from skblab.machine.transport.base import Done
from skblab.traffic import bypktgen, generators
from skblab.traffic.clock_lines import Line
from skblab.traffic.flow import Between, Flow
from skblab.traffic.hosts import Host
from skblab.traffic.tcp import COMMANDS, OF_KIND, TcpFlow
from skblab_analysis.base.checked import parse
from skblab_analysis.formats.pathlat import ReceiverDocument, SenderDocument
from skblab_analysis.formats.tcp import TcpExchangeDocument, TcpServeDocument, TcpStreamDocument
from skblab_analysis.tcp.rows import TcpAsked
from skblab_analysis.traffic.rows import Exchanged

READY_SECONDS = 60
# How long a receiver waits for more packets, beyond the time that may lie between two of them.
IDLE_SECONDS = 1.0
# Memory for packets that wait for a receiver: what it has no time for is no loss of the network.
RCVBUF = 16 << 20
# A machine that is busy ends later than it should.
LATE_SECONDS = 60.0
NANOSECONDS = 1_000_000_000
# What the server has without these options.
CONNECTIONS, IDLE_CONNECTION_SECONDS = 16_384, 60.0
# Generators whose times may be far from any that is written.
UNBOUNDED = ("pareto", "file")
# Of a Poisson process one time in 500 million is longer than so many times the mean.
LONGEST = 20


@dataclass(frozen=True)
class Head:
    """What a trial is of."""

    setting: str
    block: int
    traffic: str


@dataclass(frozen=True)
class Ends:
    """The commands of a flow's two ends.

    `measured` makes a trial of what sender and receiver printed, and raises RecordError if that is
    no document. `sent` returns what a sender printed, and raises SkblabError if it failed, with the
    sender's name. A receiver that `serves` goes on until it is told to end.
    """

    receiver: list[str]
    sender: list[str]
    measured: Callable[[Head, str, str], Exchanged | TcpAsked]
    sent: Callable[[Done, str], str] = field(default=lambda done, name: done.check(name).stdout)
    serves: bool = False


def where(flow: Between, receiver: Host) -> str:
    """Return the address and port that a flow goes to."""
    address = receiver.addresses[flow.family]
    return f"[{address}]:{flow.port}" if flow.family == 6 else f"{address}:{flow.port}"


def ends(
    flow: Flow | TcpFlow, sender: Host, receiver: Host, clocks: Line | Literal["one", "apart"]
) -> Ends:
    """Return the commands of a flow's receiver and sender.

    `clocks`: how far the receiver's is ahead, that both have one, or that nothing is known of them.
    """
    if isinstance(flow, TcpFlow):
        return _tcp(flow, sender, receiver)
    return _packets(flow, sender, receiver, clocks)


def _packets(
    flow: Flow, sender: Host, receiver: Host, clocks: Line | Literal["one", "apart"]
) -> Ends:
    there = where(flow, receiver)
    # With a rate the number of packets ends it, and its time only if that is not kept.
    count, late = (None, 0.0) if flow.rate is None else (_count(flow), LATE_SECONDS)
    limit = flow.seconds + late
    send: dict[str, object] = {
        "--to": there,
        "--seconds": f"{limit:g}",
        "--count": count,
        "--rate": flow.rate,
        "--interval": flow.interval,
        "--frame": flow.frame,
        "--size": flow.size,
        "--flows": flow.flows,
        "--batch": flow.batch,
        "--spin": f"{flow.spin:g}",
        "--seed": flow.seed,
        **_sends(flow),
    }
    receive: dict[str, object] = {
        "--bind": there,
        "--expect": count,
        "--interval": _interval(flow),
        "--idle": f"{IDLE_SECONDS + _longest(flow):g}",
        "--seconds": f"{limit + READY_SECONDS:g}",
        "--rcvbuf": RCVBUF,
        **_receives(flow),
    }
    xdp = ["--xdp"] if flow.sockets == "xdp" else []
    if flow.of_devices or flow.by == "pktgen":
        receive["--device"] = receiver.device
    if flow.of_devices:
        send |= {
            "--device": sender.device,
            "--mac": receiver.mac,
            "--from": sender.addresses[flow.family],
        }
    receiving = [
        *(receiver.program, "receive", *_words(receive), *xdp),
        *(["--same-clock"] if clocks == "one" else []),
        *(_told(clocks) if isinstance(clocks, Line) else []),
    ]
    if flow.by == "pktgen":
        return Ends(
            receiving,
            bypktgen.argv(flow, sender, receiver, count, limit),
            lambda head, sent, received: _exchanged(flow, head, bypktgen.document(sent), received),
        )
    return Ends(
        receiving,
        [sender.program, "send", *_words(send), *(["--segment"] if flow.segment else []), *xdp],
        lambda head, sent, received: _exchanged(
            flow, head, parse(SenderDocument, sent, "the sender's document"), received
        ),
    )


def _exchanged(flow: Flow, head: Head, sent: SenderDocument, received: str) -> Exchanged:
    receiver = parse(ReceiverDocument, received, "the receiver's document")
    return Exchanged(**asdict(head), rate=flow.rate, sender=sent, receiver=receiver)


def _tcp(flow: TcpFlow, sender: Host, receiver: Host) -> Ends:
    there = where(flow, receiver)
    options: dict[str, object] = {
        "--to": there,
        "--seconds": f"{flow.seconds:g}",
        "--flows": flow.connections,
        "--rate": flow.rate,
        "--interval": flow.interval,
        "--timeout": f"{flow.timeout:g}",
        "--spin": f"{flow.spin:g}",
        "--seed": flow.seed,
        "--request": flow.request,
        "--response": flow.response,
        "--close": flow.close,
        "--size": flow.write,
        **_sends(flow),
    }
    # The size of a write is `size` on the command line, which is that of a packet in a file.
    others = {
        f"--{'size' if name == 'write' else name}"
        for name, kinds in OF_KIND.items()
        if flow.kind not in kinds
    }
    # The server sends as fast as it can, and takes no such word.
    others |= {"--size"} if flow.reverse else set()
    asking = {name: value for name, value in options.items() if name not in others}
    serve: dict[str, object] = {
        "--bind": there,
        # It is told to end once its client has; this is for the case that nobody is left to tell.
        "--seconds": f"{flow.longest + LATE_SECONDS + READY_SECONDS:g}",
        # What the client has given up may still be open here.
        "--connections": max(CONNECTIONS, 2 * flow.connections),
        "--idle": f"{max(IDLE_CONNECTION_SECONDS, 2 * flow.timeout):g}",
        **_receives(flow),
    }
    return Ends(
        [receiver.program, "tcp-serve", *_words(serve)],
        [
            *(sender.program, COMMANDS[flow.kind], *_words(asking)),
            *(["--reverse"] if flow.reverse else []),
        ],
        lambda head, sent, received: _asked(flow, head, sent, received),
        sent=_asked_at_all,
        serves=True,
    )


def _asked(flow: TcpFlow, head: Head, sent: str, received: str) -> TcpAsked:
    model = TcpStreamDocument if flow.kind == "stream" else TcpExchangeDocument
    return TcpAsked(
        **asdict(head),
        asked=flow.rate,
        client=parse(model, sent, "the client's document"),
        server=parse(TcpServeDocument, received, "the server's document"),
    )


def _asked_at_all(done: Done, name: str) -> str:
    """Return what a client printed: with status 1 nothing was completed, and it says why."""
    if done.status == 1 and done.stdout.strip():
        return done.stdout
    return done.check(name).stdout


def _told(line: Line) -> list[str]:
    """Return the receiver's options that have what its clock and the sender's differ by."""
    return _words(
        {
            "--clock-ahead": line.ahead_ns,
            "--clock-drift": line.drift_ppb,
            "--clock-at": line.received_at_ns,
        }
    )


def _sends(flow: Between) -> dict[str, object]:
    return {"--realtime": flow.realtime, "--cpu": flow.cpu}


def _receives(flow: Between) -> dict[str, object]:
    return {"--realtime": flow.receiver_realtime, "--cpu": flow.receiver_cpu}


def _words(options: Mapping[str, object]) -> list[str]:
    """Return options with their values; without those that have none."""
    given = ((name, str(value)) for name, value in options.items() if value is not None)
    return [word for pair in given for word in pair]


def _interval(flow: Flow) -> str | None:
    """Return the one time that there is to be between packets; None if there are several."""
    if flow.rate is not None:
        return f"{NANOSECONDS / flow.rate:.3f}ns"
    if flow.interval is None or generators.parse(flow.interval, "time").constant is None:
        return None
    return flow.interval


def _longest(flow: Flow) -> float:
    """Return the longest time that may lie between two packets, in seconds."""
    if flow.rate is not None:
        return 2 / flow.rate
    if flow.interval is None:
        return 0.0
    found = generators.parse(flow.interval, "time")
    if found.kind in UNBOUNDED:
        return flow.seconds
    return min(LONGEST * max(found.values) / NANOSECONDS, flow.seconds)


def _count(flow: Flow) -> int:
    assert flow.rate is not None
    return max(2, round(flow.rate * flow.seconds))
