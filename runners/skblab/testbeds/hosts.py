# SPDX-License-Identifier: GPL-2.0-or-later
"""A testbed of real machines over SSH: a router, and a tester that is generator and sink.

Their ports are taken into network namespaces for as long as the sweep lasts (hosts.sh), so that
nothing of what a machine else is set up for is measured, or changed. A shell on each machine gives
them back, also if this process or the connection ends.
"""

from __future__ import annotations

import contextlib
import shlex
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path

from skblab.knobs import cpus as lists
from skblab.knobs.base import Unable
from skblab.machine.device import Machine
from skblab.machine.transport import Transport, staying
from skblab.machine.transport.host import brought, kept
from skblab.testbeds import base
from skblab.testbeds.apart import Apart
from skblab.testbeds.asked import Asked, Stream, Traffic
from skblab.testbeds.base import CableError, Offered, calling
from skblab.testbeds.command import Command
from skblab.testbeds.generator import Generator
from skblab.testbeds.hostsfile import HostsFile
from skblab.testbeds.native import NAME, Native
from skblab.testbeds.sending import Sending
from skblab_analysis.base.errors import UsageError

NAMESPACE = "router"
# What a command where the generator's port is begins with.
INSIDE = "generator"
GENERATOR = ("nsenter", f"--net=/run/netns/{INSIDE}", "--")
PARTS = (*base.LIBRARY, "hosts")
# They tell whether the machines are joined as the hosts file has it.
GREETING = 100
# Some drivers fetch their card's counters once a second, or every other one.
DRIVER_SECONDS = 2.5
GREETING_RATE = 1000.0
# Before packets are sent once more, in seconds.
GREETING_PAUSES = (2.0, 5.0)
MACS = ("G0_MAC", "R0_MAC", "S0_MAC", "C0_MAC", "S1_MAC")
# Of the tester's ports as the hosts file has them, one after the other.
ADDRESSES = ("G0_MAC", "S0_MAC", "C0_MAC", "S1_MAC")
NO_LOOP = (
    "the tester has no loop: without two ports joined to each other ([tester] loop in the hosts "
    "file) its own maximum is not known"
)


@dataclass(frozen=True)
class OnHosts:
    """The Kind."""

    name: str = "hosts"
    sentence: str = "real machines, see --hosts."
    where: str = "machines over SSH"
    exact: bool = False
    boots: bool = False
    rooms: bool = True
    gaps: tuple[str, ...] = (
        "The router's ports were in a network namespace: nothing of how the machine is set up "
        "otherwise, such as its own firewall rules and routes, was measured.",
        "Hosts are not booted between blocks: what a block left in a kernel is there in the next.",
    )

    def unable(self, experiment: Asked) -> list[str]:
        """Return what of an experiment it cannot do, in words; more is known once it is up."""
        return base.unable(experiment)

    def cpus(self, experiment: Asked) -> int:
        """Return the CPUs that the router has to have; how many it has, it tells when it is up."""
        return experiment.needs.cpus

    def machine(self, cpus: int) -> Machine:
        """Return the router with so many CPUs."""
        return base.machine(cpus, NAMESPACE)

    def commands(self, traffic: Traffic) -> Iterator[str]:
        """Yield how the ports are taken, on the tester and on the router."""
        for call in ("take_tester", "take_router", base.laying_out("be_router", traffic)):
            yield base.script(call, *PARTS)

    def offering(self, sending: Sending, cpus: int) -> str:
        """Return the tester's call that sends packets; its first CPU is as good as any here."""
        return calling("send", sending, 0)


KIND = HOSTS = OnHosts()


@dataclass
class Hosts(Apart):
    """Two machines whose ports were taken; `programs`: the folders with ours, on router and tester.

    `ports` are their names in the hosts file, to speak of: generator, in, out, sink.
    """

    programs: dict[str, str] = field(default_factory=dict)
    ports: tuple[str, str, str, str] = ("g0", "r0", "r1", "s0")
    loop: bool = False
    nodes: int = 1

    def prepare(self, traffic: Traffic) -> None:
        """Lay out addresses and neighbours; CableError if packets do not come to the sink."""
        self.router(base.laying_out("be_router", traffic))
        self._greet(next(traffic.each()))

    def offer(self, sending: Sending) -> Offered:
        """Send packets, see Testbed; Unable for the tester alone if it has no loop."""
        if sending.tester and not self.loop:
            raise Unable(NO_LOOP)
        return super().offer(sending)

    def program(self, name: str) -> str:
        """Return where a program of ours is on the machine that it is for."""
        return f"{self.programs[name]}/{name}"

    def _greet(self, stream: Stream) -> None:
        generator, port_in, port_out, sink = self.ports
        for pause in (*GREETING_PAUSES, None):
            found = self.offer(Sending(stream, GREETING, GREETING_RATE))
            if found.forwarded and found.received:
                return
            if pause is not None:
                # A link may say that it is up before it carries anything.
                time.sleep(pause)
        if found.forwarded == 0:
            raise CableError(
                f"the router forwarded none of {found.tried} packets: is the tester's {generator} "
                f"joined to the router's {port_in}?"
            )
        raise CableError(
            f"none of {found.forwarded} packets that the router forwarded came to the sink: is "
            f"the router's {port_out} joined to the tester's {sink}?"
        )


