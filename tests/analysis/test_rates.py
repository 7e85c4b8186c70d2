# SPDX-License-Identifier: GPL-2.0-or-later
"""Rates by setting as a person reads them: tables, sentences, the page and its picture."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import golden_files
import page_checks
import pytest
import searches
from test_report import fake_gnuplot, normalised
from test_tables import text

from skblab.lab.drawing import gnuplot
from skblab.lab.labroot import LabRoot
from skblab_analysis.base import words
from skblab_analysis.base.pictures import MUTED
from skblab_analysis.load import load
from skblab_analysis.report import findings, pictures
from skblab_analysis.report.page import build_report
from skblab_analysis.report.terminal import of_run
from skblab_analysis.runfolder import RunFolder
from skblab_analysis.throughput import summary as throughput_summary
from skblab_analysis.throughput.picture import picture
from skblab_analysis.throughput.rows import Search


def said(path: Path) -> list[str]:
    return [
        sentence.replace(words.FIXED_SPACE, " ").replace(words.NARROW_SPACE, " ")
        for sentence in _all(path)
    ]


def _all(path: Path) -> list[str]:
    run = load(path)
    return [findings.headline(run), *findings.sentences(run), *findings.unseen(run)]


def in_short(path: Path) -> list[str]:
    return [
        sentence.replace(words.FIXED_SPACE, " ").replace(words.NARROW_SPACE, " ")
        for sentence in findings.summary(load(path))
    ]


def test_golden_tables_of_rates_fit_eighty_columns(tmp_path: Path) -> None:
    shown = text(*of_run(searches.finished_run(tmp_path)))
    golden_files.check("rates.txt", shown)
    assert "…" not in shown


def test_golden_page_of_rates(tmp_path: Path) -> None:
    page = build_report(searches.finished_run(tmp_path), fake_gnuplot)
    golden_files.check("rates.html", normalised(page.read_text()))
    page_checks.check(page)


def test_what_was_found_is_said(tmp_path: Path) -> None:
    assert said(searches.finished_run(tmp_path))[:8] == [
        "netfilter: 100 rules in FORWARD forwards 36.4 % fewer packets; NAPI threads forwards "
        "5.0 % more packets",
        "IPv4, 64 bytes, 1 flow: baseline forwards 80 800 (strict), 82 416 (NDR) and 84 032 (PDR) "
        "packets/s.",
        "Its strict rate is 2.0 % below NDR: between the two, most trials lose nothing, and some "
        "lose packets in rare stalls.",
        "Against baseline (strict): NAPI threads +5.0 % ±1.0 % and netfilter: 100 rules in FORWARD "
        "−36.4 % ±0.6 %.",
        "Not significant: rp_filter=1, strict. Smallest detectable difference: 2.6 %.",
        "NAPI threads forwards most.",
        "False alarms in throughput: 0 of 1 comparisons of the baseline with itself. One in twenty "
        "is usual.",
        "The run ended after 3 blocks: the scatter of rates and delays between blocks is within "
        "5.00% of their means.",
    ]


def test_the_summary_has_the_largest_gain_and_loss_and_what_is_not_significant(
    tmp_path: Path,
) -> None:
    assert in_short(searches.finished_run(tmp_path)) == [
        "Biggest loss: netfilter: 100 rules in FORWARD, −36.4 % ±0.6 % (strict).",
        "Biggest gain: NAPI threads, +5.0 % ±1.0 % (strict).",
        "1 of 3 settings forwards over 1 % fewer packets; 1 of 3 forwards over 1 % more packets.",
        "Not significant: rp_filter=1, strict (smallest detectable difference 2.6 %).",
    ]


def test_the_smallest_differences_of_several_settings_are_a_range(tmp_path: Path) -> None:
    rates = {
        "baseline": [1000.0, 1001.0, 1002.0],
        "near": [1001.0, 1001.0, 1003.0],
        "noisy": [900.0, 1000.0, 1100.0],
    }
    path = searches.finished_run(tmp_path, list(searches.searches(rates)))
    [found] = [sentence for sentence in said(path) if "Not significant" in sentence]
    least, most = re.findall(r"([\d.]+) %", found)
    assert 0 < float(least) < 5 < float(most)


def test_a_single_block_tells_no_difference(tmp_path: Path) -> None:
    rates = {"baseline": [1000.0], "other": [1100.0]}
    path = searches.finished_run(tmp_path, list(searches.searches(rates)))
    found = said(path)
    assert found[0] == "baseline forwards 1 000 packets/s (strict, IPv4, 64 bytes, 1 flow)"
    assert (
        "IPv4, 64 bytes, 1 flow: baseline and other have a figure of one block only. Its interval, "
        "and whether it differs, are not known."
    ) in found
    # Nothing is known, and nothing is said of it.
    assert not any("significant" in sentence for sentence in found)
    assert not any("with itself" in sentence for sentence in found)
    table = text(*of_run(path)).replace(words.FIXED_SPACE, " ")
    assert "(+10.0 %)" in table
    assert "A difference in brackets: significance not known." in table
    # There is no interval, and no column for any.
    assert "95 %" not in table
    page = page_checks.check(build_report(path, fake_gnuplot))
    assert "95 %" not in page.text
    assert "One block has no intervals." in page.text
    assert "Intervals are Student’s" not in page.text


def test_a_block_is_booted_afresh_in_guests_only(tmp_path: Path) -> None:
    for testbed, booted in (("virtio", True), ("hosts", False)):
        plan = searches.plan()
        plan = plan.model_copy(update={"parameters": plan.parameters | {"testbed": testbed}})
        folder = RunFolder.create(tmp_path / testbed, "settings", plan)
        for made in searches.searches():
            folder.record(made)
        page = page_checks.check(build_report(folder.path, fake_gnuplot))
        assert ("A block repeats everything in a fresh boot." in page.text) is booted
        assert ("hosts are not booted for it" in page.text) is not booted


def test_that_no_setting_is_better_is_said_of_several_blocks(tmp_path: Path) -> None:
    rates = {"baseline": [1000.0, 1001.0, 1000.0], "other": [900.0, 901.0, 900.0]}
    found = said(searches.finished_run(tmp_path, list(searches.searches(rates))))
    assert "No setting was significantly faster than baseline." in found


def test_blocks_that_agree_have_the_width_of_the_search_for_an_interval(tmp_path: Path) -> None:
    """In the table, on the page and in the picture: never ±0, for a search is no surer."""
    rates = {"baseline": [100000.0, 100000.0], "near": [100900.0, 100900.0]}
    path = searches.finished_run(tmp_path, list(searches.searches(rates)))
    half = f"±{words.number(searches.WIDTH * 100000)}"
    table = text(*of_run(path)).replace(words.FIXED_SPACE, " ")
    # A row of each goal.
    lines = [line.strip() for line in table.splitlines()]
    [baseline, *_] = [line for line in lines if line.startswith("baseline ")]
    [near, *_] = [line for line in lines if line.startswith("near ")]
    assert half in baseline
    assert "(+0.9 %)" in near
    assert "±1.0 %" in near
    page = build_report(path, fake_gnuplot).read_text()
    for shown in (table, page, picture(throughput_summary.of(load(path))[0]).description):
        assert re.search("±1.000", shown)
        assert not re.search(r"±0(\.0+)?\b", shown)


def test_older_runs_blame_no_tester_that_was_not_measured_alone(tmp_path: Path) -> None:
    made = [
        searches.search("baseline", 0, 1000.0, judgement="tester"),
        searches.search("other", 0, 900.0, judgement="tester", limit="generator"),
    ]
    path = searches.finished_run(tmp_path / "without", made)
    [summary] = throughput_summary.of(load(path))
    assert [rate.judgement for rate in summary.main.rates] == ["not known", "tester"]
    assert (
        "IPv4, 64 bytes, 1 flow: with 1 of 2 settings it is not known whether the router or the "
        "tester limited the rate."
    ) in said(path)
    assert "not known" in text(*of_run(path))
    tester = searches.search("tester", 0, 1005.0, part="tester")
    [summary] = throughput_summary.of(load(searches.finished_run(tmp_path, [tester, *made])))
    assert [rate.judgement for rate in summary.main.rates] == ["tester", "tester"]


def test_limits_that_are_not_the_devices_are_said(tmp_path: Path) -> None:
    made = [
        searches.search("baseline", 0, 1000.0, judgement="tester", limit="generator"),
        searches.search("none", 0, None, judgement="no good load"),
    ]
    found = said(searches.finished_run(tmp_path, made))
    for sentence in (
        "IPv4, 64 bytes, 1 flow: the tester was not measured alone: its own limit is not known.",
        "IPv4, 64 bytes, 1 flow: the tester was the bottleneck with 1 of 2 settings. The router "
        "may forward more than these rates.",
        "IPv4, 64 bytes, 1 flow: with none no load was good in any block.",
    ):
        assert sentence in found


def test_a_setting_without_a_good_load_in_some_block_is_called_no_better(tmp_path: Path) -> None:
    made = [*searches.searches(), searches.search("NAPI threads", 3, None)]
    path = searches.finished_run(tmp_path, made)
    found = said(path)
    assert found[0] == "netfilter: 100 rules in FORWARD forwards 36.4 % fewer packets"
    assert "Not known whether significant: NAPI threads (no good load in some block)." in in_short(
        path
    )
    assert (
        "IPv4, 64 bytes, 1 flow: with NAPI threads a load was good in 3 of 4 blocks. Its rate is "
        "of these blocks; whether it differs is not known."
    ) in found
    assert "No setting was significantly faster than baseline." in found
    # It is neither called significant nor, for nothing is known of it, not significant.
    assert not any("NAPI threads" in sentence for sentence in found if "ignificant" in sentence)
    assert not any("NAPI threads +" in sentence for sentence in found)
    table = text(*of_run(path)).replace(words.FIXED_SPACE, " ")
    [row, *_] = [line for line in table.splitlines() if line.strip().startswith("NAPI threads")]
    assert "A difference in brackets: not significant or significance not known." in table
    assert "(+5.0 %)" in row and "3 of 4" in row and "no load" in row
    [summary] = throughput_summary.of(load(path))
    shown = picture(summary)
    assert "NAPI threads, strict: 84 833 ±1 831 packets/s in 3 of 4 blocks, (+5.0" in (
        shown.description
    )
    [drawn] = [line for line in shown.data.splitlines() if line.startswith('"NAPI threads"')]
    assert f" {MUTED} " in drawn and '"84 833 (3 of 4 blocks)"' in drawn


def test_nothing_differs_from_a_baseline_without_a_good_load_in_some_block(tmp_path: Path) -> None:
    made = [*searches.searches(), searches.search("baseline", 3, None)]
    found = said(searches.finished_run(tmp_path, made))
    assert found[0] == (
        "baseline forwards 80 800 packets/s (strict, in 3 of 4 blocks, IPv4, 64 bytes, 1 flow)"
    )
    assert (
        "IPv4, 64 bytes, 1 flow: with baseline a load was good in 3 of 4 blocks. Its rate is of "
        "these blocks; whether other settings differ from it is not known."
    ) in found
    # Strict and NDR may be of different blocks, and what the baseline differs from itself counts
    # no more than what another does.
    for words_of_a_result in ("ignificant", "below NDR", "Against baseline", "False alarms"):
        assert not any(words_of_a_result in sentence for sentence in found)


def test_nothing_that_any_load_passes_with_has_a_page(tmp_path: Path) -> None:
    path = searches.finished_run(tmp_path, [searches.search("baseline", 0, None)])
    page = page_checks.check(build_report(path, fake_gnuplot))
    assert "no setting has a load at which every trial lost nothing." in page.text


@pytest.mark.parametrize(
    ("seconds", "held", "words"),
    [
        (60.0, True, "1 of 1 strict rates held in a trial of 60 s."),
        (
            5.0,
            False,
            "0 of 1 strict rates held in a trial of 5 s; RFC 2544 asks for 60 s.",
        ),
    ],
)
def test_confirmations_are_said(tmp_path: Path, seconds: float, held: bool, words: str) -> None:
    made = searches.search("baseline", 0, 1000.0)
    strict = made.goals[0].model_copy(update={"confirmed": held, "confirm_seconds": seconds})
    one = made.model_copy(update={"goals": (strict, *made.goals[1:])})
    assert words in said(searches.finished_run(tmp_path, [one]))


def test_a_run_that_was_killed_is_readable(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path, "settings", searches.plan(), synthetic=True)
    folder.record(searches.search("other", 0, 1000.0))
    page = page_checks.check(build_report(folder.path, fake_gnuplot))
    assert "This run has not ended" in page.text
    assert "other forwards" in page.text


def test_each_traffic_has_its_tables_and_picture(tmp_path: Path) -> None:
    made: list[Search] = []
    for search in searches.searches():
        made += [search, search.model_copy(update={"traffic": "IPv6, 128 bytes, 1 flow"})]
    path = searches.finished_run(tmp_path, made)
    assert len(of_run(path)) == 7
    page_checks.check(build_report(path, fake_gnuplot))
    assert (path / "report" / "throughput-2.svg").exists()


def test_settings_and_traffic_are_in_the_order_of_the_plan(tmp_path: Path) -> None:
    """Not in that of the run, which is random, nor by name."""
    traffic = ("IPv4, 64 bytes, 1 flow", "IPv4, 1518 bytes, 1 flow")
    order = ("filter", "NAPI threads", "baseline")
    plan = searches.plan().model_copy(update={"settings": order, "traffic": traffic})
    folder = RunFolder.create(tmp_path, "settings", plan)
    for name in ("of no plan", "baseline", *reversed(order[:2])):
        for words_of in reversed(traffic):
            row = searches.search(name, 0, 1000.0)
            folder.record(row.model_copy(update={"traffic": words_of}))
    found = throughput_summary.of(load(folder.path))
    assert tuple(summary.traffic for summary in found) == traffic
    assert [rate.setting for rate in found[0].main.rates] == [
        *("baseline", "filter", "NAPI threads", "of no plan"),
    ]


MADE: dict[str, Sequence[Search]] = {
    "usual": list(searches.searches()),
    "one": [searches.search("baseline", 0, 1000.0)],
    "none": [searches.search("baseline", 0, None), searches.search("other", 0, None)],
    "some": [searches.search("baseline", 0, 1000.0), searches.search("other", 0, None)],
    "many": [
        searches.search("baseline" if not n else f"setting-{n}", block, 1000.0 + 10 * n * block)
        for block in range(2)
        for n in range(24)
    ],
}


@pytest.mark.labroot
@pytest.mark.parametrize("kind", MADE)
def test_picture_of_any_shape(tmp_path: Path, lab: LabRoot, kind: str) -> None:
    [summary] = throughput_summary.of(load(searches.finished_run(tmp_path / "runs", MADE[kind])))
    pictures.draw(picture(summary), tmp_path, gnuplot(lab))
    drawn = (tmp_path / "throughput.svg").read_text()
    assert all(rate.setting in drawn for rate in summary.main.rates)
