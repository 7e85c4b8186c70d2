# SPDX-License-Identifier: GPL-2.0-or-later
"""The receive experiment: UDP packets between two namespaces, timed layer by layer at both.

They are those of the probe's own loads, from the source to the router, which receives them.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from skblab.machine.guest import Guest
from skblab.probe import loads
from skblab.testbeds import traffic

# Fast enough to be over soon, slow enough that an emulated receiver keeps up: the picture is of
# the path of a packet, not of a queue that grows.
RATE_PPS = 10_000
PAYLOAD_BYTES = 64
ATTACH_SECONDS = 60
LOAD = loads.Load("udp")
STAMPS = """sysctl -q -w net.core.path_trace=1
[ "$(sysctl -n net.core.path_trace)" = 1 ]
"""


@dataclass(frozen=True)
class Documents:
    """What the three programs printed: JSON texts."""

    pathlat: str
    sender: str
    receiver: str


def measure(guest: Guest, packets: int, rate: int, scripts: Path) -> Documents:
    """Send `packets` at `rate` packets/s (0: unpaced); what was run is kept in `scripts`."""
    topology = loads.topology() + STAMPS
    seconds = max(60, int(10 * packets / (rate or RATE_PPS)))
    probe = [f"{traffic.PROGRAMS}/pathlat", "--seconds", str(2 * seconds)]
    receiver, sender = traffic.udp(
        *(LOAD.reader, f"{LOAD.address}:{loads.PORT}"),
        count=packets,
        rate=rate,
        size=PAYLOAD_BYTES,
        seconds=seconds,
    )
    _keep(scripts / "layers.sh", topology, [probe, receiver, sender])

    guest.transport.script(topology).check("setting up the namespaces")
    reading = guest.transport.start(probe)
    reading.wait_for("ready", ATTACH_SECONDS)
    sent, received = traffic.exchange(guest.transport, receiver, sender, seconds)
    reading.interrupt()
    timed = reading.wait(ATTACH_SECONDS).check("the probe")
    return Documents(timed.stdout, sent.stdout, received.stdout)


def _keep(path: Path, topology: str, commands: list[list[str]]) -> None:
    """Write down, as one script that runs by hand, what is sent to the guest in pieces."""
    probe, receiver, sender = (" ".join(command) for command in commands)
    path.write_text(
        f"#!/bin/sh\n{topology}\n"
        f"{probe} >/tmp/pathlat.json &\nprobe=$!\nsleep 5\n"
        f"{receiver} >/tmp/receiver.json &\nreceiver=$!\nsleep 1\n"
        f'{sender} >/tmp/sender.json\nwait "$receiver"\nkill -INT "$probe"\nwait "$probe"\n'
    )
