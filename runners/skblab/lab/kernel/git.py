# SPDX-License-Identifier: GPL-2.0-or-later
"""A revision in a user's git repository: which commit it is, and its files in a folder of ours.

A repository may have hooks, filters and settings of its own, which would run here or change files.
So files come from a repository of ours that only borrows the objects of theirs, and nothing writes
to theirs.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from skblab_analysis.base.errors import SkblabError, UsageError, one_line

# Nobody's settings but those that a repository has itself.
CLEAN = {
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_TERMINAL_PROMPT": "0",
}


# Of a new file, up to which it is in a diff.
MOST_BYTES = 1 << 20


class NoGitError(UsageError):
    """There is no git here."""


def commit(repository: Path, revision: str) -> str:
    """Return the commit that a revision names, in full; UsageError if it names none."""
    words = ("--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}")
    try:
        return _run(repository, "rev-parse", *words).split()[-1]
    except NoGitError:
        raise
    except SkblabError as error:
        if "not a git repository" in str(error):
            raise UsageError(
                f"git:{repository}@{revision}: no git repository is there; "
                f"give one, or tree:{repository} for its files as they are"
            ) from None
        more = f" ({error})" if str(error) else shallow(repository)
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


def between(repository: Path, goods: Sequence[str], bad: str) -> list[str]:
    """Return the commits after a good one that `bad` has and no good one has, best to try first.

    `bad` is among them; what halves the others comes first. Those of a branch that has no good one
    are none: nothing is known of where it began.
    """
    options = ("--bisect-all", "--ancestry-path", "--end-of-options")
    words = ("rev-list", *options, bad, *(f"^{one}" for one in goods))
    return [line.split()[0] for line in _run(repository, *words).splitlines()]


def is_ancestor(repository: Path, commit: str, of: str) -> bool:
    """Whether one commit is another one's ancestor, as far as the repository has them."""
    try:
        return _run(repository, "merge-base", "--all", commit, of).split() == [commit]
    except SkblabError as error:
        if str(error):
            raise
        # They have nothing in common.
        return False


def shallow(repository: Path) -> str:
    """Return what to know of a clone without its whole history, in brackets; empty of any other."""
    if _run(repository, "rev-parse", "--is-shallow-repository").strip() != "true":
        return ""
    where = shlex.quote(str(repository))
    return f" (the clone is shallow and may lack it: git -C {where} fetch --unshallow)"


def parents(repository: Path, revision: str) -> list[str]:
    """Return the parents of a commit."""
    return _run(repository, "rev-list", "--parents", "-n1", revision).split()[1:]


def subject(repository: Path, revision: str) -> str:
    """Return the first line of a commit's message, in what a terminal prints."""
    words = ("log", "-1", "--no-show-signature", "--format=%s", revision)
    text = _run(repository, *words).strip()
    return "".join(letter if letter.isprintable() else "?" for letter in text)


def check_out(repository: Path, revision: str, folder: Path, own: Path) -> None:
    """Make a folder's files those of a commit; what is there of another one stays if it is equal.

    `own` is the repository of ours that knows the folder; it is made if it is not there. Files that
    change are made anew, so that links to the old ones do not see it. SkblabError with what git
    says, such as that an object is missing.
    """
    # Links to files change their ctime, and all would be made anew.
    here = ("-c", "core.trustctime=false", *_borrowing(repository, folder, own))
    _run(folder, *here, "read-tree", "--reset", "-u", revision)


@dataclass(frozen=True)
class Changes:
    """What a folder has that the commit that is checked out there has not, as `git diff` has it."""

    commit: str
    diff: bytes

    @property
    def state(self) -> str:
        """The commit, and -dirty behind it if the folder's files are not the commit's."""
        return f"{self.commit}-dirty" if self.diff else self.commit


def changes(folder: Path, own: Path) -> Changes | None:
    """Return what a folder has changed since its commit, new files too.

    None if it is no top of a work tree. What the repository ignores is left out, and new files over
    MOST_BYTES are only named. `own` is a repository of ours: the user's list of files that did not
    change is not ours to write. All are read the first time.
    """
    try:
        top = Path(_run(folder, "rev-parse", "--show-toplevel").rstrip("\n"))
        found = _run(folder, "rev-parse", "--verify", "--quiet", "HEAD^{commit}").strip()
    except SkblabError:
        return None
    if top.resolve() != folder.resolve():
        return None
    ignored = folder / _run(folder, "rev-parse", "--git-path", "info/exclude").rstrip("\n")
    here = (*_borrowing(folder, folder, own), "-c", f"core.excludesFile={ignored}")
    # Of one that was killed.
    (own / "index.lock").unlink(missing_ok=True)
    _run(folder, *here, "read-tree", "--reset", found)
    with contextlib.suppress(SkblabError):
        # It fails where a file is not as it was.
        _run(folder, *here, "update-index", "-q", "--refresh")
    listed = _bytes(folder, *here, "ls-files", "--others", "--exclude-standard", "-z")
    new = [name for name in listed.split(b"\0") if name]
    large = {name for name in new if _size(folder, name) > MOST_BYTES}
    if small := [name for name in new if name not in large]:
        from_input = ("--pathspec-from-file=-", "--pathspec-file-nul")
        words = ("--literal-pathspecs", "add", "--intent-to-add", *from_input)
        _bytes(folder, *here, *words, given=b"\0".join(small))
    # What a submodule's own git would have to tell is not asked: it has settings of its own.
    plain = (
        "--no-ext-diff",
        "--no-textconv",
        "--no-color",
        "--binary",
        "--ignore-submodules=dirty",
    )
    named = b"".join(b"# new, and too large to be here: %s\n" % name for name in sorted(large))
    return Changes(found, named + _bytes(folder, *here, "diff", *plain))


def _size(folder: Path, name: bytes) -> int:
    try:
        return (folder / os.fsdecode(name)).lstat().st_size
    except OSError:
        return 0


def _borrowing(repository: Path, folder: Path, own: Path) -> tuple[str, ...]:
    """Return the words by which git has a folder's files and a repository's objects.

    `own` is the repository of ours; it is made if it is not there.
    """
    objects = _run(repository, "rev-parse", "--git-path", "objects").rstrip("\n")
    if not own.is_dir():
        kind = _run(repository, "rev-parse", "--show-object-format").strip()
        _run(folder, "init", "-q", "--bare", "--template=", f"--object-format={kind}", str(own))
    (own / "objects" / "info").mkdir(parents=True, exist_ok=True)
    borrowed = (repository / objects).resolve()
    (own / "objects" / "info" / "alternates").write_bytes(os.fsencode(borrowed) + b"\n")
    plain = ("-c", "core.bare=false", "-c", "core.fsmonitor=false")
    return (f"--git-dir={own}", f"--work-tree={folder}", *plain)


def _run(folder: Path, *words: str) -> str:
    """Run git in a folder, also in one of another user's; SkblabError with what it says."""
    return _bytes(folder, *words).decode(errors="replace")


def _bytes(folder: Path, *words: str, given: bytes = b"") -> bytes:
    call = ["git", "-C", os.fspath(folder), "-c", "safe.directory=*", *words]
    # Variables of a hook that runs us would name another repository.
    rest = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    try:
        done = subprocess.run(
            call, env={**rest, **CLEAN}, input=given, capture_output=True, check=True
        )
    except FileNotFoundError:
        raise NoGitError("git:DIR@REVISION needs git, and there is none here; install it") from None
    except subprocess.CalledProcessError as error:
        raise SkblabError(one_line(error.stderr.decode(errors="replace"))) from None
    return done.stdout
