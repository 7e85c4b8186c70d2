# SPDX-License-Identifier: GPL-2.0-or-later
"""Kernel source trees: Debian's tarball or a folder of the user's, unpacked once, then patched.

Trees in the cache are only ever read: builds put their output elsewhere.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from skblab.lab import paths, store
from skblab.lab.kernel import series as quilt
from skblab.lab.kernel.series import Series
from skblab.lab.labroot import Bind, LabRoot
from skblab.lab.reporter import Reporter
from skblab_analysis.base.errors import UsageError

KIND = "sources"
# Raise when the way a tree is made here changes its content.
RECIPE = "1"
DEBIAN_PACKAGE = "linux-source-6.12"
DEBIAN_TARBALL = f"usr/src/{DEBIAN_PACKAGE}.tar.xz"
# What a user's tree may hold beside sources; a private copy is made without it.
NOT_SOURCE = (".git", ".svn", "*.o", "*.ko", "*.a", "*.cmd", "*.o.d", "*.rej", "*.orig")
_NOT_SOURCE_ENDS = tuple(pattern[1:] for pattern in NOT_SOURCE if pattern.startswith("*"))


@dataclass(frozen=True)
class Source:
    """A kernel source: `place` is a tarball or a folder; `digest` names its content cheaply."""

    place: Path
    version: str
    digest: str

    @property
    def line(self) -> str:
        """The stable line it belongs to, e.g. 6.12."""
        return ".".join(self.version.split(".")[:2])


def find(wanted: Path | None, labroot: LabRoot) -> Source:
    """Return the source to build from: `wanted`, or Debian's when it is None.

    Debian's tarball is known by its package version, a folder by the names, sizes and times
    of its files, so that neither is read through to see that nothing changed.
    """
    return _debian(labroot) if wanted is None else _folder(wanted)


def _debian(labroot: LabRoot) -> Source:
    tarball = labroot.path / DEBIAN_TARBALL
    package = labroot.versions.get(DEBIAN_PACKAGE)
    if package is None or not tarball.is_file():
        raise UsageError(
            f"the lab root has no {DEBIAN_PACKAGE}: expected {tarball}; "
            f"remove {labroot.path} and run the command again, or give --source DIR"
        )
    # 6.12.117-1 or 1:6.12.117-1~bpo: the upstream part in between.
    upstream = package.split(":")[-1].split("-")[0]
    return Source(tarball, upstream, store.digest(["debian", DEBIAN_PACKAGE, package]))


def _folder(wanted: Path) -> Source:
    folder = wanted.expanduser().resolve()
    version = read_version(folder)
    stamps = (f"{name} {st.st_size} {st.st_mtime_ns}" for name, st in _walk(folder))
    return Source(folder, version, store.digest(["folder", *sorted(stamps)]))


def read_version(folder: Path) -> str:
    """Return the version that the tree's Makefile states, e.g. 6.12.117 or 7.2.0-rc1."""
    makefile = folder / "Makefile"
    text = makefile.read_text(errors="replace") if makefile.is_file() else ""
    parts: dict[str, str] = dict(
        re.findall(r"^(VERSION|PATCHLEVEL|SUBLEVEL|EXTRAVERSION)[ \t]*=[ \t]*(\S*)$", text, re.M)
    )
    if not (folder / "Kconfig").is_file() or not {"VERSION", "PATCHLEVEL"} <= parts.keys():
        raise UsageError(
            f"{folder} is not a Linux source tree: expected a Kconfig and a Makefile "
            "with VERSION and PATCHLEVEL there"
        )
    numbers = (parts["VERSION"], parts["PATCHLEVEL"], parts.get("SUBLEVEL") or "0")
    return ".".join(numbers) + parts.get("EXTRAVERSION", "")


def _walk(folder: Path) -> Iterator[tuple[str, os.stat_result]]:
    """Yield path and stat of each source file; plain strings, for there are 90 000 of them."""
    top = f"{folder}/"
    for where, names, files in os.walk(folder):
        names[:] = [name for name in names if name not in NOT_SOURCE]
        for name in files:
            if not name.endswith(_NOT_SOURCE_ENDS):
                path = f"{where}/{name}"
                yield path.removeprefix(top), os.lstat(path)


def series_for(source: Source, alternative: Path | None = None) -> Series:
    """Return our patch series for this source; UsageError naming both when none fits.

    An `alternative` is one more patch, applied last.
    """
    folder = paths.tree() / "patches" / f"v{source.line}"
    if folder.is_dir():
        series = quilt.read(folder)
        return series if alternative is None else series.followed_by(alternative)
    have = sorted(entry.name for entry in folder.parent.glob("v*") if entry.is_dir())
    named = ", ".join(f"patches/{name} (for Linux {name[1:]}.x)" for name in have)
    raise UsageError(
        f"{source.place} is Linux {source.version}, and no patch series fits it; there is "
        f"{named or 'none at all'}; give a fitting tree, or --no-patches to build it as it is"
    )


def ensure_tree(
    source: Source, series: Series | None, labroot: LabRoot, reporter: Reporter
) -> Path:
    """Return the cached tree of `source` with `series` applied, making it if needed."""
    plain = store.ensure(
        KIND,
        store.digest([RECIPE, source.digest]),
        reporter,
        lambda folder: _unpack(source, folder, labroot, reporter),
    )
    if series is None:
        return plain
    records = series.records()
    key = store.digest(
        [RECIPE, source.digest, *(f"{record.name} {record.sha256}" for record in records)]
    )

    def patched(folder: Path) -> None:
        with reporter.step("patching"):
            link_copy(plain, folder)
            quilt.apply(series, folder, quilt.patch_in(labroot), source.version)

    return store.ensure(KIND, key, reporter, patched)


def link_copy(plain: Path, folder: Path) -> None:
    """Fill `folder` with hard links to the files of `plain`.

    GNU patch writes a new file and renames it, so a patched file is never written through
    its link: the plain tree stays as it is, and a patched one costs a few MB.
    """
    subprocess.run(
        ["cp", "-al", f"{plain}/.", str(folder)], check=True, capture_output=True, text=True
    )


def _unpack(source: Source, folder: Path, labroot: LabRoot, reporter: Reporter) -> None:
    out = Bind(folder, "out", writable=True)
    log = paths.cache() / "logs" / f"source-{source.digest}.log"
    reporter.say(f"unpacking Linux {source.version} from {source.place}")
    with reporter.step("kernel source"):
        if source.place.is_file():
            labroot.run(
                ["tar", "-C", out.inside, "--strip-components=1", "-xf", f"/{DEBIAN_TARBALL}"],
                binds=[out],
                what=f"unpacking {source.place.name}",
                log=log,
            )
            return
        skip = [f"--exclude={pattern}" for pattern in NOT_SOURCE]
        labroot.run(
            ["rsync", "--archive", *skip, "/skblab/src/", f"{out.inside}/"],
            binds=[out, Bind(source.place, "src")],
            what=f"copying {source.place}",
            log=log,
        )
        # A tree that was built in place cannot be built from elsewhere until it is cleaned.
        labroot.run(
            ["make", "-s", "mrproper"],
            binds=[Bind(folder, "build", writable=True)],
            workdir="/skblab/build",
            what="cleaning the copy (make mrproper)",
            log=log,
        )
