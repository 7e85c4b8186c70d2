# SPDX-License-Identifier: GPL-2.0-or-later
"""Builds that are stopped or killed half-way: nothing runs on, nothing half is taken for whole."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from conftest import TREE
from skblab.lab.labroot import LabRoot
from waiting import PATIENCE

pytestmark = [pytest.mark.labroot, pytest.mark.slow]


def _running(*words: str) -> list[str]:
    """Command lines of this host's processes that hold all `words`."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            except OSError:
                continue
            if all(word in line for word in words):
                found.append(line)
    return found


def _start(cache: Path, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [str(TREE / "skblab"), *arguments],
        env={**os.environ, "SKBLAB_CACHE": str(cache)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def _gone(*words: str) -> bool:
    deadline = time.monotonic() + PATIENCE
    while _running(*words):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.1)
    return True


@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGKILL, -9)]
)
def test_lab_root(tmp_path: Path, number: signal.Signals, status: int) -> None:
    if os.geteuid() != 0:
        pytest.fail("the lab root needs root rights")
    mounts = Path("/proc/mounts").read_text()
    process = _start(tmp_path, "lab-root")
    deadline = time.monotonic() + 60
    while not list(tmp_path.glob("roots/*.part/etc")):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert _running("mmdebstrap", str(tmp_path))
    process.send_signal(number)
    process.communicate(timeout=30)
    assert process.returncode == status
    assert _gone("mmdebstrap", str(tmp_path))
    assert Path("/proc/mounts").read_text() == mounts
    finished = [p for p in tmp_path.glob("roots/*") if p.is_dir() and p.suffix != ".part"]
    assert finished == []
    if number != signal.SIGKILL:
        assert list(tmp_path.glob("roots/*.part")) == []


def test_kernel_build(lab: LabRoot, tmp_path: Path) -> None:
    # A cache of its own around the same lab root, so that there is something to build.
    (tmp_path / "roots").symlink_to(lab.path.parent)
    process = _start(tmp_path, "kernel", "build", "--kernel", "6.12")
    deadline = time.monotonic() + 300
    while not list(tmp_path.glob("kernels/*.part/**/*.o")):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert err.strip().splitlines()[-1] == "skblab: stopped; what was finished is kept"
    assert _gone("make", str(tmp_path))
    assert list(tmp_path.glob("kernels/*")) == []
    # The patched or plain tree was whole before the compile began: it is kept for the next time.
    assert len([p for p in (tmp_path / "sources").iterdir() if p.is_dir()]) == 1
