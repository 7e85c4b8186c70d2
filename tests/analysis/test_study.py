# SPDX-License-Identifier: GPL-2.0-or-later
"""A published study beside ours: changes of the rate, and how far they agree."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import page_checks
import pytest
import test_latency
from test_report import fake_gnuplot
from test_tables import text

from skblab_analysis.base.certainty import Change, Difference
from skblab_analysis.base.checked import RecordError
from skblab_analysis.exact.rows import ExactTrial
from skblab_analysis.formats.published_study import (
    Published,
    PublishedStudy,
    of_parameters,
    parameters,
)
from skblab_analysis.formats.run import Plan
from skblab_analysis.load import Run, load
from skblab_analysis.report import findings, summary
from skblab_analysis.report.page import build_report
from skblab_analysis.report.terminal import of_run
from skblab_analysis.runfolder import RunFolder
from skblab_analysis.study.summary import Beside, StudySummary, direction, of

STUDY = PublishedStudy(
    "J. Doe (2015)",
    "his router was another one",
    {
        "slower": Published(1000, 600),
        "as before": Published(1000, 1005),
        "faster": Published(1000, 1100),
        "not run": Published(1000, 1),
    },
)
# Instructions of the path and the tester; 1 000 of them are the tester's.
COSTS = {
    "baseline": 5000,
    "baseline again": 5000,
    "slower": 9000,
    "as before": 5010,
    "faster": 4000,
}


def study(results: Path, known: PublishedStudy = STUDY, **costs: int) -> Run:
    """Return a run of two blocks, in which nothing scatters."""
    found = {"tester": 1000} | COSTS | costs
    plan = Plan(
        experiment="doe",
        question="Is it so?",
        seed=1,
        baseline="baseline",
        settings=tuple(name for name in found if name != "tester"),
        traffic=("IPv4, 1 flow",),
        parameters={"clock": "exact", **parameters(known)},
    )
    folder = RunFolder.create(results, "doe", plan, synthetic=True)
    for block in range(2):
        for name, cost in found.items():
            folder.record(
                ExactTrial(
                    setting=name,
                    part="tester" if name == "tester" else "whole",
                    block=block,
                    packets=10,
                    delivered=10,
                    instructions=10 * cost,
                    traffic="IPv4, 1 flow",
                )
            )
    return load(folder.path)


def test_a_longer_path_lowers_the_rate(tmp_path: Path) -> None:
    [found] = of(study(tmp_path))
    assert (found.measure, found.traffic) == ("instructions", "IPv4, 1 flow")
    rows = {row.setting: row for row in found.rows}
    assert list(rows) == ["slower", "as before", "faster"]
    # A path of 8 000 instead of 4 000 instructions, and one of 3 000.
    assert rows["slower"].ours == pytest.approx(-0.5)
    assert rows["faster"].ours == pytest.approx(1 / 3)
    assert rows["slower"].published == pytest.approx(-0.4)
    assert all(row.agrees for row in found.rows)
    assert found.agreeing == 3


def test_what_differs_is_told(tmp_path: Path) -> None:
    run = study(tmp_path, slower=4900, faster=5500)
    [found] = of(run)
    assert [row.agrees for row in found.rows] == [False, True, False]
    said = "\n".join(findings.sentences(run))
    assert "Of 3 settings 1 change the rate in the direction" in said
    assert "It differs for slower and faster." in said
    # Two settings change something, which is no order.
    assert "rank correlation" not in said
    assert any("his router was another one" in one for one in findings.unseen(run))


def test_tables_page_and_document_have_both(tmp_path: Path) -> None:
    run = study(tmp_path)
    printed = "\n".join(text(table) for table in of_run(run.folder))
    assert "Changes of the rate: J. Doe (2015) and ours" in " ".join(printed.split())
    [line] = [one for one in printed.splitlines() if one.startswith("slower") and "agrees" in one]
    assert line.replace("\N{NO-BREAK SPACE}", " ").split()[1:5] == ["−40.0", "%", "−50.0", "%"]
    page = build_report(run.folder, fake_gnuplot)
    page_checks.check(page)
    words = " ".join(page.read_text().split())
    assert "Beside J. Doe (2015): by instructions per packet, IPv4, 1 flow" in words
    assert "caches and waiting are not in it" in words
    document = summary.of_run(run.folder, page)
    found = {
        figure.setting: figure.value
        for figure in document.figures
        if figure.figure == "published change of the rate"
    }
    assert found == pytest.approx({"slower": -0.4, "as before": 0.005, "faster": 0.1})


def test_a_run_of_no_study_shows_none(tmp_path: Path) -> None:
    run = study(tmp_path)
    plain = run.document.plan.model_copy(update={"parameters": {"clock": "exact"}})
    assert of_parameters(plain.parameters) is None
    folder = RunFolder.create(tmp_path, "plain", plain, synthetic=True)
    folder.record(ExactTrial(setting="slower", block=0, packets=1, delivered=1, instructions=9))
    assert of(load(folder.path)) == []


def test_a_study_travels_in_the_plan() -> None:
    assert of_parameters({**parameters(STUDY), "packets": 12_000}) == STUDY
    # One that does not say what differs.
    short = PublishedStudy("x", "", {})
    assert of_parameters(parameters(short)) == short
    late = {"slow": {"mean": Published(10, 15), "anomalies from 250 us": Published(8, 2)}}
    delays = replace(short, latency=late, rates={"mean": Published(1, 2)})
    assert of_parameters(parameters(delays)) == delays
    # Half of a setting's rates is none.
    assert of_parameters({"study": "x", "published with y": 3}) == short


@pytest.mark.parametrize("wrong", ["many", 0, -1, True])
def test_a_rate_that_is_none_is_said(wrong: str | int) -> None:
    with pytest.raises(RecordError, match=r"published with y is .*: expected frames a second"):
        of_parameters({"study": "x", "published before y": 3, "published with y": wrong})
    with pytest.raises(RecordError, match=r"published mean with y is .*: expected a figure above"):
        of_parameters({"study": "x", "published mean with y": wrong})


@pytest.mark.parametrize(
    ("change", "expected"), [(0.0099, 0), (-0.0099, 0), (0.01, 1), (-0.01, -1), (0.5, 1)]
)
def test_a_small_change_has_no_direction(change: float, expected: int) -> None:
    assert direction(change) == expected


def beside(*changes: tuple[float, float]) -> StudySummary:
    rows = tuple(Beside(str(at), *both, significant=True) for at, both in enumerate(changes))
    return StudySummary(STUDY, "throughput", "strict", "", rows)


def test_too_few_settings_have_no_order() -> None:
    four = ((-0.1, -0.2), (-0.2, -0.3), (-0.3, -0.4), (-0.4, -0.5))
    assert beside(*four, (0.0, 0.9)).rank_correlation is None
    assert beside(*((0.1, ours / 10) for ours in range(1, 7))).rank_correlation is None
    assert beside(*four, (-0.5, -0.6)).rank_correlation == pytest.approx(1.0)
    # What changes less than one per cent is no change, whatever its sign.
    small = ((0.0, 0.009), (0.005, -0.009))
    assert beside(*four, (-0.5, -0.6), *small).rank_correlation == pytest.approx(1.0)


def test_what_is_not_significant_is_in_brackets(tmp_path: Path) -> None:
    change = Change("slower", Difference(1.0, 1.0, None, 0.0, None, 1))
    assert change.difference.significant is None
    run = study(tmp_path, slower=5000)
    printed = "\n".join(text(table) for table in of_run(run.folder))
    [line] = [one for one in printed.splitlines() if one.startswith("slower") and "differs" in one]
    assert "(" in line


def of_delays(results: Path, figures: dict[str, Published], late: dict[str, int]) -> Run:
    """Return a run of latency, in which so many packets of a setting are late, two blocks each."""
    known = PublishedStudy("J. Doe (2015)", "his was faster", {}, {"slow": figures})
    plan = Plan(
        experiment="late",
        question="Which is late?",
        seed=1,
        baseline="baseline",
        parameters={"testbed": "netns", **parameters(known)},
    )
    folder = RunFolder.create(results, "late", plan, synthetic=True)
    for boot in range(2):
        for setting, base in (("baseline", 40_000), ("slow", 60_000)):
            values = test_latency.latencies(base + boot, late[setting])
            folder.record(test_latency.trial(setting, boot, values))
        # What was not sent at the rate says nothing.
        folder.record(test_latency.trial("slow", 2 + boot, [7] * 100, took=99.0))
    return load(folder.path)


LATE = {
    "min": Published(10, 11),
    "mean": Published(20, 30),
    "max": Published(1000, 500),
    "anomalies from 250 us": Published(100, 900),
}


def test_latency_is_beside_what_was_published(tmp_path: Path) -> None:
    run = of_delays(tmp_path, LATE, {"baseline": 4, "slow": 8})
    [found] = of(run)
    assert (found.measure, found.rate, found.missing) == ("latency", 1000, ())
    rows = {row.figure: row for row in found.rows}
    assert list(rows) == list(LATE)
    assert rows["min"].ours == pytest.approx(0.5, abs=1e-4)
    assert rows["min"].significant and rows["min"].agrees
    # 800 us are the longest of both, which is no change; the study had half of it.
    assert (rows["max"].ours, rows["max"].agrees) == (0.0, False)
    # Late packets at the end are one anomaly, of each block of either.
    assert rows["anomalies from 250 us"].ours == 0.0
    assert found.rank_correlation is None
    printed = "\n".join(text(table) for table in of_run(run.folder))
    assert "Changes of latency: J. Doe (2015) and ours (by latency, IPv4, 64 bytes" in " ".join(
        printed.split()
    )
    [line] = [one for one in printed.splitlines() if one.startswith("slow: min")]
    assert line.replace("\N{NO-BREAK SPACE}", " ").split()[2:] == [
        "+10.0",
        "%",
        "+50.0",
        "%",
        "agrees",
    ]
    said = " ".join(findings.sentences(run))
    assert "Of 4 figures 2 change in the direction that J. Doe (2015) published" in said
    assert "It differs for slow: max and slow: anomalies from 250 us." in said
    page = build_report(run.folder, fake_gnuplot)
    page_checks.check(page)
    assert "how often so many packets in a row were late" in " ".join(page.read_text().split())
    [figure] = [
        one
        for one in summary.of_run(run.folder, page).figures
        if one.figure == "published change of max"
    ]
    assert (figure.setting, figure.rate, figure.value) == ("slow", 1000, -0.5)


def test_without_an_anomaly_of_the_baseline_none_is_compared(tmp_path: Path) -> None:
    run = of_delays(tmp_path, LATE, {"baseline": 0, "slow": 8})
    [found] = of(run)
    assert found.missing == ("anomalies from 250 us",)
    assert "anomalies from 250 us" not in {row.figure for row in found.rows}
    assert any("there are no anomalies from 250 us" in one for one in findings.unseen(run))
