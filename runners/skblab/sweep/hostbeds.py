# SPDX-License-Identifier: GPL-2.0-or-later
"""Testbeds of hosts, boot by boot, and what becomes of the hosts when a run is killed.

A host outlives a run. What a run has to put back is in a folder of the cache, one for each testbed,
with the way to it; the run holds the folder's lock. A folder with undo scripts whose lock nobody
holds is of a run that was killed: the next one puts it back before anything else, and so does
`skblab cleanup`.
"""

from __future__ import annotations

import contextlib
import getpass
import shutil
import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import ValidationError

from skblab import paths, store
from skblab.environment import describe_host
from skblab.errors import GuestError, SkblabError, UsageError, one_line
from skblab.reporter import Reporter
from skblab.sweep import layering
from skblab.sweep.experiment import Experiment, Traffic
from skblab.sweep.knobs.base import Machine
from skblab.sweep.knobs.turning import Undo
from skblab.sweep.plan import Boot
from skblab.sweep.testbeds import Testbed, inventory
from skblab.sweep.testbeds.base import laying_out
from skblab.sweep.testbeds.hosts import HOSTS, Hosts, taken
from skblab.sweep.testbeds.hostsfile import HostsFile
from skblab.transport import SshTransport, Transport, TransportError
from skblab.transport.host import brought, connected
from skblab_analysis.run import Environment, Kernel

# A host that went away in a run may boot: servers take minutes.
RETURN_SECONDS = 600
AGAIN_SECONDS = 5
WAY, UNDO = "hosts.json", "undo.jsonl"


def _base() -> Path:
    return paths.cache() / "hosts"


def _who(place: Path) -> str:
    """Return who takes ports, so that others know, and so that we know ourselves later."""
    return f"skblab of {getpass.getuser()} on {socket.gethostname()} for {place.name}"


def abandoned() -> Iterator[tuple[Path, HostsFile]]:
    """Yield each testbed that a killed run had, with its folder, whose lock is ours meanwhile."""
    for place in sorted(_base().glob("*/")):
        with _lock(place) as free:
            if free and (place / WAY).exists():
                yield place, remembered(place / WAY)


def remembered(file: Path) -> HostsFile:
    """Return the machines that a run was on; UsageError if they cannot be reached that way now."""
    try:
        return HostsFile.model_validate_json(file.read_text())
    except ValidationError as error:
        why = error.errors()[0]["msg"].removeprefix("Value error, ")
        raise UsageError(f"{file}: {why}; mend it there") from error


def put_back(place: Path, file: HostsFile, reporter: Reporter) -> None:
    """Put back what a killed run left on its router; SkblabError if something cannot be.

    Ports that a shell of its still has are given back, too.
    """
    with _reached(file) as (tester, router):
        _replay(place, file, tester, router, reporter)
    shutil.rmtree(place, ignore_errors=True)


def _replay(
    place: Path, file: HostsFile, tester: Transport, router: Transport, reporter: Reporter
) -> None:
    undo = Undo(place / UNDO)
    with taken(file, tester, router, _who(place)) as testbed:
        if count := len(undo.scripts()):
            # What was set in a namespace that went needs another one to be undone in.
            testbed.router(laying_out("be_router", Traffic()))
            if wrong := undo.replay(router):
                raise SkblabError(
                    f"not put back on {file.router.ssh}: {'; '.join(wrong)}; the scripts are in "
                    f"{undo.file}"
                )
            reporter.say(f"put back on {file.router.ssh}: {count} settings of a run that broke off")


def _lock(place: Path) -> AbstractContextManager[bool]:
    """Hold a testbed's lock for a while, and tell whether nobody else does."""
    return store.held(f"hosts-{place.name}")


@contextlib.contextmanager
def _reached(file: HostsFile) -> Iterator[tuple[SshTransport, SshTransport]]:
    """Have connections to tester and router."""
    with (
        connected(file.tester.ssh, file.config) as tester,
        connected(file.router.ssh, file.config) as router,
    ):
        yield tester, router


@dataclass
class HostBeds:
    """The testbed of a hosts file: `place` is its folder, `bundles` our programs for each."""

    file: HostsFile
    experiment: Experiment
    reporter: Reporter
    bundles: Mapping[str, Path] = field(default_factory=dict)
    known: Environment | None = None
    keeps: bool = True
    machine: Machine = field(default_factory=lambda: HOSTS.machine(1))

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

        What killed runs left on its router is put back before.
        """
        for place, other in abandoned():
            if other.router.ssh == self.file.router.ssh:
                put_back(place, other, self.reporter)
        with _lock(self.place) as free:
            if not free:
                both = f"{self.file.router.ssh} and {self.file.tester.ssh}"
                raise UsageError(f"another sweep has {both}; wait until it ends")
            self.place.mkdir(parents=True, exist_ok=True)
            store.write_whole(self.place / WAY, self.file.model_dump_json(by_alias=True))
            try:
                yield
            finally:
                if not Undo(self.undo).scripts():
                    shutil.rmtree(self.place, ignore_errors=True)

    @contextlib.contextmanager
    def up(self, boot: Boot, log: Path) -> Iterator[Testbed]:
        """Have the ports taken; GuestError if a machine does not answer."""
        with contextlib.ExitStack() as stack:
            try:
                tester, router = stack.enter_context(self._connected())
                if Undo(self.undo).scripts():
                    _replay(self.place, self.file, tester, router, self.reporter)
                folders = {
                    name: stack.enter_context(
                        brought(router if name == layering.PROGRAM else tester, bundle)
                    )
                    for name, bundle in self.bundles.items()
                }
                who = _who(self.place)
                testbed = stack.enter_context(taken(self.file, tester, router, who, folders))
                self._check(testbed)
                self.machine = testbed.machine
                if self.known is None:
                    self.known = self._environment(testbed)
            except TransportError as error:
                raise GuestError(str(error)) from error
            yield testbed

    def environment(self) -> Environment | None:
        """Return what the figures depend on, once the hosts were asked."""
        return self.known

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
