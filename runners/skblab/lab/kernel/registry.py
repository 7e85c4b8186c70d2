# SPDX-License-Identifier: GPL-2.0-or-later
"""The kernels that are in the cache."""

from __future__ import annotations

from skblab.lab import store
from skblab.lab.kernel.model import Flavour, Kernel, Record

KIND = "kernels"


def kernels() -> list[Kernel]:
    """Return the finished kernels, the newest first; SkblabError for a damaged one."""
    found = [Kernel(entry, entry.name) for entry in store.entries(KIND) if entry.is_dir()]
    return sorted(found, key=lambda kernel: kernel.record.made, reverse=True)


def last_build(flavour: Flavour) -> Record | None:
    """Return the record of the newest build of `flavour`, if there is one.

    What was packaged was not built here.
    """
    records = (built.record for built in kernels() if not built.record.packages)
    return next((record for record in records if record.flavour == flavour), None)
