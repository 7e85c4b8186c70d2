# SPDX-License-Identifier: GPL-2.0-or-later
"""What the kernel's own histograms tell: other buckets, bounds for figures, and much not at all."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from synthetic_run import pathlat

from skblab_analysis.base.checked import RecordError, RefusedError, parse
from skblab_analysis.base.histogram import Histogram
from skblab_analysis.formats.ledger import of_probe, refuse
from skblab_analysis.formats.pathlat import COUNTING, PathlatDocument
from skblab_analysis.formats.run import Plan
from skblab_analysis.layers import series
from skblab_analysis.load import load
from skblab_analysis.report import terminal
from skblab_analysis.runfolder import RunFolder

EDGES = {0: (6, 6), 1: (6, 7), 2: (12, 13)}


def of_kernel(**counts: int) -> dict[str, Any]:
    """Made-up samples as the kernel's histograms would tell them: of no whole path but the sum."""
    document = copy.deepcopy(dict(pathlat(packets=200)))
    for path in document["paths"]:
        for name in ("negative", "overflow", "reentered", "seen_dropped", "drop_reasons"):
            path.pop(name)
        path["unsettled"] = 0
        if path["path_time"]["count"]:
            high = path["since_entry"]["max"]
            path["path_time"] |= {"min": 0, "max": high, "edges": [[0, high]]}
            path["path_time"]["buckets"] = [[0, path["path_time"]["count"]]]
        for layer in (*path["layers"], path["path_time"], path["since_entry"]):
            layer["bounded"] = True
    sent = sum(document["paths"][2]["ends"].values())
    known = {"entered": 0, "sent": sent, "reentered": sent}
    document |= {"source": "histograms", "samples": None, "histograms": known | counts}
    return document


def parsed(document: dict[str, Any]) -> PathlatDocument:
    return parse(PathlatDocument, json.dumps(document), "it")


def test_buckets_may_share_a_value_and_keep_their_order() -> None:
    found = Histogram({0: 1, 1: 2, 2: 3}, 60, 6, 13, bounded=True, edges=EDGES)
    assert found.rows() == [(6, 6, 1), (6, 7, 2), (12, 13, 3)]
    assert found.mean == 10


@pytest.mark.parametrize(
    ("edges", "words"),
    [
        ({0: (6, 6), 1: (6, 7)}, "no edges"),
        ({0: (6, 6), 1: (5, 7), 2: (12, 13)}, r"a bucket of 5 … 7 follows one of 6 … 6"),
        ({0: (6, 6), 1: (8, 7), 2: (12, 13)}, "a bucket of 8 … 7"),
        ({0: (6, 6), 1: (6, 7), 2: (12, 12)}, "maximum 13 is not in the highest"),
    ],
)
def test_edges_that_contradict_are_refused(edges: dict[int, tuple[int, int]], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Histogram({0: 1, 1: 2, 2: 3}, 60, 6, 13, bounded=True, edges=edges)


def test_no_quantile_comes_out_of_a_bucket_that_says_nothing() -> None:
    wide = Histogram({0: 100}, 5000, 0, 400, bounded=True, edges={0: (0, 400)})
    assert wide.quantile(0.5) is None
    narrow = Histogram({0: 100}, 38_000, 375, 390, bounded=True, edges={0: (375, 390)})
    assert narrow.quantile(0.5) == pytest.approx(382, abs=1)


def test_other_buckets_are_not_merged() -> None:
    one = Histogram({0: 100}, 38_000, 375, 390, bounded=True, edges={0: (375, 390)})
    with pytest.raises(ValueError, match="same buckets"):
        one.merge(Histogram.of([380]))


def test_the_account_begins_with_what_began() -> None:
    found = of_probe(0, "ns", parsed(of_kernel()))
    assert (found.begun, found.ended, found.in_flight, found.earlier) == (400, 400, 0, 0)
    assert found.unaccounted == {"negative": 0, "overflow": 0, "unsettled": 0}
    assert of_probe(0, "ns", parsed(of_kernel(sent=207))).in_flight == 7
    assert of_probe(0, "ns", parsed(of_kernel(sent=197))).earlier == 3


def test_counts_that_moved_while_they_were_read_are_unaccounted_for() -> None:
    document = of_kernel()
    document["paths"][0]["ends"]["delivered"] += 2
    with pytest.raises(RecordError, match="the path time holds 200 packets of 202"):
        parsed(document)
    document["paths"][0]["unsettled"] = 2
    found = of_probe(0, "ns", parsed(document))
    assert found.unaccounted["unsettled"] == 2
    with pytest.raises(RefusedError, match="of which a longer run has less"):
        refuse(found, 0.1)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"samples": {}}, "expected either histograms or samples"),
        ({"histograms": None}, "expected either histograms or samples"),
        ({"source": "samples"}, "expected either histograms or samples"),
    ],
)
def test_a_source_that_does_not_fit_is_no_document(change: dict[str, Any], words: str) -> None:
    with pytest.raises(RecordError, match=words):
        parsed(of_kernel() | change)


def test_it_can_be_looked_at_while_it_counts() -> None:
    document = of_kernel()
    document["paths"][0]["path_time"]["sum"] = 1
    text = json.dumps(document)
    assert (
        parse(PathlatDocument, text, "it", context=COUNTING).path("receive").path_time.count == 200
    )


def test_a_run_keeps_edges_and_bounds(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path, "layers", Plan(experiment="layers", seed=0))
    folder.record_probe(of_kernel(), 0.1)
    run = load(folder.path)
    assert list(run.of_trial(0)) == series.from_document(0, "ns", parsed(of_kernel()))
    assert all(part.histogram.bounded for part in run.series if part.path)


def test_a_bound_is_shown_as_one(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path, "layers", Plan(experiment="layers", seed=0))
    folder.record_probe(of_kernel(), 0.1)
    console = Console(width=200, record=True, file=(tmp_path / "out").open("w"))
    for table in terminal.of_run(folder.path):
        console.print(table)
    lines = console.export_text().splitlines()
    (whole, _) = [line.split("  ") for line in lines if line.startswith("whole path")]
    words = [word.strip() for word in whole if word.strip()]
    # A mean, but no percentile of the whole path.
    assert words[3:7] == ["–"] * 4
    assert words[7].startswith("≤ ")
    assert sum("≤ " in line for line in lines if "→" in line) == 13
