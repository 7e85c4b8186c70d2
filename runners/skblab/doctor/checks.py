# SPDX-License-Identifier: GPL-2.0-or-later
"""The checks. Each looks at one thing and says what it found, what it means, how to mend it."""

from __future__ import annotations

import os
import platform
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import psutil
from pydantic import BaseModel, ConfigDict

from skblab.lab import kvm, paths
from skblab.lab.cache import sizes
from skblab.lab.cache.entries import taken
from skblab.lab.kernel.build import MIN_FREE_GIB
from skblab.lab.labroot import root as labroot
from skblab_analysis.base.errors import os_trouble

Status = Literal["good", "limited", "missing"]

# What the host needs, and the Debian package that has it.
HOST_COMMANDS = {
    "mmdebstrap": "mmdebstrap",
    "make": "make",
    "unshare": "util-linux",
    "setpriv": "util-linux",
    "chroot": "coreutils",
    "mount": "mount",
}
KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
EVENT_SOURCES = Path("/sys/bus/event_source/devices")
MSR = Path("/dev/cpu/0/msr")
CPUINFO = Path("/proc/cpuinfo")
# What the probe takes of a kernel: its types, its variables, and ways to attach.
BTF = Path("/sys/kernel/btf/vmlinux")
KALLSYMS = Path("/proc/kallsyms")
FILESYSTEMS = Path("/proc/filesystems")
FTRACE_ENABLED = Path("/proc/sys/kernel/ftrace_enabled")
TRACING = Path("/sys/kernel/tracing")
NEED_MEMORY_GIB = 4
GIB = sizes.GIB


class Check(BaseModel):
    """One finding. `missing` stops skblab; `limited` says what is then done instead."""

    model_config = ConfigDict(frozen=True)

    name: str
    status: Status
    found: str
    means: str
    mend: str = ""


def _host() -> Check:
    missing = {
        name: package for name, package in HOST_COMMANDS.items() if shutil.which(name) is None
    }
    wanted = sorted(set(missing.values()))
    if not KEYRING.exists():
        wanted.append("debian-archive-keyring")
    if wanted:
        return Check(
            name="host packages",
            status="missing",
            found=f"absent: {', '.join(wanted)}",
            means="the lab root cannot be made",
            mend=f"apt-get install {' '.join(wanted)}",
        )
    return Check(
        name="host packages",
        status="good",
        found="all there",
        means="the lab root can be made; all other tools come from it",
    )


def _root() -> Check:
    if os.geteuid() == 0:
        return Check(
            name="root",
            status="good",
            found="root",
            means="chroot, mounts and namespaces can be used",
        )
    return Check(
        name="root",
        status="missing",
        found=f"user id {os.geteuid()}",
        means="no chroot, so no lab root and no guest; reports can still be read and rebuilt",
        mend="sudo ./skblab doctor, and so with every command",
    )


def _machine() -> Check:
    machine = platform.machine()
    if machine == "x86_64":
        return Check(name="machine", status="good", found=machine, means="guests are x86_64 too")
    return Check(
        name="machine",
        status="missing",
        found=machine,
        means="guests are x86_64 and are compiled natively",
        mend="use an x86_64 machine",
    )


def _labroot() -> Check:
    found = labroot.existing()
    if found:
        return Check(
            name="lab root",
            status="good",
            found=f"{found.key}, {len(found.versions)} packages",
            means="compilers, probes' tools, gnuplot and QEMU are ready",
        )
    return Check(
        name="lab root",
        status="limited",
        found="not made yet",
        means="the first command that needs it makes it, in about a minute",
        mend="./skblab lab-root",
    )


def _tool(name: str, package: str, use: str) -> Check:
    found = labroot.existing()
    version = found.versions.get(package) if found else None
    if version:
        return Check(name=name, status="good", found=f"{version} (lab root)", means=use)
    return Check(
        name=name,
        status="limited",
        found="comes with the lab root",
        means=use,
        mend="./skblab lab-root",
    )


def _qemu() -> Check:
    return _tool("QEMU", "qemu-system-x86", "guests can be booted")


