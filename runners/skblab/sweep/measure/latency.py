# SPDX-License-Identifier: GPL-2.0-or-later
"""A latency trial: packets at a rate, each timed from the generator to the sink.

Packets are stamped anew as they leave the generator's device: pktgen's own stamp is older than its
wait for the packet's turn. Those on their way are waited for before the sink ends.
"""

from __future__ import annotations

from skblab.sweep.experiment import TESTER, Latency
from skblab.sweep.plan import Trial
from skblab.sweep.progress import Key
from skblab.testbeds import Sending, Testbed
from skblab.testbeds.base import sink
from skblab.testbeds.sink import counting
from skblab_analysis.latency.rows import Arrivals

PROGRAM = "pktsink"


def sending(trial: Trial, tester: bool, asked: Latency) -> Sending:
    """Return what a trial sends."""
    assert trial.rate is not None
    return Sending.timed(trial.stream, trial.rate, asked.seconds, tester=tester, by_queue=True)


def arrivals(key: Key, trial: Trial, testbed: Testbed, asked: Latency) -> Arrivals:
    """Run a latency trial, and return how its packets arrived; SkblabError if it cannot be run."""
    assert trial.rate is not None
    tester = key.setting == TESTER
    watched = sink(tester=tester, late_us=asked.late_us, run=asked.run)
    with counting(testbed.tester, testbed.program(PROGRAM), watched) as attached:
        offered = testbed.offer(sending(trial, tester, asked))
        document = attached.end()
    return Arrivals(
        setting=key.setting,
        part="tester" if tester else "whole",
        block=key.block,
        boot_knobs=key.boot_knobs,
        traffic=key.traffic,
        rate=trial.rate,
        tried=offered.tried,
        seconds=asked.seconds,
        took=offered.microseconds / 1e6,
        document=document,
    )
