# SPDX-License-Identifier: GPL-2.0-or-later
"""What the tests share: the lab root, the patched kernel, the tools, and running `skblab`."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib
import os
import shlex
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

import retries
from skblab import cli
from skblab.lab import kernel, labroot, tools
from skblab.lab.labroot import LabRoot
from skblab.lab.reporter import Reporter
from skblab.machine import patience
from skblab.machine.guest import Guest
from tiers.plugin import (  # noqa: F401  (hooks)
    pytest_addoption,
    pytest_collection_modifyitems,
    pytest_configure,
    pytest_itemcollected,
    pytest_runtest_logreport,
    pytest_runtest_makereport,
    pytest_runtest_protocol,
    pytest_runtest_setup,
    pytest_sessionstart,
    pytest_terminal_summary,
    pytest_xdist_make_scheduler,
    pytest_xdist_node_collection_finished,
)

pytest_plugins = ("two_hosts",)

# Of a guest on a machine that runs four tests at once, and other things.
os.environ.setdefault(patience.VARIABLE, "600")

TREE = Path(__file__).resolve().parents[1]
PR_SET_CHILD_SUBREAPER = 36  # include/uapi/linux/prctl.h
Skblab = Callable[..., subprocess.CompletedProcess[str]]
# Thousands of tests stay in memory: to look for garbage among them at every 700 new objects would
# be a tenth of what collecting them takes.
gc.set_threshold(100_000, 50, 100)
# It reads the source of each frame above it while it is loaded, and pytest has dozens: a second.
_shallow = threading.Thread(target=importlib.import_module, args=("MLRsearch",))
_shallow.start()
_shallow.join()
# All are loaded before a test puts anything in the place of what they import.
for _place in cli.COMMANDS.values():
    importlib.import_module(_place.partition(":")[0])

# In the gate the same examples every time: what they find is of the change that is tested. `make
# test-unit` has a fifth of them (brief). Others are looked for by HYPOTHESIS_PROFILE=thorough. An
# example may take as long as it does where another worker has the CPU; pytest has a timeout.
_PATIENT = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("gate", _PATIENT, derandomize=True)
settings.register_profile("brief", _PATIENT, derandomize=True, max_examples=20)
settings.register_profile("thorough", _PATIENT, max_examples=5000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "gate"))


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
    and when, is a matter of test_store.py, test_records.py and test_sweep_applying.py.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", os.fstat)
        yield


@pytest.fixture(scope="session", autouse=True)
def _orphans_come_here() -> None:
    """Become the parent of what killed commands leave behind, so that it is seen and is ours."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER)")


@pytest.fixture(scope="session")
def full(pytestconfig: pytest.Config) -> bool:
    """Whether slow tests are to be at full scale, as `make test-all` has them."""
    return bool(pytestconfig.getoption("--full"))


@pytest.fixture(scope="session")
def lab() -> LabRoot:
    """The lab root, made if it is not there."""
    if os.geteuid() != 0:
        pytest.fail("the lab root needs root rights")
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
        timeout: float = 1800,
    ) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [*prefix, str(TREE / "skblab"), *arguments],
            capture_output=True,
            text=True,
            check=False,
            timeout=timeout,
            env={**os.environ, **(env or {})},
            input=stdin,
        )
        retries.tell(done.stderr)
        return done

    return run


@pytest.fixture
def skblab_here(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Skblab:
    """Run the command in this process: for what is said before anything is started."""

    def run(*arguments: str, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        with monkeypatch.context() as patch:
            patch.setattr("sys.argv", ["skblab", *arguments])
            for name, value in (env or {}).items():
                patch.setenv(name, value)
            capsys.readouterr()
            status = cli.guarded()
        said = capsys.readouterr()
        return subprocess.CompletedProcess(arguments, status, said.out, said.err)

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
    """Return the emulators that run and come from a process: from this one, if none is given.

    Those of other workers are theirs. One whose command was killed is a child of this process then.
    """
    parent = parent or os.getpid()
    found = set()
    for entry in Path("/proc").glob("[0-9]*"):
        # Those that end meanwhile are none.
        with contextlib.suppress(OSError):
            name, state, above = _status(int(entry.name))
            if name.startswith("qemu-system") and state != "Z":
                while above not in (parent, 0):
                    _, _, above = _status(above)
                if above:
                    found.add(int(entry.name))
    return found


def _status(process: int) -> tuple[str, str, int]:
    """Return a process's name, state and parent (proc(5), stat)."""
    name, _, rest = Path("/proc", str(process), "stat").read_text().rpartition(")")
    state, parent = rest.split()[:2]
    return name.partition("(")[2], state, int(parent)


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
