# SPDX-License-Identifier: GPL-2.0-or-later
"""Guests that have booted already: a snapshot of each kind of guest, from which others go on.

Booting a kernel under emulation takes most of the time until a guest is up, and is the same each
time. So the first guest of a kind boots until it needs files of the host's (runners/init), and QEMU
writes it to a file. Every guest of that kind, also the first one that anybody uses, begins there,
with random numbers of its own. It has the programs in its memory that guests start again and again.

Where a kernel happens to have its data is the same in all of them, and a packet that is received
costs up to 0.2 % more or less by it. Boots that are samples therefore have a snapshot each.

A guest with network devices of its own boots anew: their drivers have taken keys (of RSS) from the
kernel's random numbers by then. So does one under KVM, where booting takes a second.
"""

from __future__ import annotations

import contextlib
import functools
import io
import json
import os
import secrets
import shutil
import subprocess
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from skblab.lab import store
from skblab.lab.cache.kinds import SNAPSHOTS
from skblab.lab.guest import first
from skblab.lab.guest.console import Console
from skblab.lab.guest.errors import GuestError
from skblab.lab.guest.spec import GuestSpec
from skblab.lab.kernel import Kernel
from skblab.lab.labroot import Bind, LabRoot
from skblab.lab.reporter import Reporter
from skblab.machine import halted, patience
from skblab_analysis.base.errors import SkblabError, UsageError, one_line

VARIABLE = "SKBLAB_SNAPSHOTS"
CPUINFO, BOOT_ID = Path("/proc/cpuinfo"), Path("/proc/sys/kernel/random/boot_id")
# In an entry of the cache: what QEMU has written, and what the kernel had said by then.
STATE, CONSOLE = "state", "console.log"
# In a running guest's folder: the pipe by which the word comes.
PIPE = "go"
# What the guest says by it once it waits.
WAITS = b"waits\n"
# Of whatever the guest's start depends on in the lab root, whose key is of its packages' names.
EMULATOR = ("qemu-", "seabios", "ipxe")
# Before the time of any guest that goes on: one whose clock was not set shows it.
PAST = ("-rtc", "base=2000-01-01T00:00:00")
SAVE_SECONDS = 120
# Bytes of entropy, as many as the kernel wants before its random numbers are good.
SEED_BYTES = 32
# The state is a file with a place for each page, so that zero pages take no room.
FORMAT = ("-global", "migration.mapped-ram=on")


def suits(spec: GuestSpec) -> bool:
    """Tell whether such a guest may begin in a snapshot. UsageError for a wrong $VARIABLE."""
    said = os.environ.get(VARIABLE, "")
    if said not in ("", "on", "off"):
        raise UsageError(f"{VARIABLE}={said}: expected on or off")
    return said != "off" and spec.accel == "tcg" and not spec.nics


def ensure(
    spec: GuestSpec,
    kernel: Kernel,
    labroot: LabRoot,
    shared: Sequence[Bind],
    running: set[subprocess.Popen[bytes]],
) -> Path:
    """Return the snapshot's folder in the cache; boot a guest and make it if there is none.

    `running` has QEMU's process while that takes, for whoever has to end it. Raises GuestError when
    the guest does not come as far as that, and SkblabError when QEMU cannot write it down.
    """
    # A plugin looks at what is translated, and changes nothing in the guest.
    spec = spec.model_copy(update={"plugin": None})
    call = command(spec, kernel, shared)
    images = [kernel.image, *([kernel.initrd] if kernel.initrd else [])]
    begins = first.ensure(labroot)
    begun = [begins / first.PROGRAM, begins / first.FILES]
    files = [image.read_bytes() for image in (*begun, *images)]
    key = store.digest([*_around(spec, labroot), str(spec.sample), *call, *files])
    return store.ensure(
        SNAPSHOTS,
        key,
        Reporter(quiet=True),
        lambda folder: _make(folder, call, shared, spec, kernel, labroot, running),
    )


def _around(spec: GuestSpec, labroot: LabRoot) -> list[str]:
    """Return what else a guest's start depends on."""
    versions = labroot.versions
    emulator = [f"{name} {versions[name]}" for name in versions if name.startswith(EMULATOR)]
    if spec.exact:
        return [labroot.key, *emulator]
    # The guest has the host's TSC, and has found out by now how fast it is.
    models = [line for line in CPUINFO.read_text().splitlines() if line.startswith("model name")]
    return [labroot.key, *emulator, BOOT_ID.read_text(), *models[:1]]


def discard(folder: Path, state: int) -> None:
    """Remove a snapshot that leads nowhere, unless another one has that name already.

    `state` is the inode number of its STATE.
    """
    with (
        store.locked(f"{SNAPSHOTS}-{folder.name}", Reporter(quiet=True)),
        contextlib.suppress(FileNotFoundError),
    ):
        if (folder / STATE).stat().st_ino == state:
            store.throw_away(folder)


def command(spec: GuestSpec, kernel: Kernel, shared: Sequence[Bind]) -> list[str]:
    """Return QEMU's command line of a guest that is held, or goes on; see GuestSpec.qemu."""
    initrd = kernel.initrd is not None
    return spec.qemu("/skblab/root", shared, "/skblab/sock/ssh", initrd=initrd, held=True)


