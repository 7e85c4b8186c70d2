# SPDX-License-Identifier: GPL-2.0-or-later
"""The run folder: what is written comes back, what contradicts is refused, a kill loses nothing."""

from __future__ import annotations

import errno
import json
import os
import random
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
import synthetic_run

from kills import killed_after
from skblab_analysis.base import disk
from skblab_analysis.base.checked import RecordError, RefusedError
from skblab_analysis.base.errors import SkblabError
from skblab_analysis.base.histogram import Histogram
from skblab_analysis.exact.rows import ExactTrial
from skblab_analysis.exact.summary import summarise
from skblab_analysis.formats.ledger import Exchange
from skblab_analysis.layers.rows import BUCKETS, SUMMARIES
from skblab_analysis.load import Run, load
from skblab_analysis.runfolder import Document, RunFolder
from skblab_analysis.tables import TABLES
from skblab_analysis.trials.rows import Part, TrialRow

Json = dict[str, Any]
PACKETS = 2_000
# Where a pathlat document has the received packets.
RECEIVE = ("paths", 0)


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    return RunFolder.create(tmp_path, "demo", synthetic_run.plan(PACKETS), synthetic=True)


def exchanged(folder: RunFolder, pathlat: Document, *, said: tuple[Document, Document]) -> Exchange:
    """Record a trial; return what its ledger has of known packets."""
    found = folder.record_probe(pathlat, said=said).exchange
    assert found is not None
    return found


def exact_trials(run: Run) -> list[ExactTrial]:
    return [ExactTrial.of_row(row) for row in run.trials if row.counted]


def test_what_is_written_comes_back(tmp_path: Path) -> None:
    run = load(synthetic_run.finished_run(tmp_path, PACKETS))
    assert run.document.state == "finished"
    assert run.document.synthetic
    ledger = run.exchange("wall")
    assert ledger is not None
    assert (ledger.sent, ledger.received, ledger.lost) == (2_000, 1_996, 4)
    assert [count.seen + count.not_seen for count in ledger.points] == [1_996] * 9
    assert [count.not_seen for count in ledger.sent_points] == [0] * 6
    assert [series.layer for series in run.of_trial(0) if series.kind == "layer"] == [
        "driver-stack",
        "stack-ip",
        "ip-route",
        "route-local",
        "local-transport",
        "transport-socket",
        "socket-wake",
        "wake-user",
        "send-transport",
        "transport-output",
        "output-queue",
        "queue-xmit",
        "xmit-done",
    ]
    document = synthetic_run.pathlat(PACKETS - 4, dropped=4)
    receive, _, send = document["paths"]
    written = [
        *receive["layers"],
        receive["path_time"],
        receive["since_entry"],
        *send["layers"],
        send["path_time"],
        *document["napi"],
    ]
    for series, layer in zip(run.of_trial(0), written, strict=True):
        assert sorted(series.histogram.buckets.items()) == [
            tuple(pair) for pair in layer["buckets"]
        ]
        assert series.histogram.total == layer["sum"]
    assert exact_trials(run) == synthetic_run.exact_trials()
    recordings = ["recorded"] * len(run.trials)
    assert [event.event for event in run.journal] == ["created", "attempt", *recordings, "finished"]
    assert {path.name for path in (run.folder / "logs").iterdir()} == {
        "pathlat-0.json",
        "sender-0.json",
        "receiver-0.json",
    }


def test_units_and_sentences_travel_in_the_parquet_files(tmp_path: Path) -> None:
    path = synthetic_run.finished_run(tmp_path, PACKETS)
    for table in TABLES:
        file = path / f"{table.file}.parquet"
        # Those of sweeps are there if they have rows.
        if not file.exists():
            assert table.later
            continue
        schema = pq.read_schema(file)
        for column in table.columns:
            metadata = schema.field(column.name).metadata
            assert metadata[b"unit"].decode() == column.unit
            assert metadata[b"about"].decode() == column.about
        units = {column.name: column.unit for column in table.columns}
        assert json.loads(schema.metadata[b"units"]) == units


