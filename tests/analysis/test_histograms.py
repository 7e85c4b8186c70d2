# SPDX-License-Identifier: GPL-2.0-or-later
"""What the kernel's own histograms tell: other buckets, bounds for figures, and much not at all."""

from __future__ import annotations

import copy
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from synthetic_run import histograms, pathlat, receiver, sender

from skblab_analysis.base.checked import RecordError, RefusedError, parse
from skblab_analysis.base.histogram import Histogram
from skblab_analysis.base.words import FIXED_SPACE
from skblab_analysis.formats.ledger import Ledger, of_probe, refuse
from skblab_analysis.formats.pathlat import (
    COUNTING,
    PathlatDocument,
    ReceiverDocument,
    SenderDocument,
)
from skblab_analysis.formats.run import Plan
from skblab_analysis.layers import series, tables
from skblab_analysis.layers.rows import SeriesRow
from skblab_analysis.load import load
from skblab_analysis.report import terminal
from skblab_analysis.runfolder import RunFolder

EDGES = {0: (6, 6), 1: (6, 7), 2: (12, 13)}


def of_kernel(**counts: int) -> dict[str, Any]:
    """A document of a stored run: of no whole path it knows more than the sum."""
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


def test_buckets_with_other_edges_are_merged_side_by_side() -> None:
    one = Histogram({0: 100}, 38_000, 375, 390, bounded=True, edges={0: (375, 390)})
    two = Histogram(
        *({0: 4, 1: 6}, 3_900, 375, 410), bounded=True, edges={0: (375, 390), 1: (391, 410)}
    )
    both = one.merge(two)
    assert both.rows() == [(375, 390, 104), (391, 410, 6)]
    assert (both.total, both.minimum, both.maximum) == (41_900, 375, 410)
    assert one.merge(Histogram.of([380])).rows() == [(368, 383, 1), (375, 390, 100)]
    wide = Histogram({0: 1}, 400, 370, 410, bounded=True, edges={0: (370, 410)})
    with pytest.raises(ValueError, match="a bucket of 375 … 390 follows one of 370 … 410"):
        one.merge(wide)


def counted(**counts: int) -> PathlatDocument:
    return parsed(histograms(**counts))


def test_what_passes_before_the_path_is_known_is_apart() -> None:
    document = counted()
    assert document.in_ is not None
    found = series.from_document(0, "ns", document)
    names = [(part.path, part.to_point) for part in found if part.kind == "layer"]
    assert names[:4] == [("in", "stack"), ("in", "ip"), ("in", "route"), ("receive", "local")]
    assert not [part for part in found if part.kind == "since_entry"]
    received, sent = tables.of_path("receive", found), tables.of_path("send", found)
    assert [part.from_point for part in received][:2] == ["driver", "stack"]
    assert {part.path for part in sent} == {"send"}
    assert tables.of_path("forward", found) == []
    shares = [tables.share_of_total(part, received) or 0 for part in received]
    assert sum(shares[:-1]) == pytest.approx(1)


