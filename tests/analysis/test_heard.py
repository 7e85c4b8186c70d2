# SPDX-License-Identifier: GPL-2.0-or-later
"""What kernels complained of makes their trial invalid, is in no figure, and is shown."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import page_checks
import pytest
import synthetic_run
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from searches import search
from test_report import fake_gnuplot

from skblab_analysis.base.checked import RecordError, RefusedError, parse
from skblab_analysis.exact import summary as exact_summary
from skblab_analysis.formats import heard
from skblab_analysis.formats.heard import Heard
from skblab_analysis.formats.ledger import of_probe
from skblab_analysis.formats.pathlat import PathlatDocument
from skblab_analysis.load import load
from skblab_analysis.report import terminal
from skblab_analysis.report.page import build_report
from skblab_analysis.runfolder import RunFolder
from skblab_analysis.throughput.rows import FoundRow, LoadRow

PACKETS = 2000
WARNING = Heard("router", "warning", "WARNING: CPU: 0 PID: 7 at net/core/dev.c:1 f+0x1/0x2")
STALL = Heard("tester", "RCU stall", "rcu: INFO: rcu_preempt self-detected stall on CPU")


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    return RunFolder.create(tmp_path, "demo", synthetic_run.plan(), synthetic=True)


def wall(folder: RunFolder) -> None:
    folder.record_probe(
        synthetic_run.pathlat(PACKETS),
        said=(synthetic_run.sender(PACKETS), synthetic_run.receiver(PACKETS)),
    )


def a_ledger(folder: RunFolder) -> None:
    document = parse(PathlatDocument, synthetic_run.pathlat(PACKETS), "made up")
    folder.record_ledger("udp", of_probe(len(load(folder.path).trials), "ns", document), 1.0)


RECORDS: dict[str, Callable[[RunFolder], object]] = {
    "wall": wall,
    "probe": lambda folder: folder.record_probe(synthetic_run.pathlat(PACKETS), 1.0),
    "ledger": a_ledger,
    "counted": lambda folder: folder.record(synthetic_run.exact_trials()[0]),
    "search": lambda folder: folder.record(search("rp_filter=1", 0, 1000.0)),
}


@pytest.mark.parametrize("what", RECORDS)
def test_a_trial_with_a_complaint_is_invalid_and_in_no_figure(folder: RunFolder, what: str) -> None:
    folder.heard([WARNING, STALL])
    with pytest.raises(RefusedError) as refused:
        RECORDS[what](folder)
    assert str(refused.value).startswith("invalid, for a kernel complained during the trial: ")
    assert WARNING.line in str(refused.value)
    run = load(folder.path)
    assert {row.state for row in run.trials} == {"invalid"}
    assert {row.reason for row in run.trials} == {
        f"kernel warning (router): {WARNING.line}, and 1 more such line"
    }
    assert not run.series
    assert not run.rows(LoadRow)
    assert not run.rows(FoundRow)
    assert not run.document.ledgers
    assert not exact_summary.of(run)
    [complaint] = run.complaints()
    assert list(complaint.trials) == [row.trial for row in run.trials]
    assert [(line.machine, line.line, line.count) for line in complaint.lines] == [
        ("router", WARNING.line, 1),
        ("tester", STALL.line, 1),
    ]
    # And no trial after it.
    RECORDS[what](folder)
    again = load(folder.path)
    assert {row.state for row in again.trials[len(run.trials) :]} == {"good"}


def test_a_trial_that_is_void_anyway_says_both(folder: RunFolder) -> None:
    folder.heard([WARNING])
    folder.record_invalid("wall", "rp_filter=1", "rp_filter: is 0, expected 1")
    [row] = load(folder.path).trials
    assert row.reason == f"rp_filter: is 0, expected 1; kernel warning (router): {WARNING.line}"
    folder.heard([WARNING])
    with pytest.raises(RefusedError, match="the ledger does not close"):
        folder.record_probe(
            synthetic_run.pathlat(200),
            said=(synthetic_run.sender(300), synthetic_run.receiver(200)),
        )
    [_, row] = load(folder.path).trials
    assert "the ledger does not close" in row.reason
    assert WARNING.line in row.reason


def test_outside_of_trials_it_makes_none_invalid(folder: RunFolder) -> None:
    folder.heard_apart([], "while nothing was said")
    folder.heard_apart([WARNING], "while the guest booted")
    wall(folder)
    run = load(folder.path)
    assert [row.state for row in run.trials] == ["good"]
    [complaint] = run.complaints()
    assert (complaint.trials, complaint.where) == ((), "while the guest booted")


def test_a_kernel_that_warns_of_every_packet_does_not_fill_the_disk(folder: RunFolder) -> None:
    many = [Heard("guest", "warning", f"WARNING: CPU: 0 PID: {n} at x") for n in range(3000)]
    folder.heard([*many, *many[:2]])
    with pytest.raises(RefusedError, match="and 3001 more such lines"):
        wall(folder)
    [complaint] = load(folder.path).complaints()
    assert [line.count for line in complaint.lines] == [2, 2, *[1] * (heard.MOST - 2)]
    assert sum(line.count for line in complaint.lines) + complaint.more == 3002


def test_page_and_terminal_show_it(folder: RunFolder) -> None:
    folder.heard_apart([STALL, STALL], "while <the> guest booted")
    folder.heard([WARNING])
    with pytest.raises(RefusedError):
        wall(folder)
    synthetic_run.record_all(folder, synthetic_run.exact_trials())
    page = page_checks.check(build_report(folder.path, fake_gnuplot))
    assert (
        f"Trial 0 is invalid and in no figure: kernel warning (router): {WARNING.line}" in page.text
    )
    assert "A kernel complained while <the> guest booted: kernel RCU stall (tester)" in page.text
    assert f"{STALL.line} (2 times)" in page.text
    assert "What kernels complained of" in page.text
    console = Console(file=io.StringIO(), width=200)
    for table in terminal.of_run(folder.path):
        console.print(table)
    assert isinstance(console.file, io.StringIO)
    lines = [" ".join(line.split()) for line in console.file.getvalue().splitlines()]
    assert f"trial 0 kernel warning (router): {WARNING.line}" in lines


def test_without_any_nothing_is_said_of_it(folder: RunFolder) -> None:
    wall(folder)
    assert "kernels complained" not in build_report(folder.path, fake_gnuplot).read_text()


LINE = {"machine": "guest", "kind": "warning", "line": "WARNING", "count": 1}
# Of what an event may have, and of what is near it.
VALUES: st.SearchStrategy[Any] = st.sampled_from(
    [
        None,
        True,
        -1,
        0,
        2**70,
        1.5,
        "",
        "x",
        [],
        [0],
        [-1],
        ["x"],
        {},
        [LINE],
        [LINE | {"count": 0}],
    ]
)
EVENTS = st.dictionaries(
    st.sampled_from(["trials", "when", "setting", "more", "lines", "other"]), VALUES
)


@given(EVENTS)
def test_any_event_is_understood_or_refused_in_one_line(event: dict[str, object]) -> None:
    try:
        [found] = heard.complaints([event])
    except RecordError as error:
        assert "\n" not in str(error)
    else:
        assert found.where
        assert found.lines[0].count > 0
