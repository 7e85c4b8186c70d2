# SPDX-License-Identifier: GPL-2.0-or-later
"""Knobs: the scripts they give, and what they make of what such scripts print."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skblab import knobs
from skblab.knobs import registry
from skblab.knobs.base import UNABLE, Unable
from skblab.knobs.registry import KNOBS
from skblab.knobs.values import Value
from skblab.machine.device import Device, Machine
from skblab.testbeds import NETNS

MACHINE = NETNS.machine(4)
# One of them is a value of each knob.
SOME: tuple[Value, ...] = (
    *(True, 1280, 1, "each", "nft-input-set 3", "equal 2", "symmetric", "spread", "on", "other"),
    *("pfifo", "performance", "stock", "full", "auto", "enforcing", "0-2", "both"),
)

RINGS = """[ {
        "ifname": "r0",
        "rx-max": 1024,
        "rx-mini-max": null,
        "rx": 256,
        "tx": 256
    } ]
[ {
        "ifname": "r1",
        "rx-max": 512,
        "rx": 512
    } ]
"""


@pytest.mark.parametrize("name", sorted(KNOBS))
def test_scripts_are_good_shell(name: str) -> None:
    knob = KNOBS[name]
    assert knob.name == name
    assert knob.sentence.endswith(".")
    for script in (knob.get(MACHINE), knob.restore(MACHINE, _some_state(name))):
        assert script
        done = subprocess.run(["sh", "-n"], input=script, text=True, capture_output=True)
        assert done.stderr == ""


def _some_value(name: str) -> Value:
    for value in SOME:
        with contextlib.suppress(ValueError):
            return KNOBS[name].check(value)
    raise AssertionError(f"no value for {name}")


def _some_state(name: str) -> str:
    knob = KNOBS[name]
    return knob.wanted(MACHINE, _some_value(name), knob.likely(MACHINE))


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("rp_filter", 3, "3: expected 0 or 1 or 2"),
        ("rp_filter", True, "True: expected 0 or 1 or 2"),
        ("gro", 1, "1: expected false or true"),
        ("ring_rx", 0, "0: expected a whole number from 1 to 2147483647"),
        ("queues", True, "True: expected a whole number from 1 to 4096"),
        ("rps", "some", "'some': expected 'none' or 'all' or 'each'"),
    ],
)
def test_a_wrong_value_is_said(name: str, value: Value, said: str) -> None:
    with pytest.raises(ValueError, match="^" + said):
        KNOBS[name].check(value)


def test_rings_are_read_and_written() -> None:
    knob = KNOBS["ring_rx"]
    before = knob.state(RINGS)
    assert json.loads(before) == {"r0": {"rx": 256}, "r1": {"rx": 512}}
    assert json.loads(knob.wanted(MACHINE, 128, before)) == {"r0": {"rx": 128}, "r1": {"rx": 128}}
    assert knob.restore(MACHINE, before).splitlines() == [
        "ip netns exec router ethtool -G r0 rx 256 >/dev/null",
        "ip netns exec router ethtool -G r1 rx 512 >/dev/null",
    ]
    knob.fits(RINGS, 512)
    with pytest.raises(Unable, match="r1: rx is at most 512"):
        knob.fits(RINGS, 513)
    with pytest.raises(Unable, match="r1: its driver has no tx"):
        KNOBS["ring_tx"].state(RINGS)


def test_what_is_wanted_is_what_is_read_whatever_the_order_of_devices() -> None:
    machine, knob = Machine((Device("r1"), Device("r0"))), KNOBS["ring_rx"]
    shown = json.dumps([{"ifname": name, "rx": 128, "rx-max": 512} for name in ("r1", "r0")])
    assert knob.wanted(machine, 128, knob.likely(machine)) == knob.state(shown)


CHANNELS = """ifname: r0
Channel parameters for r0:
Pre-set maximums:
RX:		n/a
Combined:	4
Current hardware settings:
RX:		n/a
Combined:	2
"""


def test_channels_are_read_from_text() -> None:
    knob = KNOBS["queues"]
    assert json.loads(knob.state(CHANNELS)) == {"r0": {"combined": 2}}
    knob.fits(CHANNELS, 4)
    with pytest.raises(Unable, match="r0: combined is at most 4"):
        knob.fits(CHANNELS, 5)
    with pytest.raises(Unable, match="r0: its driver has no combined"):
        knob.state(CHANNELS.replace("2", "n/a"))


def test_a_fixed_feature_is_no_failure() -> None:
    feature = {"active": True, "fixed": True, "requested": True}
    printed = json.dumps([{"ifname": "r0", "generic-receive-offload": feature}])
    knob = KNOBS["gro"]
    assert json.loads(knob.state(printed)) == {"r0": {"gro": True}}
    knob.fits(printed, True)
    with pytest.raises(Unable, match="r0: generic-receive-offload is fixed by the driver: on"):
        knob.fits(printed, False)


@pytest.mark.parametrize("name", ["ring_rx", "rp_filter", "threaded"])
def test_what_a_machine_lacks_is_said(name: str) -> None:
    with pytest.raises(Unable, match=r"^r0 has none$"):
        KNOBS[name].state(f"{UNABLE} r0 has none\n")


# Every machine can be without rules.
@pytest.mark.parametrize("name", sorted(KNOBS.keys() - {"netfilter"}))
def test_what_a_machine_lacks_fits_no_value(name: str) -> None:
    with pytest.raises(Unable, match=r"^r0 has none$"):
        KNOBS[name].fits(f"{UNABLE} r0 has none\n", _some_value(name))


def test_what_cannot_be_put_back_is_not_taken() -> None:
    with pytest.raises(Unable, match="r1: its driver has no tx"):
        KNOBS["ring_tx"].fits(RINGS, 128)
    with pytest.raises(Unable, match="r0 has a qdisc of its own, htb 1:"):
        shown = json.dumps([{"kind": "htb", "handle": "1:", "root": True}])
        KNOBS["qdisc"].fits(f"r0 4 {shown}\n", "pfifo")
    with pytest.raises(Unable, match="is notimplemented"):
        KNOBS["smt"].fits("offered\nsmt/control=notimplemented\n", True)


def test_cpus_of_queues() -> None:
    knob = KNOBS["rps"]
    before = knob.state("r0/queues/rx-1/rps_cpus=00000000,00000002\nr0/queues/rx-0/rps_cpus=0f\n")
    assert before == "r0/queues/rx-0/rps_cpus=f r0/queues/rx-1/rps_cpus=2"
    each = knob.wanted(MACHINE, "each", before)
    assert each == "r0/queues/rx-0/rps_cpus=1 r0/queues/rx-1/rps_cpus=2"
    assert knob.wanted(MACHINE, "all", before).split()[0].endswith("=f")
    assert knob.wanted(MACHINE, "none", before).split()[0].endswith("=0")


@given(st.integers(0, 2**130))
def test_masks_go_there_and_back(mask: int) -> None:
    knob = KNOBS["xps"]
    state = knob.state(f"r0/queues/tx-0/xps_cpus={mask:x}\n")
    script = knob.restore(MACHINE, state)
    written = script.partition("echo ")[2].partition(" ")[0]
    assert int(written.replace(",", ""), 16) == mask
    head, *others = written.split(",")
    assert len(head) <= 8 and all(len(word) == 8 for word in others)
    assert knob.state(f"r0/queues/tx-0/xps_cpus={written}\n") == state


@pytest.mark.parametrize(
    ("printed", "state"),
    [
        ("", "none 0"),
        ("nft 3 nft-input-set 2\n", "nft-input-set 2 3"),
        (
            "-N SKBLAB\n"
            + 2 * '-A SKBLAB -p udp -m comment --comment "iptables-forward 2" -j DROP\n',
            "iptables-forward 2 2",
        ),
        (
            '-A SKBLAB -m comment --comment "iptables-input 1, with its table" -j DROP\n',
            "iptables-input 1 1",
        ),
        (
            '-A SKBLAB -o r1 --comment "iptables-masquerade, of skblab" -j MASQUERADE\n',
            "iptables-masquerade 1",
        ),
    ],
)
def test_rules_are_counted(printed: str, state: str) -> None:
    assert KNOBS["netfilter"].state(printed) == state


def test_what_tracks_connections_takes_something_to_forget_them_with() -> None:
    knob, nothing = KNOBS["netfilter"], "nft 1001 nft-input 1000\nforgets nothing\n"
    knob.fits(nothing, "nft-forward 1000")
    knob.fits("", "conntrack")
    with pytest.raises(Unable, match="neither conntrack nor python3"):
        knob.fits(nothing, "conntrack")


@pytest.mark.parametrize("value", ["nft-forward 0", "nft 3", "iptables-input-set 3", "nat", 1])
def test_rules_that_there_are_not(value: Value) -> None:
    with pytest.raises(ValueError, match="expected 'none', 'conntrack'"):
        KNOBS["netfilter"].check(value)


def test_parameters_of_the_whole_machine_are_not_of_its_namespace() -> None:
    assert "netns" not in KNOBS["netdev_budget"].get(MACHINE)
    assert KNOBS["rp_filter"].get(MACHINE).startswith("ip netns exec router sh -ec ")
    state = "net/ipv4/conf/all/rp_filter=0 net/ipv4/conf/r0/rp_filter=1"
    assert KNOBS["rp_filter"].state(state.replace(" ", "\n")) == state


NEW = """
from dataclasses import replace
from skblab.knobs.base import Family
from skblab.knobs.registry import KNOBS
FAMILY = Family(15, (replace(KNOBS["ip_forward"], name="new"),), remaking=frozenset({"new"}))
"""


def test_a_file_is_all_that_a_new_knob_takes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a_new_one.py").write_text(NEW)
    monkeypatch.setattr(knobs, "__path__", [*knobs.__path__, str(tmp_path)])
    found = registry.families()
    del sys.modules["skblab.knobs.a_new_one"]
    names = [knob.name for family in found for knob in family.knobs]
    assert [name for name in names if name != "new"] == list(KNOBS)
    assert names.index("new") == names.index("ring_rx") - 1
    assert set().union(*(family.remaking for family in found)) == {"queues", "new"}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (f"{NEW}\nFAMILY = Family(1, [*FAMILY.knobs, *FAMILY.knobs])", "{0} has a knob new, too"),
        ("from skblab.knobs.ethtool import FAMILY", "skblab.knobs.ethtool has a knob "),
        ("FAMILY = ['new']", r"FAMILY is \['new'\], expected a Family"),
    ],
)
def test_no_knob_is_lost_without_a_word(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, why: str
) -> None:
    (tmp_path / "a_new_one.py").write_text(text)
    monkeypatch.setattr(knobs, "__path__", [*knobs.__path__, str(tmp_path)])
    name = "skblab.knobs.a_new_one"
    with pytest.raises((TypeError, ValueError), match=f"^{name}: {why.format(name)}"):
        registry.families()
    del sys.modules[name]