def test_units_never_mix(folder: RunFolder) -> None:
    folder.record_probe(
        synthetic_run.pathlat(PACKETS),
        said=(synthetic_run.sender(PACKETS), synthetic_run.receiver(PACKETS)),
    )
    folder.record_probe(
        synthetic_run.pathlat(PACKETS),
        said=(synthetic_run.sender(PACKETS), synthetic_run.receiver(PACKETS)),
        clock="exact",
    )
    run = load(folder.path)
    assert {series.unit for series in run.of_trial(0)} == {"ns"}
    assert {series.unit for series in run.of_trial(1)} == {"instructions"}
    assert {series.layer: series.work for series in run.series if series.work} == {
        "time-softirq": PACKETS
    }
    [exact] = run.ledgers("exact")
    assert exact.exchange is not None
    assert exact.trial == 1


def test_tool_text_is_kept_as_it_was(folder: RunFolder) -> None:
    text = json.dumps(synthetic_run.sender(PACKETS))
    folder.record_probe(
        json.dumps(synthetic_run.pathlat(PACKETS)),
        said=(text, json.dumps(synthetic_run.receiver(PACKETS)).encode()),
    )
    assert (folder.logs / "sender-0.json").read_text() == text


def _set(*path: str | int, to: object) -> Callable[[Json], None]:
    def change(document: Json) -> None:
        place: Any = document
        for step in path[:-1]:
            place = place[step]
        place[path[-1]] = to

    return change


def _received(change: int) -> Callable[[Json], None]:
    """The receiver got so many more (or fewer) packets, and its account says so."""

    def apply(document: Json) -> None:
        document["received"] += change
        document["distinct"] += change
        document["lost"] -= change

    return apply


@pytest.mark.parametrize(
    ("which", "change", "reason"),
    [
        ("pathlat", _set("schema", to="skblab.pathlat/9"), "schema"),
        ("pathlat", _set("sub_buckets", to=32), "sub_buckets"),
        ("pathlat", _set("samples", "missed", to=-1), "samples.missed"),
        ("pathlat", _set(*RECEIVE, "ends", "delivered", to="many"), "ends.delivered"),
        ("pathlat", _set(*RECEIVE, "layers", 0, "count", to=1), "the buckets hold"),
        ("pathlat", _set(*RECEIVE, "layers", 0, "sum", to=1), "the sum 1 is outside"),
        ("pathlat", _set(*RECEIVE, "layers", 0, "max", to=1), "maximum"),
        ("pathlat", _set(*RECEIVE, "layers", 0, "from", to="moon"), "'moon' is not among the"),
        ("pathlat", _set(*RECEIVE, "layers", 0, "from", to="<b>"), "layers.0.from"),
        ("pathlat", _set(*RECEIVE, "layers", 0, "to", to="ip"), "two layers end at the same"),
        ("pathlat", _set(*RECEIVE, "seen", "ip", to=PACKETS + 1), "point ip was seen by"),
        ("pathlat", _set(*RECEIVE, "negative", to=3), "the path time holds 2000 packets of 2000"),
        ("pathlat", _set(*RECEIVE, "path", to="send"), "expected each one once"),
        ("pathlat", _set("paths", to=[]), "expected each one once"),
        ("pathlat", _set("merged", to=None), "merged"),
        ("sender", _set("sent", to=None), "the sender's document"),
        ("receiver", _set("received", to=1.5), "the receiver's document"),
        ("receiver", _set("received", to=PACKETS + 1), "received 2001 is not distinct 2000"),
        ("receiver", _set("lost", to=1), "expected 2000 is not distinct 2000 + lost 1"),
        ("receiver", _set("role", to="send"), "role"),
    ],
)
def test_bad_document_is_refused_in_one_line(
    folder: RunFolder, which: str, change: Callable[[Json], None], reason: str
) -> None:
    documents = {
        "pathlat": synthetic_run.pathlat(PACKETS),
        "sender": synthetic_run.sender(PACKETS),
        "receiver": synthetic_run.receiver(PACKETS),
    }
    change(documents[which])
    with pytest.raises(RecordError) as caught:
        folder.record_probe(documents["pathlat"], said=(documents["sender"], documents["receiver"]))
    assert reason in str(caught.value)
    assert "\n" not in str(caught.value)
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"sender": _set("sent", to=PACKETS + 5)}, "sent 2005 is not received 2000 + lost 0"),
        ({"sender": _set("sent", to=0)}, "no packet was sent"),
        ({"sender": _set("sent", to=PACKETS - 1)}, "received 2000 is more than sent 1999"),
        ({"receiver": _received(-7)}, "foreign packets were among them"),
        ({"pathlat": _set("stamps_on", "end", to=False)}, "did not stamp packets all the time"),
        (
            {"pathlat": _set("samples", "missed", to=21)},
            "21 packets are unaccounted for (21 missed)",
        ),
        ({"pathlat": _set(*RECEIVE, "seen", "ip", to=PACKETS - 1)}, "only 1999 passed its last"),
    ],
)
def test_broken_ledger_is_refused_and_kept_as_void(
    folder: RunFolder, changes: dict[str, Callable[[Json], None]], reason: str
) -> None:
    documents = {
        "pathlat": synthetic_run.pathlat(PACKETS),
        "sender": synthetic_run.sender(PACKETS),
        "receiver": synthetic_run.receiver(PACKETS),
    }
    for which, change in changes.items():
        change(documents[which])
    with pytest.raises(RefusedError, match="the ledger does not close") as caught:
        folder.record_probe(documents["pathlat"], said=(documents["sender"], documents["receiver"]))
    assert reason in str(caught.value)
    assert caught.value.exit_code == 1
    run = load(folder.path)
    assert [(row.state, row.reason) for row in run.trials] == [("invalid", str(caught.value))]
    assert run.ledgers() == []
    assert run.series == ()
    assert (folder.logs / "pathlat-0.json").exists()


