# SPDX-License-Identifier: GPL-2.0-or-later
"""The content-keyed cache: `<cache>/<kind>/<key>/`, made whole or not at all.

An entry is built beside its final place and renamed when finished, under a lock, so an
interrupted build (error, Ctrl-C, kill -9, full disk) never leaves half an entry behind. It is
renamed again before it is removed, so an interrupted removal does not either.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import os
import shutil
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from stat import S_ISDIR

from skblab.lab import paths, uses
from skblab.lab.reporter import Reporter
from skblab_analysis.base.errors import SkblabError, SkblabWarning

KEY_LENGTH = 16
# How long a killed build's last processes may take to go.
DYING_SECONDS = 5
# What st_blocks counts in, whatever the file system (stat(2)).
BLOCK = 512
# What these end with is no entry: one that is being built, and one that is being removed.
PART, GONE = ".part", ".gone"
# Why an entry is kept that was to be removed, where it is no failure.
IN_USE = "it is in use now"
# Kind and key of what this process has added.
added: set[tuple[str, str]] = set()


def digest(parts: Iterable[str | bytes]) -> str:
    """Return a key of 16 hex digits over `parts`; each part is length-prefixed."""
    state = hashlib.sha256()
    for part in parts:
        raw = part.encode() if isinstance(part, str) else part
        state.update(len(raw).to_bytes(8, "little"))
        state.update(raw)
    return state.hexdigest()[:KEY_LENGTH]


def entry(kind: str, key: str) -> Path:
    """Return where the finished entry is, or would be."""
    return paths.cache() / kind / key


@contextlib.contextmanager
def locked(name: str, reporter: Reporter, doing: str = "") -> Iterator[None]:
    """Hold the cache lock `name`, saying so when another process has it, and what it does.

    The lock is the kernel's (flock), so it goes when its holder dies, however it dies.
    """
    with _lock_file(name).open("a") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            reporter.say(f"waiting for another skblab {doing or f'that is making {name}'}")
            fcntl.flock(handle, fcntl.LOCK_EX)
        os.utime(handle.fileno())
        yield


@contextlib.contextmanager
def held(name: str) -> Iterator[bool]:
    """Hold the cache lock `name` if nobody else does; yields whether it is held."""
    with _lock_file(name).open("a") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True


def lock_time(name: str) -> float:
    """Return when `locked(name)` began last, in seconds since 1970; 0 if it never did."""
    file = _lock_file(name)
    return file.stat().st_mtime if file.exists() else 0


def _lock_file(name: str) -> Path:
    folder = paths.cache() / "locks"
    folder.mkdir(exist_ok=True)
    return folder / name


def entries(kind: str) -> list[Path]:
    """Return the finished entries of a kind, and the files beside them, by name."""
    folder = paths.cache_place() / kind
    if not folder.is_dir():
        return []
    return sorted(path for path in folder.iterdir() if path.suffix not in (PART, GONE))


def ensure(kind: str, key: str, reporter: Reporter, build: Callable[[Path], None]) -> Path:
    """Return the entry `kind/key`, calling `build(folder)` to fill it when it is not there.

    `build` gets an empty folder; raise from it to give up. Raises SkblabError with the free
    space named when the disk is full. The entry is in use until this process ends.
    """
    final = entry(kind, key)
    with _full_disk_said(final):
        # Before we look: what nobody uses may go at any moment.
        uses.hold(kind, key)
    if final.is_dir():
        return final
    with locked(f"{kind}-{key}", reporter):
        if final.is_dir():
            return final
        part = final.with_name(f"{key}{PART}")
        with filling(part):
            remove(part)
            sweep(kind)
            part.mkdir(parents=True)
            build(part)
            part.rename(final)
            note_added(kind, key)
    return final


def note_added(kind: str, key: str) -> None:
    """Note that this process has made an entry, or more of one, and how large it is now."""
    uses.note_size(kind, key, disk_bytes(entry(kind, key)))
    added.add((kind, key))


@contextlib.contextmanager
def filling(folder: Path) -> Iterator[None]:
    """Remove `folder` if what fills it gives up; a full disk becomes a SkblabError."""
    try:
        with _full_disk_said(folder):
            yield
    except BaseException:
        remove(folder, quiet=True)
        raise


@contextlib.contextmanager
def _full_disk_said(where: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise full_disk(where) from error
        raise


def sweep(kind: str) -> None:
    """Remove what builds and removals that were killed left of any entry of this kind."""
    folder = paths.cache() / kind
    for part in folder.glob(f"*{PART}"):
        with held(f"{kind}-{part.stem}") as free:
            # Whoever builds it now holds the lock.
            if free:
                remove(part)
    for gone in folder.glob(f"*{GONE}"):
        if kept := delete(gone):
            warnings.warn(kept, SkblabWarning, stacklevel=2)


def discard(kind: str, key: str) -> str | None:
    """Remove an entry if nobody uses it; return why it is still there, None if it is gone.

    IN_USE if somebody uses it, else what could not be deleted.
    """
    with uses.nobody(kind, key) as free:
        if not free:
            return IN_USE
        try:
            gone = put_away(entry(kind, key))
        except OSError as error:
            return _undeleted(entry(kind, key), error)
        uses.forget(kind, key)
    return delete(gone)


def delete(path: Path) -> str | None:
    """Remove a file or folder if it exists; return what of it is still there and why, or None.

    All that can go goes. Another process may delete the same.
    """
    kept = f"cannot delete {path}: something writes there"
    # The first attempt knows why, the second goes on behind what does not go.
    for quiet in (False, True):
        try:
            remove(path, quiet=quiet)
        except SkblabError as error:
            return f"cannot delete {path}: {error}"
        except OSError as error:
            kept = _undeleted(path, error)
    return kept if os.path.lexists(path) else None


def _undeleted(path: Path, error: OSError) -> str:
    # shutil names a file below a folder without that folder.
    inside = "" if error.filename in (None, str(path)) else f"{error.filename}: "
    return f"cannot delete {path}: {inside}{error.strerror}"


def throw_away(path: Path) -> str | None:
    """Remove a file or folder of the cache that no key names; return as `delete` does."""
    try:
        gone = put_away(path)
    except OSError as error:
        return _undeleted(path, error)
    return delete(gone)


def put_away(path: Path) -> Path:
    """Give a file or folder of the cache, if it is there, a name that is no entry's; return it."""
    gone = path.with_name(f"{path.name}.{os.getpid()}{GONE}")
    remove(gone, quiet=True)
    with contextlib.suppress(FileNotFoundError):
        path.rename(gone)
    return gone


