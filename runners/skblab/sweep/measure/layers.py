# SPDX-License-Identifier: GPL-2.0-or-later
"""Layers: packets at a rate, each timed in every layer of the router.

Where late packets are asked for, the probe records them, and the tester times the same packets: so
each is known by its number on both sides.
"""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Annotated

from pydantic import Field, model_validator

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
from skblab.sweep.measure.latency import MOST_RUN, PKTSINK, watching
from skblab.sweep.planned import Measurement
from skblab.testbeds import Kind, Sending
from skblab.testbeds.base import SHARED, sink
from skblab.testbeds.sink import Sink, counting
from skblab_analysis.base.checked import measured_well
from skblab_analysis.base.offered import offered_rate
from skblab_analysis.layers.rows import PATH, Probed

PATHLAT = Program("pathlat", "router")
# Late packets that the probe records in a trial, however many in a second: the tester has all.
LATE_MAX, LATE_RATE = 2000, 0


class Layers(AtRates):
    """The layer probe at given rates."""

    seconds: Annotated[float, Field(gt=0, le=3600, description="how long each trial lasts")] = 5.0
    late_us: Annotated[
        float | None,
        Field(gt=0, description="one time; why packets were late by it"),
    ] = None
    late_run: Annotated[
        int,
        Field(
            ge=1,
            le=MOST_RUN,
            description="in a row, only of the one of this number and later",
        ),
    ] = 1

    @model_validator(mode="after")
    def _late_at_all(self) -> Layers:
        if self.late_us is None and self.late_run > 1:
            raise ValueError("late_run without late_us: expected `late_us` with it")
        return self

    def sink(self, measurement: Measurement) -> Sink | None:
        """Return what the tester looks at packets by; None if late ones are not asked for."""
        if self.late_us is None:
            return None
        return sink(tester=measurement.tester, late_us=(self.late_us,), run=1)

    def request(self, machine: Machine) -> Request:
        """Return what the probe is asked for."""
        asked = request(machine)
        if self.late_us is None:
            return asked
        return replace(
            asked,
            late=f"{self.late_us:.15g}us",
            run=self.late_run,
            late_max=LATE_MAX,
            late_rate=LATE_RATE,
        )

    def sending(self, measurement: Measurement) -> Sending:
        """Return what a measurement sends; with stamps, if the tester is to time packets."""
        assert measurement.rate is not None
        return Sending.timed(
            *(measurement.stream, measurement.rate, self.seconds),
            by_queue=self.late_us is not None,
        )


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
        """Return the probe, and what times packets at the tester."""
        return (PATHLAT, PKTSINK) if asked[Layers].late_us is not None else (PATHLAT,)

    def rates(self, asked: Sections) -> Sequence[int | None]:
        """Return the file's rates, in packets a second."""
        return asked[Layers].rates

    def seconds(self, asked: Sections, measurement: Measurement) -> float:
        """Return about how long a trial takes."""
        return asked[Layers].seconds + TRIAL_SECONDS

    def commands(
        self, asked: Sections, measurement: Measurement, kind: Kind, cpus: int
    ) -> Iterator[str]:
        """Yield the probe, the sink if there is one, and what is sent."""
        layers = asked[Layers]
        yield shlex.join(
            [f"{SHARED}/{PATHLAT.name}", *layers.request(kind.machine(cpus)).options()]
        )
        if (watched := layers.sink(measurement)) is not None:
            yield watching(watched.at(kind))
        yield kind.offering(layers.sending(measurement), cpus)

    def measure(self, attempt: Attempt) -> Callable[[], None]:
        """Send packets while the probe looks on; SkblabError if it cannot."""
        layers, key = attempt.asked[Layers], attempt.key
        testbed, measurement = attempt.testbed, attempt.measurement
        assert measurement.rate is not None
        asks = layers.request(testbed.machine)
        release = testbed.transport.run(["uname", "-r"]).check("uname").stdout.strip()
        program = testbed.program(PATHLAT.name)
        target = Target("the router", testbed.transport, program, release)
        arrivals = None
        with contextlib.ExitStack() as stack:
            if (watched := layers.sink(measurement)) is not None:
                sees = counting(testbed.tester, testbed.program(PKTSINK.name), watched.at(testbed))
                counts = stack.enter_context(sees)
            reading = stack.enter_context(attached(target, asks, lambda text: None))
            offered = testbed.offer(layers.sending(measurement))
            document = reading.end()
            if watched is not None:
                arrivals = counts.end()
        with measured_well("what was measured"):
            probed = Probed(
                setting=key.setting,
                block=key.block,
                boot_knobs=key.boot_knobs,
                traffic=key.traffic,
                rate=measurement.rate,
                tried=offered.tried,
                forwarded=offered.forwarded,
                offered_rate=offered_rate(
                    offered.tried, layers.seconds, offered.microseconds / 1e6
                ),
                arrivals=arrivals,
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
