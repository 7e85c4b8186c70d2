# SPDX-License-Identifier: GPL-2.0-or-later
"""`skblab analyze`: what comes of files whose figures are known beforehand, and what it refuses."""

from __future__ import annotations

import csv
import json
import struct
import subprocess
import sys
from collections.abc import Callable, Sequence
from io import StringIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import page_checks
import pyarrow.parquet as pq
import pytest
import schema_checks
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console
from test_report import fake_gnuplot

from conftest import Skblab
from skblab.analyze import parquet, running
from skblab.analyze.running import Asked
from skblab.commands import analyze as command
from skblab.lab import labroot, tools
from skblab.lab.labroot import LabRoot
from skblab.lab.reporter import Reporter
from skblab_analysis.base.errors import SkblabError, UsageError
from skblab_analysis.formats.analyze import FileFigures
from skblab_analysis.formats.packets import RECORD, Flag, Header, block_bytes
from skblab_analysis.formats.traces import opening
from skblab_analysis.load import load
from skblab_analysis.packets import tables

HEADER = Header(
    begun_ns=0,
    transmission=1,
    sender_clock="CLOCK_REALTIME",
    receiver_clock="CLOCK_REALTIME",
    stamps="kernel",
    one_clock=True,
)
STEP_NS = 1000
Json = dict[str, Any]


@pytest.fixture(scope="session")
def program(lab: LabRoot) -> Path:
    """The program itself."""
    return tools.ensure_traffic(lab, Reporter()) / tools.PKTSTAT


@pytest.fixture
def fake(tmp_path: Path) -> Callable[..., Path]:
    """Return a program that prints this to both outputs, and ends with this status."""

    def make(stdout: str = "", stderr: str = "", status: int = 0) -> Path:
        (tmp_path / "out").write_text(stdout)
        (tmp_path / "err").write_text(stderr)
        made = tmp_path / "program"
        made.write_text(
            f"#!/bin/sh\ncat {tmp_path}/out\ncat {tmp_path}/err >&2\n"
            f'echo "$@" >{tmp_path}/words\nexit {status}\n'
        )
        made.chmod(0o755)
        return made

    return make


def pairs(latencies: Sequence[int]) -> bytes:
    """Return packets that are sent each microsecond."""
    sent = range(0, STEP_NS * len(latencies), STEP_NS)
    return b"".join(
        struct.pack("<QQ", at, at + latency) for at, latency in zip(sent, latencies, strict=True)
    )


def write_records(
    path: Path, rows: Sequence[tuple[int, int, int, int]], in_block: int = 4096
) -> None:
    """Write records of number, sent, received and flags."""
    records = np.zeros(len(rows), RECORD)
    for name, at in (("sequence", 0), ("sent_ns", 1), ("received_ns", 2), ("flags", 3)):
        records[name] = [row[at] for row in rows]
    records["payload_bytes"] = 64
    with path.open("wb") as file:
        file.write(HEADER.to_bytes())
        for begin in range(0, len(rows), in_block):
            file.writelines(block_bytes(begin, records[begin : begin + in_block]))
        file.writelines(block_bytes(len(rows), records[:0]))


