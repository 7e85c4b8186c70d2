# SPDX-License-Identifier: GPL-2.0-or-later
"""Testbeds of hosts, boot by boot, and what becomes of the hosts when a run is killed.

A host outlives a run. What a run has to put back is in a folder of the cache, one for each testbed,
with the way to it; the run holds the folder's lock. A folder with undo scripts whose lock nobody
holds is of a run that was killed: the next one puts it back before anything else, and so does
`skblab cleanup`. In such a folder are also `id`, by which its machines know whose their ports are,
`taken`, as long as they may have ports of ours, and `boot`, the boot of the router that was set.
"""

from __future__ import annotations

import contextlib
import getpass
import json
import secrets
import shutil
import socket
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import ValidationError

from skblab.knobs.applying import Undo
from skblab.lab import paths, portable, store, tools
from skblab.lab.guest.errors import GuestError
from skblab.lab.labroot import LabRoot
from skblab.lab.reporter import Reporter
from skblab.machine.collectors import Tool
from skblab.machine.device import Machine
from skblab.machine.environment import describe_host
from skblab.machine.transport import SshTransport, Transport, TransportError
from skblab.machine.transport.host import brought, connected
from skblab.machine.watch import HostLog
from skblab.sweep.experiment import Experiment
from skblab.sweep.measure.base import Program
from skblab.sweep.measures import parts, required
from skblab.sweep.planned import Boot
from skblab.testbeds import Testbed, base, inventory, native
from skblab.testbeds import place as booking
from skblab.testbeds.asked import Traffic
from skblab.testbeds.base import laying_out
from skblab.testbeds.hosts import HOSTS, PARTS, Hosts, give_back, has_ports, router_taken, taken
from skblab.testbeds.hostsfile import HostsFile
from skblab_analysis.base import disk
from skblab_analysis.base.errors import SkblabError, UsageError, one_line, understood
from skblab_analysis.formats.run import Environment, Kernel

# A host that went away in a run may boot: servers take minutes.
RETURN_SECONDS = 600
AGAIN_SECONDS = 5
WAY, UNDO, ID, TAKEN, BOOT = "hosts.json", "undo.jsonl", "id", "taken", "boot"


def require(tools: Sequence[Tool], router: Transport, host: str) -> None:
    """Raise UsageError for a command that an experiment needs and the router lacks."""
    for tool in tools:
        if router.run(["sh", "-c", f"command -v {tool.command}"]).status:
            raise UsageError(
                f"{host} has no {tool.command}, which a measure of the experiment needs: install "
                f"it there ({tool.install}), or leave it out of the experiment"
            )


def require_sink(file: HostsFile, experiment: Experiment) -> None:
    """Raise UsageError for a measure that looks at the sink's port in the kernel, if it has none.

    Before anything is built or reached: the hosts file says it.
    """
    if not file.tester.apart:
        return
    timed = {
        part.name: None
        for part in parts(experiment.measure)
        if any(program.where == "tester" for program in part.programs(experiment.measure))
    }
    if timed:
        raise UsageError(
            f"the experiment times packets at the tester's sink "
            f"({', '.join(f'[measure.{name}]' for name in timed)}), and the kernel of "
            f"{file.tester.ssh} does not have that port ({file.tester.sink}): leave it out"
        )


class NoWayError(UsageError):
    """The way to a testbed that is remembered leads nowhere, such as an SSH configuration gone."""


def _base() -> Path:
    return paths.cache() / "hosts"


def _who(place: Path) -> str:
    """Return who takes ports, so that others know, and so that we know ourselves later."""
    file = place / ID
    if not file.exists():
        # Users and machines of one name may be several.
        disk.write_whole(file, secrets.token_hex(8))
    return f"skblab of {getpass.getuser()} on {socket.gethostname()}, run {file.read_text()}"


def abandoned() -> Iterator[Path]:
    """Yield the folder of each testbed that a killed run had, whose lock is ours meanwhile."""
    for place in sorted(_base().glob("*/")):
        with _lock(place) as free:
            if free and _holds(place):
                yield place
            elif free:
                shutil.rmtree(place, ignore_errors=True)


def _holds(place: Path) -> bool:
    """Tell whether there is anything to put back on a testbed, or may be."""
    return bool(Undo(place / UNDO).scripts()) or (place / TAKEN).exists()