def _systemtap() -> Check:
    return _tool(
        "SystemTap", "systemtap", "modules are compiled in the lab root and loaded in a guest"
    )


def _perf_events() -> Check:
    # A PMU registers itself as an event source; without hardware there is none named cpu*.
    pmus = sorted(pmu.name for pmu in EVENT_SOURCES.glob("cpu*")) if EVENT_SOURCES.is_dir() else []
    if pmus:
        return Check(
            name="perf hardware events",
            status="good",
            found=f"PMU {', '.join(pmus)}",
            means="cache and cycle counters can be read on this host",
        )
    return Check(
        name="perf hardware events",
        status="limited",
        found="no hardware PMU",
        means="perf cannot count cycles and cache misses here; skblab does not need that: "
        "`--exact` counts instructions without it; nothing has to be done",
        mend="use a machine that is not virtual, if you want to count them with perf",
    )


def _pcm() -> Check:
    name = "Intel PCM"
    vendor = _cpu_field("vendor_id")
    msr = MSR.exists()
    virtual = "hypervisor" in _cpu_field("flags").split()
    lacking = [
        text
        for text, bad in (
            (f"the CPU is {vendor or 'unknown'}", vendor != "GenuineIntel"),
            ("this machine is virtual", virtual),
            (f"{MSR} is absent", not msr),
        )
        if bad
    ]
    if not lacking:
        return Check(
            name=name,
            status="good",
            found="Intel CPU with MSR access",
            means="if you use Intel's PCM tools beside skblab, they can read their counters here",
        )
    return Check(
        name=name,
        status="limited",
        found="; ".join(lacking),
        means="Intel's PCM tools cannot read memory, L3 and UPI counters here; skblab does not "
        "use them; nothing has to be done",
        mend="modprobe msr, if you want to use these tools"
        if vendor == "GenuineIntel" and not virtual
        else "use a machine with an Intel CPU that is not virtual, if you want these tools",
    )


def _probing() -> Check:
    name, means = "probing this kernel", "`probe layers` can time the packets of this machine"
    lacking, without = _not_to_be_probed()
    if lacking:
        return Check(
            name=name,
            status="limited",
            found="; ".join(lacking),
            means="`probe layers` cannot time the packets of this machine; it can in a guest "
            "(--on guest) and on another host (--on root@HOST); nothing else needs it",
            mend="; ".join(without),
        )
    mend = []
    mounted, kprobes = (TRACING / "tracing_on").exists(), (EVENT_SOURCES / "kprobe").exists()
    if not kprobes:
        # Whoever has fentry needs none.
        means += " by fentry; --kprobes and the scripts of bpftrace and SystemTap cannot"
    if not mounted:
        means += "; `--late --stop` cannot stop tracing, as tracefs is not mounted"
        mend.append(f"mount -t tracefs none {TRACING}")
    if not kprobes:
        mend.append("boot a kernel with CONFIG_KPROBE_EVENTS, if you want these")
    return Check(
        name=name,
        status="limited" if mend else "good",
        found=f"BTF, ftrace, {'kprobes' if kprobes else 'no kprobes'}",
        means=means,
        mend="; ".join(mend),
    )


def _not_to_be_probed() -> tuple[list[str], list[str]]:
    """Return what this kernel lacks for any probe of ours, and how to mend each."""
    options = []
    lacking = []
    if not BTF.exists():
        lacking.append(f"no BTF ({BTF} is absent)")
        options.append("CONFIG_DEBUG_INFO_BTF")
    if not _ends_a_line(FILESYSTEMS, "\ttracefs"):
        lacking.append(f"no ftrace (no tracefs in {FILESYSTEMS})")
        options += ["CONFIG_FUNCTION_TRACER", "CONFIG_KPROBE_EVENTS"]
    # A variable of the kernel; it lists its functions without that option, too.
    if not _ends_a_line(KALLSYMS, " init_net"):
        lacking.append(f"variables are not listed (no init_net in {KALLSYMS})")
        options.append("CONFIG_KALLSYMS_ALL")
    mend = [f"boot a kernel with {', '.join(options)}"] if options else []
    if FTRACE_ENABLED.exists() and FTRACE_ENABLED.read_text().strip() == "0":
        lacking.append("kernel.ftrace_enabled is 0")
        mend.append("sysctl -w kernel.ftrace_enabled=1")
    return lacking, mend


