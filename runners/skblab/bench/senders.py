# SPDX-License-Identifier: GPL-2.0-or-later
"""How many packets a second senders reach, beside the kernel's pktgen in the same guest.

Each sends 64-byte frames from one CPU as fast as it goes: frames onto a veth pair whose other end
drops them, as pktgen does, and UDP by loopback to a receiver on the other CPU, as LUNA's study did.
All take turns, round by round; a round's ratio is to pktgen in that round.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from skblab.lab import kernel, tools
from skblab.lab.guest.chosen import make_spec
from skblab.lab.labroot import Bind, LabRoot
from skblab.lab.reporter import Reporter
from skblab.machine.transport import Transport
from skblab.testbeds import NETNS, Sending, Testbed
from skblab.testbeds.asked import Needs, Stream, Traffic
from skblab.testbeds.native import NAME, Native
from skblab.testbeds.traffic import PROGRAMS
from skblab.testbeds.virtio import MACS
from skblab_analysis.base.checked import parse
from skblab_analysis.base.errors import SkblabError
from skblab_analysis.formats.pathlat import SenderDocument

# D. Klute, "Lightweight Universal Network Analyzer", 2013, chapter 8: 42 000 to 44 000 a second by
# loopback, on the study's machine and not on this one.
LUNA = 43_000
PEER = "pktgen"
STREAM = Stream(family=4, frame=64, flows=1)
GENERATOR = ("ip", "netns", "exec", "generator")
PROGRAM = f"{PROGRAMS}/{NAME}"
# Of UDP, by loopback: one that is read by nobody costs no sender.
PORT = 9000
SECONDS = 600
READY_SECONDS = 60
# The other one has the receiver.
CPU = 1


@dataclass(frozen=True)
class Asked:
    """What a testbed is to have: nothing but its two CPUs."""

    @property
    def needs(self) -> Needs:
        """Two CPUs."""
        return Needs(cpus=2)

    @property
    def traffic(self) -> Traffic:
        """Of no matter."""
        return Traffic()

    @property
    def baseline(self) -> dict[str, str]:
        """No knobs."""
        return {}


@dataclass(frozen=True)
class Measured:
    """A sender's packets a second, round by round."""

    sender: str
    rates: tuple[float, ...]

    @property
    def rate(self) -> float:
        """The median of all rounds."""
        return median(self.rates)

    def ratio(self, peer: Measured) -> float:
        """Return the median of its rounds' ratios to a peer's in the same round."""
        return median(ours / theirs for ours, theirs in zip(self.rates, peer.rates, strict=True))


Sender = Callable[[Testbed, int], float]


def _rate(packets: int, microseconds: int) -> float:
    if not packets or not microseconds:
        raise SkblabError(f"the sender reached no rate: {packets} packets in {microseconds} µs")
    return packets / microseconds * 1e6


def _pktgen(testbed: Testbed, packets: int) -> float:
    found = testbed.offer(Sending(STREAM, packets, tester=True))
    return _rate(found.tried, found.microseconds)


def _frames(batch: int, *, xdp: bool = False) -> Sender:
    def send(testbed: Testbed, packets: int) -> float:
        native = Native(PROGRAM, GENERATOR, CPU, batch, xdp)
        sent = native.send(testbed.tester, Sending(STREAM, packets, tester=True), MACS, "")
        if sent.refused:
            raise SkblabError(f"{sent.refused} frames were refused: that is no sender's own rate")
        return _rate(sent.sent, sent.microseconds)

    return send


def _udp(*options: str) -> Sender:
    def send(testbed: Testbed, packets: int) -> float:
        document = _by_loopback(testbed.tester, packets, options)
        if not document.rate_reached:
            raise SkblabError("the sender reached no rate")
        return document.rate_reached

    return send


def _by_loopback(tester: Transport, packets: int, options: tuple[str, ...]) -> SenderDocument:
    where = f"127.0.0.1:{PORT}"
    receive = [*GENERATOR, PROGRAM, "receive", "--cpu", "0", "--bind", where, "--idle", "0.5"]
    receiver = tester.start([*receive, "--seconds", str(SECONDS)])
    receiver.wait_for("ready", READY_SECONDS)
    send = [*GENERATOR, PROGRAM, "send", "--cpu", str(CPU), "--to", where, "--frame", "64"]
    sent = tester.run([*send, "--count", str(packets), "--seconds", str(SECONDS), *options])
    receiver.wait(READY_SECONDS).check("the receiver")
    return parse(SenderDocument, sent.check("the sender").stdout, "the sender's document")


SENDERS: dict[str, Sender] = {
    PEER: _pktgen,
    "frames, one a call": _frames(1),
    "frames, 64 a call": _frames(64),
    "frames, 64 a call, by AF_XDP": _frames(64, xdp=True),
    "UDP, one a call": _udp(),
    "UDP, 64 a call": _udp("--batch", "64"),
    "UDP, 64 a call, cut by the kernel": _udp("--batch", "64", "--segment"),
}


def measure(
    packets: int, rounds: int, root: LabRoot, reporter: Reporter, log: Path
) -> tuple[str, list[Measured]]:
    """Return the kernel's release, which has no patch of ours, and what each sender reached.

    RefusedError if the kernel complains while one sends. What it complained of before belongs to
    none of them, and is said.
    """
    built = kernel.ensure(kernel.Request(patches=False), root, reporter)
    shares = (Bind(tools.ensure(root, built, reporter), "tools"),)
    spec = make_spec(cpus=2)
    found: dict[str, list[float]] = {name: [] for name in SENDERS}
    order = random.Random(1)
    with NETNS.up(Asked(), spec, built, built, root, shares, log) as (_, testbed):
        testbed.prepare(Traffic())
        testbed.tester.script("ip -n generator link set lo up").check("loopback")
        for heard in testbed.watch.look():
            reporter.say(f"before the first round: {heard}")
        with reporter.bar("rounds", rounds) as done:
            for number in range(1, rounds + 1):
                for name in order.sample(list(SENDERS), len(SENDERS)):
                    rate = SENDERS[name](testbed, packets)
                    testbed.watch.refuse(f"{name}, round {number}, on kernel {built.release}")
                    found[name].append(rate)
                done(number)
    # What a warning took to be written is after its round.
    testbed.watch.refuse(f"after the last round, on kernel {built.release}")
    return built.release, [Measured(name, tuple(rates)) for name, rates in found.items()]