def incoming() -> list[str]:
    """Return QEMU's further arguments to go on from the state on its standard input."""
    return [*FORMAT, "-incoming", "file:/dev/stdin"]


def word(spec: GuestSpec) -> bytes:
    """Return the line that lets a guest go on: its seed, and the time where it has the host's."""
    clock = "" if spec.exact else f" {time.time():.3f}"
    return f"{secrets.token_hex(SEED_BYTES)}{clock}\n".encode()


def make_pipe(folder: Path) -> int:
    """Make the pipe of a guest in its folder; return our end of it, to be kept open."""
    for end in ("in", "out"):
        os.mkfifo(folder / f"{PIPE}.{end}", 0o600)
    return os.open(folder / f"{PIPE}.in", os.O_RDWR | os.O_CLOEXEC)


def _make(
    folder: Path,
    call: Sequence[str],
    shared: Sequence[Bind],
    spec: GuestSpec,
    kernel: Kernel,
    labroot: LabRoot,
    running: set[subprocess.Popen[bytes]],
) -> None:
    """Boot the guest, have it written to STATE, and leave nothing else than that and CONSOLE."""
    run = folder / "run"
    (run / "sock").mkdir(parents=True)
    first.put(labroot, run, shared, hold=True)
    binds = [
        Bind(kernel.path, "kernel"),
        Bind(run, "run", writable=True),
        Bind(run / "sock", "sock", writable=True),
        Bind(labroot.path, "root"),
    ]
    past = () if spec.exact else PAST
    with contextlib.ExitStack() as stack:
        stack.callback(os.close, make_pipe(run))
        said = stack.enter_context(_said_by(run))
        log = stack.enter_context((run / "qemu.log").open("wb"))
        process = subprocess.Popen(
            labroot.command([*call, *past, *FORMAT, "-qmp", "stdio"], binds=binds),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            start_new_session=True,
        )
        running.add(process)
        try:
            _wait(process, run, said, patience.limit(spec))
            # What hangs ends, and everybody who waits for it.
            watchdog = threading.Timer(SAVE_SECONDS, process.kill)
            watchdog.start()
            stack.callback(watchdog.cancel)
            _save(process)
            process.wait()
        finally:
            process.kill()
            process.communicate()
            running.discard(process)
    for name in (STATE, CONSOLE):
        with (run / name).open("rb") as file:
            os.fsync(file.fileno())
        (run / name).rename(folder / name)
    shutil.rmtree(run)


def _said_by(run: Path) -> io.FileIO:
    """Return what a guest says by its pipe, to be read without waiting."""
    return io.FileIO(os.open(run / f"{PIPE}.out", os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC), "r")


def _wait(process: subprocess.Popen[bytes], run: Path, said: io.FileIO, seconds: float) -> None:
    """Wait until the guest waits for its word."""
    console = Console(run / CONSOLE)
    first_cpu = halted.FirstCpu(functools.partial(halted.processor_times, process.pid))
    deadline = time.monotonic() + seconds
    while said.read(len(WAITS)) != WAITS:
        if cause := console.cause():
            raise GuestError(f"guest {cause.kind.value}: {cause.text}")
        if process.poll() is not None:
            log = (run / "qemu.log").read_text(errors="replace").strip().splitlines()
            raise GuestError(f"QEMU ended: {one_line(log[-1]) if log else 'it said nothing'}")
        if first_cpu.look():
            raise GuestError(halted.SAID)
        if time.monotonic() > deadline:
            raise patience.late(seconds, "its kernel")
        time.sleep(0.02)


def _save(process: subprocess.Popen[bytes]) -> None:
    """Have QEMU write the guest to a file, and end."""

    def ask(what: str, **arguments: object) -> dict[str, str]:
        assert process.stdin is not None and process.stdout is not None
        asked = json.dumps({"execute": what, "arguments": arguments}).encode() + b"\n"
        # One that has ended breaks the pipe, or a line.
        with contextlib.suppress(BrokenPipeError, ValueError):
            process.stdin.write(asked)
            process.stdin.flush()
            # Events and its greeting come in between.
            for line in process.stdout:
                answer = json.loads(line)
                if "error" in answer:
                    raise SkblabError(f"QEMU's {what} failed: {one_line(answer['error']['desc'])}")
                if "return" in answer:
                    return dict(answer["return"])
        raise GuestError(f"QEMU ended at {what}")

    ask("qmp_capabilities")
    # The guest does nothing meanwhile: it may stop for as long as writing takes (ms, bytes/s).
    ask("migrate-set-parameters", **{"downtime-limit": 60000, "max-bandwidth": 1 << 40})
    # Not stopped first: one that was would be stopped again when it is loaded.
    ask("migrate", uri=f"file:/skblab/run/{STATE}")
    while (became := ask("query-migrate")).get("status") != "completed":
        if became.get("status") in ("failed", "cancelled"):
            raise SkblabError(
                f"QEMU cannot write the guest down: {one_line(became.get('error-desc', 'failed'))}"
            )
        time.sleep(0.02)
    ask("quit")
