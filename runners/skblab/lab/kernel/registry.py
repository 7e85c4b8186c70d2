# SPDX-License-Identifier: GPL-2.0-or-later
"""The kernels that are in the cache."""

from __future__ import annotations

import contextlib

from skblab.lab import store
from skblab.lab.kernel.model import Flavour, Kernel, Record
from skblab_analysis.base.errors import SkblabError

KIND = "kernels"


def kernels() -> list[Kernel]:
    """Return the finished kernels, the newest first; SkblabError for a damaged one."""
    found = [Kernel(entry, entry.name) for entry in store.entries(KIND) if entry.is_dir()]
    return sorted(found, key=lambda kernel: kernel.record.made, reverse=True)


def readable() -> list[Kernel]:
    """Return the finished kernels whose records can be read, the newest first.

    For who needs none in particular: `kernel list` names one that is damaged, and another clone of
    skblab may have made one that this one does not understand.
    """
    found = []
    for entry in store.entries(KIND):
        with contextlib.suppress(SkblabError):
            kernel = Kernel(entry, entry.name)
            if entry.is_dir() and kernel.record:
                found.append(kernel)
    return sorted(found, key=lambda kernel: kernel.record.made, reverse=True)


def last_build(flavour: Flavour) -> Record | None:
    """Return the record of the newest build of `flavour`, if there is one.

    What was packaged was not built here.
    """
    records = (built.record for built in readable() if not built.record.packages)
    return next((record for record in records if record.flavour == flavour), None)
