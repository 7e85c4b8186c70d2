# SPDX-License-Identifier: GPL-2.0-or-later
"""The link between two machines, which are guests: by nothing but our program, and by a file."""

from __future__ import annotations

import json
import re
import shlex
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from conftest import TREE, Skblab
from skblab.lab import tools
from skblab.lab.labroot import LabRoot
from skblab.lab.reporter import Reporter
from skblab.machine.guest import Guest
from skblab.machine.transport.base import Done
from skblab_analysis.load import load
from skblab_analysis.tcp.rows import TcpRow
from skblab_analysis.traffic.summary import of
from two_hosts import Hosts

pytestmark = [pytest.mark.guest, pytest.mark.slow]

PAGE = TREE / "docs" / "howto" / "measure-a-link.md"
# A user who may do nothing.
NOBODY = "setpriv --reuid 65534 --regid 65534 --clear-groups"
ADDRESSES = {"tester": "192.0.2.1", "router": "192.0.2.2"}
FILE = """
name = "a-link"
question = "Does a batch matter?"
repeats = 1
ssh_config = "{config}"
[hosts]
a = {{ ssh = "tester", address = ["192.0.2.1"] }}
b = {{ ssh = "router", address = ["192.0.2.2"] }}
[[flow]]
name = "there"
from = "a"
to = "b"
rate = 200
seconds = 2
[[flow]]
name = "back"
from = "b"
to = "a"
rate = 200
seconds = 2
[[tcp]]
name = "over TCP"
from = "b"
to = "a"
kind = "requests"
rate = 100
seconds = 2
[[setting]]
name = "one by one"
[[setting]]
name = "batches"
flow = {{ batch = 8 }}
"""


@pytest.fixture
def link(hosts: Hosts) -> Iterator[Hosts]:
    """Both guests with addresses, as machines of a user have them."""
    asked = tomllib.loads(hosts.file.read_text())
    ports = ((hosts.tester, asked["tester"]["generator"]), (hosts.router, asked["router"]["in"]))
    for (guest, port), address in zip(ports, ADDRESSES.values(), strict=True):
        text = f"ip link set {port} up; ip address add {address}/24 dev {port}"
        guest.transport.script(text).check("an address")
    yield hosts
    for guest, port in ports:
        text = f"ip address flush dev {port}; ip link set {port} down"
        guest.transport.script(text).check("no address")


def commands() -> tuple[str, str]:
    """Return the page's commands, of the receiver and of the sender, for fewer packets."""
    lines = [line for line in PAGE.read_text().splitlines() if line.startswith("./skblab-traffic")]
    receive, send = lines[:2]
    assert " receive " in receive and " send " in send
    fewer = [re.sub(r"100000\b", "4000", line.partition(">")[0]) for line in (receive, send)]
    return fewer[0], fewer[1].replace("--rate 10000", "--rate 1000")


def brought(guest: Guest, program: Path) -> None:
    guest.transport.put(program, "/tmp/skblab-traffic")
    guest.transport.script("chmod 755 /tmp/skblab-traffic").check("the program")


def as_nobody(command: str) -> list[str]:
    return shlex.split(f"{NOBODY} env -C /tmp {command}")


def left_on(link: Hosts) -> list[str]:
    """Return what there is of temporary files and of our processes on both."""
    ask = "ls -A /tmp; ps -eo args= | grep [s]kblab-traffic || :"
    guests = (link.tester, link.router)
    return [guest.transport.script(ask).check("looking").stdout for guest in guests]


def test_a_link_is_measured_with_nothing_but_the_program(link: Hosts, lab: LabRoot) -> None:
    program = tools.ensure_traffic(lab, Reporter()) / "skblab-traffic"
    for guest in (link.tester, link.router):
        brought(guest, program)
    receive, send = commands()
    receiver = link.router.transport.start(as_nobody(receive))
    receiver.wait_for("ready", 120)
    sent: Done = link.tester.transport.run(as_nobody(send), seconds=300).check("the sender")
    came = receiver.wait(120).check("the receiver")
    sender, received = json.loads(sent.stdout), json.loads(came.stdout)
    assert sender["sent"] == received["distinct"] == 4000
    assert (received["lost"], received["duplicates"]) == (0, 0)
    # Two machines have two clocks, and nobody said that they are one.
    assert received["delay"] is None and "--same-clock" in received["delay_unknown"]
    assert received["jitter"]["count"] == 3999


def test_a_file_runs_flows_both_ways_between_machines(
    skblab: Skblab, link: Hosts, tmp_path: Path
) -> None:
    file = tmp_path / "a-link.toml"
    file.write_text(FILE.format(config=link.file.parent / "config"))
    results = tmp_path / "results"
    before = left_on(link)
    done = skblab(
        *("traffic", "run", str(file)), env={"SKBLAB_RESULTS": str(results)}, timeout=1800
    )
    assert done.returncode == 0, done.stdout + done.stderr
    # The program's folders are gone, too.
    assert left_on(link) == before
    [folder] = results.iterdir()
    run = load(folder)
    flows = {flow.flow: flow for flow in of(run)}
    assert list(flows) == ["there", "back"]
    for flow in flows.values():
        assert [(one.lost, one.sent) for one in flow.exchanges] == [(0, 400), (0, 400)]
        # Two machines have two clocks, of which the file's run knows what they differ by.
        for exchange in flow.exchanges:
            delay = exchange.times["delay"]
            assert delay.clock_off is not None and delay.clock_off < 20_000_000
            assert delay.p50 is not None and delay.p50 < 100_000_000
    asked = {row.setting: row for row in run.rows(TcpRow)}
    assert list(asked) == list(dict.fromkeys(row.setting for row in run.trials))
    # Each of them is due, and a slow guest may not come to the last ones.
    assert all(row.failed == 0 and row.completed > 100 for row in asked.values())
    assert any("clocks of their own" in gap for gap in run.document.gaps)