def a_document(**changes: object) -> Json:
    """Return what the program may print of a file."""
    times = {
        **{"count": 2, "negative": 0, "min": 10_000, "mean": 10_500.0, "sd": 707.1, "max": 11_000},
        **{"percentiles": {"50": 10_016}, "histogram": [[9984, 10_047, 1], [10_944, 11_007, 1]]},
    }
    anomaly = {
        **{"place": 0, "sequence": 7, "packets": 2, "first_ns": 5, "last_ns": 1005},
        **{"duration_ns": 1000, "min_ns": 10_000, "mean_ns": 10_500.0, "max_ns": 11_000},
        **{"open_begin": True, "open_end": True},
    }
    begun = {
        **{"begin_ns": 0, "anomalies": 1, "packets": 2, "longest_ns": 1000},
        **{"min_ns": 10_000, "mean_ns": 10_500.0, "max_ns": 11_000},
    }
    late = {
        **{"least": 2, "late_ns": 5000, "of_median": 2.5, "count": 1, "packets": 2, "share": 1.0},
        **{"open_begin": True, "open_end": True, "longest": [anomaly]},
        "duration_ns": {"total": 1000, "min": 1000, "mean": 1000.0, "max": 1000},
        "over_time": {"width_ns": 1024, "origin_ns": 5, "rows": [begun]},
    }
    bins = [{"begin_ns": 0, "packets": 2, "min_ns": 10_000, "mean_ns": 10_500.0, "max_ns": 11_000}]
    flow = {
        **{"flow": 3, "packets": 2, "bytes": 128, "seconds": 1e-6, "rate": 1e6},
        **{"min_ns": 10_000, "mean_ns": 10_500.0, "sd_ns": 707.1, "max_ns": 11_000},
        **{"percentiles": times["percentiles"], "histogram": times["histogram"]},
    }
    return {
        **{"file": "a.rec", "format": "records", "troubles": [], "unknown": {}, "received": 3},
        **{"packets": 2, "bytes": 192, "duplicates": 1, "too_old": 0, "beyond": 0, "foreign": 0},
        **{"other_transmission": 0, "not_by_kernel": 0, "bad_times": 0, "not_kept": 0},
        **{"missing": 1, "lost": 1, "lost_share": 1 / 3, "first_ns": 5, "latest_ns": 1005},
        "reordered": {"count": 1, "share": 0.5, "extent_packets": times, "at_least": 0}
        | {
            "density": {
                "threshold": 256,
                "packets": [[-1, 1], [1, 1]],
                "beyond": 0,
                "occupancy": [[0, 1], [1, 1]],
            }
        },
        **{"seconds": 1e-6, "rate": 1e6, "latency_ns": times, "latency_of": "one way"},
        **{"jitter_ns": times, "inter_arrival_ns": times, "late": [late], "flows": [flow]},
        "over_time": {"width_ns": 1024, "origin_ns": 5, "rows": bins},
        **changes,
    }


def told_text(document: Json) -> str:
    """Return what a user sees, in 80 columns."""
    console = Console(file=StringIO(), width=80, highlight=False)
    for part in tables.of_file(FileFigures.model_validate(document)):
        console.print(part, soft_wrap=isinstance(part, str), markup=False)
    assert isinstance(console.file, StringIO)
    return console.file.getvalue()


def test_tables_are_for_people() -> None:
    text = told_text(a_document())
    assert "a.rec (records): 2 packets in 1e-06 s, 1 000 000 packets/s" in text
    assert "≥ 2 × 5 (x2.5)" in text
    assert any(line.rstrip().endswith("both") for line in text.splitlines())
    assert "33.3" in text
    assert max(map(len, text.splitlines())) <= 80
    assert "…" not in text


def test_every_kind_of_time_has_its_line() -> None:
    rows = [line.split() for line in told_text(a_document()).splitlines()]
    assert ["µs", "latency,", "one", "way", "jitter", "inter-arrival"] in rows
    for name, value in (
        ("min", "10.000"),
        ("mean", "10.500"),
        ("deviation", "0.707"),
        ("max", "11.000"),
    ):
        assert [name, *[value] * 3] in rows
    assert ["50", "%", *["10.016"] * 3] in rows


@pytest.mark.parametrize(
    ("begin", "end", "word"),
    [
        (False, False, "no"),
        (True, False, "begin"),
        (False, True, "end"),
        (True, True, "both"),
    ],
)
def test_where_the_data_is_within_an_anomaly(begin: bool, end: bool, word: str) -> None:
    document = a_document()
    document["late"][0] |= {"open_begin": begin, "open_end": end}
    [line] = [line for line in told_text(document).splitlines() if "≥ " in line]
    assert line.split()[-1] == word


