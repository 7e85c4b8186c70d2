# SPDX-License-Identifier: GPL-2.0-or-later
"""A router and a tester for sweeps on hosts: two guests, reached by real SSH as any host is.

Its fixtures are those of tests that leave both guests in order; conftest.py has them known.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from conftest import ssh_way
from skblab.lab.guest import Nic, links
from skblab.lab.guest.chosen import make_spec
from skblab.lab.kernel import Kernel
from skblab.lab.labroot import LabRoot
from skblab.machine.guest import Guest
from skblab.testbeds.virtio import MAC
from skblab.testbeds.virtio_pktgen import LINKS

EXPERIMENT = """
name = "few-hosts"
question = "Do hosts do it?"
[traffic]
frame = [128]
flows = [8]
[[setting]]
name = "NAPI threads"
knobs = { threaded = true, netdev_budget = 200 }
[measure.latency]
rates = [200]
seconds = 1
[repeats]
least = 1
most = 1
warm_up_seconds = 0.5
"""
BUDGET = "/proc/sys/net/core/netdev_budget"


@dataclass
class Hosts:
    """Two guests, and the hosts file by which they are reached."""

    router: Guest
    tester: Guest
    file: Path
    router_ports: tuple[str, ...]

    def sh(self, text: str) -> str:
        return self.router.transport.script(text).check("a script on the router").stdout

    def options(self, experiment: Path) -> list[str]:
        """The arguments of a sweep on them."""
        return ["sweep", str(experiment), "--testbed", "hosts", "--hosts", str(self.file)]

    def state(self) -> str:
        """What a sweep could leave behind on both."""
        return "".join(self.state_of(machine) for machine in (self.router, self.tester))

    def state_of(self, one: Guest) -> str:
        """What a sweep could leave behind on one of them."""
        ask = (
            "ip -o link | grep -v ' lo:' | sed 's/ qlen.*//; s/^[0-9]*: //'\n"
            "ip -o address | grep -v ' lo ' || :\nip netns\nip route\n"
            f"cat {BUDGET} /proc/sys/net/ipv4/ip_forward /proc/sys/net/ipv6/conf/all/forwarding\n"
            "for port in /sys/class/net/eth*; do [ ! -e $port ] || cat $port/threaded; done\n"
            "grep -s . /proc/sys/net/ipv[46]/conf/eth*/* /proc/sys/net/ipv[46]/neigh/eth*/* || :\n"
            "ls -d /tmp/skblab.* /run/skblab-sweep.taken* 2>/dev/null || :\n"
            "cat /run/skblab-sweep.lock 2>/dev/null || :\n"
        )
        return one.transport.script(ask).check("looking").stdout


@contextlib.contextmanager
def two_hosts(kernel: Kernel, lab: LabRoot, folder: Path) -> Iterator[Hosts]:
    """Have a router and a tester up; `folder` gets the ways to them."""
    numbers = {"router": (2, 3), "tester": (1, 4, 5, 6)}
    nics = {
        host: tuple(Nic(tap=f"tap{number}", mac=MAC.format(number)) for number in some)
        for host, some in numbers.items()
    }
    ends = {nic.mac: nic for some in nics.values() for nic in some}
    pairs = [(ends[MAC.format(a)], ends[MAC.format(b)]) for a, b in LINKS]
    with contextlib.ExitStack() as stack:
        place = stack.enter_context(links.made(pairs, lab))
        guests = {
            host: stack.enter_context(
                Guest.boot(
                    make_spec(cpus=2).model_copy(update={"nics": nics[host]}),
                    *(kernel, lab),
                    wait=False,
                    place=place,
                )
            )
            for host in nics
        }
        config, names = "", {}
        for host, guest in guests.items():
            guest.connect()
            config += ssh_way(guest, folder, host)
            shown = guest.transport.script("grep . /sys/class/net/*/address").check("ports").stdout
            # As all guests: /sys/class/net/eth0/address:02:00:…
            found = {line.split(":", 1)[1]: line.split("/")[4] for line in shown.splitlines()}
            names[host] = [found[MAC.format(number)] for number in numbers[host]]
        (folder / "config").write_text(config)
        # What nobody has by default, and a change of namespace would have them lose.
        port = names["router"][0]
        own = f"net.ipv4.conf.{port}.rp_filter=2 net.ipv6.neigh.{port}.mcast_solicit=7"
        guests["router"].transport.run(["sysctl", "-q", "-w", *own.split()]).check("a setting")
        file = folder / "lab.toml"
        generator, sink, *loop = names["tester"]
        file.write_text(
            f'ssh_config = "{folder}/config"\n[router]\nssh = "router"\n'
            f'in = "{names["router"][0]}"\nout = "{names["router"][1]}"\n'
            f'[tester]\nssh = "tester"\ngenerator = "{generator}"\nsink = "{sink}"\n'
            f"loop = {json.dumps(loop)}\n"
        )
        yield Hosts(guests["router"], guests["tester"], file, tuple(names["router"]))


@pytest.fixture(scope="module")
def hosts(stock: Kernel, lab: LabRoot, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hosts]:
    """Both hosts for the tests of a file, whose kernels complain of nothing."""
    with two_hosts(stock, lab, tmp_path_factory.mktemp("hosts")) as found:
        yield found
        for guest in (found.router, found.tester):
            assert guest.console.warnings() == []


@pytest.fixture
def experiment(tmp_path: Path) -> Path:
    """The file of a sweep that is over soon."""
    file = tmp_path / "few-hosts.toml"
    file.write_text(EXPERIMENT)
    return file
