# SPDX-License-Identifier: GPL-2.0-or-later
"""A testbed whose router is a guest with virtio devices: queues, interrupts and RSS.

Generator and sink are this machine itself, at the other ends of the router's devices: taps in a
network namespace that is there for the testbed alone, and goes with its processes, however they
end. The tester by itself sends over a veth pair beside them.
"""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path

from skblab.lab import portable, tools
from skblab.lab.guest import GuestSpec, Nic, links
from skblab.lab.kernel import Kernel
from skblab.lab.labroot import Bind, LabRoot
from skblab.lab.reporter import Reporter
from skblab.machine.device import Machine
from skblab.machine.guest import Guest
from skblab.machine.transport import LocalTransport, staying
from skblab.testbeds import base
from skblab.testbeds.apart import Apart
from skblab.testbeds.asked import Asked, Traffic
from skblab.testbeds.base import SECONDS, Testbed
from skblab.testbeds.native import NAME, Native
from skblab.testbeds.sending import Sending

# A router with one queue has nothing to spread, and with one CPU nowhere to.
LEAST = 2
MAC = "02:00:00:00:00:{:02x}"
# Numbers of addresses, as tester.sh, router.sh and virtio.sh have them.
G0, R0, R1, S0, C0, S1 = range(1, 7)
MACS = {"R0_MAC": MAC.format(R0), "S1_MAC": MAC.format(S1)}
ROUTER = (*base.LIBRARY, "virtio")


@dataclass
class Virtio(Apart):
    """A running router, and this machine as its tester; `programs`: those of ours that run here."""

    programs: dict[str, str] = field(default_factory=dict, kw_only=True)

    def prepare(self, traffic: Traffic) -> None:
        """Lay out the router's addresses and neighbours, as it takes for this traffic."""
        text = base.script(_call(traffic), *ROUTER)
        self.transport.script(text, seconds=SECONDS).check("making the testbed")

    def program(self, name: str) -> str:
        """Return where a program of ours is, here or in the guest."""
        return self.programs.get(name, f"{base.SHARED}/{name}")


@dataclass(frozen=True)
class OneRouter:
    """The Kind."""

    name: str = "virtio"
    sentence: str = "a router with network cards of several queues, and this machine as its tester."
    where: str = "a guest with virtio devices, and this machine as its tester"
    exact: bool = False
    boots: bool = True
    rooms: bool = False
    gaps: tuple[str, ...] = (
        "Generator and sink are on the host, and so are the router's CPUs: where it has fewer than "
        "all have together, they wait for each other.",
    )

    def unable(self, experiment: Asked) -> list[str]:
        """Return what of an experiment it cannot do, in words."""
        return base.unable(experiment)

    def cpus(self, experiment: Asked) -> int:
        """Return the CPUs of the router."""
        return max(LEAST, experiment.needs.cpus, experiment.needs.queues, experiment.needs.numa)

    def machine(self, cpus: int) -> Machine:
        """Return the router with so many CPUs."""
        return base.machine(cpus, None)

    def commands(self, traffic: Traffic) -> Iterator[str]:
        """Yield the router's script."""
        yield base.script(_call(traffic), *ROUTER)

    def offering(self, sending: Sending, cpus: int) -> str:
        """Return the command that sends packets."""
        return shlex.join(Native().argv(sending, MACS))

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
        """Have the router up, with both of its links."""
        near = (nic(R0, experiment, "g0"), nic(R1, experiment, "s0"))
        programs = _programs(labroot, shares)
        with (
            links.up(list(_links(near)), labroot) as place,
            router(spec, experiment, near, kernel, labroot, shares, log, place) as guest,
            staying(guest.transport) as transport,
        ):
            made = Virtio(
                transport,
                LocalTransport.within(place),
                self.machine(guest.spec.cpus),
                0,
                ROUTER,
                MACS,
                generator=Native(programs[NAME]),
                near=("net", "native"),
                rooms=self.rooms,
                programs=programs,
            )
            made.watch.sources["router"] = guest.console
            try:
                yield guest, made
            finally:
                made.end()


KIND = VIRTIO = OneRouter()


def nic(number: int, experiment: Asked, tap: str) -> Nic:
    """Return a device of the router with the queues that are needed."""
    queues = max(LEAST, experiment.needs.queues)
    return Nic(tap=tap, mac=MAC.format(number), queues=queues)


def router(
    spec: GuestSpec,
    experiment: Asked,
    nics: tuple[Nic, ...],
    kernel: Kernel,
    labroot: LabRoot,
    shares: Sequence[Bind],
    log: Path,
    place: Path,
) -> AbstractContextManager[Guest]:
    """Have the router's guest with its devices, whose taps are in `place`."""
    nodes = max(spec.numa, experiment.needs.numa)
    wanted = spec.model_copy(update={"nics": nics, "numa": nodes})
    return Guest.boot(wanted, kernel, labroot, shares=shares, log=log, place=place)


def _links(taps: Sequence[Nic]) -> Iterator[str]:
    for one in taps:
        yield links.tap(one)
        yield f"ip link set {one.tap} up"
    yield base.functions("net")
    yield f"pair_here c0 {MAC.format(C0)} s1 {MACS['S1_MAC']}"


def _programs(labroot: LabRoot, shares: Sequence[Bind]) -> dict[str, str]:
    """Return our programs as they run here; pktsink, if the testbed's guests have it, too."""
    reporter = Reporter()
    found = {NAME: str(tools.ensure_traffic(labroot, reporter) / NAME)}
    for share in shares:
        sink = share.source / "pktsink"
        if share.inside == base.SHARED and sink.exists():
            found[sink.name] = str(portable.ensure(labroot, sink, reporter) / sink.name)
    return found


def _call(traffic: Traffic) -> str:
    return base.laying_out("be_guest_router", traffic)
