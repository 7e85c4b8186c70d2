# SPDX-License-Identifier: GPL-2.0-or-later
"""A revision in a user's git repository: which commit it is, and its files in a folder of ours.

Nothing here writes to the repository: the index of such a folder lies beside it.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from skblab_analysis.base.errors import SkblabError, UsageError, one_line


def commit(repository: Path, revision: str) -> str:
    """Return the commit that a revision names, in full; UsageError if it names none."""
    try:
        words = ("--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}")
        return _run(repository, "rev-parse", *words).split()[-1]
    except SkblabError as error:
        more = f" ({error})" if str(error) else ""
        raise UsageError(
            f"git:{repository}@{revision}: no such revision there{more}; "
            f"git -C {repository} log shows which there are"
        ) from None


def makefile(repository: Path, revision: str) -> str:
    """Return the Makefile of a commit, empty if it has none."""
    try:
        return _run(repository, "cat-file", "blob", f"{revision}:Makefile")
    except SkblabError:
        return ""


def check_out(repository: Path, revision: str, folder: Path, index: Path) -> None:
    """Make a folder's files those of a commit; what is there of another one stays if it is equal.

    Files that change are made anew, so that links to the old ones do not see it.
    """
    _run(
        repository,
        f"--work-tree={folder}",
        *("read-tree", "--reset", "-u", revision),
        env={"GIT_INDEX_FILE": os.fspath(index)},
    )


def _run(repository: Path, *words: str, env: dict[str, str] | None = None) -> str:
    """Run git on a repository, also one of another user's; SkblabError with what it says."""
    place = _git(repository, "rev-parse", "--absolute-git-dir", env={}).strip()
    return _git(repository, f"--git-dir={place}", *words, env=env or {})


def _git(repository: Path, *words: str, env: dict[str, str]) -> str:
    """Run git in a folder; SkblabError with what it says."""
    call = ["git", "-C", os.fspath(repository), "-c", "safe.directory=*", *words]
    # Variables of a hook that runs us would name another repository.
    clean = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    try:
        done = subprocess.run(
            call, env={**clean, "GIT_OPTIONAL_LOCKS": "0", **env}, capture_output=True, check=True
        )
    except FileNotFoundError:
        raise SkblabError("there is no git here; install git") from None
    except subprocess.CalledProcessError as error:
        raise SkblabError(one_line(error.stderr.decode(errors="replace"))) from None
    return done.stdout.decode(errors="replace")