def test_a_layer_that_many_others_passed_has_no_share() -> None:
    document = histograms()
    coming, whole = document["in"]["layers"][0], document["paths"][0]["path_time"]["count"]
    for others, has in ((whole // 100, True), (whole // 100 + 1, False)):
        more = copy.deepcopy(coming)
        more["count"] += others
        more["buckets"][0][1] += others
        changed = document | {"in": document["in"] | {"layers": [more]}}
        received = tables.of_path("receive", series.from_document(0, "ns", parsed(changed)))
        assert (tables.share_of_total(received[0], received) is not None) == has


def test_packets_that_only_came_in_have_a_table() -> None:
    document = histograms()
    empty = {"count": 0, "sum": 0, "min": 0, "max": 0, "buckets": [], "edges": []}
    for path in document["paths"][:1]:
        whole = path["path_time"] | empty
        path |= {"layers": [], "seen": {}, "path_time": whole, "since_entry": whole}
        path["ends"] = dict.fromkeys(path["ends"], 0)
    found = series.from_document(0, "ns", parsed(document))
    titles = [str(table.title) for table in tables.of_series(found)]
    assert any("the time of packets that came in" in title for title in titles)


def test_what_became_of_all_that_began() -> None:
    found = of_probe(0, "ns", counted())
    assert (found.begun, found.ended, found.dropped, found.elsewhere) == (400, 400, 0, 0)
    assert found.unaccounted == {"negative": 0, "stale": 0}
    found = of_probe(0, "ns", counted(entered=230, dropped=7, unclear=2, stale=3))
    assert (found.begun, found.dropped, found.elsewhere, found.in_flight) == (430, 9, 21, 0)
    assert found.missing == 3
    # Copies end more often than packets begin.
    assert of_probe(0, "ns", counted(entered=190)).earlier == 10


def test_known_packets_are_held_to_what_sender_and_receiver_say() -> None:
    packets = 200

    def exchanged(sent: int, read: int) -> Ledger:
        said = (sender(sent), receiver(sent, sent - read))
        documents = (
            parse(SenderDocument, json.dumps(said[0]), "it"),
            parse(ReceiverDocument, json.dumps(said[1]), "it"),
        )
        return of_probe(0, "ns", counted(packets=packets), documents)

    found = exchanged(packets, packets).exchange
    assert found is not None
    assert {point.seen for point in found.points} == {packets}
    assert found.unsampled == 0
    with pytest.raises(RefusedError, match="foreign packets were among them"):
        exchanged(packets, packets - 1)


def test_packets_that_passed_and_were_dropped_are_told() -> None:
    document = histograms()
    for layer in document["paths"][0]["layers"][:2]:
        layer["count"] += 5
        layer["buckets"][0][1] += 5
        document["paths"][0]["seen"][layer["to"]] += 5
    said = (sender(205), receiver(205, 5))
    found = of_probe(
        *(0, "ns", parsed(document)),
        (
            parse(SenderDocument, json.dumps(said[0]), "it"),
            parse(ReceiverDocument, json.dumps(said[1]), "it"),
        ),
    ).exchange
    assert found is not None
    assert (found.lost, found.lost_elsewhere) == (5, 0)
    assert tables.lost_words(found) == "5 after transport"
    assert found.dropped_points["local"] == found.dropped_points["transport"] == 5
    assert found.dropped_points["socket"] == 0


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"in": None}, "expected `in` with paths of all that passed"),
        ({"flags": {}}, "expected the flag negative"),
    ],
)
def test_histograms_that_lack_something_are_refused(change: dict[str, Any], words: str) -> None:
    with pytest.raises(RecordError, match=words):
        parsed(histograms() | change)


def test_a_run_keeps_what_came_in(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path, "layers", Plan(experiment="layers", seed=0))
    folder.record_probe(histograms(), 0.1)
    run = load(folder.path)
    assert list(run.of_trial(0)) == series.from_document(0, "ns", counted())
    console = Console(width=200, record=True, file=(tmp_path / "out").open("w"))
    for table in terminal.of_run(folder.path):
        console.print(table)
    text = console.export_text()
    assert "driver→stack" in text
    assert "route→local" in text


def test_the_account_begins_with_what_began() -> None:
    found = of_probe(0, "ns", parsed(of_kernel()))
    assert (found.begun, found.ended, found.in_flight, found.earlier) == (400, 400, 0, 0)
    assert found.unaccounted == {"negative": 0, "overflow": 0, "unsettled": 0}
    assert of_probe(0, "ns", parsed(of_kernel(sent=207))).in_flight == 7
    assert of_probe(0, "ns", parsed(of_kernel(sent=197))).earlier == 3
    # A copy ends as well, and did not begin.
    copied = of_kernel(sent=197)
    copied["flags"]["copy"] = 3
    found = of_probe(0, "ns", parsed(copied))
    assert (found.in_flight, found.earlier) == (0, 0)


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


def test_a_layer_that_nothing_passed_has_neither_end() -> None:
    found = series.from_document(0, "ns", parsed(dict(pathlat(packets=200))))
    empty, full = (replace(found[0], histogram=Histogram.of(of)).rows() for of in ([], [5, 9]))
    [row] = list(empty)
    assert isinstance(row, SeriesRow)
    assert (row.count, row.sum, row.min, row.max) == (0, 0, None, None)
    row, *_ = list(full)
    assert isinstance(row, SeriesRow)
    assert (row.count, row.sum, row.min, row.max) == (2, 14, 5, 9)


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
    assert words[7].startswith(f"≤{FIXED_SPACE}")
    assert sum("≤" in line for line in lines if "→" in line) == 13
