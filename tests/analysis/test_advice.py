# SPDX-License-Identifier: GPL-2.0-or-later
"""What to set, or why nothing: ranked by worth, without what contradicts or is of the testbed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
import searches
import synthetic_run
from page_checks import check
from test_report import fake_gnuplot

from skblab_analysis.base.words import FIXED_SPACE
from skblab_analysis.formats.run import Command, OnlyHere
from skblab_analysis.load import Run, load
from skblab_analysis.report import advice, findings
from skblab_analysis.report.page import build_report
from skblab_analysis.report.summary import of_run
from skblab_analysis.rfc2544.rows import Benchmarked
from skblab_analysis.runfolder import RunFolder

BASE = (80_000.0, 80_100.0, 80_050.0)
AGAIN = (80_050.0, 80_020.0, 80_090.0)
# By setting, in the order of what is measured: 5 % better, 25 % better, as good, 10 % worse.
RATES: Mapping[str, Sequence[float]] = {
    "baseline": BASE,
    "baseline again": AGAIN,
    "little": (84_000.0, 84_200.0, 84_050.0),
    "much": (100_000.0, 100_300.0, 100_100.0),
    "same": (80_010.0, 80_110.0, 80_040.0),
    "bad": (72_000.0, 72_100.0, 72_050.0),
}


def finished(
    results: Path,
    rates: Mapping[str, Sequence[float]] = RATES,
    only_here: Sequence[OnlyHere] = (),
) -> Run:
    folder = RunFolder.create(results, "settings", searches.plan(), synthetic=True)
    for row in searches.searches(rates):
        folder.record(Benchmarked(row, ()))
    commands = [
        Command(where="the router", command=f"echo {name}", setting=name)
        for name in rates
        if not name.startswith("baseline")
    ]
    environment = synthetic_run.environment()
    return load(folder.finish(environment, {}, commands=commands, only_here=only_here))


def text(run: Run) -> str:
    return "\n".join(advice.lines(advice.of(run))).replace(FIXED_SPACE, " ")


def test_settings_are_ranked_by_what_they_are_worth(tmp_path: Path) -> None:
    run = finished(tmp_path)
    found = advice.of(run)
    assert (found.first, found.mixed, found.only_here) == (("much", "little"), (), ())
    assert advice.candidates(run) == ["much", "little"]
    lines = text(run).splitlines()
    assert lines[0] == "Set this, the best first:"
    assert lines[1].startswith("  1. much: throughput +25.")
    assert lines[1].endswith(" to +26.3 %) (strict)")
    assert lines[2] == "     echo much"
    assert lines[3].startswith("  2. little: throughput +5.")
    assert len(lines) == 5
    page = check(build_report(run.folder, fake_gnuplot))
    assert page.text.index("Set this") < page.text.index("All findings")
    assert "much: throughput +25.1" in page.text.replace(FIXED_SPACE, " ")
    document = of_run(run.folder)
    assert [(one.setting, one.advice) for one in document.advice] == [
        ("much", "set"),
        ("little", "set"),
    ]
    assert document.why_none == ""


def test_what_is_of_the_testbed_is_never_called_best(tmp_path: Path) -> None:
    here = [OnlyHere(setting=name, reason=f"of {name}") for name in ("much", "bad")]
    run = finished(tmp_path, only_here=here)
    found = advice.of(run)
    assert found.first == ("little",)
    [one] = found.only_here
    assert (one.name, one.only_here) == ("much", "of much")
    assert "Good on this testbed only (not transferable):\n  much: throughput +25." in text(run)
    assert "Why: of much." in text(run)
    # What is worse needs no such word.
    assert "bad" not in text(run)


def test_what_is_of_the_testbed_is_not_mixed_as_well(tmp_path: Path) -> None:
    """Both are better with one traffic and worse with another; one is so on this testbed only."""
    folder = RunFolder.create(tmp_path, "settings", searches.plan(), synthetic=True)
    first = ("baseline", "baseline again", "much", "little")
    worse = {"much": RATES["bad"], "little": RATES["bad"]}
    for traffic, rates in ((searches.TRAFFIC, {}), ("IPv6, 64 bytes, 1 flow", worse)):
        for boot in range(len(BASE)):
            for name in first:
                rate = {**RATES, **rates}[name][boot]
                folder.record(Benchmarked(searches.search(name, boot, rate, traffic=traffic), ()))
    here = [OnlyHere(setting="much", reason="of much")]
    found = advice.of(load(folder.finish(synthetic_run.environment(), {}, only_here=here)))
    assert [one.name for one in found.mixed] == ["little"]
    assert [one.name for one in found.only_here] == ["much"]
    assert found.ranked == ()
    assert found.why_none.startswith("What is better is worse by another figure, or better on this")


@pytest.mark.parametrize(
    ("rates", "here", "why"),
    [
        (
            {name: RATES[name] for name in ("baseline", "baseline again", "same", "bad")},
            (),
            "No setting is significantly better than baseline. Gains below ",
        ),
        (
            {name: RATES[name] for name in ("baseline", "baseline again", "much")},
            ("much",),
            "What is better is so on this testbed only.",
        ),
        (
            {name: figures[:1] for name, figures in RATES.items()},
            (),
            "With one block no difference is known to be significant: measure more blocks.",
        ),
        (
            {**RATES, "baseline again": (110_000.0, 110_100.0, 110_050.0)},
            (),
            "Nothing can be told: the baseline differed from itself by 37 %.",
        ),
        ({"baseline": BASE}, (), "No setting was compared with the baseline."),
    ],
    ids=["none better", "here only", "one block", "unreliable", "alone"],
)
def test_that_there_is_nothing_to_set_has_its_reason(
    tmp_path: Path, rates: Mapping[str, Sequence[float]], here: Sequence[str], why: str
) -> None:
    said = [OnlyHere(setting=name, reason="why") for name in here]
    run = finished(tmp_path, rates, said)
    found = advice.of(run)
    assert found.ranked == ()
    assert found.why_none.replace(FIXED_SPACE, " ").startswith(why)
    assert text(run).startswith("Set this: nothing. ")
    assert of_run(run.folder).why_none == found.why_none


def test_a_gain_no_larger_than_the_baselines_own_difference_does_not_count(tmp_path: Path) -> None:
    """The baseline differs from itself by 7 %: only `much` is beyond that."""
    run = finished(tmp_path, {**RATES, "baseline again": (86_000.0, 86_100.0, 86_050.0)})
    assert advice.of(run).first == ("much",)


def test_a_run_that_is_no_sweep_advises_nothing(tmp_path: Path) -> None:
    folder = synthetic_run.finished_run(tmp_path)
    assert not advice.asked(load(folder))
    assert "Set this" not in check(build_report(folder, fake_gnuplot)).text


def test_a_gain_of_this_testbed_alone_is_in_no_headline(tmp_path: Path) -> None:
    run = finished(tmp_path)
    assert findings.headline(run).startswith("much forwards 25.1")
    here = [OnlyHere(setting="much", reason="of much"), OnlyHere(setting="bad", reason="of bad")]
    run = finished(tmp_path / "here", only_here=here)
    # The largest loss is told all the same.
    assert findings.headline(run).startswith("bad forwards 10.0")
    assert "little forwards 5." in findings.headline(run)
    assert findings.summary(run)[1].startswith("Biggest gain: little, ")
