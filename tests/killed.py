# SPDX-License-Identifier: GPL-2.0-or-later
"""Sweeps that are killed half-way, and what they have written until then."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path

from conftest import TREE, emulators
from waiting import PATIENCE

SECONDS = 600


def events(results: Path) -> list[str]:
    """Return the events of the only journal below a results folder, but for its last line."""
    journals = list(results.glob("*/journal.jsonl"))
    lines = journals[0].read_text().splitlines() if journals else []
    return [json.loads(line)["event"] for line in lines[:-1]]


def sweep(arguments: list[str], results: Path, recorded: int) -> Path:
    """Run a sweep, kill it when so many trials are recorded, and return its folder.

    Its guests are gone when this returns.
    """
    env = {**os.environ, "SKBLAB_RESULTS": str(results)}
    deadline = time.monotonic() + SECONDS
    log = results.parent / "killed.err"
    with (
        log.open("w") as errors,
        subprocess.Popen([str(TREE / "skblab"), *arguments], env=env, stderr=errors) as killed,
    ):
        while (seen := events(results)).count("recorded") < recorded:
            assert time.monotonic() < deadline, log.read_text()
            assert killed.poll() is None, log.read_text()
            time.sleep(0.1)
        guests = emulators(killed.pid)
        os.kill(killed.pid, signal.SIGKILL)
    assert guests, "it had no guest to be killed with"
    assert seen[-1] != "finished"
    deadline = time.monotonic() + PATIENCE
    while left := guests & emulators():
        assert time.monotonic() < deadline, left
        time.sleep(0.1)
    [folder] = results.iterdir()
    return folder


def resume(folder: Path) -> str:
    """Resume a sweep to its end; return what it printed."""
    done = subprocess.run(
        [str(TREE / "skblab"), "resume", str(folder)],
        check=False,
        text=True,
        capture_output=True,
        timeout=900,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