@contextlib.contextmanager
def taken(
    file: HostsFile,
    tester: Transport,
    router: Transport,
    who: str,
    sender: Callable[[], Path],
    programs: Mapping[str, str] | None = None,
) -> Iterator[Hosts]:
    """Have the ports of both machines in namespaces; SkblabError says why one cannot be taken.

    `who` has them, in words for others who would. `sender` returns the bundle of our own, which is
    brought to a tester that is to send by it, or whose kernel has no pktgen.
    """
    with (
        contextlib.ExitStack() as stack,
        _tester(file, tester, who) as near,
        router_taken(file, router, who) as far,
        staying(router) as one_shell,
    ):
        waited = [(router, file.router.ssh, ["r0:router", "r1:router"])]
        if not file.tester.apart:
            waited.insert(0, (tester, file.tester.ssh, ["g0:generator", "s0:sink"]))
        for transport, host, ports in waited:
            text = base.script(shlex.join(["linked", *ports]), *PARTS)
            transport.script(text).check(f"waiting for the links of {host}")
        macs = {name: near.get(name) or far.get(name) or "" for name in MACS}
        local = lists.parse(near["near"])
        cpu = local[-1] if local else int(near["cpus"]) - 1
        generator: Generator | None = None
        match _sender(file, near):
            case "command":
                generator = _command(file, tester)
            case "skblab-traffic" | "af_xdp" as chosen:
                folder = stack.enter_context(brought(tester, sender()))
                program = f"{folder}/{NAME}"
                generator = Native(program, GENERATOR, cpu, xdp=chosen == "af_xdp")
        made = Hosts(
            one_shell,
            tester,
            HOSTS.machine(int(far["cpus"])),
            cpu,
            PARTS,
            {name: mac for name, mac in macs.items() if mac},
            programs={**(programs or {})},
            ports=(file.tester.generator, *file.router.ports, file.tester.sink),
            loop=file.tester.loop is not None,
            still=DRIVER_SECONDS,
            generator=generator,
            nodes=int(far["nodes"]) or 1,
        )
        try:
            yield made
        finally:
            made.end()


@contextlib.contextmanager
def _tester(file: HostsFile, tester: Transport, who: str) -> Iterator[dict[str, str]]:
    """Have the tester's ports; yields what is known of them, by name."""
    ports, host = file.tester.ports, file.tester.ssh
    if not file.tester.apart:
        with _taken(tester, ["take_tester", who, *ports], host) as near:
            yield near
        return
    with _taken(tester, ["have_tester", who], host) as near:
        yield near | dict(zip(ADDRESSES, ports, strict=False))


def _sender(file: HostsFile, near: Mapping[str, str]) -> str:
    """Return what sends, where the file leaves it open too; UsageError if the tester lacks it."""
    if near["pktgen"] == "no" and file.tester.sender == "pktgen":
        raise UsageError(
            f"the kernel of {file.tester.ssh} has no pktgen (CONFIG_NET_PKTGEN), which the "
            'hosts file asks for: expected sender = "skblab-traffic", or no sender'
        )
    return file.tester.sender or ("pktgen" if near["pktgen"] == "yes" else NAME)


def _command(file: HostsFile, tester: Transport) -> Command:
    """Return the file's command; UsageError if it is no program of the tester's."""
    argv = file.tester.command
    assert argv is not None
    if tester.run(["test", "-f", argv[0], "-a", "-x", argv[0]]).status:
        raise UsageError(
            f"{file.tester.ssh} has no program {argv[0]}, which the hosts file has as command: "
            "expected one there that can be executed"
        )
    if file.tester.apart:
        return Command(argv, counts=True)
    return Command(argv, GENERATOR, INSIDE)


def router_taken(
    file: HostsFile, router: Transport, who: str
) -> AbstractContextManager[dict[str, str]]:
    """Have the ports of the router alone; what a killed shell left was given back before."""
    return _taken(router, ["take_router", who, *file.router.ports], file.router.ssh)


def has_ports(transport: Transport) -> bool:
    """Whether ports of a machine are in namespaces of a sweep."""
    return transport.run(["test", "-e", "/run/skblab-sweep.taken"]).status == 0


def give_back(transport: Transport, host: str, who: str) -> None:
    """Have a machine's ports given back that shells of ours left; SkblabError if they cannot be."""
    text = base.script(shlex.join(["alone", who]), *PARTS)
    transport.script(text).check(f"giving back the ports of {host}")


@contextlib.contextmanager
def _taken(transport: Transport, call: Sequence[str], host: str) -> Iterator[dict[str, str]]:
    """Have one machine's ports taken; yields what it said of them, by name."""
    text = base.script(shlex.join(call), *PARTS)
    with kept(transport, text, f"taking the ports of {host}") as said:
        yield {name: value for name, _, value in (word.partition("=") for word in said.split())}
