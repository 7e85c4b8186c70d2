# SPDX-License-Identifier: GPL-2.0-or-later
"""A latency trial: packets at a rate, each timed from the generator to the sink.

Packets are stamped anew as they leave the generator's device: pktgen's own stamp is older than its
wait for the packet's turn. Those on their way are waited for before the sink ends.
"""

from __future__ import annotations

from skblab.sweep.experiment import TESTER, Latency
from skblab.sweep.plan import Trial
from skblab.sweep.progress import Key
from skblab.sweep.testbeds import Kind, Testbed
from skblab.sweep.testbeds.base import sink
from skblab.sweep.testbeds.sink import counting
from skblab_analysis.latency import Arrivals

# A generator that cannot keep the rate is stopped so long after the trial should have ended. pktgen
# itself takes up to a quarter of a second until it begins.
LATE_SECONDS = 0.5
# Without two packets there is no time between two.
LEAST_PACKETS = 2
PROGRAM = "/skblab/tools/pktsink"


def packets(rate: int, seconds: float) -> int:
    """Return how many packets a trial has."""
    return max(round(rate * seconds), LEAST_PACKETS)


def sending(kind: Kind, trial: Trial, tester: bool, cpus: int, asked: Latency) -> str:
    """Return the call that a trial consists of."""
    assert trial.rate is not None
    return kind.offering(
        trial.stream,
        packets(trial.rate, asked.seconds),
        tester,
        cpus,
        rate=trial.rate,
        seconds=asked.seconds + LATE_SECONDS,
        by_queue=True,
    )


def arrivals(key: Key, trial: Trial, testbed: Testbed, asked: Latency) -> Arrivals:
    """Run a latency trial, and return how its packets arrived; SkblabError if it cannot be run."""
    assert trial.rate is not None
    tester = key.setting == TESTER
    watched = sink(tester=tester, late_us=asked.late_us, run=asked.run)
    with counting(testbed.tester, PROGRAM, watched) as attached:
        offered = testbed.offer(
            trial.stream,
            packets(trial.rate, asked.seconds),
            rate=trial.rate,
            seconds=asked.seconds + LATE_SECONDS,
            tester=tester,
            by_queue=True,
        )
        document = attached.end()
    return Arrivals(
        setting=key.setting,
        part="tester" if tester else "whole",
        boot=key.block,
        boot_knobs=key.boot_knobs,
        traffic=key.traffic,
        rate=trial.rate,
        sent=offered.tried,
        seconds=asked.seconds,
        took=offered.microseconds / 1e6,
        document=document,
    )