def test_packets_the_kernel_never_took_are_not_lost(folder: RunFolder) -> None:
    ledger = exchanged(
        folder,
        synthetic_run.pathlat(PACKETS - 5, dropped=2),
        said=(synthetic_run.sender(PACKETS, unsent=3), synthetic_run.receiver(PACKETS, lost=5)),
    )
    assert (ledger.sent, ledger.unsent, ledger.received, ledger.lost) == (1_997, 3, 1_995, 2)
    assert ledger.lost_elsewhere == 0


def test_copies_and_foreign_datagrams_are_read_but_not_received(folder: RunFolder) -> None:
    receiver = synthetic_run.receiver(PACKETS)
    receiver |= {"received": PACKETS + 3, "duplicates": 2, "foreign": {"total": 1}}
    ledger = exchanged(
        folder, synthetic_run.pathlat(PACKETS + 3), said=(synthetic_run.sender(PACKETS), receiver)
    )
    assert (ledger.received, ledger.read, ledger.other) == (PACKETS, PACKETS + 3, 1)
    assert {count.not_seen for count in ledger.points} == {0}


def test_drops_of_other_traffic_are_told_apart_from_losses(folder: RunFolder) -> None:
    ledger = exchanged(
        folder,
        synthetic_run.pathlat(PACKETS, dropped=3),
        said=(synthetic_run.sender(PACKETS), synthetic_run.receiver(PACKETS)),
    )
    assert (ledger.lost, ledger.lost_elsewhere, ledger.dropped_elsewhere) == (0, 0, 3)


def test_a_packet_that_skips_a_point_is_not_seen_there_and_adds_up(folder: RunFolder) -> None:
    pathlat = synthetic_run.pathlat(PACKETS)
    receive = pathlat["paths"][0]
    # One packet more, 30 from the driver to ip without the point stack.
    for layer in (receive["path_time"], receive["since_entry"], receive["layers"][1]):
        _add(layer, 30)
    for layer in receive["layers"][2:]:
        _add(layer, 0)
    for point in receive["seen"]:
        receive["seen"][point] += point != "stack"
    receive["ends"]["delivered"] += 1
    ledger = exchanged(
        folder,
        pathlat,
        said=(synthetic_run.sender(PACKETS + 1), synthetic_run.receiver(PACKETS + 1)),
    )
    assert {count.point: count.not_seen for count in ledger.points}["stack"] == 1
    assert [series.histogram.count for series in load(folder.path).of_trial(0)][:2] == [
        PACKETS,
        PACKETS + 1,
    ]


def _add(layer: Json, value: int) -> None:
    histogram = Histogram(dict(layer["buckets"]), layer["sum"], layer["min"], layer["max"])
    histogram = histogram.merge(Histogram.of([value]))
    layer |= {
        "count": histogram.count,
        "sum": histogram.total,
        "min": histogram.minimum,
        "max": histogram.maximum,
        "buckets": [list(pair) for pair in sorted(histogram.buckets.items())],
    }


