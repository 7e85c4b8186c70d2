# SPDX-License-Identifier: GPL-2.0-or-later
"""What a testbed is: a generator, the device under test and a sink, and how traffic is asked for.

A Kind says how one comes up and what it cannot do, before anything is booted; a Testbed is one that
is up. Generator and sink are of one kernel, whose clock both ends of a packet are timed by.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Protocol, runtime_checkable

from skblab.lab.guest import GuestSpec
from skblab.lab.kernel import Kernel
from skblab.lab.labroot import Bind, LabRoot
from skblab.machine import counters
from skblab.machine.device import Device, Machine
from skblab.machine.guest import Guest
from skblab.machine.transport import Transport
from skblab.machine.watch import Watch
from skblab.testbeds.asked import MIXES, MOST_PACKETS, Asked, Frame, Traffic
from skblab.testbeds.processes import Others
from skblab.testbeds.sending import STEP, Sending, Step
from skblab.testbeds.sink import Place, Sink
from skblab_analysis.base.errors import SkblabError, UsageError, one_line
from skblab_analysis.base.whole import MOST_COUNTED, whole

# Frames of IPv6 that hold the generator's own header: magic, sequence and time, see pktgen.c.
IPV6_LEAST = 82
LARGEST = 1518
CHECKSUM_BYTES = 4
# Beyond what packets take at a rate; emulation on a loaded machine is slow and not dead.
SECONDS = 600
# Packets before a trial, which fill the caches of memory, routes and neighbours.
WARM_UP = 2_000
NANOSECONDS = 1_000_000_000
# Where guests have programs of ours.
SHARED = "/skblab/tools"
# What all testbeds' scripts go on from; the tester's part of it, which has no router.
TESTER = ("net", "generator", "tester")
LIBRARY = (*TESTER, "router")
# What `send` of tester.sh prints.
SENT = ("packets sent", "refused", "microseconds", "packets received", "in all")


class CableError(UsageError):
    """The machines are not joined as the user says: no further testbed mends that."""


@dataclass(frozen=True)
class Offered:
    """What came of packets: how many were sent, forwarded and received, and how long it took.

    `refused` are not among those sent: the first device behind the generator had no room for them.
    `others`: what was of the time and of no packet, where it is known. `step`: when the rate of
    packets changed, if it did.
    """

    sent: int
    forwarded: int
    received: int
    microseconds: int
    refused: int = 0
    others: Others = field(default_factory=Others)
    step: Step | None = None

    @property
    def tried(self) -> int:
        """Packets that the generator put out, taken or refused."""
        return self.sent + self.refused


class Testbed(Protocol):
    """A testbed that is up; `prepare` comes first."""

    @property
    def transport(self) -> Transport:
        """To the device under test."""

    @property
    def tester(self) -> Transport:
        """To where generator and sink are."""

    @property
    def machine(self) -> Machine:
        """The device under test."""

    @property
    def watch(self) -> Watch:
        """What the kernels of its machines complain of."""

    @property
    def rooms(self) -> bool:
        """Whether generator and sink are in network namespaces of these names."""

    def prepare(self, traffic: Traffic) -> None:
        """Lay out addresses and neighbours, as it takes for this traffic."""

    def offer(self, sending: Sending) -> Offered:
        """Send packets; all counters are read when nothing comes any more."""

    def program(self, name: str) -> str:
        """Return where a program of ours is on the machine that it is for."""

    def counters(self) -> counters.Values:
        """Return what the kernel of the device under test has counted until now."""


@runtime_checkable
class Kind(Protocol):
    """A kind of testbed: KIND in its module."""

    @property
    def name(self) -> str:
        """As it is asked for."""

    @property
    def sentence(self) -> str:
        """What it is, for --help, after its name."""

    @property
    def where(self) -> str:
        """What a run is in, in words that follow `in`."""

    @property
    def gaps(self) -> Sequence[str]:
        """What it cannot see, in sentences."""

    @property
    def exact(self) -> bool:
        """Whether instructions can be counted in it."""

    @property
    def boots(self) -> bool:
        """Whether it is booted for a run, with the kernel that is asked for."""

    @property
    def rooms(self) -> bool:
        """Whether generator and sink are in network namespaces of these names."""

    def unable(self, experiment: Asked) -> list[str]:
        """Return what of an experiment it cannot do, in words."""

    def cpus(self, experiment: Asked) -> int:
        """Return the CPUs of the device under test."""

    def machine(self, cpus: int) -> Machine:
        """Return the device under test with so many CPUs."""

    def commands(self, traffic: Traffic) -> Iterator[str]:
        """Yield the scripts that make it, once all has booted."""

    def offering(self, sending: Sending, cpus: int) -> str:
        """Return the call that sends packets, where the device under test has so many CPUs."""


@runtime_checkable
class GuestKind(Kind, Protocol):
    """A kind of testbed in guests, which are booted for it."""

    def up(
        self,
        experiment: Asked,
        spec: GuestSpec,
        kernel: Kernel,
        tester: Kernel,
        labroot: LabRoot,
        shares: Sequence[Bind],
        log: Path,
    ) -> AbstractContextManager[tuple[Guest, Testbed]]:
        """Have it up, with these kernels in the device under test and in a tester of its own."""


def calling(verb: str, sending: Sending, cpu: int, tag: str = "") -> str:
    """Return a call of a testbed's script that sends packets, in the words of generator.sh.

    `cpu` has the generator; `tag` is the ID of the VLAN that the router is in, or empty.
    """
    stream, packets = sending.stream, sending.packets
    if packets >= MOST_PACKETS:
        # Until the time is up. Nobody counts to so many but in hours, in which that time is exact.
        assert sending.seconds
        packets = 0
    words = {
        "family": stream.family,
        "size": _sizes(stream.frame),
        "flows": stream.flows,
        "count": packets,
        "gap": round(NANOSECONDS / sending.rate) if sending.rate else None,
        "limit": f"{sending.seconds:g}" if sending.seconds else None,
        "cpu": cpu,
        "destinations": None if stream.destinations == "fixed" else stream.destinations,
        "xmit": "queue_xmit" if sending.by_queue else None,
        "step": _step(sending),
        "tag": tag or None,
    }
    named = (f"{name}={value}" for name, value in words.items() if value is not None)
    return shlex.join([verb, "tester" if sending.tester else "whole", *named])


def _step(sending: Sending) -> str | None:
    return f"{sending.after:g} {round(NANOSECONDS / sending.then)}" if sending.then else None


def _sizes(frame: Frame) -> str:
    """Return what pktgen is asked for: bytes without checksum, or such with their weights."""
    if isinstance(frame, int):
        return str(frame - CHECKSUM_BYTES)
    return " ".join(f"{size - CHECKSUM_BYTES},{weight}" for size, weight in MIXES[frame].items())


def functions(*parts: str) -> str:
    """Return these files of this package, which define functions: those that go on come later."""
    return "\n".join((resources.files(__package__) / f"{part}.sh").read_text() for part in parts)


def script(call: str, *parts: str) -> str:
    """Return a script that makes a call of these files of this package."""
    return "\n".join(["set -eu", functions(*parts), call, ""])


def machine(cpus: int, netns: str | None, *, veth: bool = False) -> Machine:
    """Return a router of two devices with so many CPUs; `netns`: the namespace that it is in."""
    devices = (
        Device("r0", netns, beyond=("198.18.0.2", "2001:db8:0:1::2")),
        Device("r1", netns, beyond=("198.19.0.2", "2001:db8:0:2::2")),
    )
    return Machine(devices, netns, cpus, veth)


def laying_out(call: str, traffic: Traffic) -> str:
    """Return the call that lays a router out, and what it takes beside it for this traffic."""
    return f"{call}\nlead_all_to_the_sink" if "random" in traffic.destinations else call


def counts(who: str, printed: str, names: Sequence[str]) -> list[int]:
    """Return the numbers that a script printed, one for each name; SkblabError if it did not.

    `who` printed them, in words that begin an error.
    """
    try:
        words = dict(zip(names, printed.split(), strict=True))
        return [whole(word, MOST_COUNTED) for word in words.values()]
    except ValueError as error:
        found = one_line(printed, 80)
        raise SkblabError(f"{who} printed {found!r}: expected {', '.join(names)}") from error


def stepped(tester: Transport, sending: Sending) -> Step | None:
    """Return when pktgen changed its rate, if it was asked to."""
    if not sending.then:
        return None
    told = tester.run(["cat", STEP]).check("the generator's change of rate")
    names = ["number before", "number after", "time of the change", "time of its beginning"]
    before, after, now, began = counts("the generator", told.stdout, names)
    return Step(before, after, now - began)


def sink(*, tester: bool, late_us: tuple[float, ...] = (), run: int | None = None) -> Sink:
    """Return what times packets that are offered `by_queue`; they are counted all the same."""
    generator, far = ("c0", "s1") if tester else ("g0", "s0")
    return Sink(Place(far, "sink"), Place(generator, "generator"), late_us, run, passes=True)


def unable(experiment: Asked) -> list[str]:
    """Return what of an experiment's traffic no generator of ours can send, in words."""
    traffic = experiment.traffic
    said = []
    small = [size for size in traffic.frame if isinstance(size, int) and size < IPV6_LEAST]
    if 6 in traffic.family and small:
        said.append(
            f"traffic.frame = {small[0]} with IPv6: the generator's own header takes frames of at "
            f"least {IPV6_LEAST} bytes"
        )
    if large := [size for size in traffic.frame if isinstance(size, int) and size > LARGEST]:
        said.append(
            f"traffic.frame = {large[0]}: the devices' MTU of 1500 has room for {LARGEST} bytes"
        )
    return said
