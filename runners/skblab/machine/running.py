# SPDX-License-Identifier: GPL-2.0-or-later
"""The guests of this user that run, and a way into one beside that of the command that booted it.

A guest has a folder in the cache while its command runs; `about.json` there says what it is. The
way in is a further session of the connection that the command has open: no new handshake.
"""

from __future__ import annotations

import functools
import os
import shlex
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from skblab.lab import paths
from skblab.lab.guest import about
from skblab.lab.guest.about import About
from skblab.lab.guest.console import Console
from skblab.lab.guest.errors import GuestError
from skblab.lab.labroot import LabRoot
from skblab.machine.guest import CONSOLE, FOLDERS, transport_of
from skblab.machine.transport import SshTransport
from skblab_analysis.base.errors import SkblabError, SkblabWarning, UsageError

BOOT = "./skblab boot"


@dataclass(frozen=True)
class Running:
    """A guest that runs. `name` is that of its folder."""

    name: str
    folder: Path
    about: About

    @functools.cached_property
    def _console(self) -> Console:
        return Console(self.folder / CONSOLE)

    @property
    def by_hand(self) -> bool:
        """Whether `skblab boot` has booted it, and no command that measures in it."""
        return shlex.split(self.about.command)[1:2] == ["boot"]

    def transport(self) -> SshTransport:
        """Return a way into it, by the connection of the command that booted it."""
        root = LabRoot(self.about.root, self.about.root.name)
        made = transport_of(self.folder, root)
        made.trouble = self.trouble
        return made

    def trouble(self) -> str | None:
        """Return that the guest has ended or its kernel has died, if so."""
        if not self.folder.is_dir() or not self.about.alive:
            return f"guest {self.name} has ended"
        if cause := self._console.cause():
            return f"guest {self.name} is dead: {cause.kind.value}: {cause.text}"
        return None

    def why_not_connected(self) -> SkblabError:
        """Return the error for a guest without a connection: it boots, ends, or has ended."""
        if dead := self.trouble():
            return GuestError(dead)
        if about.was_up(self.folder):
            return GuestError(
                f"guest {self.name} is ending: the command that booted it has closed its connection"
            )
        return UsageError(f"guest {self.name} is still booting; try again in some seconds")


def running() -> list[Running]:
    """Return the guests of this user whose command runs, the oldest first."""
    base = paths.cache_place() / FOLDERS
    if not base.is_dir():
        return []
    found = []
    for folder in base.iterdir():
        try:
            own = folder.stat().st_uid == os.geteuid()
            known = about.read(folder) if own else None
        except (FileNotFoundError, NotADirectoryError):
            # It ended meanwhile, or is no folder of a guest.
            continue
        except SkblabError as error:
            # Such as that of another version: the others are not at fault.
            warnings.warn(f"left out: {error}", SkblabWarning, stacklevel=2)
            continue
        if known is not None and known.alive:
            found.append(Running(folder.name, folder, known))
    return sorted(found, key=lambda guest: (guest.about.started, guest.name))


def choose(guests: Sequence[Running], name: str | None) -> Running:
    """Return the guest of that name, of which the beginning is enough, or the only one.

    A name begins with the process id of the command that booted it; the whole number comes first:
    12 is not 123 where 12 runs.

    Raises UsageError if none runs, none has the name, or more than one might be meant.
    """
    if not guests:
        raise UsageError(f"no guest of yours runs; boot one in another terminal with: {BOOT}")
    meant = [guest for guest in guests if name is None or guest.name.startswith(name)]
    meant = [guest for guest in meant if guest.name.partition("-")[0] == name] or meant
    if len(meant) == 1 and (name is not None or meant[0].by_hand):
        return meant[0]
    if len(meant) == 1:
        raise UsageError(
            f"the only guest measures ({meant[0].about.command}), and a shell would disturb it; "
            f"choose it all the same with --guest {meant[0].name}"
        )
    names = ", ".join(guest.name for guest in meant or guests)
    if name is None:
        raise UsageError(f"{len(guests)} guests run; choose one with --guest: {names}")
    if meant:
        raise UsageError(f"--guest {name}: more than one begins so: {names}")
    raise UsageError(f"--guest {name}: no such guest runs; there are: {names}")
