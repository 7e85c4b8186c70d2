# SPDX-License-Identifier: GPL-2.0-or-later
"""Guests booted with knobs that only a boot sets, and traffic with tags and random destinations."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from exact_figures import hold
from skblab.bench.asked import request_of
from skblab.knobs.applying import applying
from skblab.knobs.base import Unable
from skblab.knobs.boot import start
from skblab.knobs.values import Value
from skblab.lab.guest.chosen import make_spec
from skblab.lab.kernel import Kernel, ensure, names
from skblab.lab.labroot import LabRoot
from skblab.lab.reporter import Reporter
from skblab.machine.guest import Guest
from skblab.sweep import booting
from skblab.testbeds.asked import Stream, Traffic
from skblab.testbeds.netns import Netns
from skblab.testbeds.sending import Sending

pytestmark = [pytest.mark.guest, pytest.mark.slow]

COUNT = 2000


@pytest.mark.parametrize(
    "knobs",
    [
        {
            **{"kernel": "stock", "patches": True, "preempt": "full", "mitigations": "off"},
            **{"isolcpus": "1", "nohz_full": "1", "rcu_nocbs": "1", "selinux": "off"},
        },
        {"preempt": "none", "mitigations": "auto", "isolcpus": "none", "selinux": "permissive"},
        {"selinux": "enforcing"},
    ],
    ids=["isolated", "permissive", "enforcing"],
)
def test_a_guest_is_booted_as_its_knobs_want(
    stock: Kernel, lab: LabRoot, tmp_path: Path, knobs: dict[str, Value]
) -> None:
    begins = start(knobs)
    with Guest.boot(make_spec(arguments=list(begins.arguments)), stock, lab) as guest:
        assert booting.begin(guest.transport, begins) is None
        testbed = Netns(guest.transport, guest.spec.cpus)
        testbed.prepare(Traffic())
        with applying(guest.transport, testbed.machine, tmp_path / "undo.jsonl") as applier:
            found = applier.apply({**knobs, "rp_filter": 1})
            assert [applied for applied in found if applied.invalid] == []
            offered = testbed.offer(Sending(Stream(family=4, frame=64, flows=1), COUNT))
            assert offered.received == COUNT
            wrong = {"mitigations": "auto,nosmt"}
            with pytest.raises(Unable, match="only a boot can make it auto,nosmt"):
                applier.apply(wrong)


def test_routes_of_packets_are_looked_up_in_the_vrf(
    stock: Kernel, lab: LabRoot, tmp_path: Path
) -> None:
    begins = start({"vrf": True})
    with Guest.boot(make_spec(), stock, lab) as guest:
        assert booting.begin(guest.transport, begins) is None
        testbed = Netns(guest.transport, guest.spec.cpus)
        testbed.prepare(Traffic(destinations=("fixed", "random")))

        def there(command: str) -> str:
            done = guest.transport.script(f"ip netns exec router {command}").check(command)
            return str(done.stdout)

        def passed() -> int:
            return int(there("cat /sys/class/net/skbvrf/statistics/rx_packets"))

        for option in ("-4", "-6"):
            assert "r1" not in there(f"ip {option} route show")
            assert "default via" in there(f"ip {option} route show vrf skbvrf")
        with applying(guest.transport, testbed.machine, tmp_path / "undo.jsonl") as applier:
            found = applier.apply({"vrf": True, "rp_filter": 1})
            assert [applied for applied in found if applied.invalid] == []
            for family, destinations in ((4, "fixed"), (6, "fixed"), (4, "random"), (6, "random")):
                stream = Stream.model_validate(
                    {"family": family, "frame": 82, "flows": 4, "destinations": destinations}
                )
                before = passed()
                offered = testbed.offer(Sending(stream, COUNT))
                assert (offered.forwarded, offered.received) == (COUNT, COUNT)
                assert passed() - before == COUNT
            with pytest.raises(Unable, match="vrf: is on; only a boot can make it off"):
                applier.apply({"vrf": False})
        assert guest.console.warnings() == []


@pytest.fixture(scope="module")
def testbed(stock: Kernel, lab: LabRoot) -> Iterator[Netns]:
    with Guest.boot(make_spec(), stock, lab) as guest:
        made = Netns(guest.transport, guest.spec.cpus)
        made.prepare(Traffic(destinations=("fixed", "random")))
        yield made
        assert guest.console.warnings() == []


@pytest.mark.parametrize("family", [4, 6])
@pytest.mark.parametrize("knobs", [{}, {"vlan": 7}, {"routes": 5000, "routes6": 5000}], ids=str)
@pytest.mark.parametrize("destinations", ["fixed", "random"])
def test_every_packet_comes(
    testbed: Netns, tmp_path: Path, family: int, knobs: dict[str, Value], destinations: str
) -> None:
    stream = Stream.model_validate(
        {"family": family, "frame": 82, "flows": 4, "destinations": destinations}
    )
    with applying(testbed.transport, testbed.machine, tmp_path / "undo.jsonl") as applier:
        assert [applied for applied in applier.apply(knobs) if applied.invalid] == []
        offered = testbed.offer(Sending(stream, COUNT))
        assert (offered.sent, offered.forwarded, offered.received) == (COUNT, COUNT, COUNT)
        tester = testbed.offer(Sending(stream, COUNT, tester=True))
        assert (tester.sent, tester.received) == (COUNT, COUNT)


@pytest.mark.parametrize(
    ("knobs", "polled"),
    [({}, COUNT), ({"gro_list": True}, COUNT), ({"udp_gro": True}, COUNT), ({"gro": False}, 0)],
    ids=str,
)
def test_the_router_polls_what_comes_by_napi(
    testbed: Netns, tmp_path: Path, knobs: dict[str, Value], polled: int
) -> None:
    def count() -> int:
        shown = testbed.transport.script("ip netns exec router ethtool -S r0").check("counters")
        return int(re.findall(r"rx_queue_0_xdp_packets: (\d+)", shown.stdout)[0])

    with applying(testbed.transport, testbed.machine, tmp_path / "undo.jsonl") as applier:
        assert [applied for applied in applier.apply(knobs) if applied.invalid] == []
        before = count()
        offered = testbed.offer(Sending(Stream(family=4, frame=82, flows=1), COUNT))
        assert (offered.forwarded, offered.received) == (COUNT, COUNT)
        assert count() - before == polled


@pytest.mark.parametrize("knobs", [{"threaded": True}, {"napi_threaded": "on"}], ids=str)
def test_threads_keep_up_with_the_generator_on_one_cpu(
    stock: Kernel, lab: LabRoot, tmp_path: Path, knobs: dict[str, Value]
) -> None:
    stream = Stream(family=4, frame=64, flows=1)
    with Guest.boot(make_spec(exact=True), stock, lab) as guest:
        testbed = Netns(guest.transport, guest.spec.cpus)
        testbed.prepare(Traffic())
        with applying(guest.transport, testbed.machine, tmp_path / "undo.jsonl") as applier:
            plain = testbed.offer(Sending(stream, COUNT))
            assert [applied for applied in applier.apply(knobs) if applied.invalid] == []
            threads = testbed.offer(Sending(stream, COUNT))
    assert (threads.sent, threads.refused, threads.received) == (COUNT, 0, COUNT)
    # A switch to the thread and back is in it.
    assert threads.microseconds > plain.microseconds
    # A thousand instructions are a microsecond.
    (name,) = knobs
    taken = {name: threads.microseconds, "plain": plain.microseconds}
    figures = {name: 1000 * microseconds / COUNT for name, microseconds in taken.items()}
    hold("test_sweep_boots", figures, stock, lab)


def test_threads_keep_up_on_a_kernel_that_preempts_lazily(lab: LabRoot, tmp_path: Path) -> None:
    """It would let the generator go on until the next tick, and a ring run full."""
    built = ensure(request_of(names.parse("debian:7.3"), "stock"), lab, Reporter())
    with Guest.boot(make_spec(exact=True), built, lab) as guest:
        mode = guest.transport.script("cat /sys/kernel/debug/sched/preempt").check("its mode")
        assert "(lazy)" in mode.stdout
        testbed = Netns(guest.transport, guest.spec.cpus)
        testbed.prepare(Traffic())
        with applying(guest.transport, testbed.machine, tmp_path / "undo.jsonl") as applier:
            assert [one for one in applier.apply({"threaded": True}) if one.invalid] == []
            offered = testbed.offer(Sending(Stream(family=4, frame=64, flows=1), COUNT))
    assert (offered.sent, offered.refused, offered.received) == (COUNT, 0, COUNT)


def test_packets_come_with_the_tag_of_the_vlan(testbed: Netns, tmp_path: Path) -> None:
    seen = "ip netns exec router cat /sys/class/net/skbvlan{}/statistics/{}_packets"
    with applying(testbed.transport, testbed.machine, tmp_path / "undo.jsonl") as applier:
        applier.apply({"vlan": 7})
        testbed.offer(Sending(Stream(family=4, frame=64, flows=1), COUNT))
        for place, way in ((0, "rx"), (1, "tx")):
            count = testbed.transport.script(seen.format(place, way)).stdout
            assert int(count) == COUNT


@pytest.mark.parametrize(
    ("value", "counted"), [("both", (COUNT, COUNT)), ("in", (COUNT, 0)), ("out", (0, COUNT))]
)
def test_packets_pass_the_bridges_that_are_asked_for(
    testbed: Netns, tmp_path: Path, value: str, counted: tuple[int, int]
) -> None:
    seen = "ip netns exec router cat /sys/class/net/skbbridge{}/statistics/{}_packets || echo 0"
    with applying(testbed.transport, testbed.machine, tmp_path / "undo.jsonl") as applier:
        assert [one for one in applier.apply({"bridge": value}) if one.invalid] == []
        for family in (4, 6):
            size = 64 if family == 4 else 82
            offered = testbed.offer(Sending(Stream(family=family, frame=size, flows=1), COUNT))
            assert (offered.refused, offered.received) == (0, COUNT)
            for place, way in ((0, "rx"), (1, "tx")):
                count = int(testbed.transport.script(seen.format(place, way)).stdout)
                # The router asks for its neighbours by IPv6 now and then.
                most = counted[place] * (1 if family == 4 else 2)
                assert most <= count <= most + 20, (family, place)
    left = testbed.transport.script("ip netns exec router ip -o link show type bridge").stdout
    assert left == ""
