# SPDX-License-Identifier: GPL-2.0-or-later
"""Latency: packets at a rate, each timed from the generator to the sink.

Packets are stamped anew as they leave the generator's device: pktgen's own stamp is older than its
wait for the packet's turn. Those on their way are waited for before the sink ends.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Annotated

from pydantic import Field, model_validator

from skblab.sweep.measure.base import (
    TRIAL_SECONDS,
    AtRates,
    Attempt,
    EachOnce,
    Measure,
    Program,
    Sections,
)
from skblab.sweep.planned import Measurement
from skblab.testbeds import Kind, Sending
from skblab.testbeds.base import SHARED, sink
from skblab.testbeds.sink import Sink, counting
from skblab_analysis.base.words import quantity
from skblab_analysis.latency.rows import Arrivals, by_setting
from skblab_analysis.load import Run

PKTSINK = Program("pktsink", "tester")
# As many thresholds as pktsink takes, and as long a run, see probes/bpf/stream.h.
MOST_LATE = 4
MOST_RUN = 1 << 20
# Caches and queues fill at the beginning, and the generator ends on its own: a second at both ends
# of trials that are long enough does not count.
CUT, LONG = 1.0, 10.0


class Latency(AtRates):
    """One-way latency, loss and anomalies at given rates."""

    seconds: Annotated[float, Field(gt=0, le=86400, description="how long each trial lasts")] = 10.0
    late_us: Annotated[
        tuple[Annotated[float, Field(gt=0)], ...],
        Field(
            max_length=MOST_LATE,
            description="microseconds from which on a packet is late (RFC 8578: 250 and 750)",
        ),
        EachOnce,
    ] = (250.0, 750.0)
    run: Annotated[
        int, Field(ge=1, le=MOST_RUN, description="late packets in a row that are an anomaly")
    ] = 2
    cut_seconds: Annotated[
        float | None,
        Field(
            ge=0,
            le=3600,
            description=f"cut at both ends; {CUT:g} where `seconds` is {LONG:g} or more, else 0",
        ),
    ] = None

    @model_validator(mode="after")
    def _leaves_something(self) -> Latency:
        if 2 * (self.cut_seconds or 0) >= self.seconds:
            raise ValueError(
                f"cut_seconds = {self.cut_seconds:g} at both ends of {self.seconds:g} s: expected "
                "less than half"
            )
        return self

    def sink(self, measurement: Measurement) -> Sink:
        """Return what a measurement's packets are looked at by."""
        made = sink(tester=measurement.tester, late_us=self.late_us, run=self.run)
        cut = (
            (CUT if self.seconds >= LONG else 0.0) if self.cut_seconds is None else self.cut_seconds
        )
        return replace(made, begin=cut, end=self.seconds - cut) if cut else made

    def sending(self, measurement: Measurement) -> Sending:
        """Return what a measurement sends."""
        assert measurement.rate is not None
        return Sending.timed(
            measurement.stream,
            measurement.rate,
            self.seconds,
            tester=measurement.tester,
            by_queue=True,
        )


def watching(sink: Sink) -> str:
    """Return the command of a guest that looks at packets as they arrive."""
    return shlex.join([f"{SHARED}/{PKTSINK.name}", *sink.options()])


class LatencyMeasure(Measure):
    """The Measure."""

    name = "latency"
    section = Latency
    unit = "ns for half"
    narrows = True

    def programs(self, asked: Sections) -> Sequence[Program]:
        """Return what times packets."""
        return (PKTSINK,)

    def rates(self, asked: Sections) -> Sequence[int | None]:
        """Return the file's rates, in packets a second."""
        return asked[Latency].rates

    def seconds(self, asked: Sections, measurement: Measurement) -> float:
        """Return about how long a trial takes."""
        return asked[Latency].seconds + TRIAL_SECONDS

    def commands(
        self, asked: Sections, measurement: Measurement, kind: Kind, cpus: int
    ) -> Iterator[str]:
        """Yield the sink, and what is sent."""
        latency = asked[Latency]
        yield watching(latency.sink(measurement).at(kind))
        yield kind.offering(latency.sending(measurement), cpus)

    def measure(self, attempt: Attempt) -> Callable[[], None]:
        """Run a trial; SkblabError if it cannot be run."""
        latency, key = attempt.asked[Latency], attempt.key
        testbed, measurement = attempt.testbed, attempt.measurement
        assert measurement.rate is not None
        program = testbed.program(PKTSINK.name)
        watched = latency.sink(measurement).at(testbed)
        with counting(testbed.tester, program, watched) as attached:
            offered = testbed.offer(latency.sending(measurement))
            document = attached.end()
        arrivals = Arrivals(
            setting=key.setting,
            part=attempt.part,
            block=key.block,
            boot_knobs=key.boot_knobs,
            traffic=key.traffic,
            rate=measurement.rate,
            tried=offered.tried,
            seconds=latency.seconds,
            took=offered.microseconds / 1e6,
            document=document,
        )
        return lambda: _record(attempt, arrivals)

    def by_block(self, run: Run) -> Iterable[Sequence[float]]:
        """Return the delays of each setting."""
        return by_setting(run.trials, run.of_trial)


LATENCY = LatencyMeasure()


def _record(attempt: Attempt, arrivals: Arrivals) -> None:
    attempt.folder.record(arrivals)
    median = arrivals.document.latency.histogram().quantile(0.5)
    attempt.best.add(attempt.key, median)
    attempt.reporter.say(
        f"block {arrivals.block + 1}, {arrivals.setting}, {arrivals.traffic}, {arrivals.rate}/s: "
        f"half within {quantity(median, 'ns')}, {arrivals.lost} of {arrivals.tried} packets lost"
    )
