# SPDX-License-Identifier: GPL-2.0-or-later
"""CPU time: packets at a rate, and what the device under test spends on them.

Its CPUs' times are read from /proc/stat right before and right after packets are offered, and if
that is asked for, also again and again in the trial.
"""

from __future__ import annotations

import contextlib
import math
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Annotated

from pydantic import Field, model_validator

from skblab.machine.transport import Transport, TransportError
from skblab.sweep.measure.base import TRIAL_SECONDS, AtRates, Attempt, Measure, Sections
from skblab.sweep.planned import Measurement
from skblab.testbeds import Kind, Sending
from skblab_analysis.base.errors import SkblabError, understood
from skblab_analysis.base.offered import offered_rate
from skblab_analysis.base.whole import MOST, MOST_COUNTED, whole
from skblab_analysis.base.words import quantity
from skblab_analysis.cpu.rows import (
    TICK_NS,
    Interval,
    Times,
    TimesRow,
    Worked,
    by_setting,
    trials,
)
from skblab_analysis.load import Run

READING = ("cat", "/proc/stat")
# What reads them again and again: it ends by itself, whatever becomes of us.
WATCHING = """trap 'kill $!; exit' INT TERM
n=$1
while [ "$n" -gt 0 ]; do
	grep -h '^cpu[0-9]\\|^[0-9]' /proc/uptime /proc/stat
	n=$((n - 1))
	[ "$n" -eq 0 ] || {
		sleep "$2" &
		wait "$!"
	}
done"""
# The times are in hundredths of a second.
LEAST_EVERY = 0.1
MOST_READINGS = 1000
CENTISECOND_NS = 10_000_000
# For a machine that is slow, beyond the time that all readings take.
WATCH_SECONDS = 120
# Columns of a CPU's line (show_stat); guests' time is in user's and nice's.
COLUMNS = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")
# These two may fall: the kernel reckons them from when the CPU went idle.
MAY_FALL = frozenset(("idle", "iowait"))
_LINE = re.compile(r"cpu(\d+) (.+)")
_UPTIME = re.compile(r"(\d+)\.(\d\d) \d+\.\d\d")

# Ticks by the number of a CPU, in the order of COLUMNS.
Stat = Mapping[int, Sequence[int]]


class Cpu(AtRates):
    """CPU time per packet at given rates."""

    seconds: Annotated[float, Field(ge=1, le=3600, description="how long each trial lasts")] = 10.0
    every_seconds: Annotated[
        float | None,
        Field(
            ge=LEAST_EVERY,
            le=3600,
            description="read the CPUs in a trial as well, so often, for a picture by time",
        ),
    ] = None

    @model_validator(mode="after")
    def _bounded(self) -> Cpu:
        if self.every_seconds is not None and not (
            self.every_seconds <= self.seconds <= MOST_READINGS * self.every_seconds
        ):
            raise ValueError(
                f"every_seconds = {self.every_seconds:g} with seconds = {self.seconds:g}: expected "
                f"from 1 to {MOST_READINGS} parts of a trial"
            )
        return self

    @property
    def readings(self) -> int:
        """How often the CPUs are read in a trial, with the one before it; 0: not in it."""
        return 0 if self.every_seconds is None else 1 + math.ceil(self.seconds / self.every_seconds)


def parse(printed: str) -> Stat:
    """Return each CPU's ticks in what /proc/stat says; SkblabError if it has none."""
    with understood("/proc/stat", printed):
        lines = filter(None, map(_LINE.fullmatch, map(str.strip, printed.splitlines())))
        found = {
            whole(line[1]): [whole(word, MOST) for word in line[2].split()[: len(COLUMNS)]]
            for line in lines
        }
        if not found or any(len(ticks) != len(COLUMNS) for ticks in found.values()):
            raise ValueError(f"expected a line for each CPU with {len(COLUMNS)} numbers")
    return found


def difference(before: Stat, after: Stat) -> tuple[Times, ...]:
    """Return what each CPU did between two readings; SkblabError if that is not known."""
    if before.keys() != after.keys():
        raise SkblabError("/proc/stat has other CPUs after the trial than before it")
    return tuple(_times(cpu, before[cpu], after[cpu]) for cpu in sorted(after))


def _times(cpu: int, before: Sequence[int], after: Sequence[int]) -> Times:
    ticks = {}
    for name, since, now in zip(COLUMNS, before, after, strict=True):
        if now < since and name not in MAY_FALL:
            raise SkblabError(
                f"/proc/stat: {name} of CPU {cpu} fell from {since} to {now} in the trial: what "
                "it counted is not known"
            )
        ticks[name] = TICK_NS * max(now - since, 0)
    return Times(
        cpu=cpu,
        user=ticks["user"] + ticks["nice"],
        system=ticks["system"],
        interrupt=ticks["irq"],
        softirq=ticks["softirq"],
        idle=ticks["idle"] + ticks["iowait"],
        steal=ticks["steal"],
    )


