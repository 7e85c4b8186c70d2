# SPDX-License-Identifier: GPL-2.0-or-later
"""TCP through a router that masquerades: what it counts is what both ends say."""

from __future__ import annotations

import pytest

from skblab.machine.guest import Guest
from waiting import SCRIPT_SECONDS

EACH = ("crr", "rate", "rr", "stream", "reverse")
NAMES = [f"ok {family} {name}" for family in ("ipv4", "ipv6") for name in EACH]


@pytest.mark.guest
@pytest.mark.parametrize(
    "connections", [200, pytest.param(10_000, marks=pytest.mark.slow)], ids=["few", "many"]
)
def test_every_connection_is_in_the_routers_table(guest: Guest, connections: int) -> None:
    script = "/skblab/tree/runners/traffic/tests/nat.sh"
    call = ["sh", script, "/skblab/tools/bin/skblab-traffic", str(connections)]
    done = guest.transport.run(call, seconds=SCRIPT_SECONDS)
    assert done.status == 0, done.stdout + done.stderr
    said = [line.split(":")[0] for line in done.stdout.splitlines()]
    assert said == [*NAMES, "ok ipv4 from two"]
