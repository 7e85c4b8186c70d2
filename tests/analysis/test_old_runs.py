# SPDX-License-Identifier: GPL-2.0-or-later
"""Run folders of older versions, stored as they were: they load, and say the same figures.

`old_runs/demo` is a real run (results-schema/example as it was), `old_runs/sweep` a SYNTHETIC one
with rows in every table that a sweep had. Both have tables of version 1: the block was in a column
`boot`, packets that a generator had tried were `sent`, those that were forwarded `received`.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import searches
import synthetic_run

from skblab.sweep.progress import Key, Progress
from skblab_analysis.base.checked import RecordError, parse
from skblab_analysis.exact import summary as exact_summary
from skblab_analysis.formats.ledger import of_probe
from skblab_analysis.formats.pathlat import PathlatDocument
from skblab_analysis.latency import summary as latency_summary
from skblab_analysis.latency.rows import AnomalyRow, LateRow
from skblab_analysis.layers import summary as layers_summary
from skblab_analysis.layers.summary import WHOLE
from skblab_analysis.load import Run, load
from skblab_analysis.report.terminal import of_run
from skblab_analysis.rfc2544 import summary as rfc2544_summary
from skblab_analysis.runfolder import RunFolder
from skblab_analysis.tables import TABLES
from skblab_analysis.throughput import summary as throughput_summary
from skblab_analysis.throughput.rows import LoadRow
from skblab_analysis.work import summary as work_summary

OLD = Path(__file__).parent / "old_runs"


def figures_of_the_sweep(run: Run) -> None:
    [exact] = exact_summary.of(run)
    assert [(cost.setting, cost.boot_knobs, cost.mean) for cost in exact.costs] == [
        ("baseline", "kernel=rt", 7600.0)
    ]
    [rates] = throughput_summary.of(run)
    assert {rate.setting: dict(rate.blocks) for rate in rates.main.rates} == {
        "baseline": {0: 80_000.0, 1: 80_900.0},
        "baseline again": {0: 80_100.0, 1: 80_600.0},
        "NAPI threads": {0: 84_000.0, 1: 85_100.0},
    }
    assert [round(change.difference.effect, 4) for change in rates.main.changes] == [-0.0012, 0.051]
    [tests] = rfc2544_summary.of(run)
    means = [setting.latency_ns for setting in tests.settings]
    assert [(mean.mean, mean.count) for mean in means if mean is not None] == 3 * [(32_000.0, 4)]
    [late] = latency_summary.of(run)
    [delay] = late.delays
    shares = {block: late / packets for block, (late, packets) in delay.late_by_block().items()}
    assert (delay.tried, delay.lost, shares) == (204, 4, {0: 0.6, 1: 0.6})
    assert delay.latency.quantile(0.5) == 302898.7125
    [layers] = layers_summary.of(run)
    assert layers.settings[0].mean(WHOLE) == 36023.904
    assert [trial.block for trial in layers.settings[0].trials] == [0, 1]
    [work] = work_summary.of(run)
    assert (work.setting, work.trials, work.net_rx) == ("baseline", 7, {0: 77})


def test_a_demo_of_before_says_the_same() -> None:
    run = load(OLD / "demo")
    assert run.document.schema_ == "skblab.run/1"
    [exact] = exact_summary.of(run)
    assert [(cost.setting, cost.trials, cost.boots, cost.mean) for cost in exact.costs] == [
        ("rp_filter=0", 4, 2, 8063.45),
        ("rp_filter=1", 4, 2, pytest.approx(8534.35)),
    ]
    assert exact.differences[0].difference.effect == pytest.approx(470.9)
    [ledger] = run.ledgers()
    exchange = run.exchange()
    assert exchange is not None and (exchange.sent, exchange.received) == (20_000, 20_000)
    assert (ledger.path, ledger.ended, ledger.missing) == ("receive", 20_000, 0)
    first = run.of_trial(0)[0]
    assert (first.layer, first.histogram.total) == ("driver-stack", 227_579_154)
    assert (run.trials[0].sent, run.trials[0].tried) == (20_000, None)
    assert run.settings == ()
    assert of_run(OLD / "demo")


def test_a_probes_document_of_before_says_the_same() -> None:
    """Version 2 had other names for the path time and the time since entry."""
    text = (OLD / "demo" / "logs" / "pathlat-0.json").read_text()
    found = parse(PathlatDocument, text, "it")
    assert found.schema_ == "skblab.pathlat/2"
    assert found.path("receive").path_time.count == 20_000
    run = load(OLD / "demo")
    whole, since = (
        next(
            series for series in run.of_trial(0) if (series.path, series.kind) == ("receive", kind)
        )
        for kind in ("path", "since_entry")
    )
    assert whole.histogram == found.path("receive").path_time.histogram()
    assert since.histogram == found.path("receive").since_entry.histogram()
    assert of_probe(0, "ns", found).ended == 40_000


def test_a_sweep_of_before_says_the_same() -> None:
    run = load(OLD / "sweep")
    figures_of_the_sweep(run)
    assert {row.block for row in run.trials} == {0, 1}
    [*_, layers, counted, invalid] = run.trials
    # Each in its own column now.
    assert (layers.tried, layers.forwarded, layers.received, layers.lost) == (500, 498, None, 2)
    assert (counted.tried, counted.received, counted.boot_knobs) == (100, 100, "kernel=rt")
    assert (invalid.state, invalid.reason) == ("invalid", "not possible here: no rules")
    assert run.trials[0].reason == ""
    assert run.rows(LoadRow)[0].tried == 231_000
    assert (len(run.rows(LateRow)), len(run.rows(AnomalyRow))) == (4, 80)
    done = Progress.read(run.folder)._done
    assert Key("rules", 1, searches.TRAFFIC, "latency", 50) in done
    assert Key("rules", 0, searches.TRAFFIC, "latency", 50) not in done


def test_a_sweep_of_before_is_gone_on_with(tmp_path: Path) -> None:
    path = shutil.copytree(OLD / "sweep", tmp_path / "sweep")
    before = load(path)
    folder = RunFolder.open(path)
    folder.resume()
    folder.record(searches.search("baseline", 2, 80_000.0))
    assert load(path).trials[:-1] == before.trials
    folder.finish(synthetic_run.environment(), {"searching": 1.0})
    run = load(path)
    assert (run.document.schema_, len(run.trials)) == ("skblab.run/5", len(before.trials) + 1)
    assert run.series == before.series
    assert run.tables.keys() == before.tables.keys()
    for table in TABLES:
        if (file := path / f"{table.file}.parquet").exists():
            assert pq.read_schema(file).equals(table.schema, check_metadata=True)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        (b"skblab.trials/3", "is of version 3, expected at most 2: a newer skblab has written it"),
        (b"skblab.loads/2", "does not hold trials"),
        (b"skblab.trials/x", "does not hold trials"),
        (b"skblab.trials/1", "is not as version 1 was"),
    ],
)
def test_tables_of_other_versions_are_named(tmp_path: Path, name: bytes, reason: str) -> None:
    path = synthetic_run.finished_run(tmp_path, 200)
    file = path / "trials.parquet"
    whole = pq.read_table(file)
    metadata = whole.schema.metadata | {b"schema": name}
    pq.write_table(whole.replace_schema_metadata(metadata), file)
    with pytest.raises(RecordError, match=reason):
        load(path)
