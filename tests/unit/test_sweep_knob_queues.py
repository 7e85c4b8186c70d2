# SPDX-License-Identifier: GPL-2.0-or-later
"""Knobs of a NIC's queues: where interrupts and NAPI threads run, and how RSS spreads flows."""

from __future__ import annotations

import json
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skblab.knobs import cpus, napi_netlink
from skblab.knobs.base import Unable
from skblab.knobs.registry import KNOBS
from skblab.knobs.rss import table_words
from skblab.knobs.values import Value
from skblab.machine.device import Device, Machine

MACHINE = Machine((Device("eth0"),), cpus=2)


@given(st.sets(st.integers(0, cpus.MOST - 1), min_size=1))
def test_lists_of_cpus_go_there_and_back(some: set[int]) -> None:
    assert cpus.parse(cpus.text(some)) == sorted(some)
    assert cpus.same(cpus.text(some)) == cpus.text(some)


@pytest.mark.parametrize("value", ["", "1-", "3-1", "a", "8192", "1;2", True, 1])
def test_what_is_no_list_of_cpus(value: Value) -> None:
    with pytest.raises(ValueError, match="expected"):
        cpus.Cpus()(value)


# Two NUMA nodes, the NIC on the second; CPU 3 is the only one of the first beside 0.
INTERRUPTS = """online 0-3
irqbalance installed
node 0 0,3
node 1 1-2
own 1
irq 24 0-3 virtio0-config
irq 25 0-3 virtio0-input.0
irq 26 1 virtio0-output.0
irq 27 0-3 virtio0-input.1
irq 31 0-3 mlx5_comp7@pci:0000:81:00.0
"""


def placed(state: str) -> dict[str, str]:
    return {irq: about["cpus"] for irq, about in json.loads(state)["irqs"].items()}


def test_interrupts_of_queues_are_placed() -> None:
    knob = KNOBS["irq_affinity"]
    before = knob.state(INTERRUPTS)
    # Not that of the configuration: it is of no queue.
    assert placed(before) == {"25": "0-3", "26": "1", "27": "0-3", "31": "0-3"}
    spread = knob.wanted(MACHINE, "spread", before)
    assert placed(spread) == {"25": "0", "26": "0", "27": "1", "31": "0"}
    assert placed(knob.wanted(MACHINE, "far", before)) == {
        "25": "0",
        "26": "0",
        "27": "3",
        "31": "0",
    }
    assert set(placed(knob.wanted(MACHINE, "all 2", before)).values()) == {"2"}
    script = knob.restore(MACHINE, before)
    assert "\nbalance off\nplace 25 0-3\nplace 26 1\n" in script
    for value in ("spread", "far", "all 3", "irqbalance"):
        knob.fits(INTERRUPTS, value)


def test_irqbalance_moves_interrupts_and_they_have_no_place() -> None:
    knob = KNOBS["irq_affinity"]
    running = INTERRUPTS.replace("installed", "installed\nirqbalance runs")
    wanted = knob.wanted(MACHINE, "irqbalance", knob.state(INTERRUPTS))
    assert knob.state(running) == wanted
    assert knob.restore(MACHINE, wanted).rpartition("}\n")[2] == "balance on'"


@pytest.mark.parametrize(
    ("printed", "value", "said"),
    [
        (INTERRUPTS, "all 7", "there is no CPU 7; online are 0-3"),
        (INTERRUPTS.replace("irqbalance installed\n", ""), "irqbalance", "irqbalance is not inst"),
        (
            INTERRUPTS.replace("node 0 0,3\n", ""),
            "far",
            "virtio0-input.0: this machine has one NUMA",
        ),
        (INTERRUPTS.replace("own 1", "own -1"), "far", "or does not tell that of the NIC"),
        ("online 0\nirq 9 0 acpi\n", "spread", "no interrupt of a queue was found"),
    ],
)
def test_places_that_there_are_not(printed: str, value: str, said: str) -> None:
    with pytest.raises(Unable, match=said):
        KNOBS["irq_affinity"].fits(printed, value)


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ([0, 1, 2, 0, 1, 2, 0], "equal 3 start 0"),
        ([2, 2, 2], "equal 1 start 2"),
        ([1, 1, 1, 3], "start 1 weight 3 0 1"),
    ],
)
def test_tables_are_put_back_by_the_words_of_ethtool(table: list[int], words: str) -> None:
    assert table_words(table) == words


def test_a_table_that_cannot_be_put_back_is_left_alone() -> None:
    printed = json.dumps([{"ifname": "eth0", "rss-indirection-table": [0, 2, 1]}])
    with pytest.raises(Unable, match="eth0: its indirection table is one that ethtool could not"):
        KNOBS["rss"].state(printed)


