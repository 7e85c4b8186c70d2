# SPDX-License-Identifier: GPL-2.0-or-later
"""pktsink in a guest: every packet of pktgen is counted once, as what it is, and timed."""

from __future__ import annotations

import re
import shlex
import time
from collections.abc import Iterator

import pytest

from skblab.machine.guest import Guest
from skblab.machine.reading import Reading, started
from skblab.machine.transport import Transport
from skblab.testbeds import base
from skblab.testbeds.asked import Stream, Traffic
from skblab.testbeds.netns import Netns
from skblab.testbeds.sending import Sending
from skblab.testbeds.sink import Counting, Place, Sink, counting
from skblab.testbeds.traffic import PROGRAMS
from skblab_analysis.base.checked import parse
from skblab_analysis.base.errors import UsageError
from skblab_analysis.formats.pktsink import ArrivalsDocument, CountsDocument
from waiting import PATIENCE, until

pytestmark = [pytest.mark.guest, pytest.mark.slow]

PROGRAM = f"{PROGRAMS}/pktsink"
PACKETS = 2003
STREAM = Stream(family=4, frame=128, flows=3)
S0 = Place("s0", "sink")
G0 = Place("g0", "generator")
ATTACHED = "bpftool prog show | grep -cE 'name on_(arrival|departure)' || true"


@pytest.fixture(scope="module")
def testbed(guest: Guest) -> Netns:
    made = Netns(guest.transport, guest.spec.cpus)
    made.prepare(Traffic())
    return made


def sh(transport: Transport, text: str) -> str:
    return transport.script(text).check("a script").stdout.strip()


def send(transport: Transport, *words: str) -> None:
    """Send as netns.sh does, but through what is attached to g0, and to whichever address."""
    own = "device=g0 mac=02:00:00:00:00:02 size=124 xmit=queue_xmit"
    sh(transport, f"{base.functions('generator')}\ngenerate {own} {shlex.join(words)}")


def settled(sink: Counting, held: float = 0) -> ArrivalsDocument:
    """Return what came of all packets, also of those that the router holds for so many seconds."""
    time.sleep(held + 1)
    return sink.end()


def counted(
    testbed: Netns, sink: Sink, stream: Stream = STREAM, *, rate: int = 0, held: float = 0
) -> ArrivalsDocument:
    """Send packets through the router, and return what came of them."""
    with counting(testbed.transport, PROGRAM, sink) as attached:
        testbed.offer(Sending(stream, PACKETS, rate=rate))
        found = settled(attached, held)
    assert sh(testbed.transport, ATTACHED) == "0"
    return found


@pytest.fixture
def queue(testbed: Netns) -> Iterator[str]:
    """What gives the device behind the router a queue, which goes with the test."""
    yield "tc -n router qdisc replace dev r1 root netem limit 100000"
    sh(testbed.transport, "tc -n router qdisc del dev r1 root")


@pytest.mark.parametrize("family", [4, 6])
def test_every_packet_is_counted_once(testbed: Netns, family: int) -> None:
    stream = Stream.model_validate({"family": family, "frame": 128, "flows": 3})
    with counting(testbed.transport, PROGRAM, Sink(S0, passes=True)) as attached:
        offered = testbed.offer(Sending(stream, PACKETS))
        found = settled(attached)
    packets = found.packets
    # It lets them go on: the filter behind it counts them too.
    assert PACKETS <= offered.received <= PACKETS + packets.foreign
    assert packets.distinct == packets.received == packets.highest == PACKETS
    assert (packets.lost, packets.duplicates, packets.reordered, packets.too_old) == (0, 0, 0, 0)
    assert found.gaps.count == 0
    assert found.latency.count == found.stamps.pktgen == PACKETS
    assert found.stamps.resolution_ns == 1000
    assert found.inter_arrival.count == found.jitter.count == PACKETS - 1
    assert list(found.doubts()) == []


