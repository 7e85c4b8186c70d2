# SPDX-License-Identifier: GPL-2.0-or-later
"""The testbed whose tester is this machine: what our sender is asked, and what it says."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from typer.testing import CliRunner

from skblab import testbeds
from skblab.cli import app
from skblab.machine.transport import LocalTransport, Shell, Transport
from skblab.machine.transport.base import Done
from skblab.sweep.experiment import Experiment
from skblab.testbeds import GUESTS, KINDS, NETNS, VIRTIO, Offered, Sending, base
from skblab.testbeds.asked import Stream
from skblab.testbeds.base import functions
from skblab.testbeds.native import NAME, Native
from skblab.testbeds.sending import Step
from skblab.testbeds.virtio import MACS, ROUTER, Virtio
from skblab_analysis.base.errors import SkblabError, UsageError

STREAM = Stream(family=4, frame=64, flows=32)
SENT = {
    **{"schema": "skblab.traffic/2", "role": "send", "sent": 990, "unsent": 10},
    "seconds": 0.999,
}


class Host:
    """This machine as it would be: counters of its ports, and the document of one sender."""

    def __init__(self, document: dict[str, object], *counters: int, status: int = 0) -> None:
        self.document, self.counters, self.status = document, list(counters), status
        self.calls: list[str] = []
        self.sent: list[str] = []

    def script(self, text: str, *, seconds: float = 600) -> Done:
        self.calls.append(text.strip().splitlines()[-1])
        return Done(0, f"{self.counters.pop(0)}\n", "")

    def run(self, argv: list[str], *, stdin: str = "", seconds: float = 600) -> Done:
        self.sent = argv
        why = "skblab-traffic: g0 is down" if self.status else ""
        return Done(self.status, json.dumps(self.document), why)


class Router:
    """A router that says these lines, in turn."""

    def __init__(self, *lines: str) -> None:
        self.lines = list(lines)

    def script(self, text: str, *, seconds: float = 600) -> Done:
        return Done(0, self.lines.pop(0), "")


def bed(router: Router, tester: Host) -> Virtio:
    made = Virtio(
        *(cast(Transport, router), cast(Transport, tester), VIRTIO.machine(2), 0, ROUTER, MACS),
        generator=Native("/there/skblab-traffic"),
        near=("net", "native"),
    )
    made.opens = lambda transport, text: cast(
        Shell, SimpleNamespace(script=cast(Host, transport).script)
    )
    return made


def options(*argv: str) -> dict[str, str]:
    """Return the values of a command's options."""
    return dict(pairwise(argv))


def test_the_sender_says_what_it_sent_and_ports_count_the_rest() -> None:
    tester = Host(SENT, 5000, 5970, 5970)
    made = bed(Router("7 100\n", "1080\n", "1080\n"), tester)
    offered = made.offer(Sending(STREAM, 1000, rate=1000, seconds=2))
    assert offered == Offered(990, 980, 970, 999_000, 10)
    # It is done once all that were sent have come; then again until nothing comes.
    assert tester.calls == ["came s0", "settled s0 5990", "settled s0"]
    assert tester.sent[:2] == ["/there/skblab-traffic", "send"]
    asked = options(*tester.sent)
    assert asked["--device"] == "g0"
    assert asked["--mac"] == "02:00:00:00:00:02"
    assert asked["--rate"] == "1000"
    # Frames are in the router's VLAN.
    assert (asked["--vlan"], asked["--count"], asked["--seconds"]) == ("7", "1000", "2")
    assert "--queue" not in tester.sent


def test_the_tester_alone_sends_beside_the_router() -> None:
    tester = Host(SENT, 0, 990)
    offered = bed(Router(), tester).offer(Sending(STREAM, 1000, tester=True, by_queue=True))
    assert offered == Offered(990, 990, 990, 999_000, 10)
    assert tester.calls == ["came s1", "settled s1 990"]
    asked = options(*tester.sent)
    assert (asked["--device"], asked["--mac"]) == ("c0", "02:00:00:00:00:06")
    assert "--queue" in tester.sent
    assert not {"--vlan", "--rate", "--then"} & set(tester.sent)


@pytest.mark.parametrize(
    ("stream", "wanted"),
    [
        ({}, {"--from": "198.18.0.2", "--to": "198.19.0.2:1024", "--frame": "64"}),
        ({"flows": 7}, {"--flows": "7", "--source-port": "1024"}),
        ({"destinations": "random"}, {"--to-range": "11.0.0.0-99.255.255.255"}),
        (
            {"family": 6, "frame": 82, "destinations": "random"},
            {
                "--from": "2001:db8:0:1::2",
                "--to": "[2001:db8:0:2::2]:1024",
                "--to-range": "2400::-240f:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
            },
        ),
        ({"frame": "ams-ix"}, {"--frame": "mix:1518*21,1270*26,767*3,383*3,191*4,96*43"}),
    ],
    ids=str,
)
def test_all_that_pktgen_sends_is_asked_of_ours(
    stream: dict[str, object], wanted: dict[str, str]
) -> None:
    asked = Stream.model_validate({"family": 4, "frame": 64, "flows": 1, **stream})
    argv = Native().argv(Sending(asked, 10), MACS)
    assert argv[0] == NAME
    assert wanted.items() <= options(*argv).items()


@pytest.mark.parametrize(("rate", "said"), [(1.5, "1.5"), (1e6 / 3, "333333.333333"), (10, "10")])
def test_rates_have_fractions(rate: float, said: str) -> None:
    argv = options(*Native().argv(Sending(STREAM, 10, rate=rate), MACS))
    assert argv["--rate"] == said


def test_what_comes_before_the_senders_name_is_the_way_to_it() -> None:
    inside = ("ip", "netns", "exec", "generator")
    assert tuple(Native("x", inside).argv(Sending(STREAM, 10), MACS)[:6]) == (*inside, "x", "send")


