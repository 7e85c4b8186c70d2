# SPDX-License-Identifier: GPL-2.0-or-later
"""The bpftrace scripts run by hand in a guest, on the kernels that they are for."""

from __future__ import annotations

from pathlib import Path

import pytest

from conftest import TREE
from skblab.boot import make_spec
from skblab.guest import Guest
from skblab.kernel import Kernel
from skblab.labroot import Bind, LabRoot

SCRIPT = "/skblab/tree/tests/guest/bpftrace.sh"
TRAFFIC = "/skblab/tools/bin/skblab-traffic"


@pytest.mark.guest
@pytest.mark.parametrize(
    "suffix",
    ["", pytest.param("-hooks", marks=pytest.mark.slow)],
    ids=["patched", "hooks"],
)
def test_known_packets(
    lab: LabRoot, stock: Kernel, unpatched: Kernel, programs: Path, suffix: str
) -> None:
    shares = [Bind(programs, "tools"), Bind(TREE, "tree")]
    with Guest.boot(make_spec(), unpatched if suffix else stock, lab, shares=shares) as guest:
        done = guest.transport.run(["sh", SCRIPT, "/skblab/tree", TRAFFIC, "1009", suffix])
    assert done.status == 0, done.stdout[-3000:] + done.stderr