def test_times_that_cannot_be_placed_are_counted_and_seen(folder: RunFolder) -> None:
    pathlat = synthetic_run.pathlat(PACKETS - 1)
    receive = pathlat["paths"][0]
    receive["ends"]["delivered"] += 1
    receive["overflow"] = 1
    for point in receive["seen"]:
        receive["seen"][point] += 1
    ledger = exchanged(
        folder, pathlat, said=(synthetic_run.sender(PACKETS), synthetic_run.receiver(PACKETS))
    )
    assert ledger.incomplete == 1
    assert {count.not_seen for count in ledger.points} == {0}


def test_others_that_send_leave_the_senders_points_out(folder: RunFolder) -> None:
    ledger = exchanged(
        folder,
        synthetic_run.pathlat(PACKETS),
        said=(synthetic_run.sender(PACKETS), synthetic_run.receiver(PACKETS)),
    )
    assert [count.point for count in ledger.sent_points] == list(synthetic_run.SEND_POINTS)
    pathlat = synthetic_run.pathlat(PACKETS)
    pathlat["paths"][2] = synthetic_run.pathlat(PACKETS + 1)["paths"][2]
    ledger = exchanged(
        folder, pathlat, said=(synthetic_run.sender(PACKETS), synthetic_run.receiver(PACKETS))
    )
    assert ledger.sent_points == ()


def test_rows_from_before_there_were_paths_are_of_received_packets(tmp_path: Path) -> None:
    path = synthetic_run.finished_run(tmp_path, PACKETS)
    for table in (BUCKETS, SUMMARIES):
        arrow = pq.read_table(path / f"{table.file}.parquet")
        kept = arrow.filter(pc.field("path") != "send")
        kept = pa.concat_tables([kept, arrow.filter(pc.field("path").is_null())])
        pq.write_table(kept.drop_columns(["path"]), path / f"{table.file}.parquet")
    found = [series.path for series in load(path).of_trial(0) if series.kind != "napi"]
    assert set(found) == {"receive"}


def test_lost_is_by_the_sender_where_nothing_was_expected(folder: RunFolder) -> None:
    receiver = synthetic_run.receiver(PACKETS, lost=4) | {"expected": None, "lost": 1}
    ledger = exchanged(
        folder, synthetic_run.pathlat(PACKETS - 4), said=(synthetic_run.sender(PACKETS), receiver)
    )
    assert (ledger.sent, ledger.received, ledger.lost) == (PACKETS, PACKETS - 4, 4)


def test_layers_that_do_not_add_up_are_refused(folder: RunFolder) -> None:
    pathlat = synthetic_run.pathlat(PACKETS)
    # A nanosecond for the rounding of each interval is let through.
    pathlat["paths"][0]["layers"][0]["sum"] += 9 * PACKETS + 1
    with pytest.raises(RefusedError, match="the layers add up to"):
        folder.record_probe(
            pathlat, said=(synthetic_run.sender(PACKETS), synthetic_run.receiver(PACKETS))
        )


def test_more_than_a_thousandth_unseen_is_refused(folder: RunFolder) -> None:
    # Of what ended: received as well as sent.
    for missing, good in ((3, True), (4, False)):
        documents = (
            synthetic_run.pathlat(PACKETS - missing),
            synthetic_run.sender(PACKETS),
            synthetic_run.receiver(PACKETS),
        )
        if good:
            ledger = exchanged(folder, documents[0], said=documents[1:])
            assert ledger.unsampled == missing
            assert {count.not_seen for count in ledger.points} == {missing}
        else:
            with pytest.raises(
                RefusedError, match=r"\(4 unsampled\), more than 0\.1 % of the 3992"
            ):
                folder.record_probe(documents[0], said=documents[1:])


def test_exact_summary() -> None:
    summary = summarise(synthetic_run.exact_trials(), "rp_filter=0")
    assert [cost.setting for cost in summary.costs] == ["rp_filter=0", "rp_filter=1"]
    assert summary.baseline.boots == 2
    assert summary.baseline.repeats
    (difference,) = summary.differences
    assert difference.difference.effect == pytest.approx(350, abs=3)
    assert difference.difference.significant
    assert summary.path(summary.baseline) == pytest.approx(7_627 - 3_416, abs=4)


