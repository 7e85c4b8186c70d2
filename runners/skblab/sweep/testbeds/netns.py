# SPDX-License-Identifier: GPL-2.0-or-later
"""A testbed in one guest: generator, router and sink in namespaces, joined by veth pairs.

All three are of one kernel and its CPUs, so that nothing of it is a device's own speed. In `exact`
mode it tells to a few instructions what a packet costs, which is what it is for.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from importlib import resources

from skblab.errors import SkblabError
from skblab.sweep import counters
from skblab.sweep.experiment import Experiment, Stream, Traffic, text
from skblab.sweep.knobs.base import Device, Machine
from skblab.sweep.testbeds.sink import Place, Sink
from skblab.transport import Transport

ROUTER = "router"
# Frames of IPv6 that hold the generator's own header: magic, sequence and time, see pktgen.c.
IPV6_LEAST = 82
CHECKSUM_BYTES = 4
# Knobs of what veth has not: where the baseline has one, nothing could be compared.
OF_NICS = frozenset(
    (
        *("ring_rx", "ring_tx", "queues", "rss", "rss_key", "irq_affinity", "gro_hw"),
        *("rx_usecs", "rx_frames", "adaptive_rx", "tx_usecs", "tx_frames", "adaptive_tx"),
    )
)
# Beyond what packets take at a rate; emulation on a loaded machine is slow and not dead.
SECONDS = 600
# Packets before a trial, which fill the caches of memory, routes and neighbours.
WARM_UP = 2_000
NANOSECONDS = 1_000_000_000


@dataclass(frozen=True)
class Offered:
    """What came of packets: how many were sent, forwarded and received, and how long it took.

    `refused` are not among those sent: the first device behind the generator had no room for them.
    """

    sent: int
    forwarded: int
    received: int
    microseconds: int
    refused: int = 0

    @property
    def tried(self) -> int:
        """Packets that the generator put out, taken or refused."""
        return self.sent + self.refused


def machine(cpus: int) -> Machine:
    """Return the device under test of a guest with so many CPUs."""
    devices = (
        Device("r0", ROUTER, beyond=("198.18.0.2", "2001:db8:0:1::2")),
        Device("r1", ROUTER, beyond=("198.19.0.2", "2001:db8:0:2::2")),
    )
    return Machine(devices, ROUTER, cpus)


class Netns:
    """The namespaces of a running guest; `prepare` makes them."""

    def __init__(self, transport: Transport, cpus: int) -> None:
        self.transport = transport
        self.machine = machine(cpus)
        self._cpus = cpus

    def prepare(self, traffic: Traffic) -> None:
        """Make the namespaces, as it takes for this traffic."""
        self._run(laying_out(traffic), "making the testbed's namespaces")

    def offer(
        self,
        stream: Stream,
        packets: int,
        *,
        rate: float = 0.0,
        seconds: float = 0.0,
        tester: bool = False,
        by_queue: bool = False,
    ) -> Offered:
        """Send packets, `rate` a second (0: at once), for at most `seconds` (0: all of them).

        `tester`: with no router in between. `by_queue`: so that what is attached to the generator's
        device sees them. All counters are read when nothing comes any more.
        """
        call = offering(
            stream, packets, tester, self._cpus - 1, rate=rate, seconds=seconds, by_queue=by_queue
        )
        done = self._run(call, "the generator", seconds)
        try:
            sent, refused, took, forwarded, received = map(int, done.split())
        except ValueError:
            raise SkblabError(
                f"the generator printed {done!r}: expected packets sent and refused, microseconds, "
                "packets forwarded and received"
            ) from None
        return Offered(sent, forwarded, received, took, refused)

    def counters(self) -> counters.Values:
        """Return what the kernel has counted until now."""
        return counters.read(self.transport, self.machine)

    def _run(self, call: str, what: str, seconds: float = 0.0) -> str:
        return self.transport.script(script(call), seconds=SECONDS + seconds).check(what).stdout


def laying_out(traffic: Traffic) -> str:
    """Return the call that makes the namespaces, for `script`."""
    return "lay_out\nlead_all_to_the_sink" if "random" in traffic.destinations else "lay_out"


def offering(
    stream: Stream,
    packets: int,
    tester: bool,
    cpu: int,
    *,
    rate: float = 0.0,
    seconds: float = 0.0,
    by_queue: bool = False,
) -> str:
    """Return the call that sends packets, for `script`."""
    assert isinstance(stream.frame, int)
    gap = round(NANOSECONDS / rate) if rate else 0
    words = [
        *("offer", "tester" if tester else "whole"),
        *(stream.family, stream.frame - CHECKSUM_BYTES, stream.flows),
        *(packets, gap, f"{seconds:g}", cpu),
    ]
    call = shlex.join(map(str, words))
    how = [] if stream.destinations == "fixed" else [f"DESTINATIONS={stream.destinations}"]
    how += ["XMIT=queue_xmit"] if by_queue else []
    return "\n".join([*how, call])


def sink(*, tester: bool, late_us: tuple[float, ...], run: int) -> Sink:
    """Return what times packets that are offered `by_queue`; they are counted all the same."""
    generator, far = ("c0", "s1") if tester else ("g0", "s0")
    return Sink(Place(far, "sink"), Place(generator, "generator"), late_us, run, passes=True)


def script(call: str) -> str:
    """Return a script that makes a call of netns.sh."""
    return f"set -eu\n{(resources.files(__package__) / 'netns.sh').read_text()}\n{call}\n"


def unable(experiment: Experiment) -> list[str]:
    """Return what of an experiment this testbed cannot do, in words."""
    needs, traffic = experiment.needs, experiment.traffic
    said = []
    if needs.queues > 1:
        said.append(f"needs.queues = {needs.queues}: veth has no RSS to spread packets over queues")
    if needs.numa > 1:
        said.append(f"needs.numa = {needs.numa}: all is in one guest with one NUMA node")
    said += [
        f"baseline.{name} = {text(value)}: veth is no network card and has nothing like it"
        for name, value in experiment.baseline.items()
        if name in OF_NICS
    ]
    if mixes := [one for one in traffic.frame if not isinstance(one, int)]:
        said.append(f"traffic.frame = {mixes[0]!r}: the generator sends frames of one size")
    small = [one for one in traffic.frame if isinstance(one, int) and one < IPV6_LEAST]
    if 6 in traffic.family and small:
        said.append(
            f"traffic.frame = {small[0]} with IPv6: the generator's own header takes frames of at "
            f"least {IPV6_LEAST} bytes"
        )
    if large := [one for one in traffic.frame if isinstance(one, int) and one > 1518]:
        said.append(f"traffic.frame = {large[0]}: the devices' MTU of 1500 has room for 1518 bytes")
    return said
