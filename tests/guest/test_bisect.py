# SPDX-License-Identifier: GPL-2.0-or-later
"""Searching a real kernel's history for the commit that slows forwarding, and telling git of it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest

import kernel_history
from kernel_history import History
from skblab.lab import labroot
from skblab.lab.kernel import source
from skblab.lab.reporter import Reporter

pytestmark = [pytest.mark.guest, pytest.mark.slow, pytest.mark.timeout(7200)]

Skblab = Callable[..., CompletedProcess[str]]
WORDS = ("--workload", "forward4")
SEEDS = 3


def repository(folder: Path) -> tuple[Path, str]:
    """Return a repository of Debian's source, and its commit."""
    made = folder / "linux.git"
    made.mkdir()
    reporter = Reporter(quiet=True)
    root = labroot.ensure(reporter)
    with source.tree(source.find(None, root), None, root, reporter) as tree:
        return made, kernel_history.repository_of(tree, made)


# Of twenty commits one does not boot: see kernel_history.py.
@pytest.mark.console("Kernel panic - not syncing: no$")
def test_the_commit_is_found(skblab: Skblab, tmp_path: Path, full: bool) -> None:
    """Of twenty commits, in each of three histories; at a small scale git is told of our series."""
    if not full:
        # Off, it costs some 20 instructions; boots of one kernel differ by up to 8.
        budget = ("--budget", "0", "--budget-instructions", "5")
        words = ("compare", "6.12", "6.12+skblab", *WORDS, *budget, "--git-bisect")
        done = skblab(*words, env={"SKBLAB_RESULTS": str(tmp_path)}, timeout=600)
        assert done.returncode == 1, done.stdout + done.stderr
        return
    linux, base = repository(tmp_path)
    for seed in range(SEEDS):
        made = kernel_history.history(linux, base, seed)
        done = skblab(
            *("bisect", "--good", base, "--bad", made.commits[-1], *WORDS),
            *("--repository", str(linux), "--json"),
            env={"SKBLAB_RESULTS": str(tmp_path / "results")},
            timeout=3600,
        )
        assert done.returncode == 0, done.stderr
        document = json.loads(done.stdout)
        assert document["found"] == [made.commits[made.culprit]], done.stderr
        assert document["step"] == pytest.approx(kernel_history.STEP, rel=0.4)
        assert document["functions"][0]["name"] == "ip_forward"
        for step in document["steps"]:
            if step["verdict"] == "skipped":
                place = made.commits.index(step["commit"])
                builds = "it does not b" + ("uild: " if place == made.broken else "oot: ")
                assert place in (made.broken, made.dead) and step["why"].startswith(builds)
    git_is_told(skblab, tmp_path, linux, made)


def git_is_told(skblab: Skblab, tmp_path: Path, linux: Path, made: History) -> None:
    """Fail if `git bisect run` would hear the wrong thing of a commit."""
    env = {"SKBLAB_RESULTS": str(tmp_path / "stored")}
    good = f"git:{linux}@{made.commits[0]}"
    assert skblab("compare", good, *WORDS, env=env, timeout=3600).returncode == 0
    [stored] = (tmp_path / "stored").iterdir()
    env = {"SKBLAB_RESULTS": str(tmp_path / "told")}
    for place, status in (
        (made.culprit, 1),
        (made.culprit - 1, 0),
        (made.broken, 125),
        (made.dead, 125),
    ):
        side = f"git:{linux}@{made.commits[place]}"
        words = ("compare", str(stored), side, *WORDS, "--git-bisect")
        done = skblab(*words, env=env, timeout=3600)
        assert done.returncode == status, (place, done.stderr)
