# SPDX-License-Identifier: GPL-2.0-or-later
"""The experiment `quick` for real, on all that it can be run on here.

Its page promises five minutes. What a run takes depends on what else the machine does, so the plan
is held to them, and JUnit's XML has what the run took.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from conftest import Skblab
from retries import no_retries
from skblab.lab.kernel import Kernel
from skblab.sweep import plan
from skblab.sweep.experiment import read
from skblab.sweep.request import SHIPPED
from skblab_analysis.load import load

pytestmark = [pytest.mark.guest, pytest.mark.slow]

PROMISED_SECONDS = 300


@pytest.mark.parametrize("testbed", ["netns", "virtio"])
def test_quick_is_quick(
    skblab: Skblab,
    stock: Kernel,
    tmp_path: Path,
    testbed: str,
    record_property: Callable[[str, object], None],
) -> None:
    assert plan.make(read(SHIPPED / "quick.toml")).seconds() <= PROMISED_SECONDS
    done = skblab(
        *("sweep", "quick", "--testbed", testbed),
        env={"SKBLAB_RESULTS": str(tmp_path)},
        timeout=2100,
    )
    assert done.returncode == 0, done.stderr
    [folder] = tmp_path.iterdir()
    run = load(folder)
    no_retries(run)
    assert run.document.state == "finished"
    took = run.journal[-1].at - run.journal[0].at
    record_property("seconds of the run", round(took.total_seconds()))
