# SPDX-License-Identifier: GPL-2.0-or-later
"""Git repositories that tests make."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path


def run_git(repository: Path, *words: str) -> str:
    """Run git as a user with no settings of theirs; return what it prints."""
    mine = {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1"}
    for who in ("AUTHOR", "COMMITTER"):
        # Of one time, so that the same commits have the same names in each run.
        when = {f"GIT_{who}_DATE": "2026-01-01T00:00:00Z"}
        mine |= {f"GIT_{who}_NAME": "a", f"GIT_{who}_EMAIL": "a@b", **when}
    call = ["git", "-C", str(repository), *words]
    done = subprocess.run(call, env={**os.environ, **mine}, check=True, capture_output=True)
    return done.stdout.decode().strip()