def intervals(printed: str) -> tuple[Interval, ...]:
    """Return what each CPU did between one reading and the next; SkblabError: that is not known."""
    readings: list[tuple[int, list[str]]] = []
    for line in printed.splitlines():
        if found := _UPTIME.fullmatch(line):
            hundredths = whole(found[1], MOST_COUNTED // 100) * 100 + whole(found[2])
            readings.append((hundredths * CENTISECOND_NS, []))
        elif readings:
            readings[-1][1].append(line)
    stats = [(at, parse("\n".join(lines))) for at, lines in readings]
    return tuple(
        Interval(begin=begin - stats[0][0], end=end - stats[0][0], **dict(times))
        for (begin, before), (end, after) in pairwise(stats)
        for times in difference(before, after)
    )


@contextlib.contextmanager
def watching(transport: Transport, cpu: Cpu) -> Iterator[Callable[[], tuple[Interval, ...]]]:
    """Have the CPUs read again and again; the function that is given waits for the last reading.

    Nothing is read, and nothing waited for, if that is not asked for. What is raised ends it.
    """
    if not cpu.readings:
        yield tuple
        return
    running = transport.start(_watch(cpu))

    def read() -> tuple[Interval, ...]:
        done = running.wait(cpu.seconds + WATCH_SECONDS)
        return intervals(done.check("reading CPU times in the trial").stdout)

    try:
        yield read
    except BaseException:
        # A machine that is away has no such loop any more.
        with contextlib.suppress(TransportError, ProcessLookupError):
            running.interrupt()
        raise


def _watch(cpu: Cpu) -> tuple[str, ...]:
    return ("sh", "-euc", WATCHING, "sh", str(cpu.readings), f"{cpu.every_seconds:g}")


def read(transport: Transport) -> Stat:
    """Return what the CPUs of a machine have done until now."""
    return parse(transport.run(READING).check("reading CPU times").stdout)


class CpuMeasure(Measure):
    """The Measure: of the device under test alone, for a tester has no such CPUs."""

    name = "cpu"
    section = Cpu
    unit = "ns of CPU time a packet"
    calibrates = False
    narrows = True

    def rates(self, asked: Sections) -> Sequence[int | None]:
        """Return the file's rates, in packets a second."""
        return asked[Cpu].rates

    def seconds(self, asked: Sections, measurement: Measurement) -> float:
        """Return about how long a trial takes."""
        return asked[Cpu].seconds + TRIAL_SECONDS

    def commands(
        self, asked: Sections, measurement: Measurement, kind: Kind, cpus: int
    ) -> Iterator[str]:
        """Yield what is sent between two readings."""
        reading = f"{' '.join(READING)}  # on the router"
        if asked[Cpu].readings:
            yield f"{shlex.join(_watch(asked[Cpu]))} &  # on the router"
        yield reading
        yield kind.offering(_sending(asked[Cpu], measurement), cpus)
        yield reading

    def measure(self, attempt: Attempt) -> Callable[[], None]:
        """Run a trial; SkblabError if it cannot be run."""
        cpu, key, testbed = attempt.asked[Cpu], attempt.key, attempt.testbed
        assert attempt.measurement.rate is not None
        with watching(testbed.transport, cpu) as in_trial:
            before = read(testbed.transport)
            offered = testbed.offer(_sending(cpu, attempt.measurement))
            times = difference(before, read(testbed.transport))
            parts = in_trial()
        worked = Worked(
            setting=key.setting,
            block=key.block,
            boot_knobs=key.boot_knobs,
            traffic=key.traffic,
            rate=attempt.measurement.rate,
            tried=offered.tried,
            forwarded=offered.forwarded,
            offered_rate=offered_rate(offered.tried, cpu.seconds, offered.microseconds / 1e6),
            times=times,
            intervals=parts,
        )
        return lambda: _record(attempt, worked)

    def by_block(self, run: Run) -> Iterable[Sequence[float]]:
        """Return the CPU time of each setting."""
        return by_setting(trials(run.rows(TimesRow), run.trials))


CPU = CpuMeasure()


def _sending(cpu: Cpu, measurement: Measurement) -> Sending:
    assert measurement.rate is not None
    return Sending.timed(measurement.stream, measurement.rate, cpu.seconds)


def _record(attempt: Attempt, worked: Worked) -> None:
    attempt.folder.record(worked)
    attempt.best.add(attempt.key, worked.per_packet)
    attempt.reporter.say(
        f"block {worked.block + 1}, {worked.setting}, {worked.traffic}, {worked.rate}/s: "
        f"{quantity(worked.per_packet, 'ns')} of CPU time a packet, "
        f"{worked.forwarded} of {worked.tried} packets forwarded"
    )
