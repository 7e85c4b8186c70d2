# SPDX-License-Identifier: GPL-2.0-or-later
"""A command of the user's as a tester's generator, in pktgen's place: another tester's adapter.

It is run on the tester once for each trial, by the contract of `formats/sender.py`.
"""

from __future__ import annotations

import ipaddress
import math
import shlex
import zlib
from collections.abc import Mapping
from dataclasses import dataclass

from skblab.machine.transport import Transport
from skblab.machine.transport.base import Done
from skblab.testbeds.asked import FIRST_PORT, MIXES, MOST_PACKETS, Frame
from skblab.testbeds.native import ALONE, FROM, LONGEST_SECONDS, RANDOM, TO, WHOLE
from skblab.testbeds.sending import Sending, Sent, Step
from skblab_analysis.base.checked import parse
from skblab_analysis.base.errors import SkblabError, one_line
from skblab_analysis.formats.sender import (
    FrameSize,
    Range,
    RateChange,
    SenderAnswer,
    SenderRequest,
)

# Beyond the seconds that it may send: to begin, to wait for its counters, and to answer.
GRACE_SECONDS = 120
# After it was told to end.
KILL_SECONDS = 5
# What `timeout` (coreutils) ends with if it had to end the command, and if that took SIGKILL, which
# may also have come from another.
TOO_LATE, KILLED = 124, 137
SOURCES = {"g0": "G0_MAC", "c0": "C0_MAC"}


@dataclass(frozen=True)
class Command:
    """The command: `argv` on the tester, `inside` what comes before it where the ports are.

    `namespace` has the ports; without one the kernel does not have them. `counts`: it counts what
    came to the sink itself.
    """

    argv: tuple[str, ...]
    inside: tuple[str, ...] = ()
    namespace: str | None = None
    counts: bool = False

    @property
    def name(self) -> str:
        """The command as a shell takes it."""
        return shlex.join(self.argv)

    def request(self, sending: Sending, macs: Mapping[str, str], tag: str = "") -> SenderRequest:
        """Return what it is asked for a sending."""
        stream = sending.stream
        device, to = ALONE if sending.tester else WHOLE
        address, _, port = TO[stream.family].rpartition(":")
        return SenderRequest(
            path="tester" if sending.tester else "router",
            device=device if self.namespace else None,
            namespace=self.namespace,
            source_mac=macs[SOURCES[device]],
            destination_mac=macs[to],
            vlan=int(tag) if tag else None,
            family=stream.family,
            source=FROM[stream.family],
            destination=address.strip("[]"),
            destinations=_range(RANDOM[stream.family]) if stream.destinations == "random" else None,
            source_port=FIRST_PORT,
            flows=stream.flows,
            destination_port=int(port),
            frames=_frames(stream.frame),
            packets=sending.packets if sending.packets < MOST_PACKETS else None,
            rate=float(sending.rate) or None,
            seconds=float(sending.seconds or LONGEST_SECONDS),
            then=RateChange(rate=sending.then, after=sending.after) if sending.then else None,
            timed=sending.by_queue,
            # All settings get the same packets.
            seed=zlib.crc32(str(stream).encode()),
        )

    def send(
        self, transport: Transport, sending: Sending, macs: Mapping[str, str], tag: str
    ) -> Sent:
        """Have it send, and return what it answers."""
        request = self.request(sending, macs, tag)
        limit = math.ceil(request.seconds) + GRACE_SECONDS
        # Its machine ends it, also if the connection breaks.
        bound = ("timeout", f"--kill-after={KILL_SECONDS}", str(limit))
        done = transport.run(
            [*self.inside, *bound, *self.argv],
            stdin=request.model_dump_json(by_alias=True) + "\n",
            seconds=limit + GRACE_SECONDS,
        )
        return self._understood(self._ended(done, limit), request)

    def _ended(self, done: Done, limit: int) -> Done:
        if done.status == TOO_LATE:
            raise SkblabError(f"{self._who} did not answer within {limit} s")
        if done.status == KILLED:
            raise SkblabError(
                f"{self._who} was killed: it did not end within {limit} s, or its machine has no "
                "memory left (see dmesg there)"
            )
        return done.check(self._who)

    def _understood(self, done: Done, request: SenderRequest) -> Sent:
        answer = parse(SenderAnswer, done.stdout, f"what {self._who} printed")
        tried = answer.sent + answer.refused
        if request.packets is not None and tried > request.packets:
            raise SkblabError(
                f"{self._who} sent {tried} packets: expected at most {request.packets}"
            )
        if self.counts and answer.received is None:
            raise SkblabError(
                f'{self._who} did not print "received": expected the packets that came to the '
                "sink, which only the command can count"
            )
        if not self.counts and answer.received is not None:
            raise SkblabError(
                f'{self._who} printed "received": the kernel counts what comes to the sink, unless '
                "the hosts file has addresses in place of the tester's ports"
            )
        if request.then is not None and answer.step is None:
            raise SkblabError(f"{self._who} did not come to the change of its rate")
        step = None
        if answer.step is not None:
            step = Step(answer.step.packet, answer.step.packet, round(answer.step.seconds * 1e6))
        return Sent(answer.sent, answer.refused, round(answer.seconds * 1e6), step, answer.received)

    @property
    def _who(self) -> str:
        return f"the tester's command `{one_line(self.name, 80)}`"


def _range(text: str) -> Range:
    first, _, last = text.partition("-")
    # As a library of any language writes them.
    return Range(first=str(ipaddress.ip_address(first)), last=str(ipaddress.ip_address(last)))


def _frames(frame: Frame) -> tuple[FrameSize, ...]:
    sizes = {frame: 1} if isinstance(frame, int) else MIXES[frame]
    return tuple(FrameSize(bytes=size, weight=weight) for size, weight in sizes.items())
