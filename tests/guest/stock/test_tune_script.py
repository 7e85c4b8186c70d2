# SPDX-License-Identifier: GPL-2.0-or-later
"""The script that `skblab tune` advises, with a real ethtool and real devices."""

from __future__ import annotations

import shlex

import pytest

from skblab.knobs.values import Value
from skblab.machine.device import script_inside
from skblab.machine.guest import Guest
from skblab.machine.transport.base import Done
from skblab.probe import loads
from skblab.tune import script

pytestmark = [pytest.mark.guest, pytest.mark.slow]

# Two groups of features, one of a single one, a file of a device, and a sysctl.
KNOBS: dict[str, Value] = {
    **{"tso": False, "tx_checksum": False, "gro": False},
    **{"gro_flush_timeout": 20000, "rp_filter": 1},
}
STATE = "ethtool -k r0; cat /sys/class/net/r0/gro_flush_timeout /proc/sys/net/ipv4/conf/*/rp_filter"


def test_a_router_is_as_it_was_feature_by_feature(guest: Guest) -> None:
    transport = guest.transport
    loads.prepare(transport, napi=True)
    text = script.script("advice.sh", ["For a test."], KNOBS)
    transport.script(f"printf %s {shlex.quote(text)} >/tmp/advice.sh").check("writing it")

    def there(what: str) -> Done:
        return transport.script(script_inside("router", what)).check(what)

    # Members of one group that differ, as somebody may have them.
    there("ethtool -K r0 gro on tx-tcp-mangleid-segmentation off tx-tcp6-segmentation off")
    before = there(STATE).stdout
    assert "\ttx-tcp-segmentation: on\n" in before and "\ttx-tcp6-segmentation: off\n" in before
    shown = there("sh /tmp/advice.sh --show r0").stdout
    assert "r0 tcp-segmentation-offload: on, would be off" in shown
    assert "  with it tx-tcp6-segmentation: off, would be off" in shown
    assert "gro=off changes also: Local TCP receivers" in shown
    assert there(STATE).stdout == before
    there("sh /tmp/advice.sh r0")
    now = there(STATE).stdout
    for feature in ("tcp-segmentation-offload", "tx-checksumming", "generic-receive-offload"):
        assert f"\n{feature}: off\n" in now
    there("sh /tmp/advice.sh --revert")
    assert there(STATE).stdout == before
