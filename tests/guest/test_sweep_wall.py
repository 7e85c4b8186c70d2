# SPDX-License-Identifier: GPL-2.0-or-later
"""`skblab sweep` as a user runs it, on the wall clock: what it finds holds together."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest

from conftest import Skblab
from delivered import LEAST, delivered
from skblab.testbeds.asked import MIXES
from skblab_analysis.base.errors import SkblabWarning
from skblab_analysis.base.offered import behind
from skblab_analysis.cpu import summary as cpu_summary
from skblab_analysis.late.rows import LatePacketRow, LateTrialRow
from skblab_analysis.latency import summary as latency_summary
from skblab_analysis.latency.rows import AnomalyRow
from skblab_analysis.layers import summary as layers_summary
from skblab_analysis.layers.summary import DELAY, WHOLE
from skblab_analysis.load import load
from skblab_analysis.rfc2544 import summary as rfc2544_summary
from skblab_analysis.rfc2544.rows import FigureRow
from skblab_analysis.throughput import summary as throughput_summary
from skblab_analysis.throughput.rows import LoadRow
from skblab_analysis.work import summary as work_summary
from skblab_analysis.work.rows import CounterRow

pytestmark = [pytest.mark.guest, pytest.mark.slow]

FILE = """
name = "few-rates"
question = "Does a search end, and is what it finds true?"
[traffic]
family = [{family}]
frame = [128]
[baseline]
rp_filter = 0
[[setting]]
name = "strict"
knobs = {{ rp_filter = 1 }}
[measure.throughput]
goals = ["ndr"]
seconds = 0.5
trials = 1
width = 0.1
[measure.latency]
rates = [300]
seconds = 2
late_us = [1]
[measure.layers]
rates = [300]
seconds = 1
late_us = 1
[measure.cpu]
rates = [300]
seconds = 2
every_seconds = 0.5
[repeats]
least = 1
most = 1
"""


@pytest.mark.parametrize("family", [4, 6])
def test_what_is_found_holds_together(skblab: Skblab, tmp_path: Path, family: int) -> None:
    file = tmp_path / "few-rates.toml"
    file.write_text(FILE.format(family=family))
    results = tmp_path / "results"
    done = skblab("sweep", str(file), env={"SKBLAB_RESULTS": str(results)}, timeout=1800)
    assert done.returncode == 0, done.stdout + done.stderr
    [folder] = results.iterdir()
    run = load(folder)
    assert run.document.state == "finished"
    assert {row.state for row in run.trials} == {"good"}
    assert [summary.traffic for summary in throughput_summary.of(run)] == [
        f"IPv{family}, 128 bytes, 1 flow"
    ]
    for summary in throughput_summary.of(run):
        goal = summary.main
        [tester] = goal.testers
        assert tester.interval is not None
        for rate in goal.rates:
            # Emulated and busy, it is thousands; the tester has less to do.
            assert rate.interval is not None
            # One block each: a busy machine took three quarters from one of both searches.
            assert 500 < rate.interval.mean < 10 * tester.interval.mean
    for late in latency_summary.of(run):
        [floor] = late.testers
        for delay in (*late.delays, floor):
            delivered(delay, 600)
            arrived = delay.latency.count
            # Of a busy machine's trial, the more the longer it stood still.
            if arrived < 600 or behind(delay.trials):
                told = f"{delay.setting}: its inter-arrival times were not looked at"
                warnings.warn(told, SkblabWarning, stacklevel=1)
                continue
            assert delay.histogram("inter-arrival").count + 1 == arrived
            # One every 3.3 ms, and all of them later than 1 us: one run, without an end.
            assert 2e6 < (delay.histogram("inter-arrival").mean or 0.0) < 5e6
            assert [(lateness.late, lateness.runs) for lateness in delay.lateness] == [(600, 1)]
        # Of half of them: one that waited for the machine is in a mean.
        whole, alone = (of.latency.quantile(0.5) for of in (late.delays[0], floor))
        assert whole is not None and alone is not None and whole > alone
    assert all(row.open_begin and row.open_end for row in run.rows(AnomalyRow))
    for layers in layers_summary.of(run):
        for setting in layers.settings:
            assert LEAST * 300 <= setting.layers[WHOLE].count <= 300
            # Means of layers add up to it; the delay of polls is no part of it.
            parts = [setting.mean(name) or 0.0 for name in layers.names if name != DELAY]
            assert sum(parts) == pytest.approx(2 * (setting.mean(WHOLE) or 0.0), rel=1e-3)
    assert len(latency_summary.of(run)) == len(layers_summary.of(run)) == 1
    # Each packet is late by that limit on both sides, and is known by its number.
    for trial in run.rows(LateTrialRow):
        assert LEAST * 300 <= trial.late == trial.recorded + trial.not_recorded <= 300
        assert trial.tester_late == trial.tester_recorded >= trial.late
        assert trial.both == trial.recorded > 0
    packets = run.rows(LatePacketRow)
    assert {row.tester_late for row in packets} == {True}
    assert all(0 < row.in_layer <= row.took for row in packets)
    [cpu] = cpu_summary.of(run)
    assert len(cpu.usages) == 3
    for times in (times for usage in cpu.usages for trial in usage.trials for times in trial.times):
        # Of the two seconds of a trial, and what it takes beside them.
        assert times.busy + times.idle + times.steal > 1.5e9
    assert all(usage.per_packet() > 0 for usage in cpu.usages)
    # Four parts of each trial, of each CPU.
    for read in (trial for usage in cpu.usages for trial in usage.trials):
        assert len(read.intervals) == 4 * len(read.times)
    for work in work_summary.of(run):
        # Each packet comes into the stack at the router and at the sink.
        assert sum(work.processed.values()) > 2 * 600
        assert sum(work.net_rx.values()) > 0
    for row in run.rows(LoadRow):
        assert row.received <= (row.forwarded or 0) <= row.tried
        # The most that can be asked for: it is stopped soon after its time.
        assert row.took < row.seconds + 5
        if row.limit == "none":
            assert row.offered_rate == pytest.approx(row.load, rel=0.06)
    assert "Throughput, NDR" in done.stdout
    assert (folder / "report" / "latency.svg").exists()
    assert not list(folder.glob("undo*"))


TESTS = """
name = "few-tests"
question = "What else has RFC 2544, of a mix of frames?"
[traffic]
frame = ["ams-ix"]
[measure.throughput]
goals = ["strict"]
seconds = 0.3
trials = 1
width = 0.2
[measure.rfc2544]
latency_seconds = 1
latency_repeats = 2
frame_loss_seconds = 0.3
recovery_seconds = 1
recovery_repeats = 1
[repeats]
least = 1
most = 1
"""
# Bytes of the mix on average, without checksum.
MIX = sum(size * share for size, share in MIXES["ams-ix"].items()) / 100 - 4


def test_rfc2544s_other_tests_of_a_mix(skblab: Skblab, tmp_path: Path) -> None:
    file = tmp_path / "few-tests.toml"
    file.write_text(TESTS)
    results = tmp_path / "results"
    done = skblab("sweep", str(file), env={"SKBLAB_RESULTS": str(results)}, timeout=1800)
    assert done.returncode == 0, done.stdout + done.stderr
    [folder] = results.iterdir()
    run = load(folder)
    assert {row.state for row in run.trials} == {"good"}, [row.reason for row in run.trials]
    [summary] = rfc2544_summary.of(run)
    assert [setting.setting for setting in summary.settings] == ["baseline", "baseline again"]
    for setting in summary.settings:
        # More than no time, and less than a second.
        assert setting.latency_ns is None or 1e3 < setting.latency_ns.mean < 1e9
        assert setting.tests == {"latency", "frame loss", "recovery"}
    # There is a figure or a reason, whatever this machine is busy with, and no other reason.
    figures = ("latency_ns", "loss_percent", "recovery_s")
    for row in run.rows(FigureRow):
        assert (row.reason is None) == any(getattr(row, name) is not None for name in figures)
    known = (
        *("did not keep the", "carries no more", "lost until the end", "before they had left"),
        *("was not overloaded", "the sink lost packets"),
    )
    reasons = [row.reason for row in run.rows(FigureRow) if row.reason is not None]
    assert [why for why in reasons if not any(words in why for words in known)] == []
    assert len(reasons) < len(run.rows(FigureRow))
    loss = [row.loss_percent for row in run.rows(FigureRow) if row.test == "frame loss"]
    assert all(value is None or 0 <= value <= 100 for value in loss)
    assert "RFC 2544 (IPv4, mix ams-ix, 1 flow)" in done.stdout
    counted = {
        name: sum(
            row.value
            for row in run.rows(CounterRow)
            if row.kind == "device" and row.name == f"r0 {name}"
        )
        for name in ("rx_bytes", "rx_packets")
    }
    assert counted["rx_packets"] > 1000
    assert counted["rx_bytes"] / counted["rx_packets"] == pytest.approx(MIX, rel=0.1)
