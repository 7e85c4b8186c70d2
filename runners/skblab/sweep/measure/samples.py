# SPDX-License-Identifier: GPL-2.0-or-later
"""Samples: packets at a rate, and in which functions of the kernel the router's CPUs are found."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Self

from pydantic import Field, model_validator

from skblab.machine.collectors import Sampler, Tool, chosen, collecting
from skblab.machine.collectors.base import line
from skblab.sweep.measure.base import TRIAL_SECONDS, AtRates, Attempt, Measure, Sections
from skblab.sweep.measure.events import EventName
from skblab.sweep.planned import Measurement
from skblab.testbeds import Kind, Sending
from skblab_analysis.base.checked import measured_well
from skblab_analysis.base.offered import offered_rate
from skblab_analysis.samples.rows import CLOCK, Sampled

# Beside the packets: perf begins, and what it has written is read.
PERF_SECONDS = 5.0
# Of many CPUs, and on a slow one.
READING = 600.0
MOST_SAMPLES = 250_000


class Samples(AtRates):
    """Functions of the kernel that run at given rates, by samples of perf."""

    seconds: Annotated[float, Field(ge=0.1, le=600, description="how long each trial lasts")] = 10.0
    # No multiple of a timer's frequency: what it does would be in every sample or in none.
    frequency: Annotated[
        int, Field(ge=1, le=20_000, description="samples a second of each CPU")
    ] = 997
    event: EventName | None = Field(
        default=None,
        description="event of perf that is sampled; by default `cycles`, and where the processor "
        f"does not count them `{CLOCK}`",
    )

    @model_validator(mode="after")
    def _one_and_readable(self) -> Self:
        # A comma inside slashes is between the terms of one.
        if self.event and "," in "".join(self.event.split("/")[::2]):
            raise ValueError(f"event: {self.event!r} are several; expected one")
        if self.seconds * self.frequency > MOST_SAMPLES:
            raise ValueError(
                f"{self.frequency} samples a second for {self.seconds:g} s are more than can be "
                f"read, {MOST_SAMPLES} of each CPU; expected fewer of either"
            )
        return self


@dataclass
class SamplesMeasure(Measure):
    """The Measure: of the router alone."""

    name = "samples"
    section = Samples
    unit = ""
    calibrates = False
    # What samples on a machine, by the run and its boots; asked once.
    _chosen: dict[tuple[object, ...], Sampler] = field(default_factory=dict)

    def tools(self, asked: Sections) -> Sequence[Tool]:
        """Return the commands that have to be on the router."""
        return (_sampler(asked[Samples]).tool,)

    def rates(self, asked: Sections) -> Sequence[int | None]:
        """Return the file's rates, in packets a second."""
        return asked[Samples].rates

    def seconds(self, asked: Sections, measurement: Measurement) -> float:
        """Return about how long a trial takes."""
        return asked[Samples].seconds + TRIAL_SECONDS + PERF_SECONDS

    def commands(
        self, asked: Sections, measurement: Measurement, kind: Kind, cpus: int
    ) -> Iterator[str]:
        """Yield what samples, and what is sent meanwhile."""
        yield f"{line(_sampler(asked[Samples]))}  # on the router"
        yield kind.offering(_sending(asked[Samples], measurement), cpus)

    def measure(self, attempt: Attempt) -> Callable[[], None]:
        """Send packets while perf samples; SkblabError if it cannot."""
        asked, key, testbed = attempt.asked[Samples], attempt.key, attempt.testbed
        assert attempt.measurement.rate is not None
        there = (attempt.folder.path, key.block, key.boot_knobs)
        if there not in self._chosen:
            self._chosen[there] = chosen(asked.event, asked.frequency, testbed.transport)
        sampler = self._chosen[there]
        with collecting(sampler, testbed.transport, ending=READING) as found:
            offered = testbed.offer(_sending(asked, attempt.measurement))
        with measured_well("what was sampled"):
            sampled = Sampled(
                setting=key.setting,
                block=key.block,
                boot_knobs=key.boot_knobs,
                traffic=key.traffic,
                rate=attempt.measurement.rate,
                tried=offered.tried,
                forwarded=offered.forwarded,
                offered_rate=offered_rate(offered.tried, asked.seconds, offered.microseconds / 1e6),
                event=sampler.event,
                stacks=found.result,
            )
        return lambda: _record(attempt, sampled)


SAMPLES = SamplesMeasure()


def _sampler(samples: Samples) -> Sampler:
    """Return what samples, as far as that is known before."""
    return Sampler(samples.event or "cycles", samples.frequency)


def _sending(samples: Samples, measurement: Measurement) -> Sending:
    assert measurement.rate is not None
    return Sending.timed(measurement.stream, measurement.rate, samples.seconds)


def _record(attempt: Attempt, sampled: Sampled) -> None:
    attempt.folder.record(sampled)
    # Which function is to run less only a user knows: no setting is the best.
    samples = sum(stack.samples for stack in sampled.stacks)
    attempt.reporter.say(
        f"block {sampled.block + 1}, {sampled.setting}, {sampled.traffic}, {sampled.rate}/s: "
        f"{samples} samples of {sampled.event}, "
        f"{sampled.forwarded} of {sampled.tried} packets forwarded"
    )
