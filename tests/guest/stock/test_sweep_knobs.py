# SPDX-License-Identifier: GPL-2.0-or-later
"""Knobs applied in a guest: set, read back, and put back."""

from __future__ import annotations

import shlex
import time
from collections.abc import Collection, Iterator
from pathlib import Path

import pytest

from skblab.knobs.applying import Applier, Undo, applying
from skblab.knobs.base import Unable
from skblab.knobs.values import Value
from skblab.machine.device import Device, Machine, script_inside
from skblab.machine.guest import Guest
from skblab.machine.transport import Transport, staying
from skblab.probe import loads

pytestmark = pytest.mark.guest

MACHINE = Machine(
    (
        Device("r0", "router", beyond=("198.18.1.1", "2001:2:0:1::1")),
        Device("r1", "router", beyond=("198.18.2.2", "2001:2:0:2::2")),
    ),
    "router",
    cpus=2,
)
# What a veth pair has, with two values each.
VALUES: dict[str, tuple[Value, Value]] = {
    "rp_filter": (1, 2),
    "ip_forward": (False, True),
    "netdev_budget": (3000, 600),
    "netdev_budget_usecs": (9000, 16000),
    "dev_weight": (32, 128),
    "netdev_max_backlog": (5000, 300),
    "busy_poll": (50, 0),
    "busy_read": (50, 0),
    "rfs_entries": (32768, 0),
    "gso": (False, True),
    "tso": (False, True),
    "tx_checksum": (False, True),
    "gro_list": (True, False),
    "udp_gro": (True, False),
    "threaded": (True, False),
    "napi_threaded": ("on", "off"),
    "napi_cpus": ("each", "1"),
    "napi_policy": ("fifo 10", "other -5"),
    "gro_flush_timeout": (20000, 0),
    "napi_defer_hard_irqs": (2, 0),
    "rps": ("each", "all"),
    "rfs_flows": (4096, 0),
    "netfilter": ("nft-forward 100", "none"),
    "qdisc": ("fq_codel", "pfifo"),
    "mtu": (1400, 9000),
    "vlan": (7, 0),
    "bridge": ("both", "in"),
    "routes": (1000, 10),
    "routes6": (500, 0),
    "next_hops": (4, 1),
    "load": (5, 0),
    "workqueue_cpus": ("1", "all"),
    "ksoftirqd_policy": ("fifo 5", "other -5"),
}
# Of each way in which a knob is turned: sysctl, ethtool, netlink, sysfs, nft, tc, ip, a process.
QUICK = (
    "rp_filter",
    "gro_list",
    "napi_policy",
    "rps",
    "netfilter",
    "qdisc",
    "vlan",
    "routes",
    "load",
)
RULES = (
    *("nft-input-set 50", "iptables-forward 20", "conntrack", "iptables-forward 20", "none"),
    *("flowtable", "masquerade", "iptables-masquerade", "nft-forward 10000"),
    *("iptables-masquerade", "none"),
)


@pytest.fixture(scope="module")
def router(guest: Guest) -> Iterator[Transport]:
    loads.prepare(guest.transport, napi=True)
    # As a sweep has it: each script for itself would need a connection of its own.
    with staying(guest.transport) as transport:
        yield transport


def states(transport: Transport, knobs: Collection[str] = VALUES) -> dict[str, str]:
    """What there is of some knobs, or all, read the way a run reads it."""
    return Applier(transport, MACHINE, Undo(Path("/nonexistent")))._states(knobs)


@pytest.mark.parametrize(
    ("knobs", "indices"),
    [(QUICK, (0,)), pytest.param(tuple(VALUES), (0, 1), marks=pytest.mark.slow)],
    ids=["some once", "all twice"],
)
def test_every_knob_is_set_read_and_put_back(
    router: Transport, tmp_path: Path, knobs: tuple[str, ...], indices: tuple[int, ...]
) -> None:
    before = states(router, knobs)
    file = tmp_path / "undo.jsonl"
    with applying(router, MACHINE, file) as applier:
        for index in indices:
            found = applier.apply({name: VALUES[name][index] for name in knobs})
            assert [applied for applied in found if applied.invalid] == []
            assert applier.look(found) == found
            if index == 0:
                # Each of the first values is another one than before.
                changed = {
                    applied.knob for applied in found if applied.after != before[applied.knob]
                }
                assert changed == set(knobs)
                assert {name for name, _ in Undo(file).scripts()} == set(knobs)
    assert states(router, knobs) == before
    assert not file.exists()


