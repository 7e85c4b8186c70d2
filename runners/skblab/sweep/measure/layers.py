# SPDX-License-Identifier: GPL-2.0-or-later
"""Layers: packets at a rate, each timed in every layer of the router."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Sequence
from typing import Annotated

from pydantic import Field

from skblab.machine.device import Machine
from skblab.probe.attached import attached
from skblab.probe.request import HOOKS, Request
from skblab.probe.targets import Target
from skblab.sweep.measure.base import (
    TRIAL_SECONDS,
    AtRates,
    Attempt,
    Measure,
    Program,
    Sections,
)
from skblab.sweep.planned import Measurement
from skblab.testbeds import Kind, Sending
from skblab.testbeds.base import SHARED
from skblab_analysis.base.checked import measured_well
from skblab_analysis.base.offered import offered_rate
from skblab_analysis.layers.rows import PATH, Probed

PATHLAT = Program("pathlat", "router")


class Layers(AtRates):
    """The layer probe at given rates."""

    seconds: Annotated[float, Field(gt=0, le=3600, description="how long each trial lasts")] = 5.0


def request(machine: Machine) -> Request:
    """Return what the probe is asked for: packets that came in by the first device, and its polls.

    With veth, where nobody else forwards: all packets that are. It hands them on without their
    first device's number, by which they would be told (skb_scrub_packet). By hooks: the kernel's
    histograms have the packets of all devices.
    """
    if machine.veth:
        return Request(source=HOOKS, path=PATH)
    return Request(source=HOOKS, path=PATH, device=machine.devices[0].name, netns=machine.netns)


class LayersMeasure(Measure):
    """The Measure: of the router alone, for a tester has no layers."""

    name = "layers"
    section = Layers
    unit = "ns"
    calibrates = False

    def programs(self, asked: Sections) -> Sequence[Program]:
        """Return the probe."""
        return (PATHLAT,)

    def rates(self, asked: Sections) -> Sequence[int | None]:
        """Return the file's rates, in packets a second."""
        return asked[Layers].rates

    def seconds(self, asked: Sections, measurement: Measurement) -> float:
        """Return about how long a trial takes."""
        return asked[Layers].seconds + TRIAL_SECONDS

    def commands(
        self, asked: Sections, measurement: Measurement, kind: Kind, cpus: int
    ) -> Iterator[str]:
        """Yield the probe."""
        options = request(kind.machine(cpus)).options()
        yield shlex.join([f"{SHARED}/{PATHLAT.name}", *options])

    def measure(self, attempt: Attempt) -> Callable[[], None]:
        """Send packets while the probe looks on; SkblabError if it cannot."""
        seconds, key = attempt.asked[Layers].seconds, attempt.key
        testbed, measurement = attempt.testbed, attempt.measurement
        assert measurement.rate is not None
        asks = request(testbed.machine)
        release = testbed.transport.run(["uname", "-r"]).check("uname").stdout.strip()
        program = testbed.program(PATHLAT.name)
        target = Target("the router", testbed.transport, program, release)
        with attached(target, asks, lambda text: None) as reading:
            offered = testbed.offer(Sending.timed(measurement.stream, measurement.rate, seconds))
            document = reading.end()
        with measured_well("what was measured"):
            probed = Probed(
                setting=key.setting,
                block=key.block,
                boot_knobs=key.boot_knobs,
                traffic=key.traffic,
                rate=measurement.rate,
                tried=offered.tried,
                forwarded=offered.forwarded,
                offered_rate=offered_rate(offered.tried, seconds, offered.microseconds / 1e6),
            )
        return lambda: _record(attempt, document, probed)


LAYERS = LayersMeasure()


def _record(attempt: Attempt, document: str, probed: Probed) -> None:
    setting = attempt.key.setting
    attempt.folder.record_probe(document, of=probed)
    # Which layer is to be better only a user knows: no setting is the best.
    attempt.reporter.say(
        f"block {probed.block + 1}, {setting}, {probed.traffic}, {probed.rate}/s: layers of "
        f"{probed.forwarded} packets"
    )
