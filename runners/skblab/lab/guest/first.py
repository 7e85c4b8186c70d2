# SPDX-License-Identifier: GPL-2.0-or-later
"""What a guest begins with: its first program (runners/init), and the files that it is to take in.

A guest has its root from the host by 9p, which asks the host for each file that is opened and for
each link on the way: nearly half of what it takes a guest to start a small program. So the first
program copies what guests start again and again into the guest's memory, once for each snapshot.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath

from skblab.lab import paths, store, tools
from skblab.lab.guest.spec import FIRST
from skblab.lab.labroot import Bind, LabRoot
from skblab.lab.reporter import Reporter

SOURCES = ("runners/init/init.c",)
COMPILE = (
    *("gcc", "-static", "-Os", "-Wall", "-Wextra", "-Werror"),
    *("-o", "/skblab/out/init", "/skblab/tree/runners/init/init.c"),
)
# In an entry of the cache, and in a guest's folder.
PROGRAM, FILES = "init", "files"
# What scripts of ours start in guests; what of them a lab root does not have is left out.
STARTED = (
    *("sh", "bash", "perl", "awk", "sed", "grep", "cat", "head", "tail", "cut", "tr", "wc", "sort"),
    *("env", "sleep", "timeout", "date", "uname", "nproc", "seq", "id"),
    *("ls", "mkdir", "rm", "mv", "cp", "ln", "touch", "mkfifo", "readlink", "mount", "umount"),
    *("sha256sum", "gzip", "pgrep", "kill", "chrt", "taskset", "nsenter", "unshare", "sysctl"),
    *("ip", "tc", "ethtool", "nft", "modprobe"),
)
# What ssh starts, which is in no PATH, and what programs read before they do anything.
ALSO = (
    *("/usr/sbin/sshd", "/usr/lib/openssh/sshd-session", "/usr/lib/openssh/sshd-auth"),
    *("/etc/ld.so.cache", "/etc/nsswitch.conf", "/etc/passwd", "/etc/group", "/etc/localtime"),
    *("/etc/ssl/openssl.cnf", "/etc/bash.bashrc", "/root/.bashrc"),
)
PATH = ("/usr/sbin", "/usr/bin")
MOST_LINKS = 40


def init_script(shares: Sequence[Bind], *, hold: bool = False) -> str:
    """Return what a guest's bootstrap goes on with: the first program and what it is to mount."""
    listed = (f"{share.point}:{'rw' if share.writable else 'ro'}" for share in shares)
    return " ".join(("exec", FIRST, *(("hold",) if hold else ()), *listed)) + "\n"


def put(labroot: LabRoot, folder: Path, shares: Sequence[Bind], *, hold: bool = False) -> None:
    """Have in a guest's folder what it begins with; it takes files in if it is held."""
    made = ensure(labroot)
    (folder / "init").write_text(init_script(shares, hold=hold))
    shutil.copy2(made / PROGRAM, folder / Path(FIRST).name)
    if hold:
        shutil.copy2(made / FILES, folder / FILES)


def key(labroot: LabRoot) -> str:
    """Return the key of what guests begin with."""
    return store.digest(
        ["init", labroot.key, *COMPILE, *STARTED, *ALSO, *tools.contents(SOURCES)],
    )


def ensure(labroot: LabRoot) -> Path:
    """Return a folder with PROGRAM and FILES.

    PROGRAM needs no library: a guest may have no root yet. FILES has the path of a file or link of
    the lab root in each line, without its first slash.
    """

    def build(folder: Path) -> None:
        labroot.run(
            COMPILE,
            binds=[Bind(paths.tree(), "tree"), Bind(folder, "out", writable=True)],
            what="compiling the first program of guests",
        )
        started = [*_found(labroot.path), *ALSO]
        # ldd fails for what is a script, or of no library.
        said = labroot.run(["sh", "-c", 'ldd "$@" 2>/dev/null; :', "sh", *started], what="ldd")
        wanted = [*started, *libraries(said)]
        taken = dict.fromkeys(one for path in wanted for one in way(labroot.path, path))
        (folder / FILES).write_text("".join(f"{path}\n" for path in taken))

    return store.ensure("init", key(labroot), Reporter(quiet=True), build)


def _found(root: Path) -> Iterator[str]:
    for name in STARTED:
        for place in PATH:
            if os.path.lexists(f"{root}{place}/{name}"):
                yield f"{place}/{name}"
                break


def libraries(said: str) -> Iterator[str]:
    """Yield the paths that ldd has found, the loader's among them."""
    for line in said.splitlines():
        for word in line.split():
            if word.startswith("/") and not word.endswith(":"):
                yield word


def way(root: Path, path: str) -> Iterator[str]:
    """Yield the links on the way to a file of `root`, then the file, each from the top of `root`.

    Nothing where there is no such file, or more links than the kernel would follow.
    """
    passed: list[str] = []
    todo = list(reversed(PurePosixPath(path).parts[1:]))
    here: list[str] = []
    while todo:
        part = todo.pop()
        if part == "..":
            here = here[:-1]
            continue
        here = [*here, part]
        inside = "/".join(here)
        outside = root / inside
        if outside.is_symlink():
            passed.append(inside)
            target = PurePosixPath(outside.readlink())
            here = [] if target.is_absolute() else here[:-1]
            todo += reversed(target.parts[1:] if target.is_absolute() else target.parts)
        if len(passed) > MOST_LINKS:
            return
    inside = "/".join(here)
    if (root / inside).is_file():
        yield from (*passed, inside)
