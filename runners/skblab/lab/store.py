# SPDX-License-Identifier: GPL-2.0-or-later
"""The content-keyed cache: `<cache>/<kind>/<key>/`, made whole or not at all.

An entry is built beside its final place and renamed when finished, under a lock, so an
interrupted build (error, Ctrl-C, kill -9, full disk) never leaves half an entry behind.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import shutil
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from skblab.lab import paths
from skblab.lab.reporter import Reporter
from skblab_analysis.base.errors import SkblabError

KEY_LENGTH = 16
# How long a killed build's last processes may take to go.
DYING_SECONDS = 5


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
    with _lock_file(name).open("w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            reporter.say(f"waiting for another skblab {doing or f'that is making {name}'}")
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield


@contextlib.contextmanager
def held(name: str) -> Iterator[bool]:
    """Hold the cache lock `name` if nobody else does; yields whether it is held."""
    with _lock_file(name).open("w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True


def _lock_file(name: str) -> Path:
    folder = paths.cache() / "locks"
    folder.mkdir(exist_ok=True)
    return folder / name


def ensure(kind: str, key: str, reporter: Reporter, build: Callable[[Path], None]) -> Path:
    """Return the entry `kind/key`, calling `build(folder)` to fill it when it is not there.

    `build` gets an empty folder; raise from it to give up. Raises SkblabError with the free
    space named when the disk is full.
    """
    final = entry(kind, key)
    if final.is_dir():
        return final
    with locked(f"{kind}-{key}", reporter):
        if final.is_dir():
            return final
        part = final.with_name(f"{key}.part")
        try:
            remove(part)
            _sweep(final.parent)
            part.mkdir(parents=True)
            build(part)
            part.rename(final)
        except OSError as error:
            remove(part, quiet=True)
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise full_disk(final) from error
            raise
        except BaseException:
            remove(part, quiet=True)
            raise
    return final


def _sweep(kind: Path) -> None:
    """Remove what builds that were killed left of any entry of this kind."""
    for part in kind.glob("*.part"):
        with held(f"{kind.name}-{part.stem}") as free:
            # Whoever builds it now holds the lock.
            if free:
                remove(part)


def full_disk(where: Path) -> SkblabError:
    """Return the error for a full disk under `where`."""
    folder = where
    while not folder.exists():
        folder = folder.parent
    free = shutil.disk_usage(folder).free / 2**20
    return SkblabError(
        f"the disk is full: {free:.0f} MiB free at {folder}; "
        "free some space or set SKBLAB_CACHE to a larger disk, then run the command again"
    )


def remove(folder: Path, *, quiet: bool = False) -> None:
    """Remove `folder` if it exists; refuse while anything is mounted below it.

    `quiet`: after a build was killed. What it ran may write there until it has died, too.
    """
    if not folder.exists():
        return
    with Path("/proc/self/mounts").open() as mounts:
        below = [line.split()[1] for line in mounts if line.split()[1].startswith(f"{folder}/")]
    if below:
        raise SkblabError(f"{below[0]} is still mounted; unmount it, then remove {folder}")
    shutil.rmtree(folder, ignore_errors=quiet)
    deadline = time.monotonic() + DYING_SECONDS
    while folder.exists() and time.monotonic() < deadline:
        time.sleep(0.05)
        shutil.rmtree(folder, ignore_errors=True)
