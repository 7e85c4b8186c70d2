# SPDX-License-Identifier: GPL-2.0-or-later
"""The testbed in one guest: what is asked of the generator, and what it says."""

from __future__ import annotations

import re
from typing import cast

import pytest

from skblab.machine.transport import Transport
from skblab.machine.transport.base import Done
from skblab.testbeds import NETNS, Offered, Sending
from skblab.testbeds.asked import FIRST_PORT, MOST_FLOWS, Stream, Traffic
from skblab.testbeds.netns import Netns, script
from skblab.testbeds.processes import OF_PACKETS, Others
from skblab_analysis.base.errors import SkblabError

STREAM = Stream(family=4, frame=64, flows=1)
UDP = "family=4 size=60 flows=1"


class Says:
    """A transport whose scripts print this."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.limits: list[float] = []

    def script(self, text: str, *, seconds: float = 600) -> Done:
        self.limits.append(seconds)
        return Done(0, self.text, "")


def test_a_rate_is_a_gap_and_a_time_a_limit() -> None:
    assert NETNS.offering(Sending(STREAM, 5000), 2) == f"offer whole {UDP} count=5000 cpu=1"
    sending = Sending(STREAM, 5000, rate=90_001.5, seconds=1.5, tester=True)
    call = f"offer tester {UDP} count=5000 gap=11111 limit=1.5 cpu=1"
    assert NETNS.offering(sending, 2) == call
    # The slowest: one every two seconds, in a number that pktgen reads.
    assert NETNS.offering(Sending(STREAM, 2, rate=0.5), 1).split()[6] == "gap=2000000000"


def test_a_timed_trial_has_its_packets_and_an_end() -> None:
    assert Sending.timed(STREAM, 1000, 2.0) == Sending(STREAM, 2000, 1000, 2.5)
    assert Sending.timed(STREAM, 1, 0.25).packets == 2


def test_the_counts_of_a_trial_are_read() -> None:
    says = Says("980 20 1000123 969 1969 970\n")
    sending = Sending(STREAM, 1000, rate=1000, seconds=3600)
    offered = Netns(cast(Transport, says), 2).offer(sending)
    assert offered == Offered(
        sent=980, forwarded=970, received=969, microseconds=1000123, refused=20
    )
    assert offered.tried == 1000
    # A long trial is not taken for a hanging one.
    assert says.limits[0] > 3600


def told(kpktgend: int, ksoftirqd: int, sshd: int) -> str:
    """Return what `processes` prints of four, of which one has no name any more."""
    names = {3: "kpktgend_0", 4: "ksoftirqd/0", 9: "sshd: a:b", 10: "sh"}
    ran = {3: kpktgend, 4: ksoftirqd, 9: sshd, 10: 0, 11: 7}
    lines = [f"/proc/{number}/comm:{name}" for number, name in names.items()]
    return "\n".join(
        [*lines, *(f"/proc/{number}/schedstat:{ns} 5 6" for number, ns in ran.items())]
    )


def test_what_others_had_of_one_cpu_is_no_cost_of_packets() -> None:
    before, after = told(1_000_000, 50_000, 10_000), told(7_900_000, 150_000, 3_110_000)
    says = Says(f"1000 0 10000 1000 1000 1000\n== before\n{before}\n== after\n{after}\n")
    offered = Netns(cast(Transport, says), 1).offer(Sending(STREAM, 1000))
    assert offered.others.microseconds == 10_000 - 6_900 - 100
    assert offered.others.who == "sshd: a:b 3.1 ms, sh 0.0 ms"


@pytest.mark.parametrize(
    ("name", "packets"),
    [
        *(("kpktgend_0", True), ("napi/r0-8193", True), ("irq/25-virtio0", True)),
        *(("irqbalance", False), ("kworker/0:1-events", False), ("napi_poller", False)),
    ],
)
def test_a_thread_of_packets_is_known_by_its_name(name: str, packets: bool) -> None:
    assert (OF_PACKETS.fullmatch(name) is not None) == packets


def test_a_kernel_without_scheduler_statistics_tells_of_no_others() -> None:
    says = Says("1 0 1000 1 1 1\n== before\n/proc/3/comm:kpktgend_0\n== after\n")
    assert Netns(cast(Transport, says), 1).offer(Sending(STREAM, 1)).others == Others()


def test_processes_that_cannot_be_read_are_an_error() -> None:
    says = Says("1 0 1 1 1 1\n== before\n/proc/3/comm:a\n== after\n/proc/3/stat:1\n")
    with pytest.raises(SkblabError, match=r"^what the guest's processes have run is not as expect"):
        Netns(cast(Transport, says), 1).offer(Sending(STREAM, 1000))


@pytest.mark.parametrize("text", ["", "980 20 970 969 1", "a 0 1 2 3 4"])
def test_a_generator_that_says_something_else_is_an_error(text: str) -> None:
    with pytest.raises(SkblabError, match=r"^the generator printed .*: expected packets sent, "):
        Netns(cast(Transport, Says(text)), 2).offer(Sending(STREAM, 1000))


def test_the_port_behind_the_last_flow_has_16_bits() -> None:
    [first] = re.findall(r'"udp_src_min (\d+)" "udp_src_max \$\(\((\d+) \+ flows\)\)"', script(""))
    assert {int(word) for word in first} == {FIRST_PORT}
    assert FIRST_PORT + MOST_FLOWS == 0xFFFF
    assert Traffic(flows=(MOST_FLOWS,)).flows == (MOST_FLOWS,)
