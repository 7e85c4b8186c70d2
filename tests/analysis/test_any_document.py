# SPDX-License-Identifier: GPL-2.0-or-later
"""Any document that a tool prints, or a run folder holds, gives figures or one clear line."""

from __future__ import annotations

import io
import json
import math
from collections.abc import Callable
from pathlib import Path

import made_up_arrivals
import made_up_documents
import pytest
import synthetic_run
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from test_arrivals import counted
from test_report import fake_gnuplot

from mutated import Json, documents, examples, json_texts, value_or_line
from skblab_analysis.base.checked import parse
from skblab_analysis.base.errors import SkblabError
from skblab_analysis.formats.ledger import of_probe, refuse
from skblab_analysis.formats.pathlat import (
    COUNTING,
    Distribution,
    PathlatDocument,
    ReceiverDocument,
    SenderDocument,
)
from skblab_analysis.formats.pktsink import ArrivalsDocument, CountsDocument
from skblab_analysis.formats.tcp import TcpExchangeDocument, TcpServeDocument, TcpStreamDocument
from skblab_analysis.layers import series
from skblab_analysis.load import Run, load
from skblab_analysis.measures import VIEWS
from skblab_analysis.report.page import build_report
from skblab_analysis.runfolder import RunFolder

EXAMPLE = Path(__file__).parents[2] / "results-schema" / "example"
FEW = 20
PATHLAT = synthetic_run.pathlat(FEW, dropped=3)
SENDER, RECEIVER = synthetic_run.sender(FEW + 3), synthetic_run.receiver(FEW + 3, 3)
ARRIVALS = made_up_arrivals.document([50_000, 300_000, 800_000, 900_000, 60_000] * 4)
"""Of hooks, with groups and a late packet."""
LATE = {
    "threshold_ns": 1000,
    "in_a_row": 1,
    "packets_late": 1,
    "runs": 1,
    "recorded": 1,
    "limited": 0,
    "lost": 0,
    "tracing_stopped": False,
    "packets": [
        {
            "end_ns": 5000,
            "since_entry_ns": 2000,
            "before_ns": 0,
            "times": {"stack": 500, "ip": 1500},
            "path": "receive",
            "end": "delivered",
            "run": 1,
            "cpu": 0,
            "comm": "reader",
            "pid": 7,
            "ifindex": 2,
            "bytes": 64,
            "merged": 0,
            "backlog": 0,
            "source": {"address": "192.0.2.1", "port": 5},
            "cpu_did": [
                {"before_end_ns": 1900, "kind": "task", "id": 7, "comm": "reader"},
                {"before_end_ns": 900, "kind": "irq", "id": 3, "name": "eth0"},
                {"before_end_ns": 500, "kind": "irq_end", "id": 3},
            ],
        }
    ],
}
HOOKS = dict.fromkeys(
    ("attached", "entered", "began", "continued", "filtered_late", "in_flight", "replaced"), 0
) | dict.fromkeys(("refused", "sends_refused", "napis_refused", "bulk_cut"), 0)
HOOKED = PATHLAT | {
    "source": "hooks",
    "hooks": HOOKS | {"by": "fentry", "absent": ["ip"], "entered": 2 * FEW + 6},
    "late": LATE,
    "groups": [],
    "groups_others": 2 * FEW + 3,
    "polls": {"missed": 1},
}
KERNELS = PATHLAT | {
    "source": "histograms",
    "samples": None,
    "histograms": {"entered": FEW + 3, "sent": FEW + 3, "reentered": 0},
    "paths": [
        path | {"negative": None, "overflow": None, "reentered": None, "unsettled": 1}
        for path in PATHLAT["paths"]
    ],
}

