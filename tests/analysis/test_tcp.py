# SPDX-License-Identifier: GPL-2.0-or-later
"""TCP flows of our own client and server: what is stored, what settings differ, what is shown."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import page_checks
import pytest
from made_up_tcp import (
    BASELINE,
    FLOW,
    NAMES,
    asked,
    exchange,
    recorded,
    stream,
    study,
    taken,
    tally,
)
from test_report import fake_gnuplot
from test_tables import text

from skblab_analysis.base.checked import RefusedError
from skblab_analysis.base.sampled import Sampled
from skblab_analysis.load import Run, load
from skblab_analysis.report import findings, summary
from skblab_analysis.report.page import build_report
from skblab_analysis.report.terminal import of_run
from skblab_analysis.tcp.rows import TcpRow
from skblab_analysis.tcp.summary import of
from skblab_analysis.tcp.view import VIEW, tables
from skblab_analysis.traffic.rows import FlowTimesRow


def compared_with_others(run: Run) -> Sequence[Sampled]:
    return VIEW.samples(run)


def test_a_trial_has_a_row_and_one_for_each_kind_of_time(tmp_path: Path) -> None:
    run = recorded(tmp_path, asked(BASELINE, 0, exchange("tcp_rr", failed=10, due=True), rate=1000))
    [trial] = run.trials
    assert (trial.measure, trial.clock, trial.rate, trial.sent) == ("tcp", "wall", None, None)
    [row] = run.rows(TcpRow)
    assert (row.kind, row.unit, row.asked, row.reached) == ("requests", "1/s", 1000, 1000.0)
    assert (row.attempted, row.completed, row.failed) == (1000, 990, 10)
    assert (row.errors, row.retransmitted, row.segments) == ("10 ETIMEDOUT (connect)", 3, None)
    times = {row.kind: row for row in run.rows(FlowTimesRow)}
    # A transaction is its request.
    assert list(times) == ["connect", "request", "since_due"]
    assert (times["since_due"].p50, times["since_due"].count) == (200_000, 990)


def test_a_stream_has_bits(tmp_path: Path) -> None:
    run = recorded(tmp_path, asked(BASELINE, 0, stream(2e9, asked=3_000_000_000), rate=3 * 10**9))
    [row] = run.rows(TcpRow)
    assert (row.kind, row.unit, row.asked, row.reached) == ("stream", "bits/s", 3 * 10**9, 2e9)
    assert (row.attempted, row.received_bytes) == (2, 1000)
    assert (row.segments, row.retransmitted) == (1000, 10)
    assert [row.kind for row in run.rows(FlowTimesRow)] == ["rtt"]
    [flow] = of(run)
    cells = [re.split(r"\s{2,}", line) for line in text(tables(flow)[0]).splitlines()]
    lines = {name: figures for name, *figures in cells}
    assert lines["setting"][:4] == ["asked Mbit/s", "reached Mbit/s", "failed", "sent again"]
    space = "\N{NO-BREAK SPACE}"
    assert lines[BASELINE][:4] == ["3 000.0", "2 000.0", f"0{space}%", f"1.0{space}%"]


@pytest.mark.parametrize(
    ("trial", "why"),
    [
        (
            asked(BASELINE, 0, exchange(failed=1000)),
            "of 1000 begun none was completed: 1000 ETIMEDOUT (connect)",
        ),
        (
            asked(
                BASELINE,
                0,
                exchange()
                | {"transactions": tally(0), "connections": tally(1, 1)}
                | dict.fromkeys(("connect", "request", "transaction"), taken(1, 0)),
            ),
            "no connection was made",
        ),
        (
            asked(BASELINE, 0, exchange(), accepted=7),
            "1000 connections were made, and the server took 7: something else answered, or the "
            "server was overloaded",
        ),
    ],
    ids=["nothing", "no connection", "somebody else"],
)
def test_what_is_no_figure_is_refused(tmp_path: Path, trial: object, why: str) -> None:
    with pytest.raises(RefusedError, match=re.escape(why)):
        recorded(tmp_path, trial)  # type: ignore[arg-type]
    [folder] = tmp_path.iterdir()
    run = load(folder)
    assert [row.state for row in run.trials] == ["invalid"]
    assert of(run) == []


def test_as_fast_as_it_goes_settings_are_compared_by_their_rate(tmp_path: Path) -> None:
    [flow] = of(study(tmp_path))
    assert (flow.flow, flow.kind, flow.by_time) == (FLOW, "connections", False)
    assert [one.setting for one in flow.asked] == list(NAMES)
    faster, same = (flow.change(name) for name in NAMES[1:])
    assert faster is not None and faster.difference.significant
    # 1 999 and 999 a second.
    assert faster.difference.effect == pytest.approx(1, abs=0.01)
    assert same is not None and same.difference.effect == 0


def test_with_a_rate_settings_are_compared_by_the_time_since_due(tmp_path: Path) -> None:
    [flow] = of(study(tmp_path, "tcp_rr", due=True))
    assert (flow.kind, flow.by_time) == ("requests", True)
    faster = flow.change("twice as fast")
    assert faster is not None and faster.difference.significant
    assert faster.difference.effect == pytest.approx(-0.5, abs=0.01)
    said = " ".join(findings.sentences(study(tmp_path / "again", "tcp_rr", due=True)))
    assert "99 of 100 answers are whole" in said
    assert f"99th percentile of the time since due against {BASELINE}: twice as fast" in said


def test_a_setting_of_another_rate_is_not_compared(tmp_path: Path) -> None:
    run = recorded(
        tmp_path,
        *(
            asked(name, block, stream(1e9 + block, asked=rate), rate=rate)
            for block in range(3)
            for name, rate in zip(NAMES, (10**9, 2 * 10**9, 10**9), strict=True)
        ),
    )
    [flow] = of(run)
    assert [change.setting for change in flow.changes] == ["the same again"]


def test_times_are_not_compared_with_none_nor_with_other_times(tmp_path: Path) -> None:
    others = (None, "poisson:1ms", "poisson:10us")
    run = recorded(
        tmp_path,
        *(
            asked(name, block, exchange(due=bool(text)) | {"intervals": text})
            for block in range(3)
            for name, text in zip(NAMES, others, strict=True)
        ),
        *(
            asked("as exact", block, exchange(due=True) | {"intervals": "poisson:1ms"})
            for block in range(3)
        ),
    )
    [flow] = of(run)
    assert flow.changes == ()
    [sample, *_] = [one for one in compared_with_others(run) if one.setting == "as exact"]
    assert ("intervals", "poisson:1ms") in sample.how


def test_too_few_answers_for_a_percentile_are_told(tmp_path: Path) -> None:
    said = exchange(due=True)
    said["since_due"]["percentiles_ns"] = {"50": said["since_due"]["percentiles_ns"]["50"]}
    run = recorded(tmp_path, asked(BASELINE, 0, said, rate=50))
    assert any(
        "too few answers in a trial for a 99th percentile" in one for one in findings.unseen(run)
    )


def test_what_failed_is_told(tmp_path: Path) -> None:
    run = recorded(tmp_path, asked(BASELINE, 0, exchange(failed=5)))
    assert (
        f"{FLOW}: with {BASELINE} some failed, and are in no time: 5 ETIMEDOUT (connect)."
        in findings.unseen(run)
    )


def test_the_tables_the_page_and_the_document_have_the_same(tmp_path: Path) -> None:
    run = study(tmp_path, due=True)
    printed = "\n".join(text(table) for table in of_run(run.folder))
    for title in (
        f"TCP connections ({FLOW})",
        f"Connecting (ns, {FLOW})",
        "From when a transaction was due",
    ):
        assert title in printed
    page = build_report(run.folder, fake_gnuplot)
    page_checks.check(page)
    words = " ".join(page.read_text().split())
    assert f"TCP: {FLOW}" in words and "TCP over IPv4, connections, one at a time" in words
    found = {
        (figure.setting, figure.figure, figure.part): figure.value
        for figure in summary.of_run(run.folder, page).figures
        if figure.measure == "tcp"
    }
    assert found[BASELINE, "rate asked", ""] == 1000
    assert found["twice as fast", "p50", "since_due"] == 2 * 50 * 1001
