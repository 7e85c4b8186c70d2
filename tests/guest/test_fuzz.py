# SPDX-License-Identifier: GPL-2.0-or-later
"""The fuzz targets, run: each for a moment, and in the slow tests for longer."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from conftest import Skblab
from skblab.commands import fuzz
from skblab.lab.labroot import LabRoot
from skblab_analysis.base.errors import SkblabError

FULL_SECONDS = int(os.environ.get("SKBLAB_FUZZ_SECONDS", "600"))
SLICE_SECONDS = 20
MOMENT = 1


@pytest.mark.labroot
@pytest.mark.slow
def test_each_target_for_a_moment(lab: LabRoot, run_skblab: Skblab) -> None:
    done = run_skblab("fuzz", "--seconds", str(MOMENT))
    assert done.returncode == 0, done.stderr
    assert [line.partition(":")[0] for line in done.stdout.splitlines()] == list(fuzz.targets())


@pytest.mark.labroot
@pytest.mark.slow
@pytest.mark.parametrize("target", fuzz.targets())
def test_target(lab: LabRoot, run_skblab: Skblab, full: bool, target: str) -> None:
    seconds = FULL_SECONDS if full else SLICE_SECONDS
    done = run_skblab("fuzz", target, "--seconds", str(seconds), timeout=seconds + 600)
    assert "no failure" in done.stdout, done.stderr
    assert done.returncode == 0, done.stderr


@pytest.mark.labroot
def test_a_failure_names_its_input(
    lab: LabRoot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SKBLAB_CACHE", str(tmp_path / "cache"))
    program = tmp_path / "fuzz_header"
    program.write_text(
        "#!/bin/sh\n"
        "echo snapshot.c:7: runtime error: signed integer overflow\n"
        "echo Test unit written to /skblab/run/slow-unit-1\n"
        "echo Test unit written to /skblab/run/crash-2\n"
        "exit 77\n"
    )
    program.chmod(0o755)
    with pytest.raises(SkblabError) as said:
        fuzz.run(lab, tmp_path, "header", 1)
    crash = tmp_path / "cache/develop/fuzz/header/crash-2"
    assert "runtime error: signed integer overflow" in str(said.value)
    assert f"skblab fuzz header --input {crash}" in str(said.value)
    # What did not say how it ended has not run to its end.
    program.write_text("#!/bin/sh\nexit 0\n")
    with pytest.raises(SkblabError, match="did not say what it did"):
        fuzz.run(lab, tmp_path, "header", 1)
