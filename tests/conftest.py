# SPDX-License-Identifier: GPL-2.0-or-later
"""What the tests share: the lab root, the patched kernel, the tools, and running `skblab`."""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from skblab import kernel, labroot, tools
from skblab.guest import Guest
from skblab.labroot import LabRoot
from skblab.reporter import Reporter

TREE = Path(__file__).resolve().parents[1]
Skblab = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="session", autouse=True)
def _stopped_by_signals() -> None:
    """Let SIGINT stop this process and those that tests start, however the tests were started.

    In the background of a shell that has no job control it is ignored. Who starts skblab so wants
    that, and skblab leaves it; the tests that interrupt something would wait for ever.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session", autouse=True)
def _without_fsync() -> Iterator[None]:
    """Leave what this process writes to the kernel: tests kill processes and no machines.

    Each fsync takes some milliseconds, and a simulated sweep makes hundreds. That it is called,
    and when, is a matter of test_store.py, test_records.py and test_sweep_turning.py.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", os.fstat)
        yield


@pytest.fixture(scope="session")
def lab() -> LabRoot:
    """The lab root, made if it is not there."""
    if os.geteuid() != 0:
        pytest.skip("the lab root needs root rights")
    return labroot.ensure(Reporter())


@pytest.fixture(scope="session")
def stock(lab: LabRoot) -> kernel.Kernel:
    """The patched stock kernel."""
    return kernel.ensure(kernel.Request(), lab, Reporter())


@pytest.fixture(scope="session")
def unpatched(lab: LabRoot) -> kernel.Kernel:
    """Debian's kernel as it is."""
    return kernel.ensure(kernel.Request(patches=False), lab, Reporter())


@pytest.fixture(scope="session")
def programs(lab: LabRoot, stock: kernel.Kernel) -> Path:
    """The folder of native tools."""
    return tools.ensure(lab, stock, Reporter())


@pytest.fixture(scope="session")
def run_skblab() -> Skblab:
    """Run the `skblab` command to its end, as a user would."""

    def run(
        *arguments: str,
        env: dict[str, str] | None = None,
        prefix: tuple[str, ...] = (),
        stdin: str = "",
        timeout: float = 600,
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*prefix, str(TREE / "skblab"), *arguments],
            capture_output=True,
            text=True,
            check=False,
            timeout=timeout,
            env={**os.environ, **(env or {})},
            input=stdin,
        )

    return run


@pytest.fixture
def skblab(run_skblab: Skblab) -> Skblab:
    """The same, for a single test."""
    return run_skblab


def links() -> set[str]:
    """Return the network devices and namespaces of the host."""
    shown = subprocess.run(["ip", "-o", "link"], capture_output=True, text=True, check=True)
    named = subprocess.run(["ip", "netns"], capture_output=True, text=True, check=True)
    return {line.split(":")[1] for line in shown.stdout.splitlines()} | set(named.stdout.split())


def emulators(parent: int | None = None) -> set[int]:
    """Return the processes that are emulators on this host: of this one's descendants, if given."""
    found = set()
    for entry in Path("/proc").glob("[0-9]*"):
        # Those that end meanwhile are none.
        with contextlib.suppress(OSError):
            above = int(entry.name)
            if (entry / "comm").read_text().startswith("qemu-system"):
                while parent is not None and above not in (parent, 0):
                    above = int(Path("/proc", str(above), "stat").read_text().split()[3])
                if above:
                    found.add(int(entry.name))
    return found


def ssh_way(guest: Guest, folder: Path, host: str) -> str:
    """Return a part of ssh's configuration by which a guest is reached as any other host.

    Its proxy, which is put in `folder`, starts a further sshd in the guest.
    """
    ssh = guest.transport
    daemon = "/usr/sbin/sshd -i -f /skblab/run/sshd_config"
    call = ssh.wrap(["ssh", *ssh.options, "-T", ssh.destination, "--", daemon])
    proxy = folder / f"proxy-{host}"
    proxy.write_text(f"#!/bin/sh\nexec {shlex.join(call)}\n")
    proxy.chmod(0o755)
    return (
        f"Host {host}\nUser root\nProxyCommand {proxy}\nHostKeyAlias guest\n"
        f"UserKnownHostsFile {guest.folder}/known_hosts\n"
        f"IdentityFile {guest.folder}/client_key\nIdentitiesOnly yes\n"
        # The default exchange takes an emulated CPU a second longer.
        "KexAlgorithms curve25519-sha256\n"
    )