def behind(testbed: Netns) -> int:
    """Return what the filter behind pktsink has dropped until now."""
    shown = sh(testbed.transport, "tc -n sink -s -j filter show dev s0 ingress")
    [packets] = re.findall(r'"stats":\{"bytes":\d+,"packets":(\d+),', shown)
    return int(packets)


def test_it_is_where_packets_end(testbed: Netns) -> None:
    before = behind(testbed)
    with counting(testbed.transport, PROGRAM, Sink(S0)) as attached:
        offered = testbed.offer(Sending(STREAM, PACKETS))
        sh(
            testbed.transport,
            "for n in 1 2 3; do ip netns exec router bash -c 'echo >/dev/udp/198.19.0.2/9'; done",
        )
        found = settled(attached)
    assert found.packets.distinct == PACKETS
    # What is not the generator's goes on, to the filter behind.
    assert found.packets.foreign >= 3
    assert offered.received >= PACKETS
    assert 3 <= behind(testbed) - before < PACKETS


@pytest.mark.parametrize("address", ["198.19.0.2", "[2001:db8:0:2::2]"])
def test_packets_of_our_own_sender_are_read(testbed: Netns, address: str) -> None:
    """Its header is in the place of pktgen's; the smallest frame of IPv6 holds it, too."""
    with counting(testbed.transport, PROGRAM, Sink(S0)) as attached:
        call = ["ip", "netns", "exec", "router", f"{PROGRAMS}/skblab-traffic", "send", "--to"]
        words = [f"{address}:5000", "--count", "500", "--rate", "2000", "--flows", "3"]
        testbed.transport.run([*call, *words]).check("skblab-traffic")
        found = settled(attached)
    packets = found.packets
    assert packets.distinct == packets.highest == found.stamps.sender == 500
    assert (packets.lost, packets.duplicates, packets.reordered) == (0, 0, 0)
    assert found.stamps.resolution_ns == 1
    # By one clock: it cannot arrive before it was sent, nor a second later.
    assert found.latency.min is not None and found.latency.max is not None
    assert 0 < found.latency.min <= found.latency.max < 1e9


def test_packets_received_on_two_cpus_are_one_stream(testbed: Netns) -> None:
    cpus = "ip netns exec sink sh -c 'echo {} >/sys/class/net/s0/queues/rx-0/rps_cpus'"
    sh(testbed.transport, cpus.format(3))
    try:
        stream = Stream(family=4, frame=128, flows=32)
        packets = counted(testbed, Sink(S0), stream, rate=4000).packets
    finally:
        sh(testbed.transport, cpus.format(0))
    assert packets.distinct == packets.received == PACKETS
    assert packets.lost == 0


def tallied(testbed: Netns, streams: int, stream: Stream, *words: str) -> CountsDocument:
    """Send as many streams, one after the other, and return what each CPU counted."""
    argv = [PROGRAM, *Sink(S0).options(), *words]
    with started(testbed.transport, argv, "pktsink was not attached") as running:
        reading = Reading(running, lambda text: None, "pktsink")
        for _ in range(streams):
            testbed.offer(Sending(stream, PACKETS, rate=4000))
        time.sleep(1)
        return parse(CountsDocument, reading.end(), "the document of pktsink")


@pytest.mark.parametrize("level", ["counters", "throughput"])
def test_each_cpu_counts_by_itself(testbed: Netns, level: str) -> None:
    cpus = "ip netns exec sink sh -c 'echo {} >/sys/class/net/s0/queues/rx-0/rps_cpus'"
    sh(testbed.transport, cpus.format(3))
    try:
        stream = Stream(family=4, frame=128, flows=32)
        found = tallied(testbed, 1, stream, "--level", level)
    finally:
        sh(testbed.transport, cpus.format(0))
    packets = found.packets
    assert [on.cpu for on in found.cpus if on.packets.received] == [0, 1]
    assert (packets.received, packets.highest, packets.lost_at_least) == (PACKETS, PACKETS, 0)
    # Without checksum.
    assert packets.bytes == PACKETS * 124
    assert (packets.earlier, found.restarts) == (0, 0)
    if level == "throughput":
        rate = found.packets_per_second
        assert rate is not None and rate < 5000
    else:
        assert found.throughput is None


