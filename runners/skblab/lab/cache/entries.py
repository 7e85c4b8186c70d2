# SPDX-License-Identifier: GPL-2.0-or-later
"""All entries of the cache, each with what a user knows it by."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from skblab.lab import paths, store, uses
from skblab.lab.cache.kinds import (
    BUILDS,
    DEVELOP,
    DEVELOP_LOCKS,
    KERNELS,
    KINDS,
    LOGS,
    PACKAGES,
    ROOTS,
    SOURCES,
    SYSTEMTAP,
    Goes,
    Kind,
)
from skblab.lab.cache.mounts import mounted
from skblab.lab.kernel import debian_packages, source
from skblab.lab.kernel.lines import LINES
from skblab.lab.kernel.model import RECORD, Record
from skblab.lab.kernel.package import Record as PackageRecord
from skblab_analysis.base.errors import SkblabError, UsageError

OTHER = Kind("other", "not skblab's", "never", single=True)
# Kind and key.
Key = tuple[str, str]


@dataclass(frozen=True)
class Entry:
    """An entry: `size` in bytes, `used` last in seconds since 1970, `busy` while somebody uses it.

    `needed`: whether this checkout needs it; None where that cannot be known. `lock`: which lock of
    `locks/` its users hold, None if it is the one in `uses/`, and "" if none is needed.
    """

    kind: str
    key: str
    name: str
    path: Path
    size: int
    used: float
    goes: Goes
    busy: bool
    needed: bool | None
    lock: str | None = None


def entries(needed: Collection[Key]) -> list[Entry]:
    """Return all that is in the cache, kind by kind; `needed` is what this checkout needs."""
    home = paths.cache_place()
    there = {path.name for path in home.iterdir()} if home.is_dir() else set()
    known = [kind for name, kind in KINDS.items() if name in there]
    in_guests = mounted()
    found = [entry for kind in known for entry in _of(kind, needed, in_guests)]
    for name in sorted(there - KINDS.keys()):
        found.append(_single(Kind(name, OTHER.holds, "never", single=True)))
    return found


def taken() -> int:
    """Return how much there is, in bytes, without touching it; also what is behind links."""
    home, taken = paths.cache_place(), 0
    for folder in home.iterdir() if home.is_dir() else ():
        kind = KINDS.get(folder.name)
        if kind is None or kind.single:
            taken += store.disk_bytes(folder)
            continue
        for path in store.entries(folder.name):
            taken += uses.size(folder.name, path.name) or store.disk_bytes(path)
    return taken


def total(found: Collection[Entry]) -> int:
    """Return how much all entries take, in bytes."""
    return sum(entry.size for entry in found)


def _of(kind: Kind, needed: Collection[Key], in_guests: Collection[Key]) -> Iterator[Entry]:
    # Entries behind a link belong to another cache, whose locks and bound are there.
    if kind.single or (paths.cache_place() / kind.folder).is_symlink():
        yield _single(kind)
        return
    goes = kind.goes
    known = {key for name, key in needed if name == kind.folder}
    # It spares some minutes, and is as large as ten kernels.
    otherwise = False if kind.folder == BUILDS else None
    for path in store.entries(kind.folder):
        key = (kind.folder, path.name)
        # What another command removes meanwhile is no entry.
        with contextlib.suppress(FileNotFoundError):
            if kind.folder in (LOGS, DEVELOP) or not path.is_dir():
                yield _loose(kind, path, goes)
                continue
            yield Entry(
                kind.folder,
                path.name,
                name_of(kind, path),
                path,
                _size(kind, path),
                uses.last(*key),
                goes,
                key in in_guests or _used(*key),
                path.name in known if known else otherwise,
            )


def _used(kind: str, key: str) -> bool:
    with uses.nobody(kind, key) as free:
        return not free


def _single(kind: Kind) -> Entry:
    path = paths.cache_place() / kind.folder
    used = path.lstat().st_mtime
    name = f"in {path.resolve()}, not counted: a link" if path.is_symlink() else kind.holds
    return Entry(kind.folder, "", name, path, _own(path), used, "never", False, None, "")


def _own(path: Path) -> int:
    """Return how much of this cache a file or folder takes, in bytes: nothing behind a link."""
    return 0 if path.is_symlink() else store.disk_bytes(path)


def _loose(kind: Kind, path: Path, goes: Goes) -> Entry:
    """Return an entry without a file in `uses/`: a log, or what is compiled while developing."""
    busy, used, holds, lock = False, path.lstat().st_mtime, KINDS[LOGS].holds, ""
    if kind.folder == DEVELOP:
        holds, lock = kind.holds, DEVELOP_LOCKS.get(path.name, "")
        if lock:
            used = max(used, store.lock_time(lock))
            with store.held(lock) as free:
                busy = not free
        else:
            goes = "never"
    name, size = f"{holds}: {path.name}", _own(path)
    return Entry(kind.folder, path.name, name, path, size, used, goes, busy, None, lock)


def _size(kind: Kind, path: Path) -> int:
    if path.is_symlink():
        return 0
    # SystemTap writes there whenever it likes.
    noted = None if kind.folder == SYSTEMTAP else uses.size(kind.folder, path.name)
    if noted is None:
        noted = store.disk_bytes(path)
        uses.note_size(kind.folder, path.name, noted)
    return noted


def name_of(kind: Kind, path: Path) -> str:
    """Return what a user knows an entry by; one that is damaged has the name of its kind only."""
    with contextlib.suppress(OSError, ValidationError, ValueError, SkblabError):
        if kind.folder == KERNELS:
            record = Record.model_validate_json((path / RECORD).read_bytes())
            patches = "with our series" if record.patched else "without our series"
            return f"{record.release}, {record.flavour}, {patches}, of {_place(record.source)}"
        if kind.folder == SOURCES:
            return _tree(path)
        if kind.folder == PACKAGES:
            made = PackageRecord.model_validate_json((path / "package.json").read_bytes())
            return f"packages of {made.release}, of {_place(made.source)}"
        if kind.folder == debian_packages.KIND:
            fetched = debian_packages.record(path).packages
            return ", ".join(f"{name} {fetched[name].version}" for name in sorted(fetched))
        if kind.folder == ROOTS:
            count = len(json.loads((path / "skblab" / "versions.json").read_text()))
            return f"lab root, {count} Debian packages"
        if kind.folder == SYSTEMTAP:
            return f"{kind.holds}: {path.name}"
    return kind.holds


def _place(text: str) -> str:
    """Return a source by its name: Debian's tarball is deep in a lab root."""
    debian = any(text.endswith(line.tarball) for line in LINES)
    return "Debian's source" if debian else text


def _tree(path: Path) -> str:
    there = source.state(path)
    if there is not None:
        return f"Linux {there.version}, of {_place(str(there.place))}"
    try:
        return f"Linux {source.read_version(path)}, copied by an older skblab"
    except UsageError:
        return "kernel tree, not whole"
