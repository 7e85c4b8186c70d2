# SPDX-License-Identifier: GPL-2.0-or-later
"""The bpftrace scripts run by hand in a guest, on the kernels that they are for."""

from __future__ import annotations

from pathlib import Path

import pytest

from conftest import TREE
from skblab.lab.guest.chosen import make_spec
from skblab.lab.kernel import Kernel
from skblab.lab.labroot import Bind, LabRoot
from skblab.machine.guest import Guest
from waiting import SCRIPT_SECONDS

SCRIPT = "/skblab/tree/tests/guest/stock/bpftrace.sh"
TRAFFIC = "/skblab/tools/bin/skblab-traffic"
pytestmark = pytest.mark.guest


def counts_known_packets(guest: Guest, polls: str) -> None:
    call = ["sh", SCRIPT, "/skblab/tree", TRAFFIC, "1009", polls]
    done = guest.transport.run(call, seconds=SCRIPT_SECONDS)
    assert done.status == 0, done.stdout[-3000:] + done.stderr


@pytest.mark.slow
def test_scripts_on_our_kernel(guest: Guest) -> None:
    counts_known_packets(guest, "napi")


@pytest.mark.slow
def test_scripts_on_any_kernel(lab: LabRoot, unpatched: Kernel, programs: Path) -> None:
    shares = [Bind(programs, "tools"), Bind(TREE, "tree")]
    with Guest.boot(make_spec(), unpatched, lab, shares=shares) as guest:
        counts_known_packets(guest, "napi-hooks")
