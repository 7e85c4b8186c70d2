# SPDX-License-Identifier: GPL-2.0-or-later
"""A testbed in one guest: generator, router and sink in namespaces, joined by veth pairs.

All three are of one kernel and its CPUs, so that nothing of it is a device's own speed. In `exact`
mode it tells to a few instructions what a packet costs, which is what it is for.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from skblab.knobs.values import text
from skblab.lab.guest import GuestSpec
from skblab.lab.kernel import Kernel
from skblab.lab.labroot import Bind, LabRoot
from skblab.machine import counters
from skblab.machine.device import Machine
from skblab.machine.guest import Guest
from skblab.machine.transport import Transport, staying
from skblab.machine.watch import Watch
from skblab.testbeds import base
from skblab.testbeds.asked import Asked, Traffic
from skblab.testbeds.base import SECONDS, SENT, Offered, Testbed, calling, counts
from skblab.testbeds.processes import Others
from skblab.testbeds.sending import Sending

ROUTER = "router"
PARTS = (*base.LIBRARY, "netns")
# Knobs of what veth has not: where the baseline has one, nothing could be compared.
OF_NICS = frozenset(
    (
        *("ring_rx", "ring_tx", "queues", "rss", "rss_key", "irq_affinity", "gro_hw"),
        *("rx_usecs", "rx_frames", "adaptive_rx", "tx_usecs", "tx_frames", "adaptive_tx"),
    )
)


class Netns:
    """The namespaces of a running guest; `prepare` makes them."""

    def __init__(self, transport: Transport, cpus: int) -> None:
        self.transport = self.tester = transport
        self.machine = NETNS.machine(cpus)
        self.watch = Watch()
        self.rooms = True

    def prepare(self, traffic: Traffic) -> None:
        """Make the namespaces, as it takes for this traffic."""
        self._run(laying_out(traffic), "making the testbed's namespaces")

    def offer(self, sending: Sending) -> Offered:
        """Send packets, see Testbed."""
        call = NETNS.offering(sending, self.machine.cpus)
        printed = self._run(call, "the generator", sending.seconds)
        told, _, ran = printed.partition("== before\n")
        sent, refused, took, received, _, forwarded = counts(
            "the generator", told, (*SENT, "packets forwarded")
        )
        if sending.tester:
            forwarded = sent
        before, _, after = ran.partition("== after\n")
        others = Others.between(before, after, took) if ran else Others()
        step = base.stepped(self.tester, sending)
        return Offered(sent, forwarded, received, took, refused, others, step)

    def program(self, name: str) -> str:
        """Return where a program of ours is in the guest."""
        return f"{base.SHARED}/{name}"

    def counters(self) -> counters.Values:
        """Return what the kernel has counted until now."""
        return counters.read(self.transport, self.machine)

    def _run(self, call: str, what: str, seconds: float = 0.0) -> str:
        return self.transport.script(script(call), seconds=SECONDS + seconds).check(what).stdout


@dataclass(frozen=True)
class InOneGuest:
    """The Kind."""

    name: str = "netns"
    sentence: str = "namespaces of one guest."
    where: str = "namespaces of one guest"
    exact: bool = True
    boots: bool = True
    rooms: bool = True
    gaps: tuple[str, ...] = (
        "All is in one guest, on veth devices: generator, router and sink share its CPUs. Where "
        "the generator was the limit, it may be for the work that the router did on its CPU.",
    )

    def unable(self, experiment: Asked) -> list[str]:
        """Return what of an experiment it cannot do, in words."""
        needs = experiment.needs
        said = []
        if needs.queues > 1:
            said.append(
                f"needs.queues = {needs.queues}: veth has no RSS to spread packets over queues"
            )
        if needs.numa > 1:
            said.append(f"needs.numa = {needs.numa}: all is in one guest with one NUMA node")
        said += [
            f"baseline.{name} = {text(value)}: veth is no network card and has nothing like it"
            for name, value in experiment.baseline.items()
            if name in OF_NICS
        ]
        return [*said, *base.unable(experiment)]

    def cpus(self, experiment: Asked) -> int:
        """Return the CPUs of the guest; the last one has the generator."""
        return max(2, experiment.needs.cpus)

    def machine(self, cpus: int) -> Machine:
        """Return the device under test of a guest with so many CPUs."""
        return base.machine(cpus, ROUTER, veth=True)

    def commands(self, traffic: Traffic) -> Iterator[str]:
        """Yield the script that makes it."""
        yield script(laying_out(traffic))

    def offering(self, sending: Sending, cpus: int) -> str:
        """Return the call that sends packets, for `script`."""
        return calling("offer", sending, cpus - 1)

    @contextlib.contextmanager
    def up(
        self,
        experiment: Asked,
        spec: GuestSpec,
        kernel: Kernel,
        tester: Kernel,
        labroot: LabRoot,
        shares: Sequence[Bind],
        log: Path,
    ) -> Iterator[tuple[Guest, Testbed]]:
        """Have a guest up; the tester is in it, and has its kernel."""
        with (
            Guest.boot(spec, kernel, labroot, shares=shares, log=log) as guest,
            staying(guest.transport) as transport,
        ):
            made = Netns(transport, guest.spec.cpus)
            made.watch.sources["guest"] = guest.console
            yield guest, made


KIND = NETNS = InOneGuest()


def laying_out(traffic: Traffic) -> str:
    """Return the call that makes the namespaces, for `script`."""
    return base.laying_out("lay_out", traffic)


def script(call: str) -> str:
    """Return a script that makes a call of netns.sh."""
    return base.script(call, *PARTS)
