# SPDX-License-Identifier: GPL-2.0-or-later
"""A trial of the layer probe: packets at a rate, each timed in every layer of the router."""

from __future__ import annotations

from skblab.machine.device import Machine
from skblab.probe.attached import attached
from skblab.probe.request import Request
from skblab.probe.targets import Target, stamps_for
from skblab.sweep.experiment import Layers
from skblab.sweep.plan import Trial
from skblab.sweep.progress import Key
from skblab.testbeds import Sending, Testbed
from skblab_analysis.base.offered import offered_rate
from skblab_analysis.layers.rows import PATH, Probed

PROGRAM = "pathlat"
# Per cent of the packets of which it is not known what became of them, at most.
MAX_UNACCOUNTED = 0.1


def request(machine: Machine) -> Request:
    """Return what the probe is asked for: packets that came in by the first device, and its polls.

    With veth, where nobody else forwards: all packets that are. It hands them on without their
    first device's number, by which they would be told (skb_scrub_packet).
    """
    if machine.veth:
        return Request(path=PATH)
    return Request(path=PATH, device=machine.devices[0].name, netns=machine.netns)


def look(key: Key, trial: Trial, testbed: Testbed, asked: Layers) -> tuple[str, Probed]:
    """Send packets while the probe looks on; return its document, and what that is of."""
    assert trial.rate is not None
    asks = request(testbed.machine)
    release = testbed.transport.run(["uname", "-r"]).check("uname").stdout.strip()
    target = Target("the router", testbed.transport, testbed.program(PROGRAM), release)
    with (
        stamps_for(target, asks.source),
        attached(target, asks, lambda text: None) as reading,
    ):
        offered = testbed.offer(Sending.timed(trial.stream, trial.rate, asked.seconds))
        document = reading.end()
    return document, Probed(
        setting=key.setting,
        block=key.block,
        boot_knobs=key.boot_knobs,
        traffic=key.traffic,
        rate=trial.rate,
        tried=offered.tried,
        forwarded=offered.forwarded,
        offered_rate=offered_rate(offered.tried, asked.seconds, offered.microseconds / 1e6),
    )
