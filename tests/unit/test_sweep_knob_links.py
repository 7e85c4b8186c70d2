# SPDX-License-Identifier: GPL-2.0-or-later
"""Knobs of devices and of the machine: qdisc, MTU, VLAN, processors, load, kernel threads."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from skblab.knobs.base import UNABLE, Unable
from skblab.knobs.registry import KNOBS
from skblab.machine.device import Device
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
        "vlan r1 skbvlan1 7",
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


def test_idle_states_from_the_shallowest_on() -> None:
    knob = KNOBS["idle_states"]
    files = [f"cpu{cpu}/cpuidle/state{number}/disable" for cpu in (0, 10) for number in (0, 1, 12)]
    before = knob.state("".join(f"{file}=0\n" for file in files))
    wanted = dict(word.split("=") for word in knob.wanted(MACHINE, 2, before).split())
    assert wanted == {file: str(int("state12" in file)) for file in files}
    assert f"echo 1 >/sys/devices/system/cpu/{files[2]}" in knob.restore(
        MACHINE, knob.wanted(MACHINE, 1, before)
    )
    knob.fits("".join(f"{file}=0\n" for file in files), 13)
    with pytest.raises(Unable, match="a CPU has 13 idle states, not 14"):
        knob.fits("".join(f"{file}=0\n" for file in files), 14)
    with pytest.raises(Unable, match="no CPU has idle states"):
        knob.state(f"{UNABLE} no CPU has idle states that Linux chooses\n")


def test_load_takes_a_program() -> None:
    knob = KNOBS["load"]
    assert knob.state("load 40\n") == "40" == knob.wanted(MACHINE, 40, "0")
    assert "\nstop\nstart 40 2\n)" in knob.restore(MACHINE, "40")
    assert "\nstart 0" not in knob.restore(MACHINE, "0")
    with pytest.raises(Unable, match="stress-ng is not installed"):
        knob.state(f"{UNABLE} stress-ng is not installed\n")


def test_load_may_be_of_some_cpus() -> None:
    knob = KNOBS["load"]
    printed = "load 0\nonline 0-3\n"
    knob.fits(printed, "40 on 2-3")
    assert (
        knob.wanted(MACHINE, "40 on 3,2", "0") == "40@2-3" == knob.state("load 40@2-3\nonline 0\n")
    )
    assert "\nstop\nstart 40 2 2-3\n)" in knob.restore(MACHINE, "40@2-3")
    assert knob.by_hand("40 on 2-3") == (
        "stress-ng --cpu 2 --cpu-load 40 --taskset 2-3 --timeout 0"
    )
    with pytest.raises(Unable, match="there is no CPU 4; online are 0-3"):
        knob.fits(printed, "40 on 4")
    for bad in ("40", "0 on 1", "101 on 1", "40 on ", "40 on x", -1, True):
        with pytest.raises(ValueError, match="expected"):
            knob.check(bad)


def test_work_of_no_cpu_has_a_mask() -> None:
    knob = KNOBS["workqueue_cpus"]
    # Of the bits of a mask those count whose CPUs there may be.
    assert knob.state("ffffffff,ffffffff\n0-39\n") == "0-39"
    assert knob.wanted(MACHINE, "all", "") == "0-1"
    mask = "/sys/devices/virtual/workqueue/cpumask"
    assert knob.restore(MACHINE, "0-1,33") == f"echo 2,00000003 >{mask}"
    assert knob.restore(MACHINE, "0-31") == f"echo ffffffff >{mask}"
    with pytest.raises(Unable, match="there is no CPU 2; there are 0-1"):
        knob.fits("3\n0-1\n", "1-2")


def test_threads_have_a_policy_and_a_number() -> None:
    knob = KNOBS["ksoftirqd_policy"]
    printed = "thread ksoftirqd/0 0 0 -5\nthread ksoftirqd/1 1 50 0\n"
    state = "ksoftirqd/0=other:-5 ksoftirqd/1=fifo:50"
    assert knob.state(printed) == state
    assert knob.wanted(MACHINE, "rr 7", state) == "ksoftirqd/0=rr:7 ksoftirqd/1=rr:7"
    assert knob.wanted(MACHINE, "batch", state) == "ksoftirqd/0=batch:0 ksoftirqd/1=batch:0"
    calls = knob.restore(MACHINE, state)
    assert "schedule ksoftirqd/0 other -5 &&\nschedule ksoftirqd/1 fifo 50\n)" in calls
    with pytest.raises(Unable, match="ksoftirqd/0 has a policy of another kind: 6"):
        knob.state("thread ksoftirqd/0 6 0 0\n")
    with pytest.raises(Unable, match="no such thread"):
        knob.state("")
    none = f"{UNABLE} the interrupts of r0 have no threads\n"
    with pytest.raises(Unable, match="the interrupts of r0 have no threads"):
        KNOBS["irq_thread_policy"].state(none)
    # Of each device, in its namespace.
    assert KNOBS["irq_thread_policy"].get(MACHINE).count("of_device r") == 2


def test_next_hops_are_told_by_our_route_to_each_address() -> None:
    knob = KNOBS["next_hops"]
    four, six = NETNS.machine(2).devices[-1].beyond
    hops = [{"gateway": f"192.0.2.{number}", "dev": "r1"} for number in (129, 130)]
    printed = f"{four}/32 {json.dumps([{'dst': four, 'nexthops': hops}])}\n{six}/128 []\n"
    assert knob.state(printed) == f"{four}=2 {six}=1"
    assert knob.wanted(MACHINE, 3, "") == f"{four}=3 {six}=3"
    script = knob.restore(MACHINE, f"{four}=3 {six}=1")
    assert f"make 4 {four}/32 192.0.2.129 192.0.2.130 192.0.2.131" in script
    assert "make 6" not in script
    # Whatever there was of ours goes first.
    assert script.index(f"clear 4 {four}/32 192.0.2.128/25") < script.index("make 4")


def test_without_an_address_behind_it_a_device_has_no_next_hops() -> None:
    machine = replace(MACHINE, devices=(Device("r0"), Device("r1")))
    with pytest.raises(Unable, match="no address behind r1"):
        KNOBS["next_hops"].state(f"{UNABLE} no address behind r1\n")
    assert UNABLE in KNOBS["next_hops"].get(machine)


@pytest.mark.parametrize(
    ("value", "state"),
    [
        ("none", "r0=none r1=none"),
        ("in", "r0=bridge r1=none"),
        ("out", "r0=none r1=bridge"),
        ("both", "r0=bridge r1=bridge"),
    ],
)
def test_a_bridge_has_a_port_at_the_ends_that_are_named(value: str, state: str) -> None:
    knob = KNOBS["bridge"]
    assert knob.wanted(MACHINE, knob.check(value), "") == state
    printed = "".join(f"{word.replace('=', ' ')}\n" for word in state.split())
    assert knob.state(printed) == state
    script = knob.restore(MACHINE, state)
    for place, name in enumerate(("r0", "r1")):
        made = f"bridge_of {name} skbbridge{place}" in script
        assert made == (f"{name}=bridge" in state)
        assert script.index(f"clear skbbridge{place}") >= 0
    # Each machine behind a bridge is reached through it.
    [four, six] = MACHINE.devices[0].beyond
    for prefix in (f"{four} {four}/32", f"{six} {six}/128"):
        assert (f"reach r0 skbbridge0 {prefix}" in script) == ("r0=bridge" in state)


def test_a_bridge_is_none_of_other_words() -> None:
    with pytest.raises(ValueError, match="expected 'none' or 'in' or 'out' or 'both'"):
        KNOBS["bridge"].check("lan")
