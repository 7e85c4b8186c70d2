# SPDX-License-Identifier: GPL-2.0-or-later
"""The experiment `quick` for real: it takes the five minutes that docs/sweep.md promises."""

from __future__ import annotations

from pathlib import Path

import pytest

from conftest import Skblab
from retries import no_retries
from skblab.kernel import Kernel
from skblab.sweep import plan
from skblab.sweep.cli import SHIPPED
from skblab.sweep.experiment import read
from skblab_analysis.records import load

pytestmark = [pytest.mark.guest, pytest.mark.slow]

PROMISED_SECONDS = 300


@pytest.mark.parametrize("testbed", ["netns", "virtio"])
def test_quick_is_quick(skblab: Skblab, stock: Kernel, tmp_path: Path, testbed: str) -> None:
    done = skblab(
        *("sweep", "quick", "--testbed", testbed),
        env={"SKBLAB_RESULTS": str(tmp_path)},
        timeout=850,
    )
    assert done.returncode == 0, done.stderr
    [folder] = tmp_path.iterdir()
    run = load(folder)
    no_retries(run)
    took = (run.journal[-1].at - run.journal[0].at).total_seconds()
    assert took <= PROMISED_SECONDS
    # What it says before it begins.
    said = plan.make(read(SHIPPED / "quick.toml")).seconds()
    assert said / 3 < took < 2 * said
