# SPDX-License-Identifier: GPL-2.0-or-later
"""Where a probe runs: this machine, a guest of ours with its own traffic, a host over SSH."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from skblab.lab import kernel, portable
from skblab.lab.labroot import LabRoot
from skblab.lab.reporter import Reporter
from skblab.machine.guest import Guest
from skblab.machine.transport import LocalTransport, Transport
from skblab.machine.transport.host import brought, connected, is_host, kept
from skblab.machine.watch import HostLog, Source
from skblab.probe.request import HISTOGRAMS, Request
from skblab.probe.switches import COUNT, NET_PATH, UNCOUNT
from skblab_analysis.base.errors import UsageError

HERE = "here"
GUEST = "guest"


@dataclass(frozen=True)
class Target:
    """A machine that a probe can run on, and the program there."""

    name: str
    transport: Transport
    program: str
    release: str
    built: kernel.Kernel | None = None
    guest: Guest | None = None

    def kernel_log(self, reporter: Reporter) -> Source:
        """Return where its kernel says what it complains of, from now on if it is no guest."""
        if self.guest is not None:
            return self.guest.console
        log = HostLog(self.transport)
        if not log.readable:
            reporter.say(
                f"the kernel log of {self.name} cannot be read (dmesg): the kernel's warnings are "
                "not looked for"
            )
        return log


def check(on: str, ssh_config: Path | None = None) -> None:
    """Raise UsageError unless `on` names a target, and --ssh-config goes with a host."""
    if not is_host(on):
        raise UsageError(f"--on {on}: expected here, guest, or a host such as root@router")
    if ssh_config is None:
        return
    if on in (HERE, GUEST):
        raise UsageError(f"--ssh-config is only for --on HOST, and --on is {on}")
    if not ssh_config.is_file():
        raise UsageError(f"--ssh-config {ssh_config}: no such file")


@contextlib.contextmanager
def machine(
    on: str, labroot: LabRoot, program: Path, reporter: Reporter, ssh_config: Path | None = None
) -> Iterator[Target]:
    """Give this machine or a host, with the program brought there; nothing stays behind."""
    bundle = portable.ensure(labroot, program, reporter)
    if on == HERE:
        transport = LocalTransport()
        yield Target(on, transport, str(bundle / program.name), _release(transport))
        return
    with connected(on, ssh_config) as ssh, brought(ssh, bundle) as folder:
        yield Target(on, ssh, f"{folder}/{program.name}", _release(ssh))


def _release(transport: Transport) -> str:
    return transport.run(["uname", "-r"]).check("uname").stdout.strip()


def counts(target: Target) -> bool:
    """Tell whether its kernel has histograms of its own."""
    return target.transport.run(["test", "-e", f"{NET_PATH}/histograms"]).status == 0


def of_source(target: Target, request: Request) -> Request:
    """Return what is asked of pathlat with a source that this kernel has, in the place of auto."""
    return request.of_source(counts=counts(target))


@contextlib.contextmanager
def stamps_for(target: Target, source: str | None) -> Iterator[None]:
    """Have the kernel count as a probe's source needs it, if it can; then as it was before."""
    if source != HISTOGRAMS or not counts(target):
        yield
        return
    with kept(target.transport, COUNT, "switching histograms on", UNCOUNT):
        yield
