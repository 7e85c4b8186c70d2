# SPDX-License-Identifier: GPL-2.0-or-later
"""A testbed whose router and tester are machines of their own, guests or hosts.

Each counts for itself: what the router handed over and what came to the sink are read one after the
other, until both stand still.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from skblab.machine import counters
from skblab.machine.device import Machine
from skblab.machine.transport import Shell, Transport
from skblab.machine.watch import Watch
from skblab.testbeds import base
from skblab.testbeds.base import SECONDS, SENT, Offered, calling, counts
from skblab.testbeds.generator import Generator
from skblab.testbeds.sending import Sending, Sent
from skblab_analysis.base.errors import SkblabError

# At what has been sent, until nothing of it comes any more.
LOOKS = 50
Whose = Literal["router", "tester"]


@dataclass
class Apart:
    """Two machines that run: `parts` are the router's scripts, `cpu` of the tester generates.

    `names`: what the scripts take from their environment, such as the addresses of ports. `still`:
    seconds for which counters that do not agree have to be the same to be believed, where a driver
    updates them only now and then. `generator`: what sends in pktgen's place. `near`: the tester's
    scripts. `rooms`: generator and sink are in namespaces.
    """

    transport: Transport
    tester: Transport
    machine: Machine
    cpu: int
    parts: tuple[str, ...]
    names: dict[str, str] = field(default_factory=dict)
    still: float = field(default=0.0, kw_only=True)
    generator: Generator | None = field(default=None, kw_only=True)
    near: tuple[str, ...] = field(default=base.TESTER, kw_only=True)
    rooms: bool = field(default=True, kw_only=True)
    opens: Callable[[Transport, str], Shell] = field(default=Shell, kw_only=True)
    watch: Watch = field(default_factory=Watch, init=False)
    _shells: dict[Whose, Shell] = field(default_factory=dict, init=False)

    def offer(self, sending: Sending) -> Offered:
        """Send packets, see Testbed."""
        tag, before = "", 0
        if not sending.tester:
            ask = 'tag=$(tag) && handed=$(handed_over r1) && echo "$tag $handed"'
            tag, _, handed = self.router(ask).rpartition(" ")
            [before] = counts("the router", handed, ["packets forwarded"])
        told, received, whole = self.generate(sending, tag.strip())
        sent = told.sent
        if sending.tester:
            if self.still and received != sent:
                _, now = self._settled(self._sink("s1", whole), sent, whole, lambda: sent)
                received += now - whole
            return self._offered(told, sent, received)
        after, now = self._handed_over(), whole
        late = self.still > 0 and received != sent
        if after - before != received or late:
            after, now = self._settled(self._sink("s0", whole), after, whole, self._handed_over)
        if after < before:
            raise SkblabError(
                f"the router's counter of forwarded packets fell from {before} to {after} in the "
                "trial: what it forwarded is not known"
            )
        return self._offered(told, after - before, received + now - whole)

    def generate(self, sending: Sending, tag: str) -> tuple[Sent, int, int]:
        """Have the generator send, `tag` is the router's VLAN, or empty.

        Returns what came of it, packets that came to the sink of it, and in all.
        """
        if self.generator is not None:
            return self._by(self.generator, sending, tag)
        call = calling("send", sending, self.cpu, tag)
        printed = self.sender(call, "the generator", sending.seconds)
        sent, refused, took, received, whole = counts("the generator", printed, SENT)
        told = Sent(sent, refused, took, base.stepped(self.tester, sending))
        return told, received, whole

    def _by(self, generator: Generator, sending: Sending, tag: str) -> tuple[Sent, int, int]:
        if generator.counts:
            told = generator.send(self.tester, sending, self.names, tag)
            assert told.received is not None
            return told, told.received, told.received
        far = "s1" if sending.tester else "s0"
        before = self._seen(f"came {far}")
        told = generator.send(self.tester, sending, self.names, tag)
        whole = self._seen(f"settled {far} {before + told.sent}")
        return told, whole - before, whole

    @staticmethod
    def _offered(told: Sent, forwarded: int, received: int) -> Offered:
        return Offered(
            told.sent,
            forwarded,
            received,
            told.microseconds,
            told.refused,
            step=told.step,
        )

    def counters(self) -> counters.Values:
        """Return what the router's kernel has counted until now."""
        return counters.read(self.transport, self.machine)

    def router(self, call: str) -> str:
        """Return what a call of the router's scripts printed."""
        return self._run("router", call, "the router")

    def sender(self, call: str, what: str, seconds: float = 0.0) -> str:
        """Return what a call of the tester's scripts printed."""
        return self._run("tester", call, what, seconds)

    def end(self) -> None:
        """Have nothing of it run on its machines any more."""
        for shell in self._shells.values():
            shell.end()
        self._shells.clear()

    def _sink(self, name: str, whole: int) -> Callable[[], int]:
        """Return what looks at the sink again; what a generator counted itself is all there is."""
        if self.generator is not None and self.generator.counts:
            return lambda: whole
        return lambda: self._seen(f"settled {name}")

    def _settled(
        self, sink: Callable[[], int], handed: int, seen: int, handed_over: Callable[[], int]
    ) -> tuple[int, int]:
        """Return what the router handed over and what came to the sink, both in all.

        The two stand still by clocks of their own: where they do not agree, something is lost or
        still on its way, and each is looked at until both are what they were.
        """
        since = time.monotonic()
        for _ in range(LOOKS):
            after = handed_over()
            now = sink()
            if (after, now) != (handed, seen):
                handed, seen, since = after, now, time.monotonic()
            elif time.monotonic() - since >= self.still:
                return after, now
        raise SkblabError(f"packets still come after {LOOKS} looks: the sink has {seen} by now")

    def _seen(self, call: str) -> int:
        """Return what a call says that came to a sink in all."""
        [packets] = counts("the sink", self.sender(call, "the sink"), ["packets received"])
        return packets

    def _handed_over(self) -> int:
        [packets] = counts("the router", self.router("handed_over r1"), ["packets forwarded"])
        return packets

    def _run(self, whose: Whose, call: str, what: str, seconds: float = 0.0) -> str:
        named = [f"{name}={value}" for name, value in self.names.items()]
        text = "\n".join([*named, call])
        return self._shell(whose).script(text, seconds=SECONDS + seconds).check(what).stdout

    def _shell(self, whose: Whose) -> Shell:
        """Return the shell of a machine, which begins with the first call there."""
        if whose not in self._shells:
            transport = self.transport if whose == "router" else self.tester
            parts = self.parts if whose == "router" else self.near
            self._shells[whose] = self.opens(transport, base.functions(*parts))
        return self._shells[whose]