def _trials(setting: str, *per_packet: int) -> list[ExactTrial]:
    return [
        ExactTrial(setting=setting, block=boot, packets=100, delivered=100, instructions=100 * cost)
        for boot, cost in enumerate(per_packet)
    ]


def test_a_difference_within_its_interval_is_not_significant() -> None:
    summary = summarise([*_trials("a", 1000, 1004), *_trials("b", 1003, 1006)])
    found = summary.differences[0].difference
    # The variance is (8 + 4.5) / 2, Student's t of Welch's 6.25² / (4² + 2.25²) degrees is 4.643.
    assert (found.effect, found.significant, found.why) == (2.5, False, "scatter")
    assert found.margin == pytest.approx(4.643 * 6.25**0.5, abs=0.01)
    assert summary.baseline.repeats is False


@pytest.mark.parametrize(
    ("trials", "spread", "alarming"),
    [((2, 2), 1, 0.05), ((3, 3), 1, 0.05), ((2, 2), 20, 0.07), ((5, 2), 20, 0.07)],
)
def test_a_setting_seldom_differs_significantly_from_itself(
    trials: tuple[int, int], spread: int, alarming: float
) -> None:
    """In one of twenty comparisons about, however few trials; one may repeat worse by far."""
    chosen, comparisons, alarms = random.Random(2544), 2000, 0
    for _ in range(comparisons):
        figures = [
            [round(chosen.gauss(100_000, deviation)) for _ in range(count)]
            for count, deviation in zip(trials, (20, 20 * spread), strict=True)
        ]
        (change,) = summarise([*_trials("a", *figures[0]), *_trials("b", *figures[1])]).differences
        alarms += change.difference.significant is True
    # Three standard deviations of what is counted; one that never alarms sees nothing at all.
    assert 0.005 < alarms / comparisons < alarming + 3 * (0.05 * 0.95 / comparisons) ** 0.5


def test_settings_of_other_boots_have_testers_of_their_own() -> None:
    def booted(knobs: str, setting: str, part: Part, *per_packet: int) -> list[ExactTrial]:
        more = {"part": part, "boot_knobs": knobs}
        return [trial.model_copy(update=more) for trial in _trials(setting, *per_packet)]

    trials = [
        *booted("", "tester", "tester", 300, 301),
        *booted("", "a", "whole", 1000, 1000),
        *booted("", "b", "whole", 1010, 1010),
        *booted("kernel=rt", "tester", "tester", 500, 502),
        *booted("kernel=rt", "rt", "whole", 1400, 1405),
    ]
    summary = summarise(trials, "a")
    names = [tester.setting for tester in summary.testers]
    assert names == ["tester alone", "tester alone, kernel=rt"]
    assert [summary.path(cost) for cost in summary.costs] == [699.5, 709.5, 901.5]
    # Between wholes where the tester cancels, and else between paths.
    alike, apart = (difference.difference for difference in summary.differences)
    assert (alike.effect, apart.effect) == (10, 202)
    # Boots that agree to the last instruction are no more than two boots.
    assert alike.noise == 0
    assert alike.margin == pytest.approx(0.0003 * 1000)
    # Of paths, 700 and 699, 900 and 903, the variance is (0.5 + 4.5) / 2; t of Welch's 1.22 is 8.4.
    assert apart.margin == pytest.approx(8.39 * 2.5**0.5, abs=0.02)
    # Where a boot's tester was refused, those of the others stand for it.
    less = [trial for trial in trials if (trial.setting, trial.block) != ("tester", 1)]
    assert summarise(less, "a").differences[1].difference.effect == pytest.approx(202.5)
    # Without one of the testers nothing can be taken off.
    bare = summarise(
        [trial for trial in trials if trial.part == "whole" or not trial.boot_knobs], "a"
    )
    assert bare.path(bare.costs[2]) is None
    assert bare.differences[1].difference.effect == 402.5


def test_single_trials_have_no_spread() -> None:
    summary = summarise([*_trials("a", 1000), *_trials("b", 1200)])
    assert summary.baseline.spread is None
    assert summary.differences[0].difference.why == "one block"


