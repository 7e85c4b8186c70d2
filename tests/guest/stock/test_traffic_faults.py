# SPDX-License-Identifier: GPL-2.0-or-later
"""The traffic tools over a link that loses, repeats and reorders packets: netem of our kernel."""

from __future__ import annotations

import pytest

from skblab.machine.guest import Guest
from waiting import SCRIPT_SECONDS


@pytest.mark.guest
def test_each_fault_is_counted(guest: Guest) -> None:
    script = "/skblab/tree/runners/traffic/tests/netns.sh"
    call = ["sh", script, "/skblab/tools/bin/skblab-traffic", "faulty"]
    done = guest.transport.run(call, seconds=SCRIPT_SECONDS)
    assert done.status == 0, done.stdout + done.stderr
    said = [line.split(":")[0] for line in done.stdout.splitlines()]
    assert said == ["ok faulty", "ok faulty", "ok mixed"]