@pytest.mark.slow
def test_rules_of_every_kind(router: Transport, tmp_path: Path) -> None:
    tables = "ip netns exec router nft list tables"
    before = router.script(tables).stdout
    with applying(router, MACHINE, tmp_path / "undo.jsonl") as applier:
        for value in RULES:
            (found,) = applier.apply({"netfilter": value})
            assert not found.invalid, found
            made = {
                "none": "",
                "iptables-forward 20": "table ip filter\n",
                "iptables-masquerade": "table ip nat\n",
            }
            wanted = made.get(value, "table inet skblab\n")
            # A table of iptables that stays would be in the way of every packet that follows.
            assert router.script(tables).stdout == before + wanted
    assert states(router, ["netfilter"]) == {"netfilter": "none 0"}
    assert router.script(tables).stdout == before


@pytest.mark.slow
def test_connections_are_forgotten_with_the_rules_that_tracked_them(
    router: Transport, tmp_path: Path
) -> None:
    def tracked() -> int:
        """Have the router send a packet, and count its connections."""
        send = "import socket; socket.socket(2, 2).sendto(b'', ('198.18.1.1', 9))"
        count = "cat /proc/sys/net/netfilter/nf_conntrack_count"
        script = script_inside("router", f"python3 -c {shlex.quote(send)}\n{count}")
        return int(router.script(script).check("sending").stdout)

    with applying(router, MACHINE, tmp_path / "undo.jsonl") as applier:
        applier.apply({"netfilter": "masquerade"})
        assert tracked() > 0
        applier.apply({"netfilter": "nft-forward 1"})
        assert tracked() == 0


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["noqueue", "pfifo_fast", "fq", "codel", "sfq", "cake", "bfifo"])
def test_qdiscs_of_every_kind(router: Transport, tmp_path: Path, kind: str) -> None:
    with applying(router, MACHINE, tmp_path / "undo.jsonl") as applier:
        (found,) = applier.apply({"qdisc": kind})
        assert not found.invalid, found
    assert "noqueue 0: root" in router.script("ip netns exec router tc qdisc show dev r0").stdout


@pytest.mark.slow
def test_threads_that_poll_without_pause(router: Transport, tmp_path: Path) -> None:
    """Threads stay when they have nothing to do any more, but they use no processor.

    A mode begins with the next packet.
    """
    used = (
        r"cat /proc/[0-9]*/stat 2> /dev/null | awk '/ \(napi\// {sum += $15} END {print sum + 0}'"
    )
    neighbors = ("198.18.1.1", "198.18.2.2")
    pings = "\n".join(f"ip netns exec router ping -qc 1 {address}" for address in neighbors)

    def segmentation(state: str) -> None:
        """A veth device that segments gives its packets to no NAPI of its peer."""
        for place, device in (("source", "s0"), ("target", "t0")):
            router.script(f"ip netns exec {place} ethtool -K {device} tso {state}").check("ethtool")

    def busy() -> bool:
        before = int(router.script(used).stdout)
        time.sleep(1)
        return int(router.script(used).stdout) > before

    segmentation("off")
    try:
        with applying(router, MACHINE, tmp_path / "undo.jsonl") as applier:
            for mode in ("busy-poll", "on", "busy-poll", "off"):
                (found,) = applier.apply({"napi_threaded": mode})
                assert not found.invalid, found
                assert int(router.script("ps -e -o comm= | grep -c ^napi/").stdout) == 2
                router.script(pings).check("ping")
                assert busy() is (mode == "busy-poll"), mode
    finally:
        segmentation("on")


@pytest.mark.slow
def test_routes_are_there_and_go(router: Transport, tmp_path: Path) -> None:
    file = tmp_path / "table.txt"
    file.write_text("8.8.8.0/24\n9.0.0.0/8\n2a00:1450::/32\n")
    count = "ip -n router -{} route show proto 83 | wc -l"
    before = router.script("ip -n router route; ip -n router -6 route").stdout
    with applying(router, MACHINE, tmp_path / "undo.jsonl") as applier:
        for value, four, six in ((20000, 20000, 20000), (str(file), 2, 1), (1, 1, 1)):
            found = applier.apply({"routes": value, "routes6": value})
            assert [applied for applied in found if applied.invalid] == []
            assert int(router.script(count.format(4)).stdout) == four
            assert int(router.script(count.format(6)).stdout) == six
        # As one that was lost on the way.
        router.script("ip -n router route flush proto 83").check("flush")
        assert [applied.knob for applied in applier.look(found) if applied.invalid] == ["routes"]
    assert router.script("ip -n router route; ip -n router -6 route").stdout == before


