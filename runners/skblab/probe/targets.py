# SPDX-License-Identifier: GPL-2.0-or-later
"""Where a probe runs: this machine, a guest of ours with its own traffic, a host over SSH."""

from __future__ import annotations

import contextlib
import re
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from skblab import kernel, portable
from skblab.errors import UsageError
from skblab.labroot import LabRoot
from skblab.reporter import Reporter
from skblab.transport import LocalTransport, SshTransport, Transport

HERE = "here"
GUEST = "guest"
HOST = re.compile(r"(?:[A-Za-z0-9._-]+@)?[A-Za-z0-9._:-]+")
CONNECT_SECONDS = 30
STAMPS = "net.core.path_trace"


@dataclass(frozen=True)
class Target:
    """A machine that a probe can run on, and the program there."""

    name: str
    transport: Transport
    program: str
    release: str
    built: kernel.Kernel | None = None


def check(on: str) -> None:
    """Raise UsageError unless `on` names a target."""
    if not HOST.fullmatch(on) or on.startswith("-"):
        raise UsageError(f"--on {on}: expected here, guest, or a host such as root@router")


@contextlib.contextmanager
def machine(on: str, labroot: LabRoot, program: Path, reporter: Reporter) -> Iterator[Target]:
    """Give this machine or a host, with the program brought there; nothing stays behind."""
    bundle = portable.ensure(labroot, program, reporter)
    if on == HERE:
        transport = LocalTransport()
        yield Target(on, transport, str(bundle / program.name), _release(transport))
        return
    with tempfile.TemporaryDirectory(prefix="skblab-ssh-") as sockets:
        ssh = SshTransport(["-S", f"{sockets}/ssh", "-o", "BatchMode=yes"], on)
        ssh.connect(CONNECT_SECONDS)
        try:
            made = ssh.run(["mktemp", "-d", "/tmp/skblab.XXXXXX"]).check("making a folder there")
            folder = made.stdout.strip()
            try:
                ssh.put(bundle / "bundle.tar", f"{folder}/bundle.tar")
                ssh.run(["tar", "-xf", f"{folder}/bundle.tar", "-C", folder]).check("unpacking")
                yield Target(on, ssh, f"{folder}/{program.name}", _release(ssh))
            finally:
                ssh.run(["rm", "-rf", folder])
        finally:
            ssh.close()


def _release(transport: Transport) -> str:
    return transport.run(["uname", "-r"]).check("uname").stdout.strip()


@contextlib.contextmanager
def stamps(target: Target, wanted: bool) -> Iterator[None]:
    """Have the kernel stamp packets, if it can and is `wanted`; then as it was before."""
    before = target.transport.run(["sysctl", "-n", STAMPS])
    if not wanted or before.status != 0 or before.stdout.strip() != "0":
        yield
        return
    target.transport.run(["sysctl", "-q", "-w", f"{STAMPS}=1"]).check("switching stamps on")
    try:
        yield
    finally:
        target.transport.run(["sysctl", "-q", "-w", f"{STAMPS}=0"]).check("switching stamps off")
