# SPDX-License-Identifier: GPL-2.0-or-later
"""The testbed `virtio` with its tester in another guest: its kernel's pktgen, and a sink.

Its devices and the router's are joined by taps and bridges in a network namespace that is there for
the testbed alone, and goes with its processes, however they end.
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
from skblab.machine.guest import Guest
from skblab.machine.transport import Transport, staying
from skblab.testbeds import base
from skblab.testbeds.apart import Apart
from skblab.testbeds.asked import Asked, Traffic
from skblab.testbeds.base import SECONDS, Testbed, calling
from skblab.testbeds.sending import Sending
from skblab.testbeds.virtio import (
    C0,
    G0,
    MAC,
    R0,
    R1,
    ROUTER,
    S0,
    S1,
    VIRTIO,
    OneRouter,
    nic,
    router,
)

# One for the generator, one for the sink.
TESTER_CPUS = 2
LINKS = ((G0, R0), (R1, S0), (C0, S1))


class TwoGuests(Apart):
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
class BesidePktgen(OneRouter):
    """The Kind."""

    name: str = "virtio-pktgen"
    sentence: str = "the same router, with pktgen in another guest as its tester."
    where: str = "two guests with virtio devices"
    rooms: bool = True
    gaps: tuple[str, ...] = (
        "Router and tester are guests, and the CPUs of both are the host's: where it has fewer "
        "than they have together, they wait for each other.",
    )

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
        router_nics = tuple(nic(number, experiment, _tap(number)) for number in (R0, R1))
        tester_nics = tuple(
            Nic(tap=_tap(number), mac=MAC.format(number)) for number in (G0, S0, C0, S1)
        )
        ends = {one.mac: one for one in (*router_nics, *tester_nics)}
        pairs = [(ends[MAC.format(first)], ends[MAC.format(second)]) for first, second in LINKS]
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
            router(spec, experiment, router_nics, kernel, labroot, shares, log, place) as guest,
            staying(guest.transport) as transport,
        ):
            other.connect()
            made = TwoGuests(transport, other.transport, guest.spec.cpus)
            made.watch.sources |= {"router": guest.console, "tester": other.console}
            try:
                yield guest, made
            finally:
                made.end()


KIND = BesidePktgen()


def _tap(number: int) -> str:
    return f"tap{number}"


def _calls(traffic: Traffic) -> tuple[str, str]:
    return "be_tester", base.laying_out("be_guest_router", traffic)