@pytest.mark.parametrize(
    ("field", "named"),
    [
        ("other_transmission", "of another transmission"),
        ("foreign", "foreign"),
        ("too_old", "too old"),
        ("beyond", "beyond those expected"),
        ("not_by_kernel", "stamped late"),
        ("bad_times", "without a time"),
        ("not_kept", "received, not in the file"),
    ],
)
def test_packets_that_do_not_count_are_named(field: str, named: str) -> None:
    lines = told_text(a_document(**{field: 4321})).splitlines()
    assert [*named.split(), "4", "321"] in [line.split() for line in lines]
    assert named not in told_text(a_document(**{field: 0}))


def test_large_figures_fit_in_80_columns() -> None:
    document = a_document(received=10**11, packets=10**11)
    document["late"] = [{**document["late"][0], "late_ns": 123_456_789, "count": 10**8}] * 2
    document["late"][0]["packets"] = 10**10
    text = told_text(document)
    assert "…" not in text
    assert max(map(len, text.splitlines())) <= 80


def test_what_is_not_known_is_said_once() -> None:
    why = "the file has no numbers of packets"
    document = a_document(
        lost=None,
        missing=None,
        lost_share=None,
        reordered=None,
        unknown={"lost": why, "missing": why},
    )
    assert f"not known: lost, missing: {why}" in told_text(document)
    rows = [line.split() for line in told_text(a_document(jitter_ns=None)).splitlines()]
    assert ["min", "10.000", "–", "10.000"] in rows


def test_packets_that_are_not_in_the_file_bound_the_loss() -> None:
    text = told_text(a_document(lost=None, lost_share=None, missing=12, not_kept=5))
    assert "lost, at most" in text
    assert "received, not in the file" in text


def test_what_is_asked_becomes_options(fake: Callable[..., Path], tmp_path: Path) -> None:
    asked = Asked(
        form="pairs",
        late=("2:1us", "3:x5"),
        packets=":7",
        seconds="1:",
        flow=3,
        by_flow=True,
        same_clock=True,
        bins=9,
        threads=2,
    )
    made = fake(json.dumps(a_document()))
    running.figures(made, Path("-a"), asked, Path("list"))
    words = (tmp_path / "words").read_text().split()
    assert words == [
        *("--format=pairs", "--packets=:7", "--seconds=1:", "--flow=3", "--bins=9", "--threads=2"),
        *(
            "--late=2:1us",
            "--late=3:x5",
            "--by-flow",
            "--same-clock",
            "--anomalies=list",
            "--",
            "-a",
        ),
    ]


@pytest.mark.parametrize(
    ("stderr", "status", "kind", "said"),
    [
        ("skblab-pktstat: a: it is empty\n", 2, UsageError, "^a: it is empty$"),
        ("error: invalid value '2'\n\nmore\n", 2, UsageError, "^invalid value '2'$"),
        ("skblab-pktstat: writing b: full\n", 1, SkblabError, "^writing b: full$"),
        ("", 0, SkblabError, "printed no figures of a: .*Invalid JSON"),
    ],
)
def test_what_the_program_refuses_is_one_line(
    fake: Callable[..., Path], stderr: str, status: int, kind: type[SkblabError], said: str
) -> None:
    with pytest.raises(kind, match=said) as raised:
        running.figures(fake("{" * (not stderr), stderr, status), Path("a"), Asked())
    assert "\n" not in str(raised.value)
    assert isinstance(raised.value, UsageError) == (kind is UsageError)


def test_a_program_that_is_killed_is_said(tmp_path: Path) -> None:
    made = tmp_path / "program"
    made.write_text("#!/bin/sh\nkill -9 $$\n")
    made.chmod(0o755)
    with pytest.raises(SkblabError, match="ended by signal 9"):
        running.figures(made, Path("a"), Asked())


