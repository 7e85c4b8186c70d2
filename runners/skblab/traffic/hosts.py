# SPDX-License-Identifier: GPL-2.0-or-later
"""Where flows run: namespaces of this machine or of a guest of ours, or machines over SSH."""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from ipaddress import IPv4Address, IPv6Address
from pathlib import Path

from skblab.lab import kernel, portable, tools
from skblab.lab.guest import links
from skblab.lab.labroot import LabRoot
from skblab.lab.reporter import Reporter
from skblab.machine.environment import describe_host
from skblab.machine.transport import LocalTransport, Running, Transport
from skblab.machine.transport.base import Done
from skblab.machine.transport.host import brought, connected
from skblab.machine.watch import Source
from skblab.probe import environment, targets
from skblab.probe.guests import guest_of_ours
from skblab.testbeds import base
from skblab.testbeds.native import NAME
from skblab.testbeds.traffic import PROGRAMS
from skblab.traffic.plan import TrafficFile
from skblab_analysis.formats.run import Environment, Kernel

# Of the n-th host, from 1, see hosts.sh.
IPV4 = "198.18.0.{}"
IPV6 = "2001:db8::{:x}"
MAC = "02:00:00:00:01:{:02x}"
# The port of each host that is a namespace.
PORT = "eth0"
# Where guests have what sends by pktgen.
BY_PKTGEN = "/run/skblab-by-pktgen"


@dataclass(frozen=True)
class Host:
    """A host: how it is reached, where our program is there, and its addresses by IP version.

    `device` is its port, and `mac` where frames for it go to. Of machines the file may have them.
    """

    name: str
    transport: Transport
    program: str
    addresses: Mapping[int, str]
    device: str = ""
    mac: str = ""


@dataclass(frozen=True)
class Hosts:
    """Hosts that are up; `one_clock`: all are one machine, whose clock both ends are timed by."""

    by_name: Mapping[str, Host]
    one_clock: bool
    where: str
    environment: Callable[[], Environment]
    # What their kernels say, by machine.
    kernels: Mapping[str, Source] = field(default_factory=dict)


@dataclass(frozen=True)
class _Inside:
    """A transport whose commands begin with others, such as those that enter a namespace."""

    below: Transport
    first: tuple[str, ...]

    def run(self, argv: Sequence[str], *, stdin: str = "", seconds: float = 600) -> Done:
        return self.below.run([*self.first, *argv], stdin=stdin, seconds=seconds)

    def script(self, text: str, *, seconds: float = 600) -> Done:
        return self.run(["sh", "-eu", "-s"], stdin=text, seconds=seconds)

    def start(self, argv: Sequence[str]) -> Running:
        return self.below.start([*self.first, *argv])

    def attach(self, argv: Sequence[str], *, tty: bool) -> int:
        return self.below.attach([*self.first, *argv], tty=tty)

    def put(self, source: Path, target: str) -> None:
        self.below.put(source, target)


def build(
    file: TrafficFile, chosen: Callable[[str], kernel.Request], root: LabRoot, reporter: Reporter
) -> None:
    """Build what hosts need, before anything is measured: `chosen` names a flavour's kernel."""
    tools.ensure_traffic(root, reporter)
    if file.hosts or file.where == "here":
        return
    for flavour in dict.fromkeys(setting.kernel or "stock" for setting in file.setting):
        tools.ensure(root, kernel.ensure(chosen(flavour), root, reporter), reporter)


@contextlib.contextmanager
def here(file: TrafficFile, root: LabRoot, reporter: Reporter) -> Iterator[Hosts]:
    """Have hosts as namespaces of this machine, which go with this block, however it ends."""
    program = str(tools.ensure_traffic(root, reporter) / NAME)
    with links.up([script(file.names)], root) as place:
        found = {
            name: Host(
                name,
                LocalTransport.within(links.named(place, root, name)),
                program,
                _addresses(number),
                PORT,
                MAC.format(number),
            )
            for number, name in enumerate(file.names, 1)
        }
        yield Hosts(found, one_clock=True, where="namespaces of this machine", environment=_ours)


@contextlib.contextmanager
def guest(
    file: TrafficFile, chosen: kernel.Request, root: LabRoot, reporter: Reporter
) -> Iterator[Hosts]:
    """Have hosts as namespaces of a guest of ours."""

    def lay_out(target: targets.Target) -> None:
        target.transport.script(script(file.names)).check("making the hosts")
        if file.by_pktgen():
            argv = ["sh", "-c", f"cat >{BY_PKTGEN}"]
            target.transport.run(argv, stdin=by_pktgen()).check("bringing what sends by pktgen")

    with guest_of_ours(chosen, root, reporter, lay_out, program=NAME) as target:
        found = {
            name: Host(
                name,
                _Inside(target.transport, ("ip", "netns", "exec", name)),
                f"{PROGRAMS}/{NAME}",
                _addresses(number),
                PORT,
                MAC.format(number),
            )
            for number, name in enumerate(file.names, 1)
        }
        yield Hosts(
            found,
            one_clock=True,
            where=f"namespaces of a guest, kernel {target.release}",
            environment=lambda: environment.describe(target),
            kernels={target.name: target.kernel_log(reporter)},
        )


@contextlib.contextmanager
def machines(file: TrafficFile, root: LabRoot, reporter: Reporter) -> Iterator[Hosts]:
    """Have the file's machines, with our program in a folder of each that goes with this block."""
    there = tools.ensure_traffic(root, reporter)
    bundle = portable.ensure(root, there / NAME, reporter)
    config = Path(file.ssh_config) if file.ssh_config else None
    with contextlib.ExitStack() as stack:
        found: dict[str, Host] = {}
        facts: dict[str, str] = {}
        for name in file.names:
            machine = file.hosts[name]
            reporter.say(f"connecting to {machine.ssh}")
            ssh = stack.enter_context(connected(machine.ssh, config))
            folder = stack.enter_context(brought(ssh, bundle))
            addresses = _by_version(machine.address)
            at = (machine.device or "", machine.mac or "")
            found[name] = Host(name, ssh, f"{folder}/{NAME}", addresses, *at)
            facts[f"{name}"] = machine.ssh
            facts[f"{name} kernel"] = ssh.run(["uname", "-srv"]).check("asking").stdout.strip()
        yield Hosts(
            found,
            one_clock=False,
            where="machines over SSH",
            environment=lambda: _ours().model_copy(update={"more": facts}),
        )


def _by_version(addresses: Sequence[IPv4Address | IPv6Address]) -> dict[int, str]:
    found: dict[int, str] = {}
    for address in addresses:
        found.setdefault(address.version, str(address))
    return found


def _addresses(number: int) -> dict[int, str]:
    return {4: IPV4.format(number), 6: IPV6.format(number)}


def script(names: Sequence[str]) -> str:
    """Return the script that makes hosts as namespaces where it runs."""
    own = (resources.files(__package__) / "hosts.sh").read_text()
    return "\n".join([base.functions("net"), own, shlex.join(["be_hosts", *names])])


def by_pktgen() -> str:
    """Return the script that sends by pktgen from the namespace $GENERATOR what its words ask."""
    return base.script('generate "$@"', "generator")


def _ours() -> Environment:
    told = LocalTransport().run(["uname", "-r", "-v"]).check("asking this machine").stdout
    release, _, version = told.strip().partition(" ")
    return Environment(
        kernel=Kernel(
            release=release, version=version, flavour="not ours", config_hash="", patches=()
        ),
        guests={},
        host=describe_host(),
    )
