# SPDX-License-Identifier: GPL-2.0-or-later
"""A testbed of two guests: the router has virtio devices with queues, interrupts and RSS.

Generator and sink are in the other guest, so that the router's CPUs are its own; those of the host
are not. The devices are joined by taps and bridges in a network namespace that is there for the
testbed alone, and goes with its processes, however they end.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from skblab.lab.guest import GuestSpec, Nic, links
from skblab.lab.guest.chosen import make_spec
from skblab.lab.kernel import Kernel
from skblab.lab.labroot import Bind, LabRoot
from skblab.machine.device import Machine
from skblab.machine.guest import Guest
from skblab.machine.transport import Transport, staying
from skblab.testbeds import base
from skblab.testbeds.apart import Apart
from skblab.testbeds.asked import Asked, Traffic
from skblab.testbeds.base import SECONDS, Testbed, calling
from skblab.testbeds.sending import Sending

# One for the generator, one for the sink.
TESTER_CPUS = 2
# A router with one queue has nothing to spread, and with one CPU nowhere to.
LEAST = 2
MAC = "02:00:00:00:00:{:02x}"
# Numbers of addresses, as tester.sh, router.sh and virtio.sh have them.
G0, R0, R1, S0, C0, S1 = range(1, 7)
LINKS = ((G0, R0), (R1, S0), (C0, S1))
ROUTER = (*base.LIBRARY, "virtio")


class Virtio(Apart):
    """Two running guests; `prepare` gives their devices names and addresses."""

    def __init__(self, router: Transport, tester: Transport, cpus: int) -> None:
        super().__init__(router, tester, VIRTIO.machine(cpus), TESTER_CPUS - 1, ROUTER)

    def prepare(self, traffic: Traffic) -> None:
        """Lay out addresses and neighbours, as it takes for this traffic."""
        for transport, call in zip((self.tester, self.transport), _calls(traffic), strict=True):
            text = base.script(call, *ROUTER)
            transport.script(text, seconds=SECONDS).check("making the testbed")

    def program(self, name: str) -> str:
        """Return where a program of ours is, in either guest."""
        return f"{base.SHARED}/{name}"


@dataclass(frozen=True)
class TwoGuests:
    """The Kind."""

    name: str = "virtio"
    sentence: str = (
        "a router with network cards of several queues, and its tester in another guest."
    )
    where: str = "two guests with virtio devices"
    exact: bool = False
    boots: bool = True
    gaps: tuple[str, ...] = (
        "Router and tester are guests, and the CPUs of both are the host's: where it has fewer "
        "than they have together, they wait for each other.",
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
        """Yield the tester's script, and the router's."""
        for call in _calls(traffic):
            yield base.script(call, *ROUTER)

    def offering(self, sending: Sending, cpus: int) -> str:
        """Return the tester's call that sends packets; its last CPU does it."""
        return calling("send", sending, TESTER_CPUS - 1)

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
        """Have both guests up, and their links."""
        queues = max(LEAST, experiment.needs.queues)
        router_nics = tuple(_nic(number, queues) for number in (R0, R1))
        tester_nics = tuple(_nic(number) for number in (G0, S0, C0, S1))
        ends = {nic.mac: nic for nic in (*router_nics, *tester_nics)}
        pairs = [(ends[MAC.format(first)], ends[MAC.format(second)]) for first, second in LINKS]
        router_spec = spec.model_copy(
            update={"nics": router_nics, "numa": max(spec.numa, experiment.needs.numa)}
        )
        tester_spec = make_spec(cpus=TESTER_CPUS, flavour=tester.record.flavour).model_copy(
            update={"nics": tester_nics}
        )
        with (
            links.made(pairs, labroot) as place,
            Guest.boot(
                tester_spec,
                tester,
                labroot,
                shares=shares,
                log=log.with_name(f"tester-{log.name}"),
                wait=False,
                place=place,
            ) as other,
            Guest.boot(router_spec, kernel, labroot, shares=shares, log=log, place=place) as guest,
            staying(guest.transport) as router,
        ):
            other.connect()
            made = Virtio(router, other.transport, guest.spec.cpus)
            made.watch.sources |= {"router": guest.console, "tester": other.console}
            try:
                yield guest, made
            finally:
                made.end()


KIND = VIRTIO = TwoGuests()


def _nic(number: int, queues: int = 1) -> Nic:
    return Nic(tap=f"tap{number}", mac=MAC.format(number), queues=queues)


def _calls(traffic: Traffic) -> tuple[str, str]:
    return "be_tester", base.laying_out("be_guest_router", traffic)