def test_the_last_transmission_counts_where_that_is_asked_for(testbed: Netns) -> None:
    anew = tallied(testbed, 3, STREAM, "--level", "throughput", "--restart").packets
    assert (anew.received, anew.earlier, anew.highest) == (PACKETS, 2 * PACKETS, PACKETS)
    both = tallied(testbed, 2, STREAM, "--level", "counters").packets
    assert (both.received, both.earlier, both.highest) == (2 * PACKETS, 0, PACKETS)


def test_duplicates(testbed: Netns, queue: str) -> None:
    sh(testbed.transport, f"{queue} duplicate 100%")
    found = counted(testbed, Sink(S0))
    packets = found.packets
    assert (packets.distinct, packets.duplicates) == (PACKETS, PACKETS)
    assert packets.lost == packets.reordered == 0
    assert found.latency.count == PACKETS


def test_reordered_packets(testbed: Netns, queue: str) -> None:
    # Every fifth goes at once, and all others when all of these have gone.
    sh(testbed.transport, f"{queue} delay 5s reorder 100% gap 5")
    found = counted(testbed, Sink(S0), held=5)
    packets = found.packets
    assert (packets.distinct, packets.lost, packets.duplicates) == (PACKETS, 0, 0)
    # 1, 2, 3, 4, 6 … 1999 come after 2000; 2001, 2002 and 2003 come last.
    assert (packets.reordered, packets.furthest_behind) == (1600, 1999)
    assert (found.gaps.count, found.gaps.packets, found.gaps.longest) == (400, 1600, 4)
    # What was left out at first came in the end.
    assert packets.last_lost == 0


def test_lost_packets(testbed: Netns) -> None:
    sh(
        testbed.transport,
        "ip netns exec router nft -f - <<'END'\n"
        "table ip loss {\n"
        "    chain some {\n"
        "        type filter hook forward priority 0\n"
        "        numgen inc mod 5 0 drop\n"
        "    }\n"
        "}\n"
        "END",
    )
    try:
        found = counted(testbed, Sink(S0))
    finally:
        sh(testbed.transport, "ip netns exec router nft delete table ip loss")
    # 1, 6 … 2001
    assert (found.packets.lost, found.packets.highest) == (401, PACKETS)
    assert (found.gaps.count, found.gaps.longest, found.gaps.not_recorded) == (401, 1, 0)
    assert [gap.sequence for gap in found.gaps.recorded[:3]] == [2, 7, 12]


def test_late_in_a_row(testbed: Netns, queue: str) -> None:
    sh(testbed.transport, f"{queue} delay 2ms")
    found = counted(testbed, Sink(S0, late_us=(1000.0, 60e6)))
    all_late, none = found.late
    (run,) = all_late.runs.recorded
    assert (all_late.packets_late, run.packets, run.sequence) == (PACKETS, PACKETS, 1)
    assert run.open_begin and run.open_end
    assert run.min_ns >= 2_000_000
    assert run.sum_ns == found.latency.sum
    assert none.packets_late == none.runs.count == 0


def test_a_part_of_the_packets_counts(testbed: Netns) -> None:
    found = counted(testbed, Sink(S0, first=501, last=1500), rate=1000)
    assert found.packets.distinct == PACKETS
    assert found.packets.outside == PACKETS - 1000
    assert found.latency.count == 1000


def test_stamps_hold_the_generators_wait_unless_made_anew(testbed: Netns) -> None:
    medians = []
    for stamper in (None, G0):
        with counting(testbed.transport, PROGRAM, Sink(S0, stamper)) as attached:
            send(testbed.transport, "count=403", f"gap={10**9 // 200}")
            found = settled(attached)
        assert found.packets.distinct == found.latency.count == 403
        assert list(found.doubts()) == []
        if stamper:
            assert found.stamps.stamper is not None
            assert found.stamps.stamper.stamped == found.stamps.egress == 403
            assert found.stamps.resolution_ns == 1
        medians.append(found.latency.histogram().quantile(0.5))
    waited, under_way = medians
    assert waited is not None and under_way is not None
    # One each 5 ms; what is under way waits for nothing but the processor.
    assert waited - under_way > 2_500_000


