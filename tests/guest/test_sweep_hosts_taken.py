# SPDX-License-Identifier: GPL-2.0-or-later
"""What a sweep takes of hosts is given back after a kill, too; what they need is not taken.

What is remembered of hosts is one folder for all sweeps of a user, and `cleanup` puts back all that
it finds there: no other test of killed sweeps may run beside these.
"""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

from conftest import TREE, Skblab
from skblab.lab import paths
from skblab.testbeds import hostsfile
from skblab.testbeds.hosts import give_back, has_ports, router_taken
from skblab_analysis.base.errors import SkblabError
from skblab_analysis.load import load
from two_hosts import BUDGET, Hosts
from waiting import PATIENCE, until

pytestmark = [pytest.mark.guest, pytest.mark.slow]


def test_a_killed_sweep_is_put_back_and_goes_on(
    skblab: Skblab, hosts: Hosts, experiment: Path, tmp_path: Path
) -> None:
    with experiment.open("a") as file:
        file.write('[[setting]]\nname = "another kernel"\nknobs = { kernel = "rt" }\n')
    before = hosts.state()
    results = tmp_path / "results"
    env = {**os.environ, "SKBLAB_RESULTS": str(results)}
    call = [str(TREE / "skblab"), *hosts.options(experiment)]
    with subprocess.Popen(call, env=env, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL) as run:
        until("the setting is made", 300, lambda: hosts.sh(f"cat {BUDGET}").strip() == "200")
        # On a busy machine it would have the next setting by the time that the other one begins.
        run.send_signal(signal.SIGSTOP)
        # Another sweep is told, and changes nothing.
        second = skblab(*hosts.options(experiment), env={"SKBLAB_RESULTS": str(tmp_path / "2")})
        assert second.returncode == 2
        assert "another sweep has router and tester" in second.stderr
        run.send_signal(signal.SIGKILL)
    # The ports come back by themselves, the setting does not.
    until("ports", PATIENCE, lambda: hosts.sh("cat /run/skblab-sweep.lock") == "")
    assert hosts.sh("ip netns") == ""
    assert hosts.sh(f"cat {BUDGET}").strip() == "200"
    # Tests that were killed may have left another router of that name, which is gone.
    done = skblab("cleanup", "--forget", "router")
    assert done.returncode == 0, done.stderr
    assert "of a killed sweep on router" in done.stderr
    assert hosts.state() == before
    assert list((paths.cache() / "hosts").iterdir()) == []
    assert "nothing to restore" in skblab("cleanup").stdout
    [folder] = results.iterdir()
    again = skblab("resume", str(folder), timeout=1800)
    assert again.returncode == 0, again.stdout + again.stderr
    assert hosts.state() == before
    trials = load(folder).trials
    keys = [(row.setting, row.boot_knobs, row.measure) for row in trials]
    # What another boot has, has a tester of its own.
    assert len(keys) == len(set(keys)) == 6
    [invalid] = [row for row in trials if row.state == "invalid"]
    assert "only a boot can make it rt" in invalid.reason


def test_what_a_killed_shell_took_is_given_back(hosts: Hosts) -> None:
    before = hosts.state()
    found, router = hostsfile.read(hosts.file), hosts.router.transport
    with (
        pytest.raises(SkblabError, match="undoing: taking the ports of router failed"),
        router_taken(found, router, "one"),
    ):
        assert has_ports(router)
        with pytest.raises(SkblabError, match="another sweep has this machine: one shell "):
            give_back(router, "router", "another")
        hosts.sh('kill -9 "$(sed "s/.* //" /run/skblab-sweep.lock)"')
    assert has_ports(router)
    assert hosts.router_ports[0] not in hosts.sh("ls /sys/class/net")
    give_back(router, "router", "another")
    assert hosts.state() == before


