# SPDX-License-Identifier: GPL-2.0-or-later
"""The traffic of a guest's own: which, between which namespaces, and how much of it arrived."""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import resources
from typing import Any, Literal

from pydantic import NonNegativeFloat

from skblab.machine.transport import Transport
from skblab.probe.request import HISTOGRAMS
from skblab.probe.switches import NET_PATH, STAMPS
from skblab.testbeds import base, traffic
from skblab_analysis.base.checked import parse
from skblab_analysis.base.errors import UsageError
from skblab_analysis.base.whole import Count
from skblab_analysis.formats.pathlat import ToolDocument

Protocol = Literal["udp", "tcp", "sctp"]
Family = Literal[4, 6]
PORT = 5001
BYTES = {"udp": 64, "tcp": 1000, "sctp": 1000}
MESSAGES = "/tmp/messages.py"
# What an IPv4 packet of 1500 bytes has room for, without options.
LARGEST_SEGMENT = 1460


@dataclass(frozen=True)
class Load:
    """Packets from the namespace source to the router, or through it to the target."""

    protocol: Protocol = "udp"
    family: Family = 4
    forward: bool = False

    @classmethod
    def parse(cls, text: str) -> Load:
        """Read such as udp, tcp6 or sctp-forward; UsageError if it is none of those."""
        found = re.fullmatch(r"(udp|tcp|sctp)([46]?)(-forward)?", text)
        if found is None:
            raise UsageError(
                f"--load {text}: expected udp, tcp or sctp, with 6 for IPv6 and -forward for "
                "packets that are forwarded, such as udp6-forward"
            )
        protocol: Any = found[1]
        return cls(protocol, 6 if found[2] == "6" else 4, bool(found[3]))

    def __str__(self) -> str:
        """The load's name, as `parse` reads it."""
        family = "6" if self.family == 6 else ""
        return f"{self.protocol}{family}{'-forward' if self.forward else ''}"

    @property
    def reader(self) -> str:
        """The namespace that the packets are for."""
        return "target" if self.forward else "router"

    @property
    def address(self) -> str:
        """Where to."""
        subnet = 2 if self.forward else 1
        return f"2001:2:0:{subnet}::2" if self.family == 6 else f"198.18.{subnet}.2"

    def least(self, messages: int) -> int:
        """Return how many packets so many messages are at least: TCP may put several into one."""
        if self.protocol != "tcp":
            return messages
        return -(-messages * BYTES["tcp"] // LARGEST_SEGMENT)


@dataclass(frozen=True)
class Sent:
    """How many packets, or messages of a connection, were sent and came, and how many a second.

    `documents`: what sender and receiver printed. `roles`: who they were, by process id.
    """

    sent: int
    received: int
    rate: float | None = None
    documents: tuple[str, str] | None = field(default=None, compare=False)
    roles: Mapping[int, str] = field(default_factory=dict, compare=False)


def topology(*, napi: bool = False) -> str:
    """Return the script that makes the namespaces."""
    text = (resources.files(__package__) / "guest" / "topology.sh").read_text()
    return f"NAPI={'yes' if napi else 'no'}\n{base.functions('net')}\n{text}"


def prepare(transport: Transport, *, napi: bool = False) -> None:
    """Make the namespaces, and bring what the loads need."""
    transport.script(topology(napi=napi)).check("setting up the namespaces")
    program = resources.files(__package__) / "guest" / "messages.py"
    with resources.as_file(program) as path:
        transport.put(path, MESSAGES)


def run(
    transport: Transport,
    load: Load,
    count: int,
    rate: int,
    meanwhile: Callable[[], object] = lambda: None,
    *,
    size: int | None = None,
    flows: int = 1,
) -> Sent:
    """Send so many at so many a second (0: at once), and wait for the last.

    `meanwhile` is called again and again; what it raises ends the load. `size` is in bytes of
    payload, if not what the protocol has here. `flows` take turns; TCP and SCTP have one.
    """
    seconds = _seconds(count, rate)
    receiver, sender = _commands(load, count, rate, size or BYTES[load.protocol], flows)
    sent, received = traffic.exchange(transport, receiver, sender, seconds, meanwhile)
    who = ((sent.pid, "sender"), (received.pid, "reader"))
    roles = {pid: role for pid, role in who if pid is not None}
    return replace(told(sent.stdout, received.stdout), roles=roles)


def _seconds(count: int, rate: int) -> int:
    return max(60, 20 * count // (rate or 10_000))


def _commands(
    load: Load, count: int, rate: int, size: int, flows: int
) -> tuple[list[str], list[str]]:
    """Return receiver and sender."""
    if load.protocol == "udp":
        address = f"[{load.address}]" if load.family == 6 else load.address
        return traffic.udp(
            *(load.reader, f"{address}:{PORT}"),
            count=count,
            rate=rate,
            size=size,
            seconds=_seconds(count, rate),
            flows=flows,
        )
    inside = ["ip", "netns", "exec"]
    where = [load.protocol, load.address, str(PORT), str(size)]
    python = ["python3", MESSAGES]
    receiver = [*inside, load.reader, *python, "receive", *where]
    return receiver, [*inside, "source", *python, "send", *where, str(count), str(rate)]


class _Told(ToolDocument):
    """What skblab-traffic and messages.py both say, of what was sent or of what came."""

    seconds: NonNegativeFloat


class _Sent(_Told):
    sent: Count


class _Received(_Told):
    received: Count


def told(sent: str, received: str) -> Sent:
    """Return what sender and receiver printed; RecordError if one is not as it has to be."""
    gone = parse(_Sent, sent, "the sender's document")
    came = parse(_Received, received, "the receiver's document")
    rate = came.received / came.seconds if came.seconds else math.inf
    return Sent(gone.sent, came.received, rate if math.isfinite(rate) else None, (sent, received))


@dataclass(frozen=True)
class Traffic:
    """A load with how many packets or messages, how many a second (0: at once), in how many flows.

    Only UDP has more than one flow.
    """

    load: Load
    packets: int
    rate: int
    flows: int = 1

    def __str__(self) -> str:
        """Return it in words."""
        flows = f" in {self.flows} flows" if self.flows > 1 else ""
        return f"{self.packets} of {self.load} at {self.rate}/s{flows}"

    def run(self, transport: Transport, meanwhile: Callable[[], object] = lambda: None) -> Sent:
        """Send it, and wait for the last."""
        return run(transport, self.load, self.packets, self.rate, meanwhile, flows=self.flows)

    def by_hand(self, probe: Sequence[str]) -> str:
        """Return a script that does in a guest what is sent to it in pieces; `probe` is a command.

        Of UDP: what TCP and SCTP need has to be brought there.
        """
        size = BYTES[self.load.protocol]
        receiver, sender = _commands(self.load, self.packets, self.rate, size, self.flows)
        timing, receiving, sending = map(shlex.join, (probe, receiver, sender))
        switching = ""
        if HISTOGRAMS in probe:
            switching = f"echo 1 >{STAMPS}\necho 1 >{NET_PATH}/napi\n"
        return (
            f"#!/bin/sh\n{topology()}\n{switching}"
            f"{timing} >/tmp/pathlat.json &\nprobe=$!\nsleep 5\n"
            f"{receiving} >/tmp/receiver.json &\nreceiver=$!\nsleep 1\n"
            f'{sending} >/tmp/sender.json\nwait "$receiver"\nkill -INT "$probe"\nwait "$probe"\n'
        )
