# SPDX-License-Identifier: GPL-2.0-or-later
"""Packets that fq and etf keep until their times (SO_TXTIME): `skblab traffic send --txtime`."""

from __future__ import annotations

import pytest

from skblab.machine.guest import Guest
from waiting import SCRIPT_SECONDS


@pytest.mark.guest
@pytest.mark.parametrize("case", ["fq", "etf", "dropped", "without"])
def test_times_are_kept_by_the_queue_discipline(guest: Guest, case: str) -> None:
    script = "/skblab/tree/runners/traffic/tests/txtime.py"
    call = ["unshare", "--net", "--mount", "python3", script]
    done = guest.transport.run(
        [*call, "/skblab/tools/bin/skblab-traffic", case], seconds=SCRIPT_SECONDS
    )
    assert done.status == 0, done.stderr + done.stdout
    assert done.stdout.endswith(f"ok {case}\n"), done.stdout
