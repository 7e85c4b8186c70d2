# SPDX-License-Identifier: GPL-2.0-or-later
"""Knobs whose effect is one of the machine that they are tried on, and would be another elsewhere.

What is said of a value here keeps it from being advised, however good its figures are.
"""

from __future__ import annotations

from collections.abc import Mapping

from skblab.knobs.values import Value
from skblab.machine.device import Machine

# Those that hand work to another CPU, each with the value that does not.
HANDING_ON: Mapping[str, Value] = {
    "threaded": False,
    "napi_threaded": "off",
    "rps": "none",
    "rfs_flows": 0,
    "xps": "none",
}


def why_only_here(machine: Machine, knobs: Mapping[str, Value]) -> str:
    """Return why knobs that differ from the baseline's tell nothing of other machines; or nothing.

    The words have no full stop.
    """
    if machine.veth and knobs.get("gro") is False:
        # veth_enable_xdp_range() gives a device of a pair its NAPI with GRO: drivers/net/veth.c.
        return (
            "without GRO a veth device has no NAPI, which a network card always has: gro=off "
            "saves here what it does not save there"
        )
    handing = [name for name, none in HANDING_ON.items() if knobs.get(name, none) != none]
    if machine.cpus == 1 and handing:
        return f"{handing[0]} hands work to another CPU, and this router has one"
    return ""