TIMES = {
    "count": 30,
    "negative": 0,
    "min_ns": 5,
    "mean_ns": 7.5,
    "sd_ns": 1.5,
    "max_ns": 9,
    "percentiles_ns": {"50": 7},
}
TALLY = {"attempted": 31, "completed": 30, "failed": 1, "unfinished": 0}
PROCESS = {
    **dict.fromkeys(("minor_faults", "major_faults", "involuntary_switches"), 0),
    **dict.fromkeys(("realtime", "cpu", "rt_runtime_us", "rt_period_us")),
}
TCP_CLIENT = {
    "schema": "skblab.traffic/2",
    "to": "192.0.2.1:5000",
    "from": None,
    "asked": 31,
    "connections": TALLY,
    "errors": {"connect": {"ECONNREFUSED": 1}, "request": {}, "idle": {}},
    "rate_asked": 1000,
    "rate_planned": 1000.0,
    "rate_reached": 999.5,
    "seconds": 0.03,
    "late": {"threshold_ns": 100_000, "count": 1, "mean_ns": 5.0, "max_ns": 200_000},
    "percentile_error": 0.004,
    "stopped_by": "count",
    "process": PROCESS,
}
TCP_EXCHANGE = TCP_CLIENT | {
    "role": "tcp_crr",
    "flows": 4,
    "request_bytes": 16,
    "response_bytes": 16,
    "close": "server",
    "transactions": TALLY,
    "intervals": None,
    **dict.fromkeys(("connect", "request", "transaction", "since_due"), TIMES),
    "retransmitted": None,
}
TCP_STREAM = TCP_CLIENT | {
    "role": "tcp_stream",
    "reverse": False,
    "write_bytes": 1000,
    "writes": 31,
    "sent_bytes": 31_000,
    "received_bytes": 30_000,
    "received_rate": 8e6,
    "received_seconds": 0.03,
    "rtt": TIMES,
    "segments": 40,
    "retransmitted": 1,
    "retransmitted_bytes": 1000,
    "flows": [
        {
            "sent_bytes": 31_000,
            "received_bytes": 30_000,
            "received_seconds": 0.03,
            "rtt_ns": 7000,
            "min_rtt_ns": None,
            "retransmitted": 1,
        }
    ],
}
TCP_SERVE = {
    "schema": "skblab.traffic/2",
    "role": "tcp_serve",
    "bind": "192.0.2.1:5000",
    "accepted": 31,
    "closed": {"by_client": 10, "by_server": 10, "by_reset": 9},
    "failed": 1,
    "open": 1,
    "most_open": 4,
    "answered": 30,
    "streams": 0,
    "received_bytes": 480,
    "sent_bytes": 480,
    "errors": {"foreign": 1},
    "full": 0,
    "stopped_by": "signal",
    "process": PROCESS,
}


def check_distribution(one: Distribution) -> None:
    held = one.histogram()
    assert held.count == one.count and held.minimum <= held.maximum
    for q in series.QUANTILES.values():
        value = held.quantile(q)
        assert value is None or (math.isfinite(value) and held.minimum <= value <= held.maximum)


@examples
@given(json_texts(PATHLAT, HOOKED, KERNELS))
def test_what_pathlat_prints(text: str) -> None:
    def read() -> None:
        document = parse(PathlatDocument, text, "the pathlat document")
        for path in document.paths:
            for times in (*path.layers, path.path_time, path.since_entry):
                check_distribution(times)
        for packet in document.late.packets if document.late else ():
            assert packet.slowest[1] >= 0 and all(ns >= 0 for ns in packet.doings.values())
        found = of_probe(0, "ns", document)
        assert found.missing >= 0 and found.share >= 0
        refuse(found, 0.1)

    value_or_line(read)


@examples
@given(json_texts(PATHLAT, HOOKED, KERNELS))
def test_what_pathlat_prints_while_it_counts_on(text: str) -> None:
    def read() -> None:
        document = parse(PathlatDocument, text, "the pathlat document", context=COUNTING)
        for path in document.paths:
            check_distribution(path.path_time)

    value_or_line(read)


def tcp_exchange(text: str) -> TcpExchangeDocument:
    return parse(TcpExchangeDocument, text, "the document of tcp-crr")


