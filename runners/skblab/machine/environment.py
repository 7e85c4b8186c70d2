# SPDX-License-Identifier: GPL-2.0-or-later
"""What a run's numbers depend on: kernel, guests, host, as the run document wants it."""

from __future__ import annotations

import os
import platform
from pathlib import Path

import psutil

from skblab.lab import kernel
from skblab.lab.labroot import LabRoot
from skblab.machine.guest import Guest
from skblab_analysis.base import disk
from skblab_analysis.formats.run import Environment, Host, Kernel
from skblab_analysis.formats.run import Guest as GuestRecord
from skblab_analysis.runfolder import RunFolder
from skblab_analysis.trials.rows import Clock


def describe(built: kernel.Kernel, guests: dict[Clock, GuestRecord]) -> Environment:
    """Return the environment of a run."""
    return Environment(
        kernel=Kernel(
            release=built.record.release,
            flavour=built.record.flavour,
            source=f"{Path(built.record.source).name} {built.record.source_version}",
            config_hash=built.record.config_sha256,
            patches=tuple(patch.name for patch in built.record.patches),
        ),
        guests=guests,
        host=describe_host(),
        more=origin(built),
    )


def origin(built: kernel.Kernel) -> dict[str, str]:
    """Return what names a kernel's content, by name: its release may be that of another, too."""
    found = {"kernel's key": built.key, "kernel's source": built.record.source_digest}
    if (commit := built.commit) is not None:
        found["kernel's commit"] = commit
    return found


def counting_tools(root: LabRoot) -> dict[str, str]:
    """Return the versions of what figures by instruction depend on: emulator and compiler."""
    versions = root.versions
    return {name: versions[name] for name in ("gcc", "qemu-system-x86") if name in versions}


def keep_changes(folder: RunFolder, built: kernel.Kernel) -> None:
    """Have a run keep what its kernel's source has that no commit has."""
    if built.changes is not None:
        disk.write_whole(folder.path / f"changes-{built.key}.diff", built.changes.read_bytes())


def describe_host() -> Host:
    """Return the machine that skblab runs on."""
    return Host(
        system=f"{platform.system()} {platform.release()}",
        cpu=_cpu_model(),
        cpus=len(os.sched_getaffinity(0)),
        memory_mib=psutil.virtual_memory().total >> 20,
    )


def describe_guest(guest: Guest) -> GuestRecord:
    """Ask a running guest what it runs on."""
    ask = "cat /proc/cmdline /sys/devices/system/clocksource/clocksource0/current_clocksource"
    command_line, clocksource = guest.transport.script(ask).check(ask).stdout.splitlines()
    return GuestRecord(
        accel=guest.spec.accel,
        cpus=guest.spec.cpus,
        memory_mib=guest.spec.memory,
        command_line=command_line,
        clocksource=clocksource,
        machine=" ".join(guest.spec.machine()),
    )


def _cpu_model() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        name, _, value = line.partition(":")
        if name.strip() == "model name":
            return value.strip()
    return platform.processor() or "unknown"
