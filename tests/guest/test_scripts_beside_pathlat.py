# SPDX-License-Identifier: GPL-2.0-or-later
"""Scripts beside pathlat where packets pass few points, or share their data with copies.

The loads of `skblab probe verify` do neither: here they go over a bridge, and to a multicast group
of which most members have no room.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from skblab.lab.guest.chosen import make_spec
from skblab.lab.kernel import Kernel
from skblab.lab.labroot import Bind, LabRoot
from skblab.lab.reporter import Reporter
from skblab.machine.guest import Guest
from skblab.probe.backends import attached
from skblab.probe.request import BPF, Request
from skblab.probe.targets import Target
from skblab.testbeds import traffic
from skblab_analysis.base.checked import parse
from skblab_analysis.formats.pathlat import PathlatDocument
from skblab_analysis.formats.scripts import ScriptName, ScriptsDocument

pytestmark = [pytest.mark.guest, pytest.mark.slow]

PACKETS = 211
SECONDS = 60
# The namespace between source and target has no address: its bridge is all that joins them.
BRIDGED = """
set -eu
for name in source bridge target; do
	ip netns add "$name"
	ip netns exec "$name" sysctl -q -w net.ipv6.conf.default.disable_ipv6=1
	ip -n "$name" link set lo up
done
ip -n bridge link add br0 up type bridge
join() { # namespace device address MAC neighbour's-address neighbour's-MAC
	ip link add "$2" netns "$1" address "$4" type veth peer name "to-$1" netns bridge
	ip -n bridge link set "to-$1" master br0 up
	ip -n "$1" addr add "$3/24" dev "$2"
	ip -n "$1" link set "$2" up
	ip -n "$1" neighbour replace "$5" lladdr "$6" nud permanent dev "$2"
}
join source s0 198.18.1.1 02:00:00:00:00:01 198.18.1.2 02:00:00:00:00:02
join target t0 198.18.1.2 02:00:00:00:00:02 198.18.1.1 02:00:00:00:00:01
sysctl -q -w net.core.rmem_max=268435456
# Reports of members come a second later or when they leave: of two probes one may have ended then.
ip netns exec target iptables -A OUTPUT -p igmp -j DROP
"""
# One member of the group reads, between two that do not and soon have no room.
MEMBERS = """
import socket, sys
GROUP = socket.inet_aton("239.1.1.1") + socket.inet_aton("198.18.1.2")
def member(room):
    made = socket.socket(type=socket.SOCK_DGRAM)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, room)
    made.bind(("", 5001))
    made.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, GROUP)
    return made
first, reader, last = member(1), member(1 << 24), member(1)
reader.settimeout(30)
sys.stderr.write("ready\\n")
sys.stderr.flush()
for _ in range(int(sys.argv[1])):
    reader.recv(64)
# What they had room for is not left to whoever frees their sockets, some time later.
for deaf in (first, last):
    deaf.setblocking(False)
    try:
        while deaf.recv(64):
            pass
    except BlockingIOError:
        pass
"""
SENDER = """
import socket, sys, time
sender = socket.socket(type=socket.SOCK_DGRAM)
sender.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton("198.18.1.1"))
sender.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_LOOP, 0)
for _ in range(int(sys.argv[1])):
    sender.sendto(bytes(64), ("239.1.1.1", 5001))
    time.sleep(0.002)
"""


@dataclass
class Bed:
    """A guest with a bridge."""

    target: Target
    lab: LabRoot

    def watched(
        self, tool: str, path: ScriptName, receiver: list[str], sender: list[str]
    ) -> tuple[PathlatDocument, ScriptsDocument]:
        """Return what pathlat and the scripts of a tool saw of the same packets on a path."""
        with contextlib.ExitStack() as stack:
            probes = [
                stack.enter_context(
                    attached(
                        *(backend, self.target, Request(source=source, path=path)),
                        *(self.lab, Reporter(quiet=True)),
                    )
                )
                # bpftrace cannot hook the polls of a kernel of ours, and need not.
                for backend, source in ((BPF, "hooks"), (tool, "auto"))
            ]
            sent, received = traffic.exchange(self.target.transport, receiver, sender, SECONDS)
            sent.check("sending")
            received.check("receiving")
            ours, theirs = (probe.end() for probe in probes)
        return (
            parse(PathlatDocument, ours, "the probe's document"),
            parse(ScriptsDocument, theirs, "the scripts' document"),
        )

    def multicast(self, tool: str) -> tuple[PathlatDocument, ScriptsDocument]:
        """The same of packets that the group receives."""
        members, sender = (
            ["ip", "netns", "exec", name, "python3", "-c", text, str(PACKETS)]
            for name, text in (("target", MEMBERS), ("source", SENDER))
        )
        return self.watched(tool, "receive", members, sender)


@pytest.fixture(scope="module", params=["ours", "plain"])
def bed(
    request: pytest.FixtureRequest, lab: LabRoot, stock: Kernel, unpatched: Kernel, programs: Path
) -> Iterator[Bed]:
    kernel = stock if request.param == "ours" else unpatched
    with Guest.boot(make_spec(), kernel, lab, shares=[Bind(programs, "tools")]) as guest:
        guest.transport.script(BRIDGED).check("setting up the bridge")
        program = f"{traffic.PROGRAMS}/pathlat"
        target = Target("guest", guest.transport, program, kernel.release, kernel, guest)
        yield Bed(target, lab)


every_tool = pytest.mark.parametrize("tool", ["bpftrace", "stap"])


@every_tool
def test_over_a_bridge(bed: Bed, tool: str) -> None:
    receiver, sender = traffic.udp(
        *("target", "198.18.1.2:5001"), count=PACKETS, rate=1000, size=64, seconds=SECONDS
    )
    pathlat, scripts = bed.watched(tool, "forward", receiver, sender)
    forward = scripts.scripts[0]
    layers = {layer.to_point: layer.count for layer in forward.layers}
    # What the bridge has sent comes in once more, for the target, with all that IP has to do.
    into_target = dict.fromkeys(("ip", "route"), PACKETS)
    over_bridge = dict.fromkeys(("queue", "xmit", "done"), PACKETS)
    assert layers == {"stack": 2 * PACKETS, **into_target, **over_bridge}
    assert forward.path_time is not None and forward.hooked is not None
    assert forward.path_time.count == pathlat.path("forward").ends.transmitted == PACKETS
    assert forward.hooked.begun == 2 * PACKETS


@every_tool
def test_a_dropped_copy_is_not_the_packet(bed: Bed, tool: str) -> None:
    pathlat, scripts = bed.multicast(tool)
    receive = scripts.scripts[0]
    assert pathlat.path("receive").ends.delivered == PACKETS
    assert receive.hooked is not None and receive.path_time is not None
    assert receive.path_time.count == PACKETS
    # The messages of the group itself, which nobody reads.
    assert receive.hooked.dropped < 10