def test_packets_that_pass_by_the_stamper_are_noticed(testbed: Netns) -> None:
    found = counted(testbed, Sink(S0, G0))
    (doubt,) = found.doubts()
    assert doubt.startswith(f"{PACKETS} packets were not stamped anew at g0")


@pytest.mark.parametrize("offload", ["on", "off"])
def test_checksums_stay_right_when_stamped_anew(testbed: Netns, offload: str) -> None:
    transport = testbed.transport
    sh(transport, f"ip netns exec generator ethtool -K g0 tx {offload}")
    before = errors(transport)
    router = Place("r0", "router")
    try:
        with counting(transport, PROGRAM, Sink(router, G0, passes=True)) as attached:
            send(transport, "to=198.18.0.1", f"count={PACKETS}")
            found = settled(attached)
        assert found.stamps.egress == PACKETS
        with counting(transport, PROGRAM, Sink(router, G0, passes=True)) as attached:
            send(transport, "family=6", "to=2001:db8:0:1::1", f"count={PACKETS}")
            found = settled(attached)
        assert found.stamps.egress == PACKETS
    finally:
        sh(transport, "ip netns exec generator ethtool -K g0 tx on")
    after = errors(transport)
    # Nobody listens there, which is found out once the checksum is right.
    for protocol in ("Udp", "Udp6"):
        assert after[f"{protocol}NoPorts"] - before[f"{protocol}NoPorts"] == PACKETS
        assert after[f"{protocol}InCsumErrors"] == before[f"{protocol}InCsumErrors"]


def errors(transport: Transport) -> dict[str, int]:
    """Return counters of the router's UDP by name."""
    four = sh(transport, "ip netns exec router grep ^Udp: /proc/net/snmp").splitlines()
    six = sh(transport, "ip netns exec router grep ^Udp6 /proc/net/snmp6").splitlines()
    names, values = (line.split()[1:] for line in four)
    found = {f"Udp{name}": int(value) for name, value in zip(names, values, strict=True)}
    return found | {name: int(value) for name, value in map(str.split, six)}


def test_a_clock_that_is_set_is_noticed(testbed: Netns) -> None:
    with counting(testbed.transport, PROGRAM, Sink(S0)) as attached:
        sh(testbed.transport, "date -s @$(($(date +%s) + 100))")
        testbed.offer(Sending(STREAM, PACKETS))
        found = settled(attached)
    assert found.clock.steps == 1
    assert found.clock.stepped_ns == pytest.approx(100e9, abs=60e9)
    assert any("the clock was set" in doubt for doubt in found.doubts())
    # The two clocks are set together: what came behind it is right.
    assert found.latency.count == PACKETS
    assert found.latency.max < 50 * 10**9


def test_nothing_stays_attached_after_kill_9(testbed: Netns) -> None:
    options = Sink(S0, G0).options()
    running = testbed.transport.start([PROGRAM, *options])
    running.wait_for("ready", PATIENCE)
    assert sh(testbed.transport, ATTACHED) == "2"
    sh(testbed.transport, "kill -9 $(pgrep -x pktsink)")
    running.wait(PATIENCE)
    until("nothing is attached", PATIENCE, lambda: sh(testbed.transport, ATTACHED) == "0")


def test_it_ends_with_its_input(testbed: Netns) -> None:
    running = testbed.transport.start([PROGRAM, *Sink(S0).options()])
    running.wait_for("ready", PATIENCE)
    running.end_input()
    assert running.wait(PATIENCE).status == 0


def test_a_device_that_is_not_there_is_refused(testbed: Netns) -> None:
    with (
        pytest.raises(UsageError, match=r"^--device s7: no such device in namespace sink"),
        counting(testbed.transport, PROGRAM, Sink(Place("s7", "sink"))),
    ):
        raise AssertionError
