# SPDX-License-Identifier: GPL-2.0-or-later
"""Events: packets at a rate, and what perf and Intel's PCM count of the router meanwhile.

Each collector has packets of its own, for the time of the trial: two of them would want the same
counters of the processor. What a router's processor cannot count is a gap with its reason.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Self

from pydantic import Field, StringConstraints, model_validator

from skblab.machine.collectors import GROUPS, PCM_TOOLS, Collector, Pcm, Perf, Tool, collecting
from skblab.machine.collectors.base import line
from skblab.machine.collectors.pcm import Name as PcmName
from skblab.machine.collectors.perf import SLOTS, TOP_DOWN
from skblab.machine.transport import Transport
from skblab.sweep.measure.base import TRIAL_SECONDS, AtRates, Attempt, Measure, Sections
from skblab.sweep.planned import Measurement
from skblab.testbeds import Kind, Sending
from skblab_analysis.base.checked import measured_well
from skblab_analysis.base.offered import offered_rate
from skblab_analysis.base.words import counted
from skblab_analysis.events.rows import Collected, Event, Window

# As perf names events: also of the uncore, such as uncore_imc/cas_count_read/.
EventName = Annotated[
    str, StringConstraints(pattern=r"^[A-Za-z0-9_.:/=,@~+-]+$", min_length=1, max_length=120)
]
# Beside a window's packets: a collector starts and ends.
COLLECTOR_SECONDS = 1.0
MOST_GROUPS = 20


class Events(AtRates):
    """Events of the processor and the kernel at given rates, per packet."""

    seconds: Annotated[
        float, Field(ge=0.1, le=3600, description="how long each collector counts in each trial")
    ] = 10.0
    perf: Annotated[
        tuple[str | Annotated[tuple[EventName, ...], Field(min_length=1, max_length=16)], ...],
        Field(
            max_length=MOST_GROUPS,
            description="groups of events that perf counts, each by itself: a name of ours "
            f"({', '.join(GROUPS)}), or a list of perf's own names",
        ),
    ] = tuple(GROUPS)
    pcm: Annotated[
        tuple[PcmName, ...], Field(description=f"tools of Intel's PCM: {', '.join(PCM_TOOLS)}")
    ] = ()

    @model_validator(mode="after")
    def _known(self) -> Self:
        for group in self.perf:
            if isinstance(group, str) and group not in GROUPS:
                raise ValueError(
                    f"perf: there is no group {group!r}; expected {', '.join(GROUPS)}, or a list "
                    "of events in brackets"
                )
        names = [collector.name for collector in self.collectors]
        if len(set(names)) < len(names):
            raise ValueError("perf or pcm: one is there twice")
        for group in self.perf:
            if not isinstance(group, str) and len(set(group)) < len(group):
                raise ValueError("perf: an event is twice in a group")
            if not isinstance(group, str) and {*TOP_DOWN} & {*group} and group[0] != SLOTS:
                raise ValueError(f"perf: a group with {TOP_DOWN[0]} has to begin with {SLOTS}")
        if not (self.perf or self.pcm):
            raise ValueError("nothing counts: write groups of perf or tools of pcm")
        return self

    @property
    def collectors(self) -> tuple[Collector, ...]:
        """What counts, one after the other."""
        return (
            *(
                Perf(group, GROUPS[group]) if isinstance(group, str) else Perf(_named(group), group)
                for group in self.perf
            ),
            *(Pcm(name) for name in self.pcm),
        )


def _named(events: Sequence[str]) -> str:
    """Return what a group of the user's own is called."""
    return ", ".join(events)


@dataclass
class EventsMeasure(Measure):
    """The Measure: of the router alone."""

    name = "events"
    section = Events
    unit = ""
    calibrates = False
    # What machines can count, by the run and its boots; asked once.
    _able: dict[tuple[object, ...], tuple[_Able, ...]] = field(default_factory=dict)

    def tools(self, asked: Sections) -> Sequence[Tool]:
        """Return the commands that have to be on the router."""
        tools = [collector.tool for collector in asked[Events].collectors]
        return list(dict.fromkeys(tools))

    def rates(self, asked: Sections) -> Sequence[int | None]:
        """Return the file's rates, in packets a second."""
        return asked[Events].rates

    def seconds(self, asked: Sections, measurement: Measurement) -> float:
        """Return about how long a trial takes."""
        events = asked[Events]
        return len(events.collectors) * (events.seconds + TRIAL_SECONDS + COLLECTOR_SECONDS)

    def commands(
        self, asked: Sections, measurement: Measurement, kind: Kind, cpus: int
    ) -> Iterator[str]:
        """Yield what is asked of each collector, then it, and what is sent meanwhile."""
        for collector in asked[Events].collectors:
            yield from (f"{ask}  # on the router, once a boot" for ask in collector.asks())
            yield f"{line(collector)}  # on the router"
            yield kind.offering(_sending(asked[Events], measurement), cpus)

    def measure(self, attempt: Attempt) -> Callable[[], None]:
        """Send packets for each collector; SkblabError if one of them cannot count after all."""
        asked, key, testbed = attempt.asked[Events], attempt.key, attempt.testbed
        assert attempt.measurement.rate is not None
        there = (attempt.folder.path, key.block, key.boot_knobs)
        if there not in self._able:
            self._able[there] = tuple(_able(asked, testbed.transport))
        windows, rates = [], []
        for able in self._able[there]:
            if able.collector is None:
                windows.append(Window(0, 0, able.gaps))
                continue
            with collecting(able.collector, testbed.transport) as counts:
                offered = testbed.offer(_sending(asked, attempt.measurement))
            windows.append(Window(offered.tried, offered.forwarded, (*counts.result, *able.gaps)))
            took = offered.microseconds / 1e6
            rates.append(offered_rate(offered.tried, asked.seconds, took))
        with measured_well("what was counted"):
            collected = Collected(
                setting=key.setting,
                block=key.block,
                boot_knobs=key.boot_knobs,
                traffic=key.traffic,
                rate=attempt.measurement.rate,
                offered_rate=min(rates, default=0.0),
                windows=tuple(windows),
            )
        return lambda: _record(attempt, collected)


EVENTS = EventsMeasure()


@dataclass(frozen=True)
class _Able:
    """A collector as a machine can have it, and what it cannot count there."""

    collector: Collector | None
    gaps: tuple[Event, ...]


def _able(asked: Events, router: Transport) -> Iterator[_Able]:
    for collector in asked.collectors:
        yield _Able(*collector.able(router))


def _sending(events: Events, measurement: Measurement) -> Sending:
    assert measurement.rate is not None
    return Sending.timed(measurement.stream, measurement.rate, events.seconds)


def _record(attempt: Attempt, collected: Collected) -> None:
    attempt.folder.record(collected)
    # Which event is to be rarer only a user knows: no setting is the best.
    counting = sum(window.forwarded > 0 for window in collected.windows)
    attempt.reporter.say(
        f"block {collected.block + 1}, {collected.setting}, {collected.traffic}, "
        f"{collected.rate}/s: {counted(counting, 'collector')} counted, "
        f"{collected.forwarded} of {collected.tried} packets forwarded"
    )