def test_trials_of_one_boot_are_one_figure() -> None:
    """A boot may differ from the next by more than its own trials do from each other."""
    again = [trial.model_copy(update={"boot": 0}) for trial in _trials("b", 1202, 1201, 1200)]
    found = summarise([*_trials("a", 1000), *again]).differences[0].difference
    assert (found.effect, found.significant) == (201, None)


def test_a_stray_packet_at_the_sink_is_let_through() -> None:
    trials = [
        ExactTrial(setting="a", block=0, packets=1_000, delivered=1_001, instructions=7_000_000)
    ]
    assert summarise(trials).baseline.mean == 7_000


def test_contradicting_exact_trials_are_refused(folder: RunFolder) -> None:
    with pytest.raises(RefusedError, match="no exact trial has the baseline"):
        summarise(_trials("rp_filter=1", 1000, 1000), "rp_filter=0")
    (tester,) = [trial.model_copy(update={"part": "tester"}) for trial in _trials("none", 1000)]
    with pytest.raises(RefusedError, match="no exact trial holds the whole path"):
        summarise([tester])
    with pytest.raises(RefusedError, match="no less than the whole path's 1000"):
        summarise([*_trials("rp_filter=0", 1000), tester])
    for packets in (99, 101):
        (odd,) = [trial.model_copy(update={"delivered": packets}) for trial in _trials("a", 1000)]
        with pytest.raises(
            RefusedError, match=f"the sink counted {packets} packets of 100 offered"
        ):
            folder.record(odd)
    assert [row.state for row in load(folder.path).trials] == ["invalid"] * 2


def test_torn_journal_line_is_cut_and_a_run_goes_on(folder: RunFolder) -> None:
    folder.journal("attempt", trial=0)
    path = folder.path / "journal.jsonl"
    with path.open("ab") as handle:
        handle.write(b'{"at": "2025-')
    assert [event.event for event in load(folder.path).journal] == ["created", "attempt"]
    RunFolder.open(folder.path).journal("attempt", trial=1)
    assert [event.event for event in load(folder.path).journal] == [
        "created",
        "attempt",
        "attempt",
    ]


def test_a_record_that_was_cut_off_is_not_there(folder: RunFolder) -> None:
    folder.record(synthetic_run.exact_trials()[0])
    [part] = (folder.path / "parts").iterdir()
    part.rename(part.with_name(f".{part.name}.1.part"))
    assert load(folder.path).trials == ()
    again = RunFolder.open(folder.path)
    synthetic_run.record_all(again, _trials("rp_filter=0", 1000, 1000))
    assert len(load(folder.path).trials) == 2
    again.finish(synthetic_run.environment(), {})
    assert not (folder.path / "parts").exists()
    assert len(load(folder.path).trials) == 2


def recorded(path: Path) -> tuple[object, ...]:
    run = load(path)
    return run.trials, run.series, run.document.ledgers, run.document.trials


