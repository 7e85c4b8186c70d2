# SPDX-License-Identifier: GPL-2.0-or-later
"""Files that are written whole or not at all: a full disk or a kill leaves what was there."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import shutil
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from skblab_analysis.base.errors import SkblabError


def write_whole(path: Path, data: str | bytes) -> None:
    """Write `path` by a temporary file and rename, flushed to disk."""
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    raw = data.encode() if isinstance(data, str) else data
    try:
        with part.open("wb") as handle:
            handle.write(raw)
            handle.flush()
            os.fsync(handle.fileno())
        part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def now() -> datetime:
    """Return the time in UTC, to the millisecond."""
    moment = datetime.now(UTC)
    return moment.replace(microsecond=moment.microsecond // 1000 * 1000)


@contextlib.contextmanager
def explained(path: Path) -> Iterator[None]:
    """Turn a full disk or another refusal of the file system into one line."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            free = shutil.disk_usage(path.parent).free / 2**20
            raise SkblabError(
                f"the disk is full: {free:.0f} MiB free, cannot write {path}; what the run "
                "folder already holds stays readable; free some space and run again (a sweep: "
                "skblab resume)"
            ) from error
        raise SkblabError(f"cannot write {path}: {error.strerror}") from error


def write(path: Path, data: str | bytes) -> None:
    """Write a file whole; SkblabError in one line when the disk says no."""
    with explained(path):
        write_whole(path, data)


def hold(folder: Path) -> int:
    """Say by a lock that this process works on a folder; return what keeps it until it is closed.

    The lock is the kernel's (flock) and shared: it goes when its holder dies, however it dies. A
    file system that has no locks is no error: then nobody is seen.
    """
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    with contextlib.suppress(OSError):
        fcntl.flock(descriptor, fcntl.LOCK_SH)
    return descriptor


def is_held(folder: Path) -> bool:
    """Whether some process on this machine holds a folder: see `hold`."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return False
