# SPDX-License-Identifier: GPL-2.0-or-later
"""Output folders of builds, kept for the next build of the same tree with the same options.

Who develops a kernel builds one tree again and again, or one revision after another, and each time
few files have changed. The compiler cache spares their compiles, and not what kbuild does with each
object (objtool, archives) nor the look into the cache itself. So of a user's tree the output folder
stays, one for each configuration, and the next build goes on in it.

Make goes by times, and a file may come with an old one: what has changed since the last build, and
does not look newer than that, is given the time of now. Some changes make does not see at all; with
one of these a build begins anew.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from stat import S_ISLNK

from pydantic import ValidationError

from skblab.lab import store, uses
from skblab.lab.kernel import source
from skblab.lab.kernel.blame import SourceError
from skblab.lab.reporter import Reporter
from skblab_analysis.base import disk
from skblab_analysis.base.checked import Closed
from skblab_analysis.base.errors import SkblabError

KIND = "builds"
# In an entry: the output folder, and what is known of the build that left it.
OUTPUT, STATE = "output", "built.json"

# Files of whose change kbuild knows, by the end of their name and by its begin; and those that no
# kernel is made of.
KNOWN_ENDS = (".c", ".h", ".S", ".s", ".lds", ".tbl", ".rst", ".txt", ".yaml", ".md")
KNOWN_NAMES = ("Kconfig", "Makefile", "Kbuild", "MAINTAINERS", "CREDITS")
_LINK = "link"


class State(Closed):
    """`built.json`: when a build ended (nanoseconds since 1970), what it compiled, how much it was.

    `lines` are those of a build of everything (see build.weight), for the progress bar; `stamps`
    has what each file of the tree was known by.
    """

    ended: int
    lines: int
    stamps: dict[str, str]


@dataclass
class Output:
    """An output folder. `lines` is 0 if it is empty; whoever compiles everything sets it."""

    folder: Path
    lines: int = 0

    @property
    def resumed(self) -> bool:
        """Whether an earlier build has left what is in it."""
        return (self.folder / ".config").exists()


@contextlib.contextmanager
def output(key: str | None, tree: Path, part: Path, reporter: Reporter) -> Iterator[Output]:
    """Have an output folder in `part` for a build of `tree`; no `key`: one that nobody keeps.

    It is kept after a build that ended well. One that an earlier build had left is kept as well
    after a SourceError, but not where something was killed: a file may be half written then.
    """
    folder = part / OUTPUT
    if key is None:
        folder.mkdir()
        yield Output(folder)
        store.remove(folder)
        return
    # Nobody changes the tree meanwhile.
    stamps = stamps_of(tree)
    there = _take(key, folder)
    renewed = None if there is None else renew(tree, stamps, there)
    if renewed is None:
        store.remove(folder)
        folder.mkdir()
        there, renewed = None, set()
    made = Output(folder, there.lines if there else 0)
    try:
        yield made
    except SourceError:
        if there is not None:
            # They may not have been compiled: they are to look changed the next time, too.
            _keep(key, made, stamps | dict.fromkeys(renewed, ""), reporter)
        raise
    # The times that renewed files had come back when the tree is copied the next time.
    _keep(key, made, stamps, reporter)


def stamps_of(tree: Path) -> dict[str, str]:
    """Return what each file of a tree is known by: size and time, or where a link leads."""
    return {
        name: f"{_LINK} {(tree / name).readlink()}" if S_ISLNK(stat.st_mode) else source.stamp(stat)
        for name, stat in source.walk(tree)
    }


def renew(tree: Path, stamps: Mapping[str, str], before: State) -> set[str] | None:
    """Give files that changed since a build, and do not look newer than that, the time of now.

    `stamps` are the tree's. Return which they are; None where make would not see a change.
    """
    changed = {name for name, known in stamps.items() if before.stamps.get(name) != known}
    if any(_unseen(name, stamps, before.stamps) for name in changed):
        return None
    # Make takes a header for the one of that name that it knew, in another folder.
    headers = {Path(name).name for name in before.stamps if name.endswith(".h")}
    if any(Path(name).name in headers for name in changed - before.stamps.keys()):
        return None
    # A clock may have been set back.
    now = max(time.time_ns(), before.ended + 1)
    renewed = {name for name in changed if (tree / name).stat().st_mtime_ns <= before.ended}
    for name in renewed:
        os.utime(tree / name, ns=(now, now))
    return renewed


def _unseen(name: str, now: Mapping[str, str], before: Mapping[str, str]) -> bool:
    """Return whether a change is of a link, or of what may be taken in in a way of its own."""
    if now[name].startswith(_LINK) or before.get(name, "").startswith(_LINK):
        return True
    return not name.endswith(KNOWN_ENDS) and not Path(name).name.startswith(KNOWN_NAMES)


def _take(key: str, folder: Path) -> State | None:
    """Move what the last build left to `folder`; None if there is none, or not a whole one."""
    entry = store.entry(KIND, key)
    with contextlib.suppress(OSError, ValidationError):
        state = State.model_validate_json((entry / STATE).read_bytes())
        # Another build may take it first, and a cache's folder may be on another disk.
        (entry / OUTPUT).rename(folder)
        store.remove(entry, quiet=True)
        return state
    return None


def _keep(key: str, made: Output, stamps: dict[str, str], reporter: Reporter) -> None:
    """Have the output folder in the cache, with the stamps of the tree that it is of."""
    entry = store.entry(KIND, key)
    part = entry.with_name(f"{key}{store.PART}")
    state = State(ended=time.time_ns(), lines=made.lines, stamps=stamps)
    try:
        with store.locked(f"{KIND}-{key}", reporter), uses.using(KIND, key):
            store.remove(part)
            part.mkdir(parents=True)
            made.folder.rename(part / OUTPUT)
            disk.write_whole(part / STATE, state.model_dump_json() + "\n")
            gone = store.put_away(entry)
            part.rename(entry)
            store.note_added(KIND, key)
            store.remove(gone)
    except (OSError, SkblabError) as error:
        # The kernel is whole: what cannot be kept costs the next build its time.
        for left in (part, made.folder):
            store.remove(left, quiet=True)
        reporter.say(f"the next build begins anew: its output folder is not kept: {error}")
