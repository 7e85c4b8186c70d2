# SPDX-License-Identifier: GPL-2.0-or-later
"""Patch series in quilt's format: reading `series`, and applying it without any fuzz."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from skblab.lab.kernel.model import PatchRecord
from skblab.lab.labroot import Bind, LabRoot
from skblab_analysis.base import textfile
from skblab_analysis.base.errors import SkblabError, UsageError, one_line

# Given a patch and a tree, runs GNU patch there; returns its exit status and its output.
Patcher = Callable[[Path, Path], tuple[int, str]]

# -F0: every line of context must match. --force: ask nothing, and never take a patch for
# one that is to be reversed. Rejects are thrown away: the tree is, too, on failure.
PATCH = ("patch", "-p1", "-F0", "--force", "--no-backup-if-mismatch", "--reject-file=-")


# Files that no kernel is built from, by the first line of their part of a patch.
NOT_BUILT = re.compile(rb"diff --git a/(?:Documentation/|tools/testing/|MAINTAINERS )")


@dataclass(frozen=True)
class Series:
    """A folder `patches/<name>` and its patches in the order of application.

    `parts`: the folders below it that have a series each. Patches of two of them may have the same
    name, so there the name of a patch has its folder.
    """

    folder: Path
    patches: tuple[Path, ...]
    parts: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The folder's name, e.g. v6.12."""
        return self.folder.name

    def followed_by(self, patch: Path) -> Series:
        """Return the series with one more patch at its end."""
        return replace(self, patches=(*self.patches, patch))

    def part(self, name: str) -> Series:
        """Return one part by itself; UsageError with the known ones when there is none such."""
        if name not in self.parts:
            known = ", ".join(self.parts) or "none, it is one series"
            raise UsageError(
                f"--series {name}: patches/{self.name} has no such part; it has {known}"
            )
        own = tuple(patch for patch in self.patches if patch.parent == self.folder / name)
        return replace(self, patches=own, parts=(name,))

    def label(self, patch: Path) -> str:
        """Return the name of a patch, which no other of the series has."""
        return f"{patch.parent.name}/{patch.name}" if self.parts else patch.name

    def records(self) -> tuple[PatchRecord, ...]:
        """Name and sha256 of each patch."""
        return tuple(
            PatchRecord(
                name=self.label(patch), sha256=hashlib.sha256(patch.read_bytes()).hexdigest()
            )
            for patch in self.patches
        )

    def built_from(self) -> tuple[str, ...]:
        """Name of each patch that changes the kernel itself, and SHA-256 of what it changes."""
        changes = {self.label(patch): _of_the_kernel(patch.read_bytes()) for patch in self.patches}
        return tuple(
            f"{name} {hashlib.sha256(change).hexdigest()}"
            for name, change in changes.items()
            if change
        )


def _of_the_kernel(patch: bytes) -> bytes:
    """Return a patch without its words and without files that no kernel is built from."""
    _, *files = re.split(rb"^(?=diff --git )", patch, flags=re.MULTILINE)
    # As other tools than git write it: all of it may be built from.
    return b"".join(file for file in files if not NOT_BUILT.match(file)) if files else patch


def read(folder: Path, parts: Sequence[str] = ()) -> Series:
    """Read `folder/series`, or those of the `parts` below it that there are, in that order.

    UsageError with file and line for anything that is wrong in it.
    """
    if not parts:
        return Series(folder, _patches(folder))
    there = {file.parent.name for file in folder.glob("*/series")}
    if other := sorted(there - {*parts}):
        raise UsageError(
            f"{folder / other[0]} is no part of this series: expected only {', '.join(parts)}"
        )
    found = tuple(part for part in parts if part in there)
    patches = tuple(patch for part in found for patch in _patches(folder / part))
    return Series(folder, patches, found)


def _patches(folder: Path) -> tuple[Path, ...]:
    file = folder / "series"
    if not file.is_file():
        raise UsageError(
            f"{file} does not exist: expected a quilt series, one patch file name a line"
        )
    text = textfile.read(file, "the series")
    patches: list[Path] = []
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split("#", 1)[0].split()
        if words:
            patches.append(_patch(folder, words, f"{file}:{number}", patches))
    if not patches:
        raise UsageError(f"{file} names no patch; leave +skblab out to have none")
    return tuple(patches)


def _patch(folder: Path, words: list[str], where: str, before: list[Path]) -> Path:
    name, options = words[0], words[1:]
    if options not in ([], ["-p1"]):
        raise UsageError(f"{where}: {' '.join(options)!r} is not understood; only -p1 is")
    patch = folder / name
    if Path(name).is_absolute() or ".." in Path(name).parts:
        raise UsageError(f"{where}: {name} must be a path below {folder}")
    if patch in before:
        raise UsageError(f"{where}: {name} is in the series twice")
    if not patch.is_file():
        raise UsageError(f"{where}: {name} does not exist in {folder}")
    return patch


def patch_in(labroot: LabRoot) -> Patcher:
    """Return a patcher that runs the lab root's GNU patch."""

    def run(patch: Path, tree: Path) -> tuple[int, str]:
        binds = [Bind(patch.parent, "src"), Bind(tree, "build", writable=True)]
        return run_merged(
            labroot.command(
                [*PATCH, "-i", f"/skblab/src/{patch.name}"], binds=binds, workdir="/skblab/build"
            )
        )

    return run


def run_merged(call: Sequence[str]) -> tuple[int, str]:
    """Run a command to its end; return its exit status and what it printed (both streams)."""
    done = subprocess.run(
        call,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        check=False,
        # Ctrl-C reaches skblab alone, which then ends the command in order.
        start_new_session=True,
    )
    return done.returncode, done.stdout


def apply(series: Series, tree: Path, patcher: Patcher, version: str) -> None:
    """Apply the whole series to `tree`, a private copy of Linux `version`.

    Raises SkblabError naming patch, file and hunk of the first failure.
    """
    for patch in series.patches:
        status, output = patcher(patch, tree)
        if status != 0:
            raise SkblabError(
                f"{series.name}/{os.path.relpath(patch, series.folder)} does not apply to "
                f"Linux {version}: {explain(output)}"
            )


def explain(output: str) -> str:
    """Return the first failure in GNU patch's output: file and hunk, or its own words."""
    file = "?"
    for line in output.splitlines():
        if found := re.match(r"(?:patching|checking) (?:symbolic link|file) '?([^']+?)'?$", line):
            file = found[1]
        elif found := re.match(r"\|(?:---|\+\+\+) (?:[ab]/)?(?!/dev/null)(\S+)", line):
            # The header that patch quotes when it cannot find the file to patch.
            return f"{found[1]}: there is no such file to patch"
        elif found := re.match(r"Hunk #(\d+) FAILED at (\d+)", line):
            return f"{file}: hunk {found[1]} does not match at line {found[2]}"
        elif found := re.match(r"The next patch would (create|delete) the file '?([^',]+)", line):
            state = "already exists" if found[1] == "create" else "does not exist"
            return f"{found[2]}: cannot {found[1]} it, it {state}"
        elif re.search(r"malformed patch|Only garbage|git binary diffs|No space left", line):
            return one_line(line)
    return one_line(output) or "patch printed nothing"