def remembered(file: Path) -> HostsFile:
    """Return the machines that a run was on; NoWayError if they cannot be reached that way now."""
    try:
        return HostsFile.model_validate_json(file.read_bytes())
    except ValidationError as error:
        why = error.errors()[0]["msg"].removeprefix("Value error, ")
        raise NoWayError(f"{file}: {why}; mend it there") from error


def router_of(place: Path) -> str:
    """Return the name of a testbed's router, whether it can be reached or not."""
    text = (place / WAY).read_bytes().decode(errors="replace")
    with understood(f"{place / WAY}, which says where a killed run was,", text):
        return str(json.loads(text)["router"]["ssh"])


def put_back(place: Path, reporter: Reporter) -> None:
    """Put back what a killed run left on its machines; SkblabError if something cannot be.

    The router comes first, whose settings there are, whether the tester is there or not.
    """
    file = remembered(place / WAY)
    who = _who(place)
    with connected(file.router.ssh, file.config) as router:
        give_back(router, file.router.ssh, who)
        _replay(place, file, router, reporter)
    _give_back_tester(place, file)
    shutil.rmtree(place, ignore_errors=True)


@contextlib.contextmanager
def _booked(place: Path, reporter: Reporter) -> Iterator[None]:
    """Have the labgrid place of a testbed that a killed run was on, if it is one."""
    with booking.held(remembered(place / WAY).labgrid, "cleanup", reporter):
        yield


def _give_back_tester(place: Path, file: HostsFile) -> None:
    with connected(file.tester.ssh, file.config) as tester:
        give_back(tester, file.tester.ssh, _who(place))


def forget(place: Path) -> None:
    """Forget a testbed whose router cannot be reached; its tester gives ports back if it can be."""
    with contextlib.suppress(TransportError, NoWayError):
        _give_back_tester(place, remembered(place / WAY))
    shutil.rmtree(place, ignore_errors=True)


def put_back_all(reporter: Reporter, gone: str | None = None) -> int:
    """Put back what killed runs left on all hosts; return on how many testbeds that was.

    `gone` is a router that is forgotten if it cannot be reached. SkblabError if something cannot be
    put back, after all else was.
    """
    wrong, count, routers = [], 0, []
    for place in abandoned():
        routers.append(router := router_of(place))
        try:
            with _booked(place, reporter):
                put_back(place, reporter)
            count += 1
        except (TransportError, NoWayError) as error:
            why = one_line(str(error))
            if router == gone:
                forget(place)
                reporter.say(f"forgot what a killed sweep left on {router} ({why})")
            else:
                mend = f"if {router} is gone for good: skblab cleanup --forget {router}"
                wrong.append(f"{why}; {mend}")
        except SkblabError as error:
            # It answers, so it is not gone.
            wrong.append(one_line(str(error)))
    if gone is not None and gone not in routers:
        raise UsageError(
            f"--forget {gone}: expected a router on which something was left: "
            f"{', '.join(routers) or 'there is none'}"
        )
    if wrong:
        raise SkblabError("; ".join(wrong))
    return count


def _replay(place: Path, file: HostsFile, router: Transport, reporter: Reporter) -> None:
    """Undo what a run that broke off has set on the router."""
    undo, host = Undo(place / UNDO), file.router.ssh
    count = len(undo.scripts())
    if not count:
        return
    if (place / BOOT).exists() and (place / BOOT).read_text() != _boot_of(router):
        undo.file.unlink()
        reporter.say(f"{host} has rebooted, which undid {count} settings of a killed sweep")
        return
    with router_taken(file, router, _who(place)):
        # What was set in a namespace that went needs another one to be undone in.
        script = base.script(laying_out("be_router", Traffic()), *PARTS)
        router.script(script).check(f"laying out {host}")
        if wrong := undo.replay(router):
            raise SkblabError(
                f"could not restore {host}: {'; '.join(wrong)}; the scripts that do are in "
                f"{undo.file}: delete it once you have put that back by hand"
            )
    reporter.say(f"restored {count} settings of a killed sweep on {host}")


def _boot_of(machine: Transport) -> str:
    """Return what tells this boot of a machine from all others (random.c: boot_id)."""
    asked = machine.run(["cat", "/proc/sys/kernel/random/boot_id"])
    return asked.check("asking a machine for its boot").stdout.strip()


def _lock(place: Path) -> AbstractContextManager[bool]:
    """Hold a testbed's lock for a while, and tell whether nobody else does."""
    return store.held(f"hosts-{place.name}")