def disk_bytes(path: Path) -> int:
    """Return how much of the disk a file or folder takes, in bytes; hard links count once."""
    total, linked = 0, set[int]()
    for stat in _stats(path):
        if stat.st_nlink > 1 and not S_ISDIR(stat.st_mode):
            if stat.st_ino in linked:
                continue
            linked.add(stat.st_ino)
        total += stat.st_blocks * BLOCK
    return total


def _stats(path: Path) -> Iterator[os.stat_result]:
    """Yield the stat of all that is there; what goes meanwhile is left out."""
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        yield path.lstat()
    for folder, names, files in os.walk(path):
        for name in (*names, *files):
            with contextlib.suppress(FileNotFoundError):
                yield os.lstat(f"{folder}/{name}")


def full_disk(where: Path) -> SkblabError:
    """Return the error for a full disk under `where`."""
    folder = where
    while not folder.exists():
        folder = folder.parent
    free = shutil.disk_usage(folder).free / 2**20
    return SkblabError(
        f"the disk is full: {free:.0f} MiB free at {folder}; "
        "free some space (skblab cache prune) or set SKBLAB_CACHE to a larger disk, then run the "
        "command again"
    )


def remove(folder: Path, *, quiet: bool = False) -> None:
    """Remove `folder` (or a file) if it exists; refuse while anything is mounted below it.

    `quiet`: after a build was killed. What it ran may write there until it has died, too.
    """
    if folder.is_file() or folder.is_symlink():
        folder.unlink(missing_ok=True)
    if not folder.exists():
        return
    with Path("/proc/self/mounts").open() as mounts:
        # They stand there by their real path, and the cache may be behind a link.
        inside = f"{folder.resolve()}/"
        below = [line.split()[1] for line in mounts if line.split()[1].startswith(inside)]
    if below:
        raise SkblabError(f"{below[0]} is still mounted; unmount it, then remove {folder}")
    shutil.rmtree(folder, ignore_errors=quiet)
    deadline = time.monotonic() + DYING_SECONDS
    while folder.exists() and time.monotonic() < deadline:
        time.sleep(0.05)
        shutil.rmtree(folder, ignore_errors=True)
