# SPDX-License-Identifier: GPL-2.0-or-later
"""What is made once and needed by each node: entries of the cache, as archives in the store.

The client packs them. A node whose cache lacks one unpacks it: kernels, and the lab root.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterable
from pathlib import Path

from skblab.jobs.model import Artefact
from skblab.jobs.store import Store, link_new, whole
from skblab.lab import store as cache
from skblab.lab.reporter import Reporter
from skblab_analysis.base.errors import SkblabError, one_line

PLAIN, PACKED = ".tar", ".tar.zst"
# Of as little as possible: a lab root takes half a minute of one CPU.
ZSTD = "zstd -T0 -3"
OPTIONS = ("--numeric-owner", "--xattrs", "--xattrs-include=*", "--sparse")


def pack(store: Store, wanted: Iterable[Artefact], reporter: Reporter) -> None:
    """Put entries of this machine's cache into the store, those that are not there."""
    for one in wanted:
        if found(store, one) is not None:
            continue
        reporter.say(f"packing {one.kind}/{one.key} for the nodes")
        suffix = PACKED if shutil.which("zstd") else PLAIN
        file = _file(store, one, suffix)
        entry = cache.entry(one.kind, one.key)
        packing = ("--use-compress-program", ZSTD) if suffix == PACKED else ()
        with reporter.step("packing"), whole(file) as part:
            words = ("--create", "--file", str(part), "--directory", str(entry), *packing)
            _tar([*words, *OPTIONS, "."], f"packing {entry}", file)
            with part.open("rb") as handle:
                os.fsync(handle.fileno())
            link_new(part, file)


def take(store: Store, wanted: Iterable[Artefact], reporter: Reporter) -> None:
    """Have the cache of this machine hold entries, from the store where it lacks them."""
    for one in wanted:
        cache.ensure(one.kind, one.key, reporter, unpacked(store, one, reporter))


def unpacked(store: Store, one: Artefact, reporter: Reporter) -> Callable[[Path], None]:
    """Return what fills a folder with an entry that the store has."""

    def unpack(folder: Path) -> None:
        file = found(store, one)
        if file is None:
            raise SkblabError(
                f"{store.path} has no {one.kind}/{one.key}: run the command that submitted it again"
            )
        reporter.say(f"unpacking {one.kind}/{one.key}")
        if file.name.endswith(PACKED) and shutil.which("zstd") is None:
            raise SkblabError(f"cannot unpack {file}: no zstd; mend with: apt-get install zstd")
        packing = ("--use-compress-program", ZSTD) if file.name.endswith(PACKED) else ()
        words = ("--extract", "--file", str(file), "--directory", str(folder), *packing)
        _tar([*words, *OPTIONS, "--same-owner", "--preserve-permissions"], "unpacking", folder)

    return unpack


def found(store: Store, one: Artefact) -> Path | None:
    """Return the archive of an entry; None if there is none."""
    files = (_file(store, one, suffix) for suffix in (PACKED, PLAIN))
    return next((file for file in files if file.is_file()), None)


def _file(store: Store, one: Artefact, suffix: str) -> Path:
    return store.path / "artefacts" / one.kind / f"{one.key}{suffix}"


def _tar(words: list[str], doing: str, where: Path) -> None:
    done = subprocess.run(["tar", *words], capture_output=True, text=True, check=False)
    if not done.returncode:
        return
    if "No space left" in done.stderr or "quota exceeded" in done.stderr:
        free = shutil.disk_usage(where.parent).free / 2**20
        raise SkblabError(
            f"the disk is full: {doing}: {free:.0f} MiB free at {where.parent}; free some space, "
            "then run the same command again"
        )
    raise SkblabError(f"{doing} failed: {one_line(done.stderr)}")
