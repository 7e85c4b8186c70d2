# SPDX-License-Identifier: GPL-2.0-or-later
"""Run folders gone wrong are read, or refused in one line; for as long as is asked for."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import broken_runs
import made_up_documents
import pyarrow.parquet as pq
import pytest

from skblab_analysis.base.rows import Stored
from skblab_analysis.formats import cost
from skblab_analysis.schemas import ALL

FULL_SECONDS = float(os.environ.get("SKBLAB_FUZZ_SECONDS", "600"))
SLICE_SECONDS = 20.0


@pytest.fixture(scope="module")
def bases(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return broken_runs.samples(tmp_path_factory.mktemp("runs"))


def test_the_samples_are_good(bases: list[Path]) -> None:
    for base in bases:
        broken_runs.read(base)


def test_everything_is_in_one_of_them(bases: list[Path]) -> None:
    rows = {
        table.file: [pq.read_metadata(file).num_rows for base in bases for file in of(base, table)]
        for table in ALL
    }
    assert [name for name, found in rows.items() if not any(found)] == []
    documents = {file.name for base in bases for file in base.glob("*.json")}
    assert documents >= {"run.json", cost.FILE, *made_up_documents.FILES}
    assert [base for base in bases if list(base.glob("parts/*"))]


def of(base: Path, table: Stored) -> Iterator[Path]:
    return base.glob(f"{table.file}.parquet")


@pytest.mark.parametrize("seed", range(4))
def test_a_few(seed: int, bases: list[Path], tmp_path: Path) -> None:
    assert broken_runs.check(seed, bases, tmp_path / "broken") is None


@pytest.mark.slow
@pytest.mark.timeout(FULL_SECONDS + 300)
def test_for_as_long_as_is_asked_for(full: bool) -> None:
    """What broke is left in the folder that the output names, and its seed breaks it again."""
    seconds = FULL_SECONDS if full else SLICE_SECONDS
    command = [sys.executable, broken_runs.__file__, str(seconds), str(random.randrange(1 << 32))]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
