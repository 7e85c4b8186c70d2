# SPDX-License-Identifier: GPL-2.0-or-later
"""Searches for throughput: recorded, read again, and summed up by setting."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import searches
import synthetic_run

from skblab_analysis.base import certainty
from skblab_analysis.base.certainty import AGAIN, widest
from skblab_analysis.base.checked import RecordError
from skblab_analysis.load import load
from skblab_analysis.runfolder import RunFolder
from skblab_analysis.throughput import summary as throughput_summary
from skblab_analysis.throughput.cells import rows
from skblab_analysis.throughput.rows import FoundRow, LoadRow, by_setting
from skblab_analysis.throughput.summary import GoalSummary, false_alarms


def goal(path: Path, name: str = "strict") -> GoalSummary:
    [summary] = throughput_summary.of(load(path))
    return next(found for found in summary.goals if found.goal == name)


def test_what_is_recorded_comes_back(tmp_path: Path) -> None:
    made = list(searches.searches())
    run = load(searches.finished_run(tmp_path, made))
    assert [row.measure for row in run.trials[:3]] == ["tester", "throughput", "throughput"]
    assert (run.trials[1].tried, run.trials[1].received) == (168_000, 167_999)
    assert len(run.rows(LoadRow)) == 2 * len(made)
    assert len(run.rows(FoundRow)) == 3 * len(made)
    [first, *_] = [row for row in run.rows(LoadRow) if row.trial == 1]
    assert (first.setting, first.block, first.number) == ("baseline", 0, 0)
    assert (first.load, first.offered_rate, first.limit) == (88_000, 88_000, "device")
    again = RunFolder.open(run.folder)
    assert [row.throughput for row in again.again(FoundRow)] == [
        row.throughput for row in run.rows(FoundRow)
    ]


def test_settings_are_compared_with_the_baseline_block_by_block(tmp_path: Path) -> None:
    strict = goal(searches.finished_run(tmp_path))
    assert [rate.setting for rate in strict.rates] == list(searches.RATES)
    baseline = strict.rate("baseline")
    assert baseline is not None and baseline.interval is not None
    assert baseline.interval.mean == 80_800
    assert baseline.judgement == "device"
    threads = strict.change("NAPI threads")
    assert threads is not None
    # The mean of three quotients' logarithms.
    assert threads.difference.effect == pytest.approx(0.04992, abs=1e-5)
    assert threads.difference.significant
    assert strict.best == threads
    filtered = strict.change("rp_filter=1, strict")
    assert filtered is not None
    assert filtered.difference.why == "scatter"
    assert strict.change("baseline") is None
    [tester] = strict.testers
    assert tester.blocks == {0: 210_000, 1: 210_001, 2: 210_002}


def test_the_baseline_against_itself_tells_the_false_alarms(tmp_path: Path) -> None:
    found = throughput_summary.of(load(searches.finished_run(tmp_path)))
    alarms = false_alarms(found)
    assert (alarms.comparisons, alarms.alarms) == (1, 0)
    wrong = dict(searches.RATES) | {AGAIN: [1.1 * rate for rate in searches.RATES["baseline"]]}
    found = throughput_summary.of(
        load(searches.finished_run(tmp_path, list(searches.searches(wrong))))
    )
    assert false_alarms(found).alarms == 1
    # It is no setting that one could choose.
    assert found[0].main.best is not None
    assert found[0].main.best.setting == "NAPI threads"


def test_the_widest_interval_is_of_all_settings_and_goals(tmp_path: Path) -> None:
    run = load(searches.finished_run(tmp_path))
    found = throughput_summary.of(run)
    shares = [
        rate.interval.share
        for summary in found
        for goal in summary.goals
        for rate in goal.rates
        if rate.interval is not None and rate.interval.share is not None
    ]
    assert widest(by_setting(run.rows(FoundRow))) == max(shares)
    single = [*searches.searches(), searches.search("more", 0, 1000.0)]
    run = load(searches.finished_run(tmp_path, single))
    assert widest(by_setting(run.rows(FoundRow))) is None
    assert widest([]) is None


def test_a_setting_without_a_good_load_has_no_rate(tmp_path: Path) -> None:
    made = [searches.search("baseline", 0, 1000.0), searches.search("none", 0, None)]
    strict = goal(searches.finished_run(tmp_path, made))
    none = strict.rate("none")
    assert none is not None
    assert (none.interval, none.none, none.blocks) == (None, 1, {})
    assert strict.changes == ()
    run = load(searches.finished_run(tmp_path, made))
    assert widest(by_setting(run.rows(FoundRow))) is None


def test_a_setting_that_carries_nothing_in_some_block_is_not_significant(tmp_path: Path) -> None:
    threads = searches.search("NAPI threads", 3, None, judgement="no good load")
    path = searches.finished_run(tmp_path, [*searches.searches(), threads])
    strict = goal(path)
    change = strict.change("NAPI threads")
    assert change is not None
    assert (change.difference.significant, change.difference.why) == (None, "some blocks")
    assert change.difference.effect == pytest.approx(0.04992, abs=1e-5)
    assert strict.best is None
    others = {other.setting: other.difference.significant for other in strict.changes}
    assert others["netfilter: 100 rules in FORWARD"] is True
    limits = {row.setting: row.limit for row in rows(strict)}
    assert limits["NAPI threads"] == "no load"
    assert limits["baseline"] == "device"


def test_without_a_baseline_rates_stand_alone(tmp_path: Path) -> None:
    strict = goal(searches.finished_run(tmp_path, [searches.search("other", 0, 1000.0)]))
    assert (strict.baseline, strict.changes, strict.best) == (None, (), None)
    assert [rate.setting for rate in strict.rates] == ["other"]


def test_rows_of_a_trial_that_was_cut_off_are_left_out(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path, "it", searches.plan())
    folder.record(searches.search("baseline", 0, 1000.0))
    before = (folder.path / "run.json").read_bytes()
    folder.fail("the tables were written, and run.json was not")
    (folder.path / "run.json").write_bytes(before)
    folder = RunFolder.open(folder.path)
    folder.record(searches.search("baseline", 1, 1000.0))
    run = load(folder.path)
    assert [row.trial for row in run.rows(LoadRow)] == [0, 0]
    assert [row.block for row in run.rows(FoundRow)] == [1, 1, 1]


def test_a_run_without_searches_has_no_tables_of_them(tmp_path: Path) -> None:
    path = searches.finished_run(tmp_path, [])
    names = {file.stem for file in path.glob("*.parquet")}
    assert names == {"trials", "layers", "layers_summary"}
    run = load(path)
    assert (run.rows(LoadRow), run.rows(FoundRow), throughput_summary.of(run)) == ((), (), [])


def test_a_result_that_cannot_be_is_refused(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path, "it", searches.plan())
    made = searches.search("baseline", 0, 1000.0)
    strange = made.goals[0].model_copy(update={"outcome": "strange"})
    with pytest.raises(RecordError, match="outcome: Input should be 'regular'"):
        folder.record(made.model_copy(update={"goals": (strange,)}))
    [invalid] = load(folder.path).trials
    assert invalid.state == "invalid" and "outcome" in invalid.reason
    folder.record(made)
    path = folder.finish(synthetic_run.environment(), {"searching": 1.0}) / "throughput.parquet"
    rows = pq.read_table(path).to_pylist()
    wrong = [row | {"outcome": "strange"} for row in rows]
    pq.write_table(pa.Table.from_pylist(wrong, schema=pq.read_schema(path)), path)
    with pytest.raises(RecordError, match=r"throughput\.parquet.*0\.outcome: Input should be 'reg"):
        load(folder.path)


def test_an_interval_is_never_narrower_than_the_search(tmp_path: Path) -> None:
    """Blocks agree to the packet, for both searches ended at the same load."""
    rates = {"baseline": [1000.0, 1000.0], "near": [1009.0, 1009.0], "far": [1011.0, 1011.0]}
    strict = goal(searches.finished_run(tmp_path, list(searches.searches(rates))))
    interval = strict.rates[0].interval
    assert interval is not None
    assert (interval.noise, interval.half) == (0, searches.WIDTH * 1000)
    # More blocks would not narrow it, and are not waited for.
    assert certainty.widest([list(rate.blocks.values()) for rate in strict.rates]) == 0
    near, far = (change.difference for change in strict.changes)
    assert (near.significant, near.why) == (False, "resolution")
    assert near.detectable == pytest.approx(searches.WIDTH)
    assert far.significant
