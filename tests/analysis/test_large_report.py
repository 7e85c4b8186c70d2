# SPDX-License-Identifier: GPL-2.0-or-later
"""What a report of many trials must not do twice; and that the run of its benchmark is one."""

from __future__ import annotations

from pathlib import Path

import large_report
import page_checks
import searches
import synthetic_run
from test_report import fake_gnuplot

from skblab_analysis.load import Run, load, once
from skblab_analysis.report.page import build_report


def test_what_is_computed_of_a_run_is_computed_once(tmp_path: Path) -> None:
    asked: list[Run] = []

    @once
    def of(run: Run) -> list[str]:
        asked.append(run)
        return [run.document.name]

    @once
    def other(run: Run) -> None:
        asked.append(run)

    path = searches.finished_run(tmp_path)
    run, again = load(path), load(path)
    assert of(run) is of(run)
    assert of(run) == ["settings"]
    # What comes to None is known as well.
    assert other(run) is other(run) is None
    assert asked == [run, run]
    # Another reading of the same folder may have found more.
    assert of(again) is not of(run)
    assert len(asked) == 3


def test_the_run_of_the_benchmark_has_all_its_trials(tmp_path: Path) -> None:
    sweep = large_report.Sweep(tmp_path, 3)
    for block in range(2):
        sweep.record(block)
    path = sweep.folder.finish(synthetic_run.environment(), {})
    run = load(path)
    assert len(run.trials) == 2 * large_report.trials(3)
    assert {trial.measure for trial in run.trials} == {"throughput", "latency", "layers", "cpu"}
    assert all(trial.state == "good" for trial in run.trials)
    page = page_checks.check(build_report(path, fake_gnuplot))
    assert "Synthetic." in page.text
    assert "Latency by offered rate" in page.text