def test_a_rate_that_changes_is_told_by_the_number_of_its_first_packet() -> None:
    stepped = {**SENT, "step": {"sequence": 500, "at_ns": 500_000_123, "rate": 500.0}}
    sending = Sending(STREAM, 1000, rate=1000, seconds=2, then=500.0, after=0.5)
    made = bed(Router("7 100\n", "1090\n"), Host(stepped, 0, 990))
    assert made.offer(sending).step == Step(500, 500, 500_000)
    # A sender that was behind may have come to it as much later.
    late = {"threshold_ns": 100_000, "count": 9, "mean_ns": 1e6, "max_ns": 30_000_000}
    made = bed(Router("7 100\n", "1090\n"), Host({**stepped, "late": late}, 0, 990))
    assert made.offer(sending).step == Step(500, 500, 530_000)
    argv = options(*Native().argv(sending, MACS))
    assert (argv["--rate"], argv["--then"], argv["--after"]) == ("1000", "500", "0.5")
    with pytest.raises(SkblabError, match="did not come to the change of its rate"):
        bed(Router("7 100\n"), Host(SENT, 0, 990)).offer(sending)


def test_a_sender_that_refuses_is_heard() -> None:
    with pytest.raises(SkblabError, match=r"the generator failed \(exit 2\).* g0 is down"):
        bed(Router("100\n"), Host(SENT, 0, status=2)).offer(Sending(STREAM, 1000))


def test_a_sender_that_says_something_else_is_an_error() -> None:
    with pytest.raises(SkblabError, match="the sender's document"):
        bed(Router("100\n"), Host({"schema": "moon"}, 0)).offer(Sending(STREAM, 1000))


def received(device: str) -> int:
    """Return how many packets a device has received, as the kernel counts them."""
    lines = Path("/proc/net/dev").read_text().splitlines()
    [counted] = [line for line in lines if line.strip().startswith(f"{device}:")]
    return int(counted.partition(":")[2].split()[1])


def test_ports_are_counted_where_their_namespace_is(tmp_path: Path) -> None:
    text = "\n".join([functions("net", "native"), "came lo"])
    # There may be none yet, and 0 is what an empty file has as well.
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as own:
        own.bind(("127.0.0.1", 0))
        own.sendto(b"x", own.getsockname())
    before = received("lo")
    printed = subprocess.run(["sh", "-euc", text], capture_output=True, text=True, check=True)
    assert 0 < before <= int(printed.stdout) <= received("lo")
    gone = subprocess.run(
        ["sh", "-euc", text.replace("came lo", "came moon0")], capture_output=True, text=True
    )
    assert (gone.returncode, gone.stderr) == (1, "no device moon0 (any more)\n")


def test_commands_in_a_namespace_end_with_us() -> None:
    made = LocalTransport.within(Path("/proc/self/ns/net"))
    ours = Path("/proc/self/ns/net").readlink()
    assert made.run(["readlink", "/proc/self/ns/net"]).stdout.strip() == str(ours)
    assert made.script("echo here").stdout == "here\n"


def test_the_sink_looks_at_ports_where_there_are_no_namespaces() -> None:
    named = base.sink(tester=False)
    assert "--netns" in named.options() and "--stamp-netns" in named.options()
    assert named.at(NETNS) == named
    assert named.at(VIRTIO).options() == ["--device", "s0", "--stamp", "g0", "--pass"]


def test_instructions_are_counted_in_one_guest_only() -> None:
    done = CliRunner().invoke(app, ["sweep", "quick", "--testbed", "virtio", "--exact"])
    assert isinstance(done.exception, UsageError)
    assert "use --testbed netns" in str(done.exception)


def test_the_router_has_queues_to_spread_and_cpus_for_them() -> None:
    def cpus(**needs: int) -> int:
        wanted = {"name": "few", "question": "?", "measure": {"throughput": {}}, "needs": needs}
        return VIRTIO.cpus(Experiment.model_validate(wanted))

    assert (cpus(), cpus(queues=4), cpus(cpus=3)) == (2, 4, 3)


def test_a_file_is_all_that_a_new_testbed_takes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = """
from dataclasses import replace
from skblab.testbeds.virtio import VIRTIO
KIND = replace(VIRTIO, name="moon")
"""
    (tmp_path / "a_moon.py").write_text(text)
    monkeypatch.setattr(testbeds, "__path__", [*testbeds.__path__, str(tmp_path)])
    found = testbeds.kinds()
    del sys.modules["skblab.testbeds.a_moon"]
    assert list(KINDS) == ["netns", "virtio", "virtio-pktgen", "hosts"]
    assert list(found) == ["netns", "virtio", "virtio-pktgen", "moon", "hosts"]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("from skblab.testbeds.virtio import KIND", "another module has a testbed virtio, too"),
        ("KIND = 'moon'", "KIND is 'moon', expected a Kind"),
    ],
)
def test_no_testbed_is_lost_without_a_word(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, why: str
) -> None:
    (tmp_path / "a_moon.py").write_text(text)
    monkeypatch.setattr(testbeds, "__path__", [*testbeds.__path__, str(tmp_path)])
    with pytest.raises((TypeError, ValueError), match=f"^a_moon: {why}"):
        testbeds.kinds()
    del sys.modules["skblab.testbeds.a_moon"]


def test_every_testbed_can_be_chosen() -> None:
    for name in GUESTS:
        done = CliRunner().invoke(app, ["sweep", "quick", "--testbed", name, "--dry-run"])
        assert done.exit_code == 0, done.exception
    done = CliRunner().invoke(app, ["sweep", "quick", "--testbed", "moon", "--dry-run"])
    assert done.exit_code == 2