def test_a_list_is_of_one_file_in_a_folder_that_is_there(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="for one file"):
        running.analyse(Path("p"), [Path("a"), Path("b")], Asked(), tmp_path / "list")
    with pytest.raises(UsageError, match="there is no folder"):
        running.analyse(Path("p"), [Path("a")], Asked(), tmp_path / "no" / "list")
    with pytest.raises(UsageError, match="there is no folder"):
        parquet.write(Path("p"), [Path("a")], Asked(), tmp_path / "no" / "tables")


def test_a_list_that_fails_leaves_nothing(fake: Callable[..., Path], tmp_path: Path) -> None:
    folder = tmp_path / "made"
    folder.mkdir()
    (folder / "list").write_text("before")
    with pytest.raises(SkblabError):
        running.analyse(fake(status=1), [Path("a")], Asked(), folder / "list")
    assert [path.name for path in folder.iterdir()] == ["list"]
    assert (folder / "list").read_text() == "before"


@pytest.fixture
def printing(
    fake: Callable[..., Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Callable[[Json], None]:
    """Have the command run a program that prints this document."""

    def of(document: Json) -> None:
        fake(json.dumps(document)).replace(tmp_path / tools.PKTSTAT)
        monkeypatch.setattr(labroot, "ensure", lambda *_: SimpleNamespace())
        monkeypatch.setattr(tools, "ensure_traffic", lambda *_: tmp_path)

    return of


def test_the_command_prints_its_document(
    skblab_here: Skblab, printing: Callable[[Json], None]
) -> None:
    printing(a_document())
    done = skblab_here("analyze", "a.rec", "b.rec", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    found = json.loads(done.stdout)
    schema_checks.schema("analyze").validate(found)
    assert len(found["files"]) == 2
    assert found["files"][0] == a_document()


def test_a_run_is_kept_with_its_page(
    skblab_here: Skblab,
    printing: Callable[[Json], None],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    printing(a_document())
    results = tmp_path / "results"
    monkeypatch.setenv("SKBLAB_RESULTS", str(results))
    monkeypatch.setattr(command, "find_gnuplot", lambda: fake_gnuplot)
    done = skblab_here("analyze", "a.rec", "--late", "2:9us", "--report")
    assert done.returncode == 0, done.stderr
    [folder] = results.iterdir()
    assert f"Report: {folder / 'report' / 'index.html'}" in done.stdout
    page_checks.check(folder / "report" / "index.html")
    run = load(folder)
    assert run.document.state == "finished" and run.document.environment is None
    assert "--late=2:9us --report -- " in run.document.plan.again
    document = json.loads((folder / "packets.json").read_text())
    schema_checks.schema("analyze").validate(document)
    assert document["files"][0]["file"] == "a.rec"
    # Nothing is kept that was not asked for.
    assert skblab_here("analyze", "a.rec").returncode == 0
    assert len(list(results.iterdir())) == 1


def test_trouble_is_said_and_makes_the_status_1(
    skblab_here: Skblab, printing: Callable[[Json], None]
) -> None:
    printing(a_document(troubles=["the file has no end: its writer was stopped"]))
    done = skblab_here("analyze", "a.rec")
    assert done.returncode == 1
    assert done.stderr == "skblab: a.rec: the file has no end: its writer was stopped\n"
    assert "2 packets" in done.stdout


def test_both_lists_are_bad_usage(skblab_here: Skblab, printing: Callable[[Json], None]) -> None:
    printing(a_document())
    done = skblab_here("analyze", "a.rec", "--parquet", "x", "--anomalies", "y")
    assert done.returncode == 2
    assert "--parquet has all anomalies" in done.stderr


def test_the_default_is_said_by_the_help(skblab_here: Skblab) -> None:
    text = " ".join(skblab_here("analyze", "--help").stdout.replace("│", " ").split())
    assert f"[default: {', '.join(command.LATE)}]" in text


# From here on the program itself.
@pytest.mark.labroot
def test_closed_form(program: Path, tmp_path: Path) -> None:
    """Latencies from 1 to 1000 ns, a hundred times: the last ten of each are late."""
    file = tmp_path / "made.data"
    file.write_bytes(pairs([*range(1, 1001)] * 100))
    found = running.figures(program, file, Asked(form="pairs", late=("10:991ns", "11:991ns")))
    assert found.latency_ns
    assert found.packets == found.latency_ns.count == 100_000
    assert (found.latency_ns.min, found.latency_ns.mean, found.latency_ns.max) == (1, 500.5, 1000)
    # Σx² is that of the discrete uniform distribution.
    variance = (1000**2 - 1) / 12 * 100_000 / 99_999
    assert found.latency_ns.sd == pytest.approx(variance**0.5, rel=1e-12)
    for name, right in (("50", 500), ("90", 900), ("99", 990), ("99.9", 999)):
        assert found.latency_ns.percentiles[name] == pytest.approx(right, rel=1 / 256 + 1e-9)
    assert "99.999" not in found.latency_ns.percentiles
    assert found.jitter_ns
    # By 1 ns, but back by 999 ns between the hundreds.
    assert (found.jitter_ns.min, found.jitter_ns.max) == (1, 999)
    assert found.jitter_ns.mean == pytest.approx((99_900 + 99 * 999) / 99_999)
    assert found.inter_arrival_ns.mean == pytest.approx((99_999 * STEP_NS + 999) / 99_999)
    assert found.late
    assert [(kind.count, kind.packets) for kind in found.late] == [(100, 1000), (0, 0)]
    assert (found.late[0].open_begin, found.late[0].open_end) == (False, True)
    assert sum(row.packets for row in found.over_time.rows) == 100_000


@pytest.mark.labroot
def test_an_all_late_file_is_one_anomaly(program: Path, tmp_path: Path) -> None:
    file = tmp_path / "timestamps-late.data"
    file.write_bytes(
        b"".join(struct.pack("<dd", at / 1e6, at / 1e6 + 0.001) for at in range(50_000))
    )
    found = running.figures(program, file, Asked(late=("2:750us", "2:x0.5")))
    assert found.format == "timestamps"
    assert found.late
    for kind in found.late:
        assert (kind.count, kind.packets, kind.share) == (1, 50_000, 1.0)
        assert kind.open_begin
        assert kind.open_end


@pytest.mark.labroot
def test_loss_and_reordering(program: Path, tmp_path: Path) -> None:
    file = tmp_path / "made.rec"
    order = [0, 1, 2, 5, 6, 3, 7, 7, 9]
    flags = [0, 0, 0, 0, 0, Flag.REORDERED, 0, Flag.DUPLICATE, 0]
    rows = [
        (n, at * 10, at * 10 + 5, flag)
        for at, (n, flag) in enumerate(zip(order, flags, strict=True))
    ]
    write_records(file, rows, in_block=2)
    found = running.figures(program, file, Asked())
    assert (found.received, found.packets, found.duplicates, found.lost) == (9, 8, 1, 2)
    assert found.lost_share == 0.2
    assert found.reordered
    # 3 came two packets behind 5, the first one with a higher number.
    assert (found.reordered.count, found.reordered.extent_packets.max) == (1, 2)
    assert found.reordered.share == 1 / 8
    # 4 and 8 are lost, so that 5, 6 and 3 have the places of 3, 5 and 6.
    density = found.reordered.density
    assert density is not None
    assert density.packets == ((-2, 1), (-1, 1), (0, 5), (3, 1)) and density.beyond == 0
    # 5 waits for 3, and then 6 does, too.
    assert density.occupancy == ((0, 6), (1, 1), (2, 1))


@pytest.mark.labroot
def test_a_run_that_goes_on_or_was_killed(program: Path, tmp_path: Path) -> None:
    file = tmp_path / "made.rec"
    write_records(file, [(at, at * 10, at * 10 + 5, 0) for at in range(10)], in_block=5)
    whole = file.read_bytes()
    # Without its end, within the second block, and with a byte wrong in the first.
    file.write_bytes(whole[:-32])
    found = running.figures(program, file, Asked())
    assert (found.packets, found.troubles) == (10, ("the file has no end: its writer was stopped",))
    file.write_bytes(whole[:-64])
    found = running.figures(program, file, Asked())
    assert found.packets == 5
    assert len(found.troubles) == 1
    assert "ends within the block" in found.troubles[0]
    file.write_bytes(whole[:170] + b"\xff" + whole[171:])
    found = running.figures(program, file, Asked())
    assert (found.packets, found.not_kept, found.missing, found.lost) == (5, 5, 5, None)
    assert any("damaged" in trouble for trouble in found.troubles)


@pytest.mark.labroot
def test_it_says_what_an_import_says(program: Path, tmp_path: Path) -> None:
    """Of the same packets, by other code: counts, times, percentiles."""
    dice = np.random.default_rng(7)
    numbers = np.arange(20_000) + dice.integers(0, 4, 20_000)
    numbers = numbers[dice.random(20_000) > 0.01]
    sent = 10**9 + numbers * STEP_NS
    came = sent + dice.integers(1000, 9000, len(sent))
    rows = [*zip(numbers.tolist(), sent.tolist(), came.tolist(), [0] * len(sent), strict=True)]
    write_records(tmp_path / "made.rec", rows)
    judged = tmp_path / "judged.rec"
    document = opening.run(tmp_path / "made.rec", judged, None)
    stream = document.streams[0]
    found = running.figures(program, judged, Asked())
    assert (found.received, found.bytes, found.lost) == (stream.received, stream.bytes, stream.lost)
    assert (found.packets, found.duplicates) == (stream.distinct, stream.duplicates)
    assert found.duplicates
    assert found.reordered
    assert found.reordered.count == stream.reordered
    for ours, theirs in (
        (found.inter_arrival_ns, stream.inter_arrival),
        (found.jitter_ns, stream.jitter),
        (found.latency_ns, stream.delay),
    ):
        assert ours
        assert theirs
        assert (ours.count, ours.min, ours.max) == (theirs.count, theirs.min_ns, theirs.max_ns)
        assert ours.negative == theirs.negative
        assert ours.mean == pytest.approx(theirs.mean_ns)
        assert ours.sd == pytest.approx(theirs.sd_ns)
        shared = {name: ours.percentiles[name] for name in theirs.percentiles_ns}
        assert shared == theirs.percentiles_ns


@pytest.mark.labroot
@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(0, 5000), max_size=300), st.integers(1, 4), st.integers(0, 5000))
def test_numpy_says_the_same(
    program: Path,
    tmp_path_factory: pytest.TempPathFactory,
    latencies: list[int],
    least: int,
    late: int,
) -> None:
    file = tmp_path_factory.getbasetemp() / "any.data"
    file.write_bytes(pairs(latencies))
    found = running.figures(program, file, Asked(form="pairs", late=(f"{least}:{late}ns",)))
    assert found.late
    marks = np.concatenate(([0], np.array(latencies, int) >= late, [0])).astype(int)
    edges = np.diff(marks)
    lengths = np.flatnonzero(edges == -1) - np.flatnonzero(edges == 1)
    long = lengths[lengths >= least]
    assert (found.late[0].count, found.late[0].packets) == (len(long), int(long.sum()))
    assert found.latency_ns
    if latencies:
        assert found.latency_ns.mean == pytest.approx(np.mean(latencies))
        assert found.latency_ns.max == max(latencies)


@pytest.mark.labroot
def test_tables_have_units_and_all_anomalies(program: Path, tmp_path: Path) -> None:
    files = [tmp_path / "one.rec", tmp_path / "two.rec"]
    for file in files:
        rows = [(at, at * 10, at * 10 + (9 if at % 4 < 2 else 1), 0) for at in range(10_000)]
        write_records(file, rows)
    asked = Asked(late=("2:5ns",), by_flow=True)
    found = parquet.write(program, files, asked, tmp_path / "tables")
    assert [one.late[0].count for one in found if one.late] == [2500, 2500]
    tables = {path.stem: pq.read_table(path) for path in (tmp_path / "tables").iterdir()}
    assert tables.keys() == parquet.COLUMNS.keys()
    assert tables["anomalies"].num_rows == 5000
    assert tables["anomalies"].schema.field("duration_ns").metadata == {b"unit": b"ns"}
    rows = tables["over_time"].to_pylist()
    assert sum(row["packets"] for row in rows) == 20_000
    assert {row["what"]: row["packets"] for row in tables["counts"].to_pylist()}[
        "packets"
    ] == 10_000
    latency = [row for row in tables["figures"].to_pylist() if row["of"] == "latency_ns"]
    assert [row["max"] for row in latency] == [9, 9]
    assert [(row["flow"], row["p50"], row["p99"]) for row in tables["flows"].to_pylist()] == [
        (0, 1, 9)
    ] * 2
    held = [tuple(row.values())[1:] for row in tables["flow_histogram"].to_pylist()]
    assert held == [(0, 1, 1, 5000), (0, 9, 9, 5000)] * 2
    assert {(row["places"], row["packets"]) for row in tables["displacement"].to_pylist()} == {
        (0, 10_000)
    }
    assert [(row["waiting"], row["arrivals"]) for row in tables["occupancy"].to_pylist()] == [
        (0, 10_000)
    ] * 2
    # The same as CSV, of one of them.
    running.analyse(program, files[:1], asked, tmp_path / "list.csv")
    with (tmp_path / "list.csv").open() as listed:
        lines = [*csv.DictReader(listed)]
    assert len(lines) == 2500
    assert lines[0]["open_begin"] == "true"
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


@pytest.mark.labroot
@pytest.mark.parametrize(
    ("content", "options", "said"),
    [
        (b"", Asked(), "it is empty"),
        (b"x" * 200, Asked(), "does not begin as records do"),
        (b"x" * 200, Asked(form="records"), "does not begin as"),
        (HEADER.to_bytes()[:9], Asked(), "shorter than the header"),
        (b"", Asked(form="pairs", late=("0:1us",)), "N is a number from 1 on"),
        (b"", Asked(form="pairs", late=("2:1",)), "T ends in ns, us, ms or s"),
        (b"", Asked(form="pairs", late=("2:nanus",)), "T ends in ns, us, ms or s"),
        (b"", Asked(form="pairs", late=("2:1us",) * 9), "8 kinds at most"),
        (b"", Asked(form="pairs", packets="7:7"), "FROM is below TO"),
        (b"", Asked(form="pairs", seconds="x:"), "expected FROM:TO"),
    ],
)
def test_bad_input_is_one_line(
    program: Path, tmp_path: Path, content: bytes, options: Asked, said: str
) -> None:
    file = tmp_path / "file"
    file.write_bytes(content)
    with pytest.raises(UsageError, match=said):
        running.figures(program, file, options)


@pytest.mark.labroot
def test_memory_is_bounded(program: Path, tmp_path: Path) -> None:
    """Each other two packets are an anomaly: of two kinds, and by four threads."""
    file = tmp_path / "many.data"
    block = pairs([9, 9, 1, 1] * 8192)
    with file.open("wb") as made:
        for _ in range(64):
            made.write(block)
    call = [
        str(program),
        "--format=pairs",
        "--late=1:5ns",
        "--late=2:5ns",
        "--threads=4",
        str(file),
    ]
    # Of a process that has no other children: the largest of them is what it says.
    code = (
        "import resource, subprocess, sys; subprocess.run(sys.argv[1:], check=True, stdout=2);"
        "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *call], check=True, capture_output=True, text=True
    )
    assert int(done.stdout) < 64 * 1024
