# SPDX-License-Identifier: GPL-2.0-or-later
"""What tasks of all kinds that count instructions have in common on a node."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from skblab.jobs.model import Artefact
from skblab.lab import paths
from skblab_analysis.base.errors import SkblabError

# Of a guest: what QEMU itself needs, in MiB.
BESIDE = 512


def cached(path: Path) -> Artefact:
    """Return what names an entry of the cache by a path in it."""
    kind, key, *_ = path.relative_to(paths.cache()).parts
    return Artefact(kind=kind, key=key)


def require_same(here: Mapping[str, str], asked: Mapping[str, str]) -> None:
    """Raise SkblabError if this node counts in another way than the client."""
    if differ := [name for name in here if here[name] != asked.get(name)]:
        name = differ[0]
        raise SkblabError(
            f"this node's {name} is {here[name]}, and the client's {asked.get(name)}: "
            "their figures do not compare; run the same skblab on client and nodes"
        )
