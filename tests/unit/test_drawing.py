# SPDX-License-Identifier: GPL-2.0-or-later
"""`skblab report` without root rights: by this machine's gnuplot, the lab root's, or none."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import page_checks
import pytest

from skblab.lab import drawing, labroot, paths
from skblab.lab.labroot import LabRoot
from skblab.lab.labroot.root import key
from skblab_analysis.base.errors import SkblabError
from skblab_analysis.report import page, pictures

EXAMPLE = paths.tree() / "results-schema" / "example"
NOBODY = 65534
TOOLS = ("setpriv", "unshare", "sh", "mount", "chroot", "env")
# Draws as gnuplot would, and says who it is; the second argument is the script, or -e.
GNUPLOT = """#!/bin/sh
[ "$1" = --default-settings ] || exit 1
[ "$2" = -e ] && exit {status}
name=${{2%.gp}}
svg='<svg width="8" height="3" xmlns="http://www.w3.org/2000/svg"><g>by {who}</g></svg>'
for file in "$name.svg" "$name-narrow.svg" "$name.png"; do
	echo "$svg" >"$file"
done
"""


class Place:
    """Where another user has a run, a cache, and what little the PATH holds."""

    def __init__(self, top: Path) -> None:
        self.top, self.run, self.cache = top, top / "run", top / "cache"
        self.path = top / "bin"
        self.path.mkdir()
        for tool in TOOLS:
            (self.path / tool).symlink_to(str(shutil.which(tool)))
        shutil.copytree(EXAMPLE, self.run)

    def gnuplot(self, folder: Path, who: str, status: int = 0) -> None:
        """Put a gnuplot there that draws, or (`status`) cannot draw what is asked for."""
        (folder / "gnuplot").write_text(GNUPLOT.format(who=who, status=status))
        (folder / "gnuplot").chmod(0o755)

    def lab_root(self) -> None:
        """Make a lab root that has a shell, and a gnuplot of its own."""
        root = self.cache / "roots" / key()
        for folder in ("bin", "usr/bin", "dev", "tmp", "run", "skblab/out"):
            (root / folder).mkdir(parents=True)
        for tool in ("bin/sh", "usr/bin/env"):
            program = str(shutil.which(Path(tool).name))
            shutil.copy(program, root / tool)
            said = subprocess.run(["ldd", program], capture_output=True, text=True, check=True)
            for library in re.findall(r"(/\S+) \(0x", said.stdout):
                (root / library[1:]).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(library, root / library[1:])
        self.gnuplot(root / "usr" / "bin", "the lab root")

    def report(self, *, ours: bool = False) -> subprocess.CompletedProcess[str]:
        """Have another user report the run, if we may become one; `ours`: it may only read it."""
        become: list[str] = []
        if os.geteuid() == 0:
            # It is none of the owners of anything, and has no right but to read our tree.
            ids = [f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
            rights = ["--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search"]
            become = [str(shutil.which("setpriv")), *ids, *rights]
            for path in (self.run, *self.run.rglob("*")):
                os.chown(path, *((0, 0) if ours else (NOBODY, NOBODY)))
        return subprocess.run(
            [*become, sys.executable, "-m", "skblab", "report", str(self.run)],
            env={
                "PATH": str(self.path),
                "HOME": "/nonexistent",
                "SKBLAB_CACHE": str(self.cache),
                "SKBLAB_TREE": str(paths.tree()),
                "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
                "PYTHONDONTWRITEBYTECODE": "1",
            },
            capture_output=True,
            text=True,
            check=False,
        )


# Another user's report is a program of its own.
process = pytest.mark.process


@pytest.fixture
def place() -> Iterator[Place]:
    # A test's own folder is closed to other users.
    with tempfile.TemporaryDirectory(prefix="skblab-drawing-") as folder:
        Path(folder).chmod(0o755)
        yield Place(Path(folder))


def drawn(done: subprocess.CompletedProcess[str], place: Place, by: str) -> None:
    assert (done.returncode, done.stderr) == (0, "")
    made = place.run / "report" / "index.html"
    assert done.stdout == f"{made}\n"
    assert page_checks.check(made).all("svg")
    assert f"by {by}" in made.read_text()
    assert (made.parent / "share.svg").stat().st_uid in (NOBODY, os.geteuid())


def user_namespaces() -> bool:
    call = ["unshare", "--user", "--map-root-user", "--mount", "true"]
    become = ["setpriv", f"--reuid={NOBODY}", "--clear-groups"] if os.geteuid() == 0 else []
    return subprocess.run([*become, *call], check=False, capture_output=True).returncode == 0


@process
def test_this_machines_is_the_first(place: Place) -> None:
    place.lab_root()
    place.gnuplot(place.path, "this machine")
    drawn(place.report(), place, "this machine")


@process
@pytest.mark.skipif(not user_namespaces(), reason="users may have no namespaces here")
@pytest.mark.parametrize("useless", [False, True])
def test_the_lab_roots_needs_no_rights(place: Place, useless: bool) -> None:
    place.lab_root()
    if useless:
        place.gnuplot(place.path, "this machine", status=1)
    drawn(place.report(), place, "the lab root")
    assert list((place.cache / "roots" / key() / "skblab" / "out").iterdir()) == []


@pytest.mark.parametrize(("user", "ways"), [(0, [False, True]), (NOBODY, [True])])
def test_root_uses_the_sandboxed_one_first(
    place: Place, monkeypatch: pytest.MonkeyPatch, user: int, ways: list[bool]
) -> None:
    made = []
    monkeypatch.setattr(os, "geteuid", lambda: user)
    monkeypatch.setattr(shutil, "which", lambda name: None)
    monkeypatch.setattr(labroot, "existing", lambda: LabRoot(place.top, "key"))
    monkeypatch.setattr(drawing, "gnuplot", lambda root, *, rootless=False: made.append(rootless))
    assert len(list(drawing._candidates())) == len(ways)
    assert made == ways


@pytest.mark.skipif(shutil.which("gnuplot") is None, reason="this machine has no gnuplot")
def test_a_gnuplot_that_is_used_loads_what_our_scripts_load(tmp_path: Path) -> None:
    """Older ones take the terminals, and not the datablock that is loaded in each of them."""
    (tmp_path / "script.gp").write_text("$draw << EOD\nprint 1\nEOD\nload $draw\n")
    used = True
    try:
        drawing.hosts(drawing.TRIAL, tmp_path)
    except SkblabError as error:
        assert "or later draws" in str(error)
        used = False
    loads = subprocess.run(["gnuplot", "script.gp"], cwd=tmp_path, capture_output=True, check=False)
    assert used == (loads.returncode == 0)


@process
@pytest.mark.parametrize(
    ("useless", "why"),
    [
        (False, "this machine has none, and no lab root that you may read"),
        (True, "this machine's: gnuplot failed (exit 1): it printed nothing"),
    ],
)
def test_without_any_there_is_a_page_and_one_line(place: Place, useless: bool, why: str) -> None:
    if useless:
        place.gnuplot(place.path, "this machine", status=1)
    done = place.report()
    assert done.returncode == 0
    assert done.stderr == (
        f"the page has no pictures: no gnuplot can be used: {why}; {drawing.MEND}\n"
    )
    made = page_checks.check(place.run / "report" / "index.html")
    assert made.all("svg") == []
    assert "not drawn, for want of gnuplot" in made.text
    assert "hides the rest" not in made.text
    # Nothing is made where there was no cache.
    assert not place.cache.exists()


@process
@pytest.mark.skipif(os.geteuid() != 0, reason="only root has files that others may not write")
def test_a_run_of_another_user_is_refused_in_one_line(place: Place) -> None:
    place.gnuplot(place.path, "this machine")
    drawn(place.report(), place, "this machine")
    done = place.report(ours=True)
    assert (done.returncode, done.stdout) == (1, "")
    said = r"skblab: cannot write \S+/comparison.parquet: Permission denied\n"
    assert re.fullmatch(said, done.stderr)


@pytest.mark.labroot
def test_both_ways_into_the_lab_root_draw_the_same(tmp_path: Path, lab: LabRoot) -> None:
    made = []
    for way, rootless in (("rootless", True), ("root", False)):
        run = tmp_path / way
        shutil.copytree(EXAMPLE, run)
        page.build_report(run, drawing.gnuplot(lab, rootless=rootless))
        names = sorted(path.name for path in (run / "report").glob("*.svg"))
        assert {f"share{pictures.OUTPUTS[1]}", "exact.svg"} <= set(names)
        made.append([(run / "report" / name).read_text() for name in names])
    assert made[0] == made[1]
