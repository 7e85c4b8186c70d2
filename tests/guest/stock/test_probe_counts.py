# SPDX-License-Identifier: GPL-2.0-or-later
"""The probe's own test, guest.sh, on a kernel of ours; on others it is in test_native.py."""

from __future__ import annotations

import pytest

from skblab.machine.guest import Guest
from waiting import SCRIPT_SECONDS

pytestmark = [pytest.mark.guest, pytest.mark.slow]

SCRIPT = "/skblab/tree/probes/bpf/tests/guest.sh"
PROGRAMS = "/skblab/tools/bin"


def test_the_probe_on_a_kernel_of_ours(guest: Guest) -> None:
    call = ["sh", SCRIPT, f"{PROGRAMS}/pathlat", f"{PROGRAMS}/skblab-traffic", "2003"]
    done = guest.transport.run(call, seconds=SCRIPT_SECONDS)
    assert done.status == 0, done.stdout + done.stderr
