# SPDX-License-Identifier: GPL-2.0-or-later
"""What counts instructions: figures compare only where all of it is the same."""

from __future__ import annotations

from skblab.bench import functions as counting
from skblab.bench import programs
from skblab.lab.guest.instrument import emulated
from skblab.lab.labroot import LabRoot
from skblab.lab.reporter import Reporter


def instrument(root: LabRoot, reporter: Reporter) -> dict[str, str]:
    """Return what counts: figures compare only where all of it is the same."""
    return {
        **emulated(root),
        "plugin": counting.ensure(root, reporter).name,
        "programs": programs.ensure(root, reporter).name,
    }