def our_sender(root: LabRoot, reporter: Reporter) -> Callable[[], Path]:
    """Return what makes the bundle of our own sender, when it is needed."""

    def sender() -> Path:
        there = tools.ensure_traffic(root, reporter)
        return portable.ensure(root, there / native.NAME, reporter)

    return sender


@contextlib.contextmanager
def _reached(file: HostsFile) -> Iterator[tuple[SshTransport, SshTransport]]:
    """Have connections to tester and router."""
    with (
        connected(file.tester.ssh, file.config) as tester,
        connected(file.router.ssh, file.config) as router,
    ):
        yield tester, router


@dataclass
class HostMachines:
    """The testbed of a hosts file: `place` is its folder, `bundles` our programs for each.

    `sender` makes the bundle of our own sender, for a tester whose kernel has no pktgen.
    `same` raises UsageError if its machines are not those that the run began on. `job` is what
    others see who wait for a place that is booked.
    """

    file: HostsFile
    experiment: Experiment
    reporter: Reporter
    sender: Callable[[], Path]
    bundles: Mapping[Program, Path] = field(default_factory=dict)
    same: Callable[[Environment], None] = lambda found: None
    known: Environment | None = None
    keeps: bool = True
    machine: Machine = field(default_factory=lambda: HOSTS.machine(1))
    job: str = "run"
    booked: booking.Booked | None = field(default=None, init=False)

    @property
    def place(self) -> Path:
        """The folder of this testbed."""
        return _base() / self.file.key

    @property
    def undo(self) -> Path:
        """The file with what puts settings back."""
        return self.place / UNDO

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """Have the testbed, and nobody else with it; UsageError if another run has it.

        A labgrid place is waited for. What killed runs left on its router is put back before.
        """
        with contextlib.ExitStack() as stack:
            asked = booking.held(self.file.labgrid, self.job, self.reporter)
            self.booked = stack.enter_context(asked)
            stack.enter_context(self._alone_here())
            yield

    def check(self) -> None:
        """Raise SkblabError if somebody else may have the machines by now."""
        if self.booked is not None:
            self.booked.check()

    @contextlib.contextmanager
    def _alone_here(self) -> Iterator[None]:
        """Have the testbed, and no other run of this machine."""
        for place in abandoned():
            if router_of(place) == self.file.router.ssh:
                try:
                    put_back(place, self.reporter)
                except SkblabError as error:
                    if place == self.place:
                        raise
                    # Another way to that name may lead to another machine. If it is this one after
                    # all, `up` knows it by its boot.
                    self.reporter.say(
                        f"a killed sweep left settings on another {self.file.router.ssh}, which "
                        f"stay there until you run skblab cleanup: {one_line(str(error))}"
                    )
        with _lock(self.place) as free:
            if not free:
                both = f"{self.file.router.ssh} and {self.file.tester.ssh}"
                raise UsageError(f"another sweep has {both}: wait until it ends")
            self.place.mkdir(parents=True, exist_ok=True)
            disk.write_whole(self.place / WAY, self.file.model_dump_json(by_alias=True))
            try:
                yield
            finally:
                if not _holds(self.place):
                    shutil.rmtree(self.place, ignore_errors=True)

    @contextlib.contextmanager
    def up(self, boot: Boot, log: Path) -> Iterator[Testbed]:
        """Have the ports taken; GuestError if a machine does not answer."""
        self.check()
        with contextlib.ExitStack() as stack:
            try:
                tester, router = stack.enter_context(self._connected())
                self._put_back_others(booted := _boot_of(router))
                _replay(self.place, self.file, router, self.reporter)
                disk.write_whole(self.place / BOOT, booted)
                require(required(self.experiment.measure), router, self.file.router.ssh)
                folders = {
                    program.name: stack.enter_context(
                        brought(router if program.where == "router" else tester, bundle)
                    )
                    for program, bundle in self.bundles.items()
                }
                who = _who(self.place)
                stack.enter_context(self._noted(tester, router))
                testbed = stack.enter_context(
                    taken(self.file, tester, router, who, self.sender, folders)
                )
                if testbed.generator is not None and self.file.tester.sender is None:
                    self.reporter.say(
                        f"the kernel of {self.file.tester.ssh} has no pktgen: skblab-traffic sends"
                    )
                stack.callback(testbed.watch.end)
                self._watch(testbed, router=router, tester=tester)
                self._check(testbed)
                both = f"{self.file.router.ssh} and {self.file.tester.ssh}"
                self.reporter.say(f"the ports are taken; asking {both} what they are")
                self.machine = testbed.machine
                found = self._environment(testbed)
                self.same(found)
                self.known = self.known or found
            except TransportError as error:
                if self.known is None:
                    # It was never there: nobody waits for it.
                    raise
                raise GuestError(str(error)) from error
            yield testbed

    def _watch(self, testbed: Hosts, **machines: Transport) -> None:
        """Have the kernel logs of the machines watched, from now on."""
        for name, transport in machines.items():
            testbed.watch.sources[name] = log = HostLog(transport)
            if not log.readable:
                self.reporter.say(
                    f"the kernel log of the {name} cannot be read (dmesg): skblab does not see "
                    "its warnings"
                )

    @contextlib.contextmanager
    def _noted(self, *machines: Transport) -> Iterator[None]:
        """Have it on disk that machines may have ports of ours, until these were given back."""
        mark = self.place / TAKEN
        mark.touch()
        try:
            yield
        finally:
            # Of one that does not answer nobody knows.
            with contextlib.suppress(SkblabError):
                if not any(has_ports(machine) for machine in machines):
                    mark.unlink()

    def _put_back_others(self, booted: str) -> None:
        """Put back what a killed run left on this router that it had by another name."""
        for place in abandoned():
            if (place / BOOT).exists() and (place / BOOT).read_text() == booted:
                try:
                    put_back(place, self.reporter)
                except (TransportError, NoWayError) as error:
                    raise UsageError(
                        f"a killed sweep left settings on {self.file.router.ssh}, which cannot be "
                        f"reached any more as {place / WAY} has it: {one_line(str(error))}; make "
                        "it reachable, then run: skblab cleanup"
                    ) from error

    def undo_of(self, boot: Boot) -> Path:
        """Return the file with what puts settings back: the same for all boots."""
        return self.undo

    def describe(self, boot: Boot, testbed: Testbed) -> None:
        """Ask again what the router is, laid out by now: its sysctls, routes and rules."""
        assert self.known is not None
        found = inventory.read(testbed.transport, testbed.machine)
        facts = {f"router {name}": value for name, value in found.items()}
        self.known = self.known.model_copy(update={"more": {**self.known.more, **facts}})

    def environment(self) -> Environment | None:
        """Return what the figures depend on, once the hosts were asked."""
        return self.known

    def stop(self) -> None:
        """Nothing: hosts have one boot at a time, in the thread that is told to stop."""

    @contextlib.contextmanager
    def _connected(self) -> Iterator[tuple[SshTransport, SshTransport]]:
        """Connect; in a run that has begun, a host may take its time to come back."""
        patience = RETURN_SECONDS if self.known else 0.0
        deadline = time.monotonic() + patience
        with contextlib.ExitStack() as stack:
            while True:
                try:
                    found = stack.enter_context(_reached(self.file))
                    break
                except TransportError as error:
                    if time.monotonic() > deadline:
                        raise
                    self.reporter.say(f"{one_line(str(error))}; trying again")
                    time.sleep(AGAIN_SECONDS)
            yield found

    def _check(self, testbed: Hosts) -> None:
        """Raise UsageError if the router has not what the experiment needs."""
        needs, has = self.experiment.needs, testbed.machine
        for name, wanted, found in (
            ("CPUs", needs.cpus, has.cpus),
            ("NUMA nodes", needs.numa, testbed.nodes),
        ):
            if found < wanted:
                raise UsageError(
                    f"{self.file.router.ssh} has {found} {name}: the experiment needs {wanted} "
                    f"([needs] in its file)"
                )

    def _environment(self, testbed: Hosts) -> Environment:
        router = inventory.read(testbed.transport, testbed.machine)
        facts = {f"router {name}": value for name, value in router.items()}
        asked = inventory.read(testbed.tester, None)
        facts |= {f"tester {name}": value for name, value in asked.items()}
        facts["tester generator"] = testbed.generator.name if testbed.generator else "pktgen"
        counts = testbed.generator is not None and testbed.generator.counts
        facts["tester sink"] = f"counted by {'the generator' if counts else 'the kernel'}"
        return Environment(
            kernel=Kernel(
                release=router["release"],
                version=router["version"],
                flavour="rt" if "PREEMPT_RT" in router["version"] else "stock",
                source="as it was found on the router",
                config_hash=router.get("config", ""),
                patches=(),
            ),
            guests={},
            host=describe_host(),
            more={"router": self.file.router.ssh, "tester": self.file.tester.ssh, **facts},
        )
