# SPDX-License-Identifier: GPL-2.0-or-later
"""Which entries of the cache are mounted anywhere: in a guest's sandbox, or in that of a build."""

from __future__ import annotations

import contextlib
from itertools import pairwise
from pathlib import Path

PROC = Path("/proc")


def mounted() -> set[tuple[str, str]]:
    """Return kind and key of all that some process of this machine has mounted, and more.

    That is what an older skblab uses, too, or a guest whose skblab was killed. A mount names what
    it shows by its path in its file system (proc_pid_mountinfo(5)), which need not be ours: any two
    names in a row may be kind and key.
    """
    found: set[tuple[str, str]] = set()
    seen = set()
    for process in PROC.glob("[0-9]*"):
        # What ends meanwhile has nothing mounted, and what is not ours to see is no guest of ours.
        with contextlib.suppress(OSError):
            namespace = (process / "ns" / "mnt").readlink()
            if namespace in seen:
                continue
            text = (process / "mountinfo").read_text(errors="replace")
            seen.add(namespace)
            for line in text.splitlines():
                found |= set(pairwise(line.split()[3].split("/")))
    return found