def test_tables_cut_off_at_any_file_lose_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The end of a run, which writes all tables anew, ends itself at its first, second, … file."""
    whole, ends = disk.write_whole, 0
    for allowed in range(100):
        folder = RunFolder.create(tmp_path, "demo", synthetic_run.plan(), synthetic=True)
        synthetic_run.record_all(folder, _trials("rp_filter=0", 1000))
        RunFolder.open(folder.path).fail("of which the tables have a trial")
        folder = RunFolder.open(folder.path)
        documents = (synthetic_run.pathlat(300), synthetic_run.sender(300))
        folder.record_probe(documents[0], said=(documents[1], synthetic_run.receiver(300)))
        synthetic_run.record_all(folder, _trials("rp_filter=1", 1000))
        before, left = recorded(folder.path), iter(range(allowed))

        def write(path: Path, data: str | bytes, left: Iterator[int] = left) -> None:
            if next(left, None) is None:
                raise OSError(errno.EIO, "Input/output error")
            whole(path, data)

        monkeypatch.setattr(disk, "write_whole", write)
        try:
            folder.finish(synthetic_run.environment(), {})
        except SkblabError:
            ends += 1
        monkeypatch.undo()
        assert recorded(folder.path) == before
        again = RunFolder.open(folder.path)
        synthetic_run.record_all(again, _trials("rp_filter=1", 1000))
        again.finish(synthetic_run.environment(), {})
        assert load(folder.path).trials[:-1] == before[0]
        assert not (folder.path / "parts").exists()
        if allowed > ends:
            break
    assert ends >= len(("trials", "layers", "layers_summary", "run.json"))


def test_parts_that_are_in_the_tables_are_not_read_again(folder: RunFolder) -> None:
    synthetic_run.record_all(folder, _trials("rp_filter=0", 1000, 1000))
    synthetic_run.record_all(folder, _trials("rp_filter=1", 1000))
    before = recorded(folder.path)
    left = {part: part.read_bytes() for part in (folder.path / "parts").iterdir()}
    folder.finish(synthetic_run.environment(), {})
    for part, content in left.items():
        part.parent.mkdir(exist_ok=True)
        part.write_bytes(content)
        assert recorded(folder.path) == before
    assert sorted(part.name for part in left) == ["00000000.json", "00000001.json", "00000002.json"]


def test_a_part_that_is_missing_or_torn_is_named(folder: RunFolder) -> None:
    for _ in range(3):
        synthetic_run.record_all(folder, _trials("rp_filter=0", 1000))
    first, second, _ = sorted((folder.path / "parts").iterdir())
    content = second.read_bytes()
    second.write_bytes(content[: len(content) // 2])
    with pytest.raises(RecordError, match=second.name):
        load(folder.path)
    second.write_bytes(first.read_bytes())
    with pytest.raises(RecordError, match=f"{second.name} begins with another trial"):
        load(folder.path)
    second.unlink()
    with pytest.raises(RecordError, match=r"2\.json begins with another trial than 1"):
        load(folder.path)


def test_two_runs_in_one_second_get_two_folders(tmp_path: Path) -> None:
    made = {RunFolder.create(tmp_path, "demo", synthetic_run.plan()).path for _ in range(3)}
    assert len(made) == 3


def test_failed_run_says_why(folder: RunFolder) -> None:
    folder.fail("the guest panicked: stack guard page was hit")
    run = load(folder.path)
    assert (run.document.state, run.document.reason) == (
        "failed",
        "the guest panicked: stack guard page was hit",
    )


def test_a_full_disk_hides_nothing_of_what_stopped_a_run(
    folder: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    synthetic_run.record_all(folder, synthetic_run.exact_trials())
    whole = disk.write_whole

    def full(path: Path, data: str | bytes) -> None:
        if path.suffix == ".parquet":
            raise OSError(errno.ENOSPC, "No space left on device")
        whole(path, data)

    monkeypatch.setattr(disk, "write_whole", full)
    folder.fail("stopped by a signal")
    assert [event.model_extra for event in folder.events("failed")] == [
        {"reason": "stopped by a signal"}
    ]
    run = load(folder.path)
    assert (run.document.state, run.document.reason) == ("failed", "stopped by a signal")
    assert exact_trials(run) == synthetic_run.exact_trials()


def test_bad_name_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match="name"):
        RunFolder.create(tmp_path, "../up", synthetic_run.plan())
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["run.json", "trials.parquet", "layers.parquet", "journal.jsonl"])
def test_missing_or_broken_file_is_named(tmp_path: Path, name: str) -> None:
    path = synthetic_run.finished_run(tmp_path, PACKETS)
    whole = (path / name).read_bytes()
    (path / name).write_bytes(b"not\n" + whole[: len(whole) // 2])
    with pytest.raises(RecordError, match=name):
        load(path)
    (path / name).unlink()
    with pytest.raises(RecordError, match=name):
        load(path)


def test_older_and_newer_tables_are_read_and_wrong_ones_refused(tmp_path: Path) -> None:
    path = synthetic_run.finished_run(tmp_path, PACKETS)
    trials = path / "trials.parquet"
    whole = pq.read_table(trials)
    pq.write_table(whole.drop_columns(["late_max"]).append_column("new", whole["trial"]), trials)
    run = load(path)
    assert run.trials[0].late_max is None
    assert not hasattr(run.trials[0], "new")
    pq.write_table(whole.drop_columns(["state"]), trials)
    with pytest.raises(RecordError, match="lacks the column state"):
        load(path)
    pq.write_table(whole.drop_columns(["block"]).append_column("block", whole["setting"]), trials)
    with pytest.raises(RecordError, match="column block is string, expected int64"):
        load(path)


def test_contradicting_tables_are_refused(tmp_path: Path) -> None:
    path = synthetic_run.finished_run(tmp_path, PACKETS)
    layers = path / "layers.parquet"
    whole = pq.read_table(layers)
    pq.write_table(whole.slice(1), layers)
    with pytest.raises(RecordError, match=r"layers\.parquet"):
        load(path)
    summary = path / "layers_summary.parquet"
    pq.write_table(whole, layers)
    pq.write_table(pq.read_table(summary).slice(1), summary)
    with pytest.raises(RecordError, match="buckets without a summary"):
        load(path)


def test_a_line_of_the_journal_is_on_the_disk_before_anything_else_is_done(
    folder: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    flushed = list[str]()

    def note(descriptor: int) -> None:
        flushed.append(Path(f"/proc/self/fd/{descriptor}").read_text().splitlines()[-1])

    monkeypatch.setattr(os, "fsync", note)
    folder.journal("attempt", trial=1)
    assert [json.loads(line)["event"] for line in flushed] == ["attempt"]


def test_full_disk_keeps_what_was_recorded(
    folder: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    synthetic_run.record_all(folder, synthetic_run.exact_trials())

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(SkblabError, match="the disk is full"):
        synthetic_run.record_all(folder, synthetic_run.exact_trials())
    monkeypatch.undo()
    assert exact_trials(load(folder.path)) == synthetic_run.exact_trials()
    assert not list(folder.path.rglob("*.part"))


def write_for_ever(folder: RunFolder) -> None:
    while True:
        folder.journal("attempt")
        synthetic_run.record_all(folder, synthetic_run.exact_trials())
        folder.fail("and goes on")


def test_killed_writer_leaves_a_readable_folder(tmp_path: Path) -> None:
    rng, each, lengths = random.Random(7), len(synthetic_run.exact_trials()), set[int]()
    for _ in range(8):
        folder = RunFolder.create(tmp_path, "demo", synthetic_run.plan(), synthetic=True)
        job = partial(write_for_ever, folder)
        synthetic_run.record_all(folder, synthetic_run.exact_trials())
        assert killed_after(rng.randrange(80), rng.uniform(1e-6, 2e-3), job)
        run = load(folder.path)
        assert len(run.trials) == run.document.trials >= each
        lengths.add(len(run.trials))
        synthetic_run.record_all(RunFolder.open(folder.path), synthetic_run.exact_trials())
        assert len(load(folder.path).trials) == len(run.trials) + each
    # Kills came before and after more was recorded.
    assert len(lengths) > 2


class Rowless(ExactTrial):
    """A trial that makes no row of what was measured."""

    def row(self, trial: int) -> TrialRow:
        """Return none: a column has what it cannot have."""
        return TrialRow(trial=trial, clock="exact", setting="\t")


def test_what_makes_no_row_is_one_clear_line(folder: RunFolder) -> None:
    [measured, *_] = synthetic_run.exact_trials()
    with pytest.raises(SkblabError, match=r"^what was measured is not as expected: setting: "):
        folder.record(Rowless.model_validate(dict(measured)))
    assert load(folder.path).trials == ()


def test_what_a_newer_skblab_has_written_is_never_compacted_away(folder: RunFolder) -> None:
    synthetic_run.record_all(folder, _trials("rp_filter=0", 1000))
    [part] = (folder.path / "parts").iterdir()
    written = json.loads(part.read_text())
    columns = written["tables"]["trials"]["columns"]
    for tables, name in (
        (written["tables"] | {"later": {"version": 1, "columns": {"trial": [0]}}}, "later"),
        (
            written["tables"] | {"trials": {"version": 9, "columns": columns}},
            "version",
        ),
        (
            written["tables"]
            | {"trials": written["tables"]["trials"] | {"columns": columns | {"new": [1]}}},
            "new of trials",
        ),
    ):
        part.write_text(json.dumps(written | {"tables": tables}))
        before = {path: path.read_bytes() for path in folder.path.rglob("*.parquet")}
        with pytest.raises(RecordError, match=name):
            folder.finish(synthetic_run.environment(), {})
        assert {path: path.read_bytes() for path in folder.path.rglob("*.parquet")} == before
        assert part.exists()
