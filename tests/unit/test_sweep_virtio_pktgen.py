# SPDX-License-Identifier: GPL-2.0-or-later
"""A testbed of two guests: which script runs where, and what is made of what they print."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import cast

import pytest

from skblab.lab.guest import GuestSpec, Nic
from skblab.machine.transport import Shell, Transport
from skblab.machine.transport.base import Done
from skblab.testbeds import Offered, Sending
from skblab.testbeds.apart import LOOKS
from skblab.testbeds.asked import Stream, Traffic
from skblab.testbeds.virtio_pktgen import LINKS, TwoGuests
from skblab_analysis.base.errors import SkblabError

STREAM = Stream(family=4, frame=64, flows=1)
UDP = "family=4 size=60 flows=1"


class Says:
    """A transport that keeps the last line of each script, and answers in order."""

    def __init__(self, *answers: str) -> None:
        self.answers = list(answers)
        self.calls: list[str] = []
        self.scripts: list[str] = []

    def script(self, text: str, *, seconds: float = 600) -> Done:
        self.calls.append(text.strip().splitlines()[-1])
        self.last = text
        self.scripts.append(text)
        return Done(0, self.answers.pop(0), "")


def bed(router: Says, tester: Says) -> TwoGuests:
    made = TwoGuests(cast(Transport, router), cast(Transport, tester), 2)
    made.opens = stays
    return made


def stays(transport: Transport, functions: str) -> Shell:
    """Return a shell whose scripts are the transport's."""
    said = cast(Says, transport)
    shell = SimpleNamespace(
        script=lambda text, seconds=600: said.script(f"{functions}\n{text}", seconds=seconds)
    )
    return cast(Shell, shell)


def test_the_router_counts_what_it_forwards_and_the_tester_the_rest() -> None:
    router = Says("7 100\n", "1080\n", "1080\n")
    tester = Says("990 10 1000123 970 5970\n", "5970\n")
    offered = bed(router, tester).offer(Sending(STREAM, 1000, rate=1000, seconds=2))
    assert offered == Offered(990, 980, 970, 1_000_123, 10)
    # Frames are in the router's VLAN.
    assert tester.calls[0] == f"send whole {UDP} count=1000 gap=1000000 limit=2 cpu=1 tag=7"
    assert tester.calls[1] == "settled s0"
    assert router.calls[1] == "handed_over r1"


def test_what_a_router_has_held_comes_later_and_is_not_lost() -> None:
    router = Says("100\n", "900\n", "900\n", "1100\n", "1100\n", "1100\n")
    # It stood still while the sink was looked at.
    tester = Says("1000 0 1000123 700 5700\n", "5800\n", "5990\n", "6000\n", "6000\n")
    offered = bed(router, tester).offer(Sending(STREAM, 1000))
    assert (offered.forwarded, offered.received) == (1000, 1000)


def test_packets_without_end_are_an_error() -> None:
    router = Says("100\n", "0\n", *(f"{number}\n" for number in range(LOOKS)))
    tester = Says("1000 0 1000123 700 700\n", *(f"{number}\n" for number in range(LOOKS)))
    with pytest.raises(SkblabError, match="packets still come after 50 looks"):
        bed(router, tester).offer(Sending(STREAM, 1000))


def test_a_router_whose_counter_fell_has_forwarded_nobody_knows_what() -> None:
    router, tester = Says("1000\n", "7\n", "7\n"), Says("990 0 1000123 990 990\n", "990\n")
    with pytest.raises(SkblabError, match="forwarded packets fell from 1000 to 7 in the trial"):
        bed(router, tester).offer(Sending(STREAM, 1000))


class Later(Says):
    """Counters that are 0 until their time has come, and 1000 from then on."""

    def __init__(self, first: str) -> None:
        super().__init__(first)
        self.began = time.monotonic()

    def script(self, text: str, *, seconds: float = 600) -> Done:
        if self.answers:
            return super().script(text, seconds=seconds)
        time.sleep(0.005)
        return Done(0, "1000\n" if time.monotonic() - self.began > 0.05 else "0\n", "")


@pytest.mark.parametrize("tester_only", [False, True])
def test_counters_of_drivers_that_update_them_late_are_waited_for(tester_only: bool) -> None:
    router, tester = Later("0\n"), Later("1000 0 1000123 0 0\n")
    made = bed(router, tester)
    made.still = 0.1
    offered = made.offer(Sending(STREAM, 1000, tester=tester_only))
    assert (offered.forwarded, offered.received) == (1000, 1000)
    assert time.monotonic() - router.began >= 0.1


def test_without_a_router_none_is_asked() -> None:
    router, tester = Says(), Says("1000 0 1000123 1000 1000\n")
    offered = bed(router, tester).offer(Sending(STREAM, 1000, tester=True, by_queue=True))
    assert (offered.sent, offered.forwarded, offered.received) == (1000, 1000, 1000)
    assert router.calls == []
    assert tester.calls == [f"send tester {UDP} count=1000 cpu=1 xmit=queue_xmit"]


def test_what_the_tester_alone_loses_is_looked_for_where_it_went() -> None:
    tester = Says("1000 0 1000123 700 9700\n", *["9990\n"] * 1000)
    made = bed(Says(), tester)
    made.still = 1e-9
    offered = made.offer(Sending(STREAM, 1000, tester=True))
    assert (offered.sent, offered.received) == (1000, 990)
    assert set(tester.calls[1:]) == {"settled s1"}


def test_a_router_without_a_vlan_has_no_tag() -> None:
    # All that it handed over has come: nobody is asked again.
    router, tester = Says("100\n", "1100\n"), Says("1000 0 1000123 1000 1000\n")
    assert bed(router, tester).offer(Sending(STREAM, 1000)).forwarded == 1000
    assert tester.calls == [f"send whole {UDP} count=1000 cpu=1"]


@pytest.mark.parametrize("said", ["", "a", "7 a"])
def test_a_router_that_says_something_else_is_an_error(said: str) -> None:
    with pytest.raises(SkblabError, match=r"^the router printed .*: expected packets forwarded"):
        bed(Says(said), Says()).offer(Sending(STREAM, 1000))


def test_addresses_are_laid_out_on_both_sides() -> None:
    router, tester = Says(""), Says("")
    bed(router, tester).prepare(Traffic(destinations=("random",)))
    assert (tester.calls, router.calls) == (["be_tester"], ["lead_all_to_the_sink"])
    assert "be_guest_router" in router.last
    # Each device has one link, and each link two devices that the scripts know.
    ends = [end for link in LINKS for end in link]
    assert sorted(ends) == [1, 2, 3, 4, 5, 6]
    for end in ends:
        assert f"02:00:00:00:00:{end:02x}" in router.last


def test_a_device_with_queues_has_rss_and_an_interrupt_for_each() -> None:
    one, four = (
        Nic(tap="tap1", mac="02:00:00:00:00:01"),
        Nic(tap="tap2", mac="02:00:00:00:00:02", queues=4),
    )
    argv = GuestSpec(nics=(one, four)).qemu("/root", [], "/sock")
    devices = [argv[place + 1] for place, word in enumerate(argv) if word == "-netdev"]
    assert devices[0].endswith("ifname=tap1,script=no,downscript=no")
    assert devices[1].endswith(",queues=4")
    assert "mq=on,vectors=10,rss=on" in " ".join(argv)
    # With it, one overload stops a queue for good.
    assert "hash=on" not in " ".join(argv)
