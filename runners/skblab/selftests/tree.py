# SPDX-License-Identifier: GPL-2.0-or-later
"""The kernel's selftests as a guest needs them: C helpers compiled, other tools beside them."""

from __future__ import annotations

import os
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

from skblab.lab import paths, store
from skblab.lab.kernel import source
from skblab.lab.kernel.series import Series
from skblab.lab.labroot import Bind, LabRoot, extra
from skblab.lab.reporter import Reporter
from skblab_analysis.base.errors import SkblabError

KIND = "selftests"
# Raise when the steps below make another folder from the same input.
RECIPE = "1"
NET = "tools/testing/selftests/net"
# What the tests of NET need of the tree, at the same places as there.
KEPT = (
    NET,
    "tools/testing/selftests/kselftest",
    "tools/testing/selftests/lib.mk",
    "tools/net/ynl",
    "Documentation/netlink/specs",
)
# What the kernel's own tests call and no part of the lab needs.
PACKAGES = ("conntrack", "jq", "net-tools", "socat", "traceroute")


@dataclass(frozen=True)
class Tree:
    """A folder with NET and its neighbours; `uncompiled` names the programs that would not."""

    path: Path

    @property
    def net(self) -> Path:
        """The folder of the networking tests."""
        return self.path / NET

    @property
    def uncompiled(self) -> tuple[str, ...]:
        """Programs of NET whose compile failed, for want of a library or otherwise."""
        return tuple((self.path / "uncompiled").read_text().split())


def added(series: Series) -> list[str]:
    """Return the tests that a series adds to NET, as its Makefile is to run them."""
    found: list[str] = []
    for patch in series.patches:
        found += added_by(patch.read_text(errors="replace"))
    return sorted(set(found))


def added_by(patch: str) -> list[str]:
    """Return the tests that a patch adds to TEST_PROGS of NET's Makefile.

    Linux 6.12 has an assignment for each, later ones have a list with one in a line.
    """
    found: list[str] = []
    for part in re.split(r"^diff --git ", patch, flags=re.M):
        if part.startswith(f"a/{NET}/Makefile "):
            for words in re.findall(r"^\+TEST_PROGS \+?= (.*)$", part, re.M):
                found += words.split()
            found += _listed(part)
    return found


def _listed(part: str) -> list[str]:
    """Return what a patch adds to the list TEST_PROGS; a hunk's head names the list it is in."""
    found: list[str] = []
    of = ""
    for line in part.splitlines():
        if begun := re.match(r"(?:@@.*@@ |[ +])(\w+) :?= \\$", line):
            of = begun[1]
        elif line.startswith("@@") or re.match(r"[ +]# end of ", line):
            of = ""
        elif of == "TEST_PROGS" and (one := re.match(r"\+\t(\S+) \\$", line)):
            found.append(one[1])
    return found


def ensure(
    origin: source.Source, series: Series | None, labroot: LabRoot, reporter: Reporter
) -> Tree:
    """Return the selftests of a source with a series applied (or without), made if needed."""
    key = store.digest([RECIPE, labroot.key, source.tree_key(origin, series)])

    def build(folder: Path) -> None:
        reporter.say("compiling the kernel's networking selftests")
        with source.tree(origin, series, labroot, reporter) as tree, reporter.step("selftests"):
            _build(tree, folder, labroot, key)

    return Tree(store.ensure(KIND, key, reporter, build))


def _build(tree: Path, folder: Path, labroot: LabRoot, key: str) -> None:
    log = paths.cache() / "logs" / f"selftests-{key}.log"
    whole = folder / "whole"
    whole.mkdir()
    source.link_copy(tree, whole)
    binds = [Bind(whole, "build", writable=True)]
    jobs = f"-j{os.cpu_count() or 1}"
    _private(whole)
    labroot.run(
        ["nice", "make", "-s", jobs, "headers"],
        binds=binds,
        workdir="/skblab/build",
        log=log,
        what="making the kernel's headers",
    )
    # What lacks a library or does not compile is left out and named; the rest goes on.
    labroot.run(
        ["sh", "-c", f"nice make -k {jobs} -C {NET} || true"],
        binds=binds,
        workdir="/skblab/build",
        log=log,
        what="compiling the selftests",
    )
    failed = re.findall(rf"^make.*\*\*\* \[\S+: /skblab/build/{NET}/(\S+)\]", log.read_text(), re.M)
    (folder / "uncompiled").write_text("".join(f"{name}\n" for name in sorted(set(failed))))
    for name in KEPT:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        _copy(whole / name, folder / name)
    store.remove(whole)


def _private(whole: Path) -> None:
    """Make the links to what a build may write into files of their own."""
    for name in KEPT:
        part = whole / name
        copy = part.with_name(f"{part.name}.own")
        _copy(part, copy)
        shutil.rmtree(part) if part.is_dir() else part.unlink()
        copy.rename(part)


def _copy(origin: Path, target: Path) -> None:
    if origin.is_dir():
        shutil.copytree(origin, target, symlinks=True)
    elif origin.exists():
        shutil.copy2(origin, target)
    else:
        raise SkblabError(f"{origin} does not exist: this is no tree with networking selftests")


def extra_packages(labroot: LabRoot, reporter: Reporter) -> Path:
    """Return a folder with the unpacked PACKAGES, to be laid over a guest's root."""
    what = f"what the kernel's own tests call: {', '.join(PACKAGES)}"
    return extra.unpacked("selftest-packages", PACKAGES, what, labroot, reporter)
