# SPDX-License-Identifier: GPL-2.0-or-later
"""Git repositories that tests make."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path


def run_git(repository: Path, *words: str, said: str | None = None) -> str:
    """Run git as a user with no settings of theirs, with `said` to read; return what it prints."""
    mine = {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1"}
    for who in ("AUTHOR", "COMMITTER"):
        # Of one time, so that the same commits have the same names in each run.
        when = {f"GIT_{who}_DATE": "2026-01-01T00:00:00Z"}
        mine |= {f"GIT_{who}_NAME": "a", f"GIT_{who}_EMAIL": "a@b", **when}
    call = ["git", "-C", str(repository), *words]
    done = subprocess.run(
        call, env={**os.environ, **mine}, check=True, capture_output=True, text=True, input=said
    )
    return done.stdout.strip()


def make_line(
    repository: Path, subjects: Sequence[str], files: Mapping[str, str] | None = None
) -> list[str]:
    """Make a repository of commits in a row, and return their names.

    The first has `files`, and each another `file`. One process of git, where three for each commit
    would be most of a test's time.
    """
    run_git(repository, "init", "-q")
    stream = []
    for number, subject in enumerate(subjects):
        stream += [
            "commit refs/heads/line",
            "committer a <a@b> 1767225600 +0000",
            f"data {len(subject.encode())}\n{subject}",
        ]
        for name, text in {**({} if number else files or {}), "file": f"{number}\n"}.items():
            stream += [f"M 644 inline {name}", f"data {len(text.encode())}\n{text}"]
    run_git(repository, "fast-import", "--quiet", said="\n".join(stream) + "\n")
    run_git(repository, "checkout", "-q", "line")
    return run_git(repository, "rev-list", "--reverse", "HEAD").splitlines()
