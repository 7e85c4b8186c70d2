# SPDX-License-Identifier: GPL-2.0-or-later
"""Knobs of devices and of the machine as a whole: qdisc, MTU, VLAN, processors, load."""

from __future__ import annotations

import json

import pytest

from skblab.knobs.base import UNABLE, Unable
from skblab.knobs.registry import KNOBS
from skblab.testbeds import NETNS

MACHINE = NETNS.machine(2)


def qdiscs(device: str, kind: str, handle: str, queues: int = 1) -> str:
    root = {"kind": kind, "handle": handle, "root": True}
    return f"{device} {queues} {json.dumps([{'kind': 'ingress', 'handle': 'ffff:'}, root])}\n"


def test_a_qdisc_of_ours_is_told_from_the_default() -> None:
    knob = KNOBS["qdisc"]
    before = knob.state(qdiscs("r0", "noqueue", "0:") + qdiscs("r1", "fq", "5b5b:"))
    assert before == "r0=default r1=fq"
    script = knob.restore(MACHINE, "r0=default r1=fq")
    assert "tc qdisc add dev r1 root handle 5b5b: fq" in script
    assert "tc qdisc add dev r0" not in script


def test_a_qdisc_of_somebody_else_is_left_alone() -> None:
    with pytest.raises(Unable, match="r0 has a qdisc of its own, htb 1:"):
        KNOBS["qdisc"].state(qdiscs("r0", "htb", "1:"))


def test_a_device_with_one_queue_has_no_qdisc_of_each() -> None:
    knob = KNOBS["qdisc"]
    several, single = qdiscs("r0", "noqueue", "0:", 4), qdiscs("r1", "noqueue", "0:")
    knob.fits(several, "mq")
    knob.fits(several + single, "fq")
    with pytest.raises(Unable, match="r1 has one transmit queue"):
        knob.fits(several + single, "mq")


def test_a_device_may_not_take_every_mtu() -> None:
    knob = KNOBS["mtu"]
    printed = '[{"ifname":"r0","mtu":1500,"max_mtu":9000}]\n[{"ifname":"r1","mtu":1500}]\n'
    assert knob.state(printed) == "r0=1500 r1=1500"
    knob.fits(printed, 9000)
    with pytest.raises(Unable, match="r0: its MTU is at most 9000"):
        knob.fits(printed, 9001)


def test_a_vlan_reaches_what_is_behind_each_device() -> None:
    knob = KNOBS["vlan"]
    shown = '[{"ifname":"skbvlan1","linkinfo":{"info_data":{"id":7}}}]'
    assert knob.state(f"r0 \nr1 {shown}\n") == "r0=0 r1=7"
    script = knob.restore(MACHINE, "r0=0 r1=7")
    for words in (
        "make r1 skbvlan1 7",
        "reach r1 skbvlan1 198.19.0.2 198.19.0.2/32",
        "reach r1 skbvlan1 2001:db8:0:2::2 2001:db8:0:2::2/128",
    ):
        assert words in script
    assert "make r0" not in script


def test_a_governor_has_to_be_offered() -> None:
    knob = KNOBS["governor"]
    files = [f"cpu{cpu}/cpufreq/scaling_governor" for cpu in (0, 1)]
    printed = "offered performance powersave\n" + "".join(f"{file}=powersave\n" for file in files)
    wanted = knob.wanted(MACHINE, "performance", knob.state(printed))
    assert wanted == " ".join(f"{file}=performance" for file in files)
    assert knob.restore(MACHINE, wanted).splitlines() == [
        f"echo performance >/sys/devices/system/cpu/{file}" for file in files
    ]
    with pytest.raises(Unable, match="there is no schedutil; there are performance, powersave"):
        knob.fits(printed, "schedutil")


def test_smt_that_there_is_not() -> None:
    knob = KNOBS["smt"]
    assert knob.wanted(MACHINE, False, knob.state("offered\nsmt/control=on\n")) == "smt/control=off"
    with pytest.raises(Unable, match="smt/control is notsupported"):
        knob.state("offered\nsmt/control=notsupported\n")


def test_load_takes_a_program() -> None:
    knob = KNOBS["load"]
    assert knob.state("load 40\n") == "40" == knob.wanted(MACHINE, 40, "0")
    assert "\nstop\nstart 40 2\n)" in knob.restore(MACHINE, "40")
    assert "\nstart 0" not in knob.restore(MACHINE, "0")
    with pytest.raises(Unable, match="stress-ng is not installed"):
        knob.state(f"{UNABLE} stress-ng is not installed\n")
