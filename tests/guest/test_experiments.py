# SPDX-License-Identifier: GPL-2.0-or-later
"""The experiments that come with skblab, run for real: each setting once, with few packets."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from conftest import TREE, Skblab
from retries import no_retries
from skblab.lab.kernel import Kernel
from skblab.sweep import experiment
from skblab_analysis.load import load

pytestmark = [pytest.mark.guest, pytest.mark.slow, pytest.mark.timeout(5400)]

FILES = sorted((TREE / "runners" / "experiments").glob("*.toml"))
MOST_ROUTES = 1000
# What veth has not is measured between two guests; the others count instructions.
BETWEEN_GUESTS = {"queues-and-affinity", "quick", "realtime"}


def small(text: str, full: bool) -> str:
    """Return an experiment with the same settings, and as little of each as can be measured."""
    for pattern, few in (
        (r"^(seconds|confirm_seconds|warm_up_seconds) = .*", r"\1 = 0.5"),
        (r"^(least|most|trials) = .*", r"\1 = 1"),
        (r"^width = .*", "width = 0.5"),
        (r"^budget_minutes = .*\n", ""),
        (r"^goals = .*", 'goals = ["ndr"]'),
        (r"^rates = .*", "rates = [200]"),
        (r"^(frame|flows|destinations) = \[([^],]*),.*", r"\1 = [\2]"),
        (r"^(ring_.x|routes) = \[(\d+), (\d+),.*", r"\1 = [\2, \3]"),
    ):
        text = re.sub(pattern, few, text, flags=re.MULTILINE)
    if not full:
        text = text.replace('kernel = ["stock", "rt"]', 'kernel = ["stock"]')
    return re.sub(
        r"\b(routes6?) = (\d+)", lambda of: f"{of[1]} = {min(int(of[2]), MOST_ROUTES)}", text
    )


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_every_setting_is_measured_or_said_to_be_impossible(
    skblab: Skblab, stock: Kernel, tmp_path: Path, full: bool, file: Path
) -> None:
    assert experiment.read(file).name == file.stem
    ours = tmp_path / file.name
    ours.write_text(small(file.read_text(), full))
    for rules in file.parent.glob("*.nft"):
        shutil.copy(rules, tmp_path)
    results = tmp_path / "results"
    how = (
        ("--testbed", "virtio") if file.stem in BETWEEN_GUESTS else ("--exact", "--packets", "1000")
    )
    done = skblab("sweep", str(ours), *how, env={"SKBLAB_RESULTS": str(results)}, timeout=5000)
    assert done.returncode == 0, done.stdout + done.stderr
    [folder] = results.iterdir()
    run = load(folder)
    assert run.document.state == "finished"
    no_retries(run)
    wanted = {setting.name for setting in experiment.read(ours).settings()}
    states = {name: set[str]() for name in wanted}
    for row in run.trials:
        states.setdefault(str(row.setting), set()).add(str(row.state))
        assert row.state == "good" or "not possible here" in str(row.reason), row
    assert {name for name, found in states.items() if not found} == set()
    assert states["baseline"] == {"good"}
    assert (folder / "report" / "index.html").exists()
