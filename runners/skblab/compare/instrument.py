# SPDX-License-Identifier: GPL-2.0-or-later
"""What counts instructions: figures compare only where all of it is the same."""

from __future__ import annotations

from skblab.bench import functions as counting
from skblab.bench import programs
from skblab.lab.guest.chosen import make_spec
from skblab.lab.labroot import LabRoot
from skblab.lab.reporter import Reporter


def instrument(root: LabRoot, reporter: Reporter) -> dict[str, str]:
    """Return what counts: figures compare only where all of it is the same."""
    spec = make_spec(exact=True)
    return {
        "emulator": root.versions.get("qemu-system-x86", "unknown"),
        "machine": " ".join(spec.machine()),
        "memory": f"{spec.memory} MiB",
        "lab root": root.key,
        "plugin": counting.ensure(root, reporter).name,
        "programs": programs.ensure(root, reporter).name,
    }