def test_settings_that_wait_for_others_are_given_back(hosts: Hosts) -> None:
    """A mode of addresses that needs its secret first, and an MTU that coming up sets anew."""
    port = hosts.router_ports[1]
    found, router = hostsfile.read(hosts.file), hosts.router.transport
    of = f"net.ipv6.conf.{port}"
    mode, mtu = (
        hosts.sh(f"sysctl -n {of}.{setting}").strip() for setting in ("addr_gen_mode", "mtu")
    )
    settled = (
        f"ip link set {port} down\nip link set {port} up\n"
        f"until ip -o link show dev {port} | grep -q ' state UP '; do sleep 0.1; done\n"
        f"while ip -o address show dev {port} | grep -q tentative; do sleep 0.1; done\n"
    )
    hosts.sh(f"sysctl -q -w {of}.stable_secret=2001:db8::7\n{settled}sysctl -q -w {of}.mtu=1400")
    try:
        before = hosts.state()
        assert f"{of.replace('.', '/')}/mtu:1400" in before
        assert "stable-privacy" in before
        with router_taken(found, router, "one"):
            assert port not in hosts.sh("ls /sys/class/net")
        hosts.sh(f"while ip -o address show dev {port} | grep -q tentative; do sleep 0.1; done")
        assert hosts.state() == before
    finally:
        hosts.sh(f"sysctl -q -w {of}.addr_gen_mode={mode} {of}.mtu={mtu}\n{settled}")


def test_a_port_is_not_given_back_over_another_of_its_name(hosts: Hosts) -> None:
    before = hosts.state()
    found, router = hostsfile.read(hosts.file), hosts.router.transport
    port = hosts.router_ports[0]
    with (
        pytest.raises(SkblabError, match=f"another device is {port} by now, .* r0 in router"),
        router_taken(found, router, "one"),
    ):
        hosts.sh(f"ip link add {port} type dummy")
    hosts.sh(f"ip link delete {port}")
    give_back(router, "router", "another")
    assert hosts.state() == before


@pytest.mark.parametrize(
    ("made", "why", "removed"),
    [
        (
            "tc qdisc add dev {} clsact",
            "it has the qdisc clsact ffff:",
            "tc qdisc del dev {} clsact",
        ),
        (
            "ip address add fe80::7/64 dev {}",
            "it has the address fe80::7/64; remove it with",
            "ip address del fe80::7/64 dev {}",
        ),
        (
            "ip neigh add 192.0.2.7 lladdr 02:00:00:00:00:07 dev {}",
            "it has the neighbour 192.0.2.7 of its own",
            "ip neigh del 192.0.2.7 dev {}",
        ),
    ],
)
def test_a_port_with_something_of_its_own_is_refused(
    hosts: Hosts, made: str, why: str, removed: str
) -> None:
    port = hosts.router_ports[0]
    found, router = hostsfile.read(hosts.file), hosts.router.transport
    hosts.sh(made.format(port))
    try:
        before = hosts.state()
        with pytest.raises(SkblabError, match=why), router_taken(found, router, "one"):
            raise AssertionError
        assert hosts.state() == before
    finally:
        hosts.sh(removed.format(port))


def test_a_port_in_use_is_refused_and_nothing_is_taken(
    skblab: Skblab, hosts: Hosts, experiment: Path, tmp_path: Path
) -> None:
    port = hosts.router_ports[1]
    hosts.sh(f"ip address add 192.0.2.7/24 dev {port}")
    try:
        before = hosts.state()
        done = skblab(*hosts.options(experiment), env={"SKBLAB_RESULTS": str(tmp_path / "r")})
        assert done.returncode == 1
        assert (
            f"{port} is in use: it has the address 192.0.2.7/24; remove it with: ip address flush "
            f"dev {port}"
        ) in done.stderr
        assert not list((tmp_path / "r").glob("*"))
        assert hosts.state() == before
    finally:
        hosts.sh(f"ip address del 192.0.2.7/24 dev {port}")
