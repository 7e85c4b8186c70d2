# SPDX-License-Identifier: GPL-2.0-or-later
"""A labgrid of the tests' own: its programs in the cache, and a coordinator on a loopback port."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from conftest import TREE
from skblab.lab import store
from skblab.lab.reporter import Reporter
from skblab_analysis.base.errors import SkblabError, one_line
from waiting import PATIENCE, until

_ADDRESS = re.compile(r"^listening on (\S+)$", re.M)
# What is started so ends with the process that started it, though that is killed.
WITH_US = ("setpriv", "--pdeathsig", "KILL")
LOCK = TREE / "requirements-labgrid.lock"
PLACES = """\
bench1:
  aliases: []
  comment: ''
  tags: {board: x, rack: a}
  matches: []
  created: 1.0
  changed: 1.0
bench2:
  aliases: []
  comment: ''
  tags: {board: y, rack: a}
  matches: []
  created: 1.0
  changed: 1.0
"""


def programs() -> Path:
    """Return the folder of labgrid's programs; the test is skipped where they cannot be had.

    Not in the environment of the tests: labgrid brings a plugin for pytest along.
    """

    def build(folder: Path) -> None:
        python = str(folder / "bin" / "python3")
        for command in (
            [sys.executable, "-m", "venv", str(folder)],
            [python, "-m", "pip", "install", "-q", "--disable-pip-version-check", "-r", str(LOCK)],
        ):
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode:
                raise SkblabError(f"no labgrid could be installed: {one_line(done.stderr)}")

    key = store.digest([LOCK.read_bytes(), sys.version])
    try:
        return store.ensure("labgrid", key, Reporter(quiet=True), build) / "bin"
    except SkblabError as error:
        pytest.skip(str(error))


@dataclass(frozen=True)
class Here:
    """A coordinator with the places bench1 and bench2."""

    bin: Path
    address: str

    def environment(self, user: str) -> dict[str, str]:
        """Return the environment of a user of labgrid's."""
        path = f"{self.bin}:{os.environ['PATH']}"
        return {**os.environ, "PATH": path, "LG_USERNAME": user, "LG_HOSTNAME": "desk"}

    def client(self, *words: str, user: str) -> str:
        """Return what labgrid-client prints."""
        # Not the program itself, which names the folder that it was installed in.
        command = [str(self.bin / "python3"), "-m", "labgrid.remote.client", "-x", self.address]
        return subprocess.run(
            [*command, *words],
            env=self.environment(user),
            check=True,
            text=True,
            stdout=subprocess.PIPE,
            timeout=PATIENCE,
        ).stdout


@contextlib.contextmanager
def coordinator(folder: Path, port: int = 0) -> Iterator[tuple[Here, subprocess.Popen[str]]]:
    """Have a coordinator, which ends with the block."""
    found = programs()
    (folder / "places.yaml").write_text(PLACES)
    command = [*WITH_US, str(found / "python3"), "-m", "labgrid.remote.coordinator"]
    log = folder / "coordinator.log"
    with (
        log.open("w") as out,
        subprocess.Popen(
            [*command, "-l", f"127.0.0.1:{port}"],
            cwd=folder,
            stdout=out,
            stderr=subprocess.STDOUT,
            text=True,
        ) as daemon,
    ):
        try:
            until(
                "labgrid's coordinator listens",
                PATIENCE,
                lambda: _ADDRESS.search(log.read_text()) or daemon.poll() is not None,
            )
            listens = _ADDRESS.search(log.read_text())
            assert listens is not None, log.read_text()
            yield Here(found, listens[1]), daemon
        finally:
            daemon.kill()
