# SPDX-License-Identifier: GPL-2.0-or-later
"""What every report says, whatever was measured: why the run ended before its plan."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import synthetic_run
import test_cpu
import test_latency
from test_report import fake_gnuplot

from skblab_analysis.formats.journal import JOURNAL, Journal
from skblab_analysis.formats.run import Plan
from skblab_analysis.load import load
from skblab_analysis.report import findings
from skblab_analysis.report.page import build_report
from skblab_analysis.runfolder import RunFolder

REASON = "another block would exceed the budget of 10 min"


def latency(results: Path) -> Path:
    plan = Plan(experiment="timed", seed=1, baseline="baseline")
    folder = RunFolder.create(results, "timed", plan, synthetic=True)
    folder.record(test_latency.trial("baseline", 0, test_latency.latencies(40_000)))
    return folder.finish(synthetic_run.environment(), {"measuring": 1.0})


@pytest.mark.parametrize(
    "sweep",
    [
        latency,
        lambda results: test_cpu.sweep(results).folder,
        lambda results: synthetic_run.finished_run(results, 2_000),
    ],
    ids=["latency", "cpu", "exact"],
)
def test_every_report_says_once_that_the_budget_ended_the_run(
    tmp_path: Path, sweep: Callable[[Path], Path]
) -> None:
    folder = sweep(tmp_path)
    assert "The run ended" not in build_report(folder, fake_gnuplot).read_text()
    journal = Journal(folder / JOURNAL)
    # It asked in the first block, and again when it was resumed.
    for blocks in (1, 2):
        journal.append("enough", {"blocks": blocks, "reason": REASON})
    said = f"The run ended after 2 blocks: {REASON}."
    assert findings.sentences(load(folder))[-1] == said
    assert build_report(folder, fake_gnuplot).read_text().count("The run ended") == 1


def test_a_resumed_run_ends_by_what_it_says_itself(tmp_path: Path) -> None:
    folder = latency(tmp_path)
    journal = Journal(folder / JOURNAL)
    journal.append("enough", {"blocks": 1, "reason": REASON})
    assert findings.sentences(load(folder))[-1] == f"The run ended after 1 block: {REASON}."
    journal.append("resumed", {})
    assert not any("The run ended" in sentence for sentence in findings.sentences(load(folder)))
