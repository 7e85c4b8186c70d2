# SPDX-License-Identifier: GPL-2.0-or-later
"""Which settings say nothing of other machines."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from skblab.knobs.onlyhere import HANDING_ON, why_only_here
from skblab.knobs.registry import KNOBS
from skblab.knobs.values import Value
from skblab.testbeds import base
from skblab.testbeds.hosts import OnHosts


@pytest.mark.parametrize(
    ("knobs", "veth", "one_cpu"),
    [
        ({"gro": False}, True, False),
        ({"gro": True}, False, False),
        ({"threaded": True}, False, True),
        ({"threaded": False}, False, False),
        ({"rps": "all", "rp_filter": 1}, False, True),
        ({"rps": "none"}, False, False),
        ({"napi_threaded": "busy-poll"}, False, True),
        ({"napi_threaded": "off"}, False, False),
        ({"rp_filter": 1}, False, False),
        ({}, False, False),
    ],
)
def test_it_depends_on_the_machine(knobs: Mapping[str, Value], veth: bool, one_cpu: bool) -> None:
    for cpus in (1, 2):
        for devices in (False, True):
            machine = base.machine(cpus, "router", veth=devices)
            expected = (veth and devices) or (one_cpu and cpus == 1)
            assert bool(why_only_here(machine, knobs)) is expected
    assert not why_only_here(OnHosts().machine(4), knobs)


def test_each_name_is_a_knobs_and_each_value_one_of_it() -> None:
    for name, value in HANDING_ON.items():
        KNOBS[name].check(value)