@given(st.integers(1, 16), st.integers(0, 8), st.integers(16, 200))
def test_what_equal_means_is_what_is_read(queues: int, first: int, size: int) -> None:
    table = [first + at % queues for at in range(size)]
    printed = json.dumps([{"ifname": "eth0", "rss-indirection-table": table}])
    knob = KNOBS["rss"]
    value = knob.check(f"equal {queues} start {first}")
    assert knob.wanted(MACHINE, value, knob.state(printed)) == knob.state(printed)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("equal 5", "eth0: it has at most 4 receive queues"),
        ("equal 2 start 3", "eth0: it has at most 4 receive queues"),
        ("equal 4", "eth0: its indirection table has 3 entries"),
    ],
)
def test_rss_cannot_spread_over_queues_that_there_are_not(value: str, said: str) -> None:
    link = json.dumps([{"ifname": "eth0", "num_rx_queues": 4}])
    table = json.dumps([{"ifname": "eth0", "rss-indirection-table": [0, 1, 0]}])
    knob = KNOBS["rss"]
    knob.fits(f"{link}\n{table}\n", "equal 2 start 2")
    assert json.loads(knob.state(f"{link}\n{table}\n")) == {"eth0": "equal 2 start 0"}
    with pytest.raises(Unable, match=said):
        knob.fits(f"{link}\n{table}\n", value)


def test_a_symmetric_key_is_as_long_as_the_nic_has_it() -> None:
    knob = KNOBS["rss_key"]
    before = knob.state(json.dumps([{"ifname": "eth0", "rss-hash-key": [1, 2, 255]}]))
    assert json.loads(before) == {"eth0": "hkey 01:02:ff"}
    wanted = knob.wanted(MACHINE, "symmetric", before)
    assert json.loads(wanted) == {"eth0": "hkey 6d:5a:6d"}
    assert knob.restore(MACHINE, wanted) == "ethtool -X eth0 hkey 6d:5a:6d >/dev/null"
    with pytest.raises(Unable, match="eth0 has no rss-hash-key"):
        knob.state(json.dumps([{"ifname": "eth0"}]))


def shown(**more: object) -> str:
    common = {"ifname": "eth0", "possible": "0-3", "settings": True, "threaded": 0}
    return json.dumps({**common, **more}) + "\n"


def test_instances_have_their_values_in_turn() -> None:
    printed = shown(threaded=2) + shown(cpus="1,2", policy=1, priority=50) + shown(nice=-5)
    wanted: dict[str, tuple[Value, list[str], list[str]]] = {
        "napi_threaded": (("on", "off"), ["busy-poll", "off", "off"], ["on", "off", "on"]),
        "napi_cpus": ("each", ["0-3", "1-2", "0-3"], ["0", "1", "0"]),
        "napi_policy": (
            *(("rr 1", "batch"), ["other 0", "fifo 50", "other -5"], ["rr 1", "batch 0", "rr 1"]),
        ),
    }
    for name, (value, before, after) in wanted.items():
        knob = KNOBS[name]
        state = knob.state(printed)
        assert json.loads(state)["devices"] == {"eth0": before}
        made = knob.wanted(MACHINE, knob.check(value), state)
        assert json.loads(made)["devices"] == {"eth0": after}
        knob.fits(printed, value)
    assert "set eth0 'policy=1;priority=50' <<" in KNOBS["napi_policy"].restore(
        MACHINE, json.dumps({"devices": {"eth0": ["fifo 50"]}, "possible": "0"})
    )


@pytest.mark.parametrize(
    ("name", "printed", "value", "said"),
    [
        ("napi_threaded", '{"ifname": "eth0"}', "on", "this kernel sets threads for a whole dev"),
        ("napi_cpus", shown(settings=False), "all", "this kernel has no settings of NAPI thr"),
        ("napi_cpus", shown(), "2-5", "there is no CPU 4; there are 0-3"),
    ],
)
def test_instances_that_cannot(name: str, printed: str, value: str, said: str) -> None:
    with pytest.raises(Unable, match=said):
        KNOBS[name].fits(printed, value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("napi_policy", value) for value in ("fifo", "fifo 0", "fifo 100", "other 20", "idle")),
        *(("napi_threaded", value) for value in (True, "yes", (), ("on", 1))),
        *(("rss", value) for value in (4, "equal 0", "weight 1")),
        *(("irq_affinity", value) for value in ("all", "all x", 0)),
    ],
)
def test_values_that_there_are_not(name: str, value: Value) -> None:
    with pytest.raises(ValueError, match="expected "):
        KNOBS[name].check(value)


@given(st.lists(st.tuples(st.integers(1, 99), st.binary(max_size=40))))
def test_attributes_go_there_and_back(some: list[tuple[int, bytes]]) -> None:
    packed = b"".join(napi_netlink.attribute(kind, value) for kind, value in some)
    assert len(packed) % 4 == 0
    assert list(napi_netlink.attributes(packed)) == some


def test_a_refusal_is_in_the_words_of_the_kernel() -> None:
    request = struct.pack("=IHHII", 16, 20, 5, 1, 0)
    words = napi_netlink.attribute(napi_netlink.ACK_MESSAGE, b"no such CPU\0")
    message = struct.pack("=i", -22) + request
    assert napi_netlink.complaint(-22, 0x300, message + words) == "no such CPU"
    assert napi_netlink.complaint(-22, 0, message) == "Invalid argument"


def test_the_table_of_all_queues_is_set_as_the_default() -> None:
    knob = KNOBS["rss"]
    script = knob.restore(MACHINE, json.dumps({"eth0": "equal 4 start 0"}))
    assert script.startswith("if sh -ec 'set -- /sys/class/net/eth0/queues/rx-*; [ $# = 4 ]'; then")
    assert "then ethtool -X eth0 default >/dev/null; else ethtool -X eth0 equal 4 " in script
    other = knob.restore(MACHINE, json.dumps({"eth0": "equal 2 start 2"}))
    assert other == "ethtool -X eth0 equal 2 start 2 >/dev/null"
