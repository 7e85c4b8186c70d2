# SPDX-License-Identifier: GPL-2.0-or-later
"""What kinds of entries the cache has, and when those of a kind may go."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

# always: when nobody uses it. old: when a user names the age of what is to go; it is small, and
# takes long to make. never: skblab does not remove it.
Goes = Literal["always", "old", "never"]


@dataclass(frozen=True)
class Kind:
    """A folder of the cache, and what an entry of it is; `single`: the folder is one entry."""

    folder: str
    holds: str
    goes: Goes = "always"
    single: bool = False


ROOTS, KERNELS, SOURCES, PACKAGES, LOGS = "roots", "kernels", "sources", "packages", "logs"
BUILDS = "builds"
DEVELOP, SYSTEMTAP, HOSTS = "develop", "systemtap", "hosts"
SNAPSHOTS = "snapshots"

KINDS: dict[str, Kind] = {
    kind.folder: kind
    for kind in (
        Kind(ROOTS, "lab root"),
        Kind(KERNELS, "kernel"),
        Kind(SNAPSHOTS, "guest that has booted"),
        Kind(SOURCES, "kernel tree"),
        Kind(BUILDS, "what the next build of a user's tree goes on in"),
        Kind("kernel-packages", "Debian's source of a kernel, or which package a name means"),
        Kind(PACKAGES, "Debian packages of a kernel"),
        Kind("ccache", "compiler cache, which keeps its own limit", "never", single=True),
        Kind(DEVELOP, "what checks and fuzzing compile"),
        Kind("fuzz", "fuzz targets"),
        Kind("selftests", "the kernel's selftests"),
        Kind("selftest-packages", "programs that selftests call"),
        Kind("initrd-packages", "what begins a guest of a packaged kernel"),
        Kind("cross-compilers", "compilers for other architectures"),
        Kind("tools", "programs for guests"),
        Kind("init", "first program of guests"),
        Kind("rust", "traffic tools"),
        Kind("bpf", "probes"),
        Kind("portable", "programs for hosts"),
        Kind("bench", "programs of bench"),
        Kind("functions", "QEMU plugins"),
        Kind(SYSTEMTAP, "SystemTap's own cache for a kernel"),
        Kind(f"{SYSTEMTAP}-modules", "SystemTap modules"),
        Kind(LOGS, "log"),
        Kind("checks", "results of patches-check", "old"),
        Kind("cost", "what probes cost", "old"),
        Kind("checking", "trees of a patches-check that runs", "never", single=True),
        Kind("guests", "guests that run", "never", single=True),
        Kind(HOSTS, "what puts settings back on hosts", "never", single=True),
        Kind("kvm", "whether KVM works", "never", single=True),
        Kind("calibration", "what machines add as testers", "never", single=True),
        Kind("locks", "locks", "never", single=True),
        Kind("uses", "last uses", "never", single=True),
    )
}
# In `develop/`: which lock of `locks/` whoever uses a folder holds. The others stay: downloads, and
# the inputs that fuzzing has found.
DEVELOP_LOCKS = {"out": "develop", "fuzz-target": "develop-fuzz"}