def tcp_stream(text: str) -> TcpStreamDocument:
    return parse(TcpStreamDocument, text, "the document of tcp-stream")


def tcp_serve(text: str) -> TcpServeDocument:
    return parse(TcpServeDocument, text, "the document of tcp-serve")


def test_what_the_tcp_commands_print_is_read() -> None:
    assert tcp_exchange(json.dumps(TCP_EXCHANGE)).transactions.completed == 30
    assert tcp_stream(json.dumps(TCP_STREAM)).flows[0].received_bytes == 30_000
    assert tcp_serve(json.dumps(TCP_SERVE)).closed.by_reset == 9


@pytest.mark.parametrize(
    ("read", "document", "wrong", "said"),
    [
        (tcp_exchange, TCP_EXCHANGE, {"transactions": TALLY | {"failed": 2}}, "became of them"),
        (tcp_exchange, TCP_EXCHANGE, {"connections": TALLY | {"attempted": 9}}, "became of them"),
        (tcp_exchange, TCP_EXCHANGE, {"request": TIMES | {"count": 32}}, "32 answers of 31"),
        (tcp_exchange, TCP_EXCHANGE, {"connect": TIMES | {"count": 29}}, "29 times of 30"),
        (tcp_exchange, TCP_EXCHANGE, {"role": "tcp_stream"}, "role"),
        (tcp_stream, TCP_STREAM, {"received_bytes": 1}, "not the flows'"),
        (tcp_stream, TCP_STREAM, {"flows": []}, "not the flows'"),
        (tcp_serve, TCP_SERVE, {"open": 2}, "accepted 31 is not closed 29"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_tcp_accounts_that_do_not_agree(
    read: Callable[[str], object], document: Json, wrong: dict[str, Json], said: str
) -> None:
    assert isinstance(document, dict)
    with pytest.raises(SkblabError, match=said):
        read(json.dumps({**document, **wrong}))


@examples
@given(json_texts(TCP_EXCHANGE), json_texts(TCP_STREAM), json_texts(TCP_SERVE))
def test_what_the_tcp_commands_print(exchange: str, stream: str, serve: str) -> None:
    asked = value_or_line(lambda: tcp_exchange(exchange))
    if asked is not None:
        done = asked.transactions
        assert done.attempted == done.completed + done.failed + done.unfinished
    sent = value_or_line(lambda: tcp_stream(stream))
    assert sent is None or sent.received_bytes <= sent.sent_bytes
    served = value_or_line(lambda: tcp_serve(serve))
    assert served is None or served.accepted >= served.failed + served.open


@examples
@given(json_texts(ARRIVALS))
def test_what_pktsink_prints(text: str) -> None:
    def read() -> None:
        document = parse(ArrivalsDocument, text, "the document of pktsink")
        for times in (document.latency, document.inter_arrival, document.jitter):
            check_distribution(times)
        assert all(isinstance(doubt, str) for doubt in document.doubts())
        series.from_arrivals(0, document)

    value_or_line(read)


@examples
@given(json_texts(counted(), counted("counters")))
def test_what_pktsink_counts_by_cpu(text: str) -> None:
    def read() -> None:
        document = parse(CountsDocument, text, "the document of pktsink")
        rates = document.packets_per_second, document.bits_per_second
        assert all(rate is None or math.isfinite(rate) for rate in rates)
        assert all(on.packets.lost_at_least >= 0 for on in document.cpus)

    value_or_line(read)


@examples
@given(json_texts(SENDER), json_texts(RECEIVER))
def test_what_sender_and_receiver_print(sent: str, got: str) -> None:
    def read() -> None:
        sender = parse(SenderDocument, sent, "the sender's document")
        receiver = parse(ReceiverDocument, got, "the receiver's document")
        assert sender.rate_reached is None or math.isfinite(sender.rate_reached)
        layers = parse(PathlatDocument, PATHLAT, "it")
        of_probe(0, "ns", layers, (sender, receiver))

    value_or_line(read)


@examples
@given(documents(PATHLAT, HOOKED, KERNELS), documents(SENDER), documents(RECEIVER), st.booleans())
def test_a_trial_is_recorded_or_void(
    results: Path, layers: Json, sent: Json, got: Json, plain: bool
) -> None:
    """Whatever the three programs say, the run goes on and can be read."""
    folder = RunFolder.create(results, "any", synthetic_run.plan(FEW), synthetic=True)
    pathlat, sender, receiver = (
        document if plain else json.dumps(document) for document in (layers, sent, got)
    )
    ledger = value_or_line(lambda: folder.record_probe(pathlat, said=(sender, receiver)))
    synthetic_run.record_all(folder, synthetic_run.exact_trials())
    run = load(folder.path)
    assert len(run.trials) == 1 + len(synthetic_run.exact_trials())
    assert run.trials[0].state == ("invalid" if ledger is None else "good")


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("results")


@pytest.fixture(scope="module")
def run(results: Path) -> Run:
    """A run without trials, to have a document beside its tables."""
    folder = RunFolder.create(results, "beside", synthetic_run.plan(FEW), synthetic=True)
    return load(folder.path)


def shown(run: Run) -> None:
    """Show a run in all ways."""
    console = Console(file=io.StringIO(), width=100)
    for view in VIEWS:
        console.print(*view.tables(run))
        assert all(map(str.strip, view.sentences(run)))
        view.headline(run)
        view.sections(run)
        view.unseen(run)
        for stored, rows in view.derived(run):
            stored.arrow_of(rows)


@pytest.mark.parametrize("name", made_up_documents.FILES)
@examples
@given(data=st.data())
def test_a_document_beside_the_tables(run: Run, name: str, data: st.DataObject) -> None:
    """Of a profile, a comparison, a search or times of functions: shown, or one line."""
    text = data.draw(json_texts(made_up_documents.FILES[name]))
    file = run.folder / name
    file.write_text(text, errors="surrogatepass")
    try:
        value_or_line(lambda: shown(run))
    finally:
        file.unlink()


@pytest.mark.parametrize("name", made_up_documents.FILES)
def test_the_documents_beside_the_tables_are_good(run: Run, name: str) -> None:
    (run.folder / name).write_text(json.dumps(made_up_documents.FILES[name]))
    try:
        shown(run)
        build_report(run.folder, fake_gnuplot)
    finally:
        (run.folder / name).unlink()


@pytest.mark.parametrize(
    ("name", "wrong", "said"),
    [
        ("bisect.json", {"parent": "x"}, "parent is 'x': expected a commit with a figure"),
        ("bisect.json", {"bad": "e" * 40}, "bad is 'eee"),
        ("compare.json", {"workloads": []}, "a verdict is on 'forward4' and side 1: there are no"),
        ("functions.json", {"clock": {"b": 1.0}}, "the clock is of b: expected a, b"),
        ("functions.json", {"clock": {"a": 1.0, "b": 1e300}}, "clock.b: expected a number from"),
    ],
)
def test_a_document_that_contradicts_itself(
    run: Run, name: str, wrong: dict[str, Json], said: str
) -> None:
    (run.folder / name).write_text(json.dumps({**made_up_documents.FILES[name], **wrong}))
    try:
        with pytest.raises(SkblabError, match=said):
            shown(run)
    finally:
        (run.folder / name).unlink()


def test_profiles_of_one_run_are_alike(run: Run) -> None:
    names = ("functions.json", "functions-2.json")
    whole = made_up_documents.FILES[names[0]]
    try:
        for name, document in zip(names, (whole, whole | {"memory": None}), strict=True):
            (run.folder / name).write_text(json.dumps(document))
        with pytest.raises(SkblabError, match=r"functions-2\.json is not as expected: another row"):
            shown(run)
        (run.folder / names[1]).write_text(json.dumps(whole))
        shown(run)
    finally:
        for name in names:
            (run.folder / name).unlink()