def _ends_a_line(file: Path, end: str) -> bool:
    if not file.exists():
        return False
    with file.open() as lines:
        return any(line.rstrip("\n").endswith(end) for line in lines)


def _kvm() -> Check:
    verdict = kvm.verdict()
    if verdict.works:
        return Check(
            name="KVM", status="good", found=verdict.why, means="guests run at hardware speed"
        )
    return Check(
        name="KVM",
        status="limited",
        found=verdict.why,
        means=f"{'KVM does not work here' if verdict.tried else 'until KVM has been tried'}: "
        "guests run in QEMU's emulator (TCG) instead; all commands work, but are slower; times are "
        "noisy, counts of instructions (--exact) are the same; nothing has to be done",
        mend="switch virtualisation on in the firmware or, if this machine is virtual, nested "
        "virtualisation on its host; then run ./skblab doctor --again"
        if verdict.tried
        else "run ./skblab lab-root and then ./skblab doctor, both as root: that tries KVM",
    )


def _disk() -> Check:
    cache = paths.cache()
    free, there = shutil.disk_usage(cache).free / GIB, taken() / GIB
    # What is in the cache already needs no more room; a build does.
    enough = free >= max(sizes.NEED_GIB - there, MIN_FREE_GIB)
    return Check(
        name="disk",
        status="good" if enough else "missing",
        found=f"{free:.1f} GiB free at {cache}, which has {there:.1f} GiB",
        means=f"{sizes.NEED_GIB} GiB are needed in all, {MIN_FREE_GIB} of them free for builds; "
        f"the cache keeps itself below {sizes.words(sizes.bound())} ({sizes.VARIABLE})",
        mend=""
        if enough
        else "skblab cache prune, free some space, or set SKBLAB_CACHE to a larger disk",
    )


def _memory() -> Check:
    free = psutil.virtual_memory().available / GIB
    enough = free >= NEED_MEMORY_GIB
    return Check(
        name="memory",
        status="good" if enough else "limited",
        found=f"{free:.1f} GiB available",
        means="linking a kernel with debug information and a 2 GiB guest need 4 GiB",
        mend="" if enough else "close other programs, or add swap",
    )


def _cpus() -> Check:
    count, load = len(os.sched_getaffinity(0)), os.getloadavg()[0]
    means = "enough for a guest with two CPUs"
    if count < 2:
        means = "sender and receiver of a guest share one: times are not those of two CPUs"
    elif load > count:
        means += "; this machine is busy: times are noisy, counts of instructions are not"
    return Check(
        name="CPUs",
        status="good" if count >= 2 else "limited",
        found=f"{count}, load {load:.1f}",
        means=means,
        mend="give this machine a second CPU" if count < 2 else "",
    )


def _cpu_field(name: str) -> str:
    for line in CPUINFO.read_text().splitlines():
        if line.partition(":")[0].strip() == name:
            return line.partition(":")[2].strip()
    return ""


CHECKS: dict[str, Callable[[], Check]] = {
    "machine": _machine,
    "root": _root,
    "host packages": _host,
    "CPUs": _cpus,
    "memory": _memory,
    "disk": _disk,
    "lab root": _labroot,
    "QEMU": _qemu,
    "KVM": _kvm,
    "probing this kernel": _probing,
    "perf hardware events": _perf_events,
    "Intel PCM": _pcm,
    "SystemTap": _systemtap,
}


def run_all() -> list[Check]:
    """Run every check, in the order they are shown. One that fails is told, and stops no other."""
    return [_looked(name, check) for name, check in CHECKS.items()]


def _looked(name: str, check: Callable[[], Check]) -> Check:
    try:
        return check()
    except OSError as error:
        return Check(
            name=name,
            status="limited",
            found=f"cannot look: {os_trouble(error)}",
            means="not known here",
            mend="see that /proc, /sys and the cache folder can be read and written, as root",
        )
