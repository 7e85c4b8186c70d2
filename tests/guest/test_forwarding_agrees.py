# SPDX-License-Identifier: GPL-2.0-or-later
"""Forwarding costs the same whoever measures it: benchmark and sweep, in one guest."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator

import pytest

from skblab.bench import measure as bench
from skblab.bench.plan import Row
from skblab.lab.guest.chosen import make_spec
from skblab.lab.kernel import Kernel
from skblab.lab.labroot import LabRoot
from skblab.machine.guest import Guest
from skblab.machine.transport import Transport
from skblab.testbeds.asked import Stream, Traffic
from skblab.testbeds.base import WARM_UP
from skblab.testbeds.netns import Netns
from skblab.testbeds.sending import Sending

pytestmark = [pytest.mark.guest, pytest.mark.slow]

PACKETS = 5_000
# Instructions per packet of Linux 6.12 with our series, stamps off. One that the generator shares
# with who receives it costs 4 530.
PATH = 2_661
SHARE = 0.01
STREAM = Stream(family=4, frame=64, flows=1)


@pytest.fixture
def transport(stock: Kernel, lab: LabRoot) -> Iterator[Transport]:
    with Guest.boot(make_spec(exact=True), stock, lab) as guest:
        yield guest.transport
        assert guest.console.warnings() == []


def run(transport: Transport, script: str) -> list[str]:
    return transport.script(script, seconds=600).check("a script").stdout.splitlines()


def of_bench(transport: Transport) -> float:
    row = Row("off", "stamps off", "stock", trace=0, parts=("tester", "forward"))
    head = bench.head(0, PACKETS, families="4", repeat="1", out="/tmp")
    lines = run(transport, "\n".join([*head, f"run {shlex.join(row.words())}"]))
    parsed = [bench.Line.parse(line) for line in lines]
    tester, forward = (line.trial(0).per_packet for line in parsed if not line.aside)
    return forward - tester


def of_sweep(transport: Transport) -> float:
    testbed = Netns(transport, cpus=1)
    testbed.prepare(Traffic())
    # With GRO veth has NAPI, which the benchmark's router is without.
    run(transport, "for port in r0 r1; do ip netns exec router ethtool -K $port gro off; done")

    def counted(*, tester: bool) -> float:
        testbed.offer(Sending(STREAM, WARM_UP, tester=tester))
        offered = testbed.offer(Sending(STREAM, PACKETS, tester=tester))
        assert offered.received == PACKETS
        return offered.microseconds * 1000 / PACKETS

    return counted(tester=False) - counted(tester=True)


def test_all_have_the_same_figure(transport: Transport) -> None:
    measures: tuple[Callable[[Transport], float], ...] = (of_bench, of_sweep)
    for measure in measures:
        assert measure(transport) == pytest.approx(PATH, rel=SHARE), measure.__name__
        run(transport, "ip -all netns delete")
