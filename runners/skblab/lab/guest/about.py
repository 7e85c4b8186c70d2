# SPDX-License-Identifier: GPL-2.0-or-later
"""What a running guest's folder says of it, for other commands of the same user."""

from __future__ import annotations

import os
import shlex
import sys
import time
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from skblab_analysis.base.checked import parse

FILE = "about.json"
# Beside it, once the guest was up: from then on, no connection means that it ends.
UP = "up"
# Of /proc/PID/stat (proc(5)), counted from the state, which is the first after the name.
BEGUN_FIELD = 19


class About(BaseModel):
    """A guest as the command that booted it has noted it. `started` in seconds since 1970.

    `parent` is the process id of that command, `parent_begun` when that process began, in ticks
    since the host's boot: process ids come again.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    parent: int = Field(gt=0)
    parent_begun: int = Field(ge=0)
    release: str
    root: Path
    command: str
    started: float = Field(ge=0, allow_inf_nan=False)

    @property
    def alive(self) -> bool:
        """Whether the command that booted it still runs."""
        return begun(self.parent) == self.parent_begun


def note(folder: Path, release: str, root: Path) -> None:
    """Write what there is to say of a guest of this process into its folder."""
    own = os.getpid()
    ticks = begun(own)
    assert ticks is not None
    about = About(
        parent=own,
        parent_begun=ticks,
        release=release,
        root=root,
        command=shlex.join(["skblab", *sys.argv[1:]]),
        started=time.time(),
    )
    # Whole or not at all: others look while it is written.
    part = folder / f"{FILE}.part"
    part.write_text(about.model_dump_json())
    part.rename(folder / FILE)


def note_up(folder: Path) -> None:
    """Note in a guest's folder that it has come up."""
    (folder / UP).touch()


def was_up(folder: Path) -> bool:
    """Tell whether a guest has come up, by its folder."""
    return (folder / UP).exists()


def read(folder: Path) -> About | None:
    """Return what is noted in a guest's folder; None while nothing is. Raises SkblabError."""
    try:
        text = (folder / FILE).read_text()
    except FileNotFoundError:
        return None
    return parse(About, text, f"{folder / FILE}")


def begun(process: int) -> int | None:
    """Return when a process began, in ticks since the host's boot; None if there is none."""
    try:
        stat = Path("/proc", str(process), "stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return int(stat.rpartition(")")[2].split()[BEGUN_FIELD])
