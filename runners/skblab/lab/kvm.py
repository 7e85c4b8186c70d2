# SPDX-License-Identifier: GPL-2.0-or-later
"""Whether KVM really runs a guest: tried once with a time limit, and remembered.

/dev/kvm may exist where guests hang or QEMU aborts (a virtual machine without nested
virtualisation), so its being there proves nothing. The trial runs QEMU's own firmware, which
passes through real and protected mode and then says so on its debug port; and, as there are
machines on which that works and no kernel ever says a word, a kernel of the cache until it prints
its version.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from skblab.lab import paths, store
from skblab.lab.cache.kinds import KERNELS
from skblab.lab.labroot import Bind
from skblab.lab.labroot import root as labroot
from skblab.lab.labroot.root import LabRoot
from skblab_analysis.base import disk
from skblab_analysis.base.errors import one_line

DEVICE = Path("/dev/kvm")
TRIAL_SECONDS = 10
# SeaBIOS prints this once its set-up is over and it looks for something to boot.
FIRMWARE_UP = "Booting from"
# Linux prints this first of all (init/version.c). It finds no root, panics and ends QEMU.
KERNEL_UP = "Linux version"
MOST_KERNELS = 2
KERNEL_ARGUMENTS = "earlyprintk=serial,ttyS0,115200 console=ttyS0 panic=-1"


class Verdict(BaseModel):
    """Whether KVM works, and how we know. `tried` is false when no trial could be made.

    `kernel`: the trial had a kernel, and not only the firmware.
    """

    model_config = ConfigDict(frozen=True)

    works: bool
    tried: bool
    why: str
    kernel: bool = False


def verdict(*, again: bool = False) -> Verdict:
    """Return the remembered verdict, making the trial first if there is none for this boot.

    One that only the firmware passed counts until there is a kernel to try.
    """
    if not DEVICE.exists():
        return Verdict(works=False, tried=True, why=f"no {DEVICE}")
    if not os.access(DEVICE, os.R_OK | os.W_OK):
        return Verdict(works=False, tried=False, why=f"{DEVICE} is not ours to open; use sudo")
    memory = _memory()
    known = None if again else _remembered(memory)
    if known is not None and (known.kernel or not known.works):
        return known
    kernels = _kernels()
    if known is not None and not kernels:
        return known
    root = labroot.existing()
    if root is None or os.geteuid() != 0:
        return known or Verdict(
            works=False, tried=False, why=f"{DEVICE} exists; not tried yet (needs the lab root)"
        )
    found = _tried(root, kernels)
    disk.write_whole(memory, found.model_dump_json())
    return found


def _remembered(memory: Path) -> Verdict | None:
    try:
        return Verdict.model_validate_json(memory.read_bytes())
    except (FileNotFoundError, ValidationError):
        return None


def remember_failure(why: str) -> None:
    """Note that a real guest did not come up under KVM, so that the next one uses TCG."""
    failed = Verdict(works=False, tried=True, why=f"a guest did not boot: {one_line(why, 120)}")
    disk.write_whole(_memory(), failed.model_dump_json())


def _memory() -> Path:
    # A reboot, or a move of the virtual machine, may change the answer.
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    folder = paths.cache() / "kvm"
    folder.mkdir(exist_ok=True)
    return folder / f"{boot}.json"


def _kernels() -> list[Path]:
    """Return the folders of finished kernels in the cache, the newest first, some of them."""
    found = []
    for folder in store.entries(KERNELS):
        with contextlib.suppress(OSError):
            found.append(((folder / "bzImage").stat().st_mtime, folder))
    return [folder for _, folder in sorted(found, reverse=True)][:MOST_KERNELS]


def _tried(root: LabRoot, kernels: Sequence[Path]) -> Verdict:
    """Try a kernel; where none boots without KVM either, the fault is theirs: the firmware."""
    for kernel in kernels:
        bind = Bind(kernel, "kernel")
        image = ("-kernel", f"{bind.inside}/bzImage", "-append", KERNEL_ARGUMENTS)
        arguments = (*image, "-serial", "stdio")
        why = _trial(root, "kvm", arguments, KERNEL_UP, bind)
        if why is None:
            return Verdict(works=True, tried=True, why="a trial guest booted", kernel=True)
        if _trial(root, "tcg", arguments, KERNEL_UP, bind) is None:
            why = f"a trial guest booted no kernel ({why})"
            return Verdict(works=False, tried=True, why=why, kernel=True)
    port = ("-chardev", "stdio,id=debug", "-device", "isa-debugcon,iobase=0x402,chardev=debug")
    why = _trial(root, "kvm", port, FIRMWARE_UP)
    if why is None:
        return Verdict(works=True, tried=True, why="a trial guest ran")
    return Verdict(works=False, tried=True, why=f"a trial guest failed ({why})")


def _trial(
    root: LabRoot, accel: str, arguments: Sequence[str], up: str, *binds: Bind
) -> str | None:
    """Run a guest for TRIAL_SECONDS; return why it did not say `up`."""
    call = root.command(
        [
            "qemu-system-x86_64",
            *("-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"),
            *("-M", f"q35,accel={accel}", "-cpu", "host" if accel == "kvm" else "max"),
            *("-m", "512M", "-net", "none"),
            *arguments,
        ],
        binds=binds,
    )
    try:
        done = subprocess.run(
            call,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=TRIAL_SECONDS,
            start_new_session=True,
            check=False,
        )
        said, err, ended = done.stdout, done.stderr, f"QEMU ended with status {done.returncode}"
    except subprocess.TimeoutExpired as late:
        # The firmware finds no disk and waits for ever: the time limit is the normal end.
        said, err = late.stdout or b"", late.stderr or b""
        ended = f"nothing ran within {TRIAL_SECONDS} s"
    if up in said.decode(errors="replace"):
        return None
    last = err.decode(errors="replace").strip().splitlines()
    return one_line(last[-1].removeprefix("qemu-system-x86_64: "), 120) if last else ended
