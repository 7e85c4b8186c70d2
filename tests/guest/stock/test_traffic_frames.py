# SPDX-License-Identifier: GPL-2.0-or-later
"""What the taps and packet sockets of our kernel make of frames; others: test_traffic_frames.py."""

from __future__ import annotations

import pytest

from skblab.machine.guest import Guest
from waiting import SCRIPT_SECONDS


@pytest.mark.guest
@pytest.mark.parametrize("case", ["full", "gone", "overrun"])
def test_frames_that_are_refused_are_counted(guest: Guest, case: str) -> None:
    script = "/skblab/tree/runners/traffic/tests/frames.py"
    call = ["unshare", "--net", "python3", script, "/skblab/tools/bin/skblab-traffic", case]
    done = guest.transport.run(call, seconds=SCRIPT_SECONDS)
    assert (done.status, done.stdout) == (0, f"ok {case}\n"), done.stderr
