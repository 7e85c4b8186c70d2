# SPDX-License-Identifier: GPL-2.0-or-later
"""Frames from a device, each case in a network namespace of its own (runners/traffic/tests)."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from conftest import TREE, links
from skblab.lab import tools
from skblab.lab.labroot import LabRoot
from skblab.lab.reporter import Reporter

SCRIPT = TREE / "runners/traffic/tests/frames.py"
BY_XDP = ("xdp", "xdp_queues", "xdp_killed", "xdp_down", "xdp_gone", "xdp_wrong")
CASES = (
    *("arrive", "ring", "overrun", "tagged", "step", "full", "queue", "down", "gone", "wrong"),
    *BY_XDP,
)

pytestmark = pytest.mark.labroot


@pytest.fixture(scope="module")
def program(lab: LabRoot) -> Path:
    return tools.ensure_traffic(lab, Reporter()) / tools.TRAFFIC


def run(program: Path, case: str) -> subprocess.CompletedProcess[str]:
    call = ["unshare", "--net", sys.executable, str(SCRIPT), str(program), case]
    return subprocess.run(call, capture_output=True, text=True, timeout=300, check=False)


@pytest.mark.parametrize("case", CASES)
def test_frames(program: Path, case: str) -> None:
    before = links()
    done = run(program, case)
    assert (done.returncode, done.stdout) == (0, f"ok {case}\n"), done.stderr
    assert links() == before


def test_every_case_is_run(program: Path) -> None:
    done = run(program, "none of them")
    assert done.returncode == 1
    assert done.stderr.split()[-1].split("|") == list(CASES)
