# SPDX-License-Identifier: GPL-2.0-or-later
"""What counts instructions: figures compare only where all of it is the same."""

from __future__ import annotations

import json

from skblab.lab.guest import first
from skblab.lab.guest.chosen import make_spec
from skblab.lab.labroot import LabRoot
from skblab.lab.store import digest


def emulated(root: LabRoot) -> dict[str, str]:
    """Return what a guest that counts is, by the names of what it is made of."""
    spec = make_spec(exact=True)
    return {
        "emulator": root.versions.get("qemu-system-x86", "unknown"),
        "machine": " ".join(spec.machine()),
        "memory": f"{spec.memory} MiB",
        "lab root": root.key,
    }


def within(root: LabRoot) -> dict[str, str]:
    """Return what is in such a guest, for figures that are kept for others.

    The lab root's key is of names of packages; other versions of these are other programs.
    """
    spec = make_spec(exact=True)
    return {
        "lab root's packages": digest([json.dumps(root.versions, sort_keys=True)]),
        "kernel arguments": " ".join(spec.kernel_arguments()),
        "first program": first.ensure(root).name,
    }
