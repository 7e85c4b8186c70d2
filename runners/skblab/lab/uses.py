# SPDX-License-Identifier: GPL-2.0-or-later
"""Which entries of the cache are in use, when each was used last, and how large it is.

`<cache>/uses/<kind>/<key>` belongs to an entry. Whoever uses the entry holds a shared lock (flock)
on it, which goes when its holder dies, however it dies. Whoever removes or replaces the entry holds
the lock alone. The file's time is that of the last use; its text is the entry's size in bytes.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import threading
from collections.abc import Iterator
from pathlib import Path

from skblab.lab import paths
from skblab.lab.reporter import Reporter

FOLDER = "uses"
# What this process holds until it ends, and the lock of this table.
_held: dict[Path, int] = {}
_table = threading.Lock()


def hold(kind: str, key: str) -> None:
    """Have the entry in use until this process ends, and used last now."""
    file = _file(kind, key)
    with _table:
        descriptor = _held.get(file)
        if descriptor is None or not _is_at(descriptor, file):
            if descriptor is not None:
                # Somebody has removed the whole cache.
                os.close(descriptor)
            _held[file] = descriptor = _locked(file, fcntl.LOCK_SH)
    os.utime(descriptor)


@contextlib.contextmanager
def using(kind: str, key: str) -> Iterator[None]:
    """Have the entry in use for the length of a `with` block, and used last now."""
    descriptor = _locked(_file(kind, key), fcntl.LOCK_SH)
    try:
        os.utime(descriptor)
        yield
    finally:
        _release(descriptor)


@contextlib.contextmanager
def alone(kind: str, key: str, reporter: Reporter, doing: str) -> Iterator[None]:
    """Wait until nobody else uses the entry, saying what the others are `doing`, and keep it so."""
    file = _file(kind, key)
    try:
        descriptor = _locked(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        reporter.say(f"waiting for another skblab {doing}")
        descriptor = _locked(file, fcntl.LOCK_EX)
    try:
        yield
    finally:
        _release(descriptor)


@contextlib.contextmanager
def nobody(kind: str, key: str) -> Iterator[bool]:
    """Tell whether nobody uses the entry; if so, nobody can begin to within the `with` block."""
    try:
        descriptor = _locked(_file(kind, key), fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        yield False
        return
    try:
        yield True
    finally:
        _release(descriptor)


def last(kind: str, key: str) -> float:
    """Return when the entry was used last, in seconds since 1970."""
    descriptor = _opened(_file(kind, key))
    try:
        return os.fstat(descriptor).st_mtime
    finally:
        os.close(descriptor)


def size(kind: str, key: str) -> int | None:
    """Return the size that was noted of the entry, in bytes; None if there is none."""
    try:
        text = _file(kind, key).read_text()
    except FileNotFoundError:
        return None
    return int(text) if text.isdecimal() else None


def note_size(kind: str, key: str, number: int) -> None:
    """Note the size of an entry in bytes; that is no use of it."""
    file = _file(kind, key)
    descriptor = _opened(file)
    try:
        was = os.fstat(descriptor)
        os.pwrite(descriptor, raw := str(number).encode(), 0)
        os.ftruncate(descriptor, len(raw))
        os.utime(descriptor, ns=(was.st_atime_ns, was.st_mtime_ns))
    finally:
        os.close(descriptor)


def forget(kind: str, key: str) -> None:
    """Remove what is known of an entry that goes; call it within `nobody` or `alone`."""
    _file(kind, key).unlink(missing_ok=True)


def _file(kind: str, key: str) -> Path:
    return paths.cache() / FOLDER / kind / key


def _opened(file: Path) -> int:
    """Open the file of an entry; one that is new has the time of the entry, if that is there."""
    flags = os.O_RDWR | os.O_CLOEXEC
    try:
        return os.open(file, flags)
    except FileNotFoundError:
        pass
    file.parent.mkdir(parents=True, exist_ok=True)
    try:
        descriptor = os.open(file, flags | os.O_CREAT | os.O_EXCL, 0o644)
    except FileExistsError:
        return _opened(file)
    with contextlib.suppress(FileNotFoundError):
        was = (paths.cache() / file.parent.name / file.name).stat()
        os.utime(descriptor, ns=(was.st_atime_ns, was.st_mtime_ns))
    return descriptor


def _locked(file: Path, how: int) -> int:
    """Open and lock the file of an entry; BlockingIOError if `how` says not to wait."""
    while True:
        descriptor = _opened(file)
        try:
            fcntl.flock(descriptor, how)
        except BaseException:
            os.close(descriptor)
            raise
        # It may have been removed with its entry while we waited.
        if _is_at(descriptor, file):
            return descriptor
        os.close(descriptor)


def _release(descriptor: int) -> None:
    # A child that was forked meanwhile has it open, too: to close it would not free the lock.
    fcntl.flock(descriptor, fcntl.LOCK_UN)
    os.close(descriptor)


def _is_at(descriptor: int, file: Path) -> bool:
    try:
        there = file.stat()
    except FileNotFoundError:
        return False
    return os.path.samestat(os.fstat(descriptor), there)