@pytest.mark.slow
def test_a_route_that_the_machine_needs_is_not_taken_over(
    router: Transport, tmp_path: Path
) -> None:
    router.script("ip -n router link add own type dummy; ip -n router link set own up").check("own")
    router.script("ip -n router route add 8.0.0.0/8 dev own").check("a route of its own")
    with (
        applying(router, MACHINE, tmp_path / "undo.jsonl") as applier,
        pytest.raises(Unable, match=r"routes: the machine itself needs its route to 8\.0\.0\.0/8"),
    ):
        applier.apply({"routes": 5})
    router.script("ip -n router link delete own").check("own")


@pytest.mark.slow
def test_load_that_dies_makes_the_trial_void(router: Transport, tmp_path: Path) -> None:
    with applying(router, MACHINE, tmp_path / "undo.jsonl") as applier:
        found = applier.apply({"load": 5})
        assert [applied for applied in found if applied.invalid] == []
        # Its parts may have seen by themselves that it died: pkill then finds none, and says 1.
        router.script(
            "read -r pid _ </run/skblab-load && kill -9 $pid && { pkill stress-ng || [ $? = 1 ]; }"
        ).check("the end of stress-ng")
        assert [applied.knob for applied in applier.look(found) if applied.invalid] == ["load"]


@pytest.mark.slow
def test_a_table_of_iptables_that_was_there_stays(router: Transport, tmp_path: Path) -> None:
    rule = "ip netns exec router iptables {} OUTPUT -d 192.0.2.1 -j ACCEPT"
    router.script(rule.format("-A")).check("a rule of somebody else")
    with applying(router, MACHINE, tmp_path / "undo.jsonl") as applier:
        applier.apply({"netfilter": "iptables-input 5"})
    router.script(rule.format("-D")).check("somebody else's rule is still there")
    router.script("ip netns exec router nft delete table ip filter").check("and the table")


@pytest.mark.slow
def test_a_knob_that_is_not_named_any_more_is_put_back(router: Transport, tmp_path: Path) -> None:
    knobs = ("netdev_budget", "rp_filter")
    before = states(router, knobs)
    with applying(router, MACHINE, tmp_path / "undo.jsonl") as applier:
        # A veth without GRO has no NAPI that could have threads: on its own.
        assert not [applied for applied in applier.apply({"gro": False}) if applied.invalid]
        applier.apply({"rp_filter": 2, "netdev_budget": 77})
        applier.apply({"rp_filter": 2})
        now = states(router, knobs)
        assert now["netdev_budget"] == before["netdev_budget"]
        assert now["rp_filter"] != before["rp_filter"]


def test_what_a_killed_run_left_is_put_back_later(router: Transport, tmp_path: Path) -> None:
    killed: dict[str, Value] = {"rp_filter": 2, "netfilter": "nft-forward 10"}
    before = states(router, killed)
    undo = Undo(tmp_path / "undo.jsonl")
    # As if it had been killed: nobody puts anything back.
    Applier(router, MACHINE, undo).apply(killed)
    with undo.file.open("a") as file:
        file.write('{"knob": "dev_weig')
    now = states(router, killed)
    assert [name for name in killed if now[name] == before[name]] == []
    assert undo.replay(router) == []
    assert states(router, killed) == before
    assert not undo.file.exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("knob", "value", "said"),
    [
        ("ring_rx", 512, "ring_rx: r0: ethtool -g is not supported"),
        ("queues", 2, "queues: r0: its driver has no combined"),
        ("rss", "equal 1", "rss: r0: ethtool -x is not supported"),
        ("irq_affinity", "spread", "irq_affinity: r0 has no interrupts of its own"),
        ("lro", True, "lro: r0: large-receive-offload is fixed by the driver: off"),
        ("napi_cpus", "63", "napi_cpus: there is no CPU 63"),
        ("governor", "performance", "governor: no CPU has a frequency that Linux chooses"),
        ("smt", False, "smt: smt/control is not"),
        ("isolcpus", "1", "isolcpus: is none; only a boot can make it 1"),
        ("kernel", "rt", "kernel: is stock; only a boot can make it rt"),
        ("vrf", True, "vrf: is off; only a boot can make it on"),
    ],
)
def test_what_the_machine_cannot_is_said_and_nothing_is_turned(
    router: Transport, tmp_path: Path, knob: str, value: Value, said: str
) -> None:
    file = tmp_path / "undo.jsonl"
    with applying(router, MACHINE, file) as applier:
        with pytest.raises(Unable, match=said):
            applier.apply({"rp_filter": 2, knob: value})
        # Not even for a moment: it would have to be put back.
        assert not file.exists()
