# SPDX-License-Identifier: GPL-2.0-or-later
"""Flows of our own sender and receiver: what is stored, what settings differ, what is shown."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import page_checks
import pytest
from made_up_flows import BASELINE, NAMES, PACKETS, PUBLISHED, exchanged, recorded, study
from test_report import fake_gnuplot
from test_tables import text

from skblab_analysis.base.checked import RecordError, RefusedError
from skblab_analysis.formats.pathlat import ArrivalStamps
from skblab_analysis.formats.published import of_parameters, parameters
from skblab_analysis.load import load
from skblab_analysis.report import findings, summary
from skblab_analysis.report.page import build_report
from skblab_analysis.report.terminal import of_run
from skblab_analysis.traffic.rows import FlowTimesRow
from skblab_analysis.traffic.summary import of
from skblab_analysis.traffic.view import tables


def test_a_trial_has_a_row_for_each_kind_of_time(tmp_path: Path) -> None:
    run = recorded(tmp_path, exchanged(BASELINE, 0, 50_000, lost=7))
    [trial] = run.trials
    assert (trial.measure, trial.rate, trial.clock) == ("traffic", 1000, "wall")
    assert (trial.sent, trial.received, trial.lost, trial.reordered) == (PACKETS, 9993, 7, 3)
    assert (trial.send_rate, trial.late, trial.late_max) == (999.9, 2, 123_456)
    rows = {row.kind: row for row in run.rows(FlowTimesRow)}
    assert list(rows) == ["inter_arrival", "inter_arrival_error", "jitter", "delay"]
    assert (rows["delay"].least, rows["delay"].p50, rows["delay"].most) == (4000, 9000, 14_000)


def test_what_did_not_come_is_told_by_who_knows_it(tmp_path: Path) -> None:
    run = recorded(
        tmp_path,
        exchanged(BASELINE, 0, 1000, lost=70, socket={"drops": 50}, unsent=10_000),
        # Among these are packets that nobody of the flow misses.
        exchanged(NAMES[1], 0, 1000, lost=70, socket={"drops": 90}),
        # Of a program of before.
        exchanged(NAMES[2], 0, 1000, lost=70, socket=None),
    )
    assert [(row.unsent, row.dropped, row.lost) for row in run.trials] == [
        (10_000, 50, 20),
        (0, 70, 0),
        (0, None, 70),
    ]
    for row in run.trials:
        assert row.sent is not None and row.received is not None
        assert row.lost == row.sent - row.received - (row.dropped or 0)
    cells = [re.split(r"\s{2,}", line) for line in text(tables(of(run)[0])[0]).splitlines()]
    lines = {name: figures[2:5] for name, *figures in cells}
    space = "\N{NO-BREAK SPACE}"
    assert lines["setting"] == ["not sent", "dropped", "lost"]
    assert lines[BASELINE] == [f"50{space}%", f"0.50{space}%", f"0.20{space}%"]
    assert lines[NAMES[1]] == [f"0{space}%", f"0.70{space}%", f"0{space}%"]
    assert lines[NAMES[2]] == [f"0{space}%", "–", f"0.70{space}%"]
    said = findings.unseen(run)
    assert any("receiver's own socket dropped" in one and NAMES[1] in one for one in said)
    assert any(one.endswith(f"refused packets, with {BASELINE}.") for one in said)
    found = {
        (figure.setting, figure.figure): figure.value
        for figure in summary.of_run(run.folder, tmp_path).figures
    }
    names = ("not sent", "dropped", "lost")
    assert [found[BASELINE, name] for name in names] == pytest.approx([0.5, 0.005, 0.002])


def test_without_a_packet_there_is_no_figure(tmp_path: Path) -> None:
    with pytest.raises(RefusedError, match="of 10000 packets none came"):
        recorded(tmp_path, exchanged(BASELINE, 0, 1, lost=PACKETS))
    [folder] = tmp_path.iterdir()
    [trial] = load(folder).trials
    assert trial.state == "invalid"
    assert of(load(folder)) == []


def test_more_packets_than_were_sent_are_no_figure(tmp_path: Path) -> None:
    with pytest.raises(RefusedError, match="10001 packets came of 10000 that were sent"):
        recorded(tmp_path, exchanged(BASELINE, 0, 1, lost=-1, expected=None))


def test_settings_are_compared_by_the_error_of_their_times(tmp_path: Path) -> None:
    [flow] = of(study(tmp_path))
    assert [exchange.setting for exchange in flow.exchanges] == list(NAMES)
    assert (flow.flow, flow.rate, flow.by_time) == ("one way", 1000, True)
    better, same = (flow.change(name) for name in NAMES[1:])
    assert better is not None and better.difference.significant
    assert better.difference.effect == pytest.approx(-0.9, abs=0.01)
    # It is within the width of a bucket of the receiver's histogram.
    assert same is not None and not same.difference.significant
    first = flow.exchanges[0]
    # Of all blocks: the smallest, the median's median, the largest.
    assert first.times["inter_arrival"].least == 1_000_000 - 50_200
    assert first.times["inter_arrival"].p50 == 1_000_000
    assert first.times["inter_arrival"].most == 1_000_000 + 50_200
    assert first.published == PUBLISHED[BASELINE]


def test_flows_without_an_interval_are_compared_by_their_rate(tmp_path: Path) -> None:
    [flow] = of(study(tmp_path, rate=None))
    assert (flow.rate, flow.by_time) == (None, False)
    change = flow.change("priority 50")
    assert change is not None
    # 995 and 950 packets a second.
    assert change.difference.effect == pytest.approx(995 / 950 - 1, abs=1e-3)


def test_the_rate_that_was_asked_for_is_beside_the_one_that_was_sent(tmp_path: Path) -> None:
    run = recorded(
        tmp_path,
        *(
            exchanged(setting, block, 1000, 0, rate)
            for block in range(3)
            for setting, rate in zip(NAMES, (1000, 1000, 990), strict=True)
        ),
        exchanged("as fast as it goes", 0, 1000, 0, None),
    )
    [flow] = of(run)
    # All of them sent 999.9 a second.
    assert [exchange.rate for exchange in flow.exchanges] == [1000, 1000, 990, None]
    assert [exchange.off for exchange in flow.exchanges] == [
        pytest.approx(-1e-4),
        pytest.approx(-1e-4),
        pytest.approx(0.01),
        None,
    ]
    # Of another rate than the baseline's none is compared, nor one without.
    assert (flow.rate, flow.by_time) == (1000, True)
    assert [change.setting for change in flow.changes] == ["priority 50"]
    _, rates, *_ = tables(flow)
    table = text(rates)
    cells = [re.split(r"\s{2,}", line) for line in table.splitlines()]
    lines = {name: figures for name, *figures in cells}
    assert lines["setting"] == ["asked/s", "sent/s", "off"]
    assert lines[BASELINE] == ["1 000", "999.9", "−0.0100\N{NO-BREAK SPACE}%"]
    assert lines["the same again"] == ["990", "999.9", "+1.0000\N{NO-BREAK SPACE}%"]
    assert lines["as fast as it goes"] == ["–", "999.9", "–"]
    found = {
        (figure.setting, figure.figure): (figure.value, figure.rate)
        for figure in summary.of_run(run.folder, tmp_path).figures
    }
    off, rate = found["the same again", "rate off"]
    assert off == pytest.approx(0.01)
    assert rate == 990
    assert ("as fast as it goes", "rate off") not in found
    assert found["as fast as it goes", "send rate"] == (999.9, None)


def test_without_a_rate_no_table_is_of_one(tmp_path: Path) -> None:
    [flow] = of(study(tmp_path, rate=None))
    assert all("asked/s" not in text(table) for table in tables(flow))


def test_one_block_says_that_nothing_is_known_of_differences(tmp_path: Path) -> None:
    run = recorded(tmp_path, *(exchanged(name, 0, 1000) for name in NAMES))
    assert any("one block only" in sentence for sentence in findings.unseen(run))


def test_tables_have_the_published_figures_below_ours(tmp_path: Path) -> None:
    printed = "\n".join(text(table) for table in of_run(study(tmp_path).folder))
    lines = printed.splitlines()
    [place] = [number for number, line in enumerate(lines) if line.startswith("  published")]
    assert lines[place - 1].startswith(BASELINE)
    assert lines[place].split() == ["published", "845", "1", "000", "–", "–", "1", "158", "26"]
    assert "−89.8" in printed
    for title in ("Packets (one way)", "Inter-arrival times (µs, one way)", "Jitter", "One-way"):
        assert title in printed


def test_clocks_that_differ_have_no_delay(tmp_path: Path) -> None:
    run = study(tmp_path, delay=None)
    assert "One-way delay" not in "\n".join(text(table) for table in of_run(run.folder))
    assert any("one-way delays are not known" in said for said in findings.unseen(run))


def test_delays_between_two_machines_say_how_far_they_may_be_off(tmp_path: Path) -> None:
    made = [
        exchanged(BASELINE, 0, 1000).by_clocks(2_000),
        exchanged(BASELINE, 1, 1000).by_clocks(5_000),
        exchanged(NAMES[1], 0, 1000).by_clocks("a clock was set"),
        exchanged(NAMES[1], 1, 1000).by_clocks("a clock was set"),
    ]
    run = recorded(tmp_path, *made)
    assert [row.clock_off for row in run.rows(FlowTimesRow) if row.kind == "delay"] == [2000, 5000]
    assert all(row.clock_off is None for row in run.rows(FlowTimesRow) if row.kind == "jitter")
    [delays] = [table for table in tables(of(run)[0]) if "One-way" in str(table.title)]
    lines = [re.split(r"\s{2,}", line.strip()) for line in text(delays).splitlines()]
    assert ["clocks" in line for line in lines if "setting" in line] == [True]
    assert [line[-1] for line in lines if BASELINE in line] == ["±5 000"]
    # Of all blocks, the worst; it is more than the smallest delay, 4 µs.
    said = findings.unseen(run)
    assert any(re.search(r"may be longer or shorter by up to 5\S*\sµs,", one) for one in said)
    assert any("one-way delays are not known" in one for one in said)
    page = build_report(run.folder, fake_gnuplot)
    page_checks.check(page)
    words = " ".join(page.read_text().split())
    assert (
        "±5" in words
        and "<i>Clocks</i> is by how much each delay may be longer or shorter" in words
    )
    document = summary.of_run(run.folder, page)
    assert [
        figure.value for figure in document.figures if figure.figure == "clock uncertainty"
    ] == [5000]


@pytest.mark.parametrize(
    ("negative", "stepped", "why"),
    [
        (0, 5, "the receiver's clock was set while packets came"),
        (5000, 0, "33.+ of them are below zero by what is known of the clocks"),
        (9, 0, None),
    ],
)
def test_delays_that_the_clocks_make_wrong_are_none(
    negative: int, stepped: int, why: str | None
) -> None:
    made = exchanged(BASELINE, 0, 1000)
    assert made.receiver.delay and made.receiver.delay.count == PACKETS - 1
    stamps: dict[str, Any] = {"clock": "x", "kind": "kernel", "not_by_kernel": 0}
    receiver = made.receiver.model_copy(
        update={
            "delay": made.receiver.delay.model_copy(update={"negative": negative}),
            "stamps": ArrivalStamps(**stamps, stepped_ns=stepped),
        }
    )
    found = made.model_copy(update={"receiver": receiver}).by_clocks(7)
    assert (found.receiver.delay is None) == (why is not None)
    if why is None:
        assert found.clock_off == 7
    else:
        assert re.search(why, found.receiver.delay_unknown or "")


def test_by_one_clock_no_delay_is_off(tmp_path: Path) -> None:
    page = build_report(study(tmp_path).folder, fake_gnuplot)
    assert "<i>Clocks</i>" not in page.read_text()


def test_the_page_and_the_document_have_what_the_tables_have(tmp_path: Path) -> None:
    run = study(tmp_path)
    page = build_report(run.folder, fake_gnuplot)
    page_checks.check(page)
    words = " ".join(page.read_text().split())
    assert "Traffic: one way" in words and "published" in words
    assert "Rates: how far from what was asked for" in words
    document = summary.of_run(run.folder, page)
    found = {
        (figure.setting, figure.figure, figure.part): figure.value
        for figure in document.figures
        if figure.measure == "traffic"
    }
    assert found["priority 50", "max", "inter_arrival"] == 1_005_200
    assert found[BASELINE, "send rate", ""] == 999.9


def test_published_figures_travel_in_the_plan() -> None:
    assert of_parameters({**parameters(PUBLISHED), "other": 1}) == PUBLISHED
    with pytest.raises(RecordError, match="published least of x is 'many': expected nanoseconds"):
        of_parameters({"published least of x": "many"})
