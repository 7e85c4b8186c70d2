# SPDX-License-Identifier: GPL-2.0-or-later
"""The verdict on a workload: threshold, A again, budget, what each says in words."""

from __future__ import annotations

import csv
import io
import math
import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_up_comparison import document, figure, measured, side, without
from rich.console import Console

from skblab_analysis.formats import compare
from skblab_analysis.formats.compare import (
    Budget,
    CompareDocument,
    Judged,
    Measured,
    Verdict,
    judge,
    status,
    threshold,
)
from skblab_analysis.formats.memory import Cache, Misses, Simulated
from skblab_analysis.formats.run import Plan
from skblab_analysis.report.page import build_report
from skblab_analysis.runfolder import RunFolder
from skblab_analysis.verdicts import view


@pytest.mark.parametrize(
    ("a", "past", "expected", "because"),
    [
        (10_000.0, (), 10.0, "share"),
        (1_000.0, (), 3.0, "instructions"),
        # Too few of them say nothing.
        (1_000.0, (50.0,) * 29, 3.0, "instructions"),
        # An interquartile range of 0 leaves the third quartile; no difference leaves the rest.
        (1_000.0, (5.0,) * 30, 5.0, "history"),
        (1_000.0, (0.0,) * 30, 3.0, "instructions"),
        # One of thirty far off is no reason to see nothing any more.
        (1_000.0, (0.0,) * 29 + (500.0,), 3.0, "instructions"),
        # Quartiles 7.25 and 21.75.
        (1_000.0, tuple(map(float, range(30))), 21.75 + 3 * 14.5, "history"),
    ],
)
def test_the_threshold_is_the_largest_of_three(
    a: float, past: tuple[float, ...], expected: float, because: str
) -> None:
    value, of = threshold(a, past)
    assert value == pytest.approx(expected) and of == because


def test_the_sign_of_a_past_difference_says_nothing() -> None:
    past = [float(of) * (-1) ** of for of in range(40)]
    assert threshold(100.0, past) == threshold(100.0, list(map(abs, past)))


@pytest.mark.parametrize(
    ("a", "b", "again", "judged", "over"),
    [
        (1000.0, 1003.0, 1000.0, "same", False),
        (1000.0, 1003.1, 1000.0, "more", False),
        (1000.0, 996.9, 1000.0, "less", False),
        # Beyond 0.5 % and 10 instructions, both.
        (1000.0, 1010.0, 1000.0, "more", False),
        (1000.0, 1010.1, 1000.0, "more", True),
        (10_000.0, 10_049.0, 10_000.0, "more", False),
        (10_000.0, 10_051.0, 10_000.0, "more", True),
        # A's mean is what B is compared with.
        (1000.0, 1004.0, 1002.0, "same", False),
        # However large the difference is.
        (1000.0, 2000.0, 1003.2, "unstable", False),
    ],
)
def test_verdicts(a: float, b: float, again: float, judged: str, over: bool) -> None:
    verdict = judge("forward4", 1, measured(a, b, again))
    assert (verdict.judged, verdict.over) == (judged, over)
    assert verdict.difference == pytest.approx(b - (a + again) / 2)


def test_a_budget_of_the_users() -> None:
    found = measured(1000.0, 1020.0, 1000.0)
    assert judge("forward4", 1, found).over
    assert not judge("forward4", 1, found, budget=Budget(share=0.03)).over
    assert not judge("forward4", 1, found, budget=Budget(instructions=20.0)).over


def test_what_boots_differ_by_otherwise_is_no_difference() -> None:
    found = measured(1000.0, 1020.0, 1010.0)
    assert judge("forward4", 1, found).judged == "unstable"
    verdict = judge("forward4", 1, found, past=[float(of) for of in range(30)])
    assert (verdict.judged, verdict.because) == ("same", "history")
    assert verdict.factor == pytest.approx(15 / (21.75 + 3 * 14.5))


@pytest.mark.parametrize(
    ("replaced", "judged", "fault"),
    [
        (without(1, 1, "kernel"), "failed", True),
        (without(1, 1, "other"), "failed", False),
        (without(0, 0, "kernel"), "failed", False),
        (without(0, 2, "kernel"), "failed", False),
        (without(1, 1, "lacking"), "lacking", False),
        (without(0, 2, "lacking"), "lacking", False),
    ],
)
def test_who_is_the_cause_of_no_figure(replaced: Measured, judged: str, fault: bool) -> None:
    found = [replaced if one.boot == replaced.boot else one for one in measured(1.0, 2.0, 1.0)]
    verdict = judge("forward4", 1, found)
    assert (verdict.judged, verdict.fault) == (judged, fault)
    assert verdict.why == "guest panic: sysrq" and verdict.difference is None


def test_that_a_fails_is_not_hidden_by_what_b_lacks() -> None:
    both = [without(0, 0, "kernel"), without(1, 1, "lacking"), without(0, 2, "kernel")]
    assert judge("forward4", 1, both).judged == "failed"


def test_where_both_fail_the_side_is_not_blamed() -> None:
    both = [without(0, 0, "kernel"), without(1, 1, "kernel"), without(0, 2, "kernel")]
    assert not judge("forward4", 1, both).fault


def test_a_boot_that_is_not_there_is_no_figure() -> None:
    first, b, _ = measured(1.0, 2.0, 1.0)
    assert judge("forward4", 1, [first, b]).judged == "failed"
    assert judge("forward4", 1, [first]).judged == "failed"
    assert judge("forward4", 1, []).judged == "failed"


def verdicts(
    *judged: Judged, over: int = 0, fault: int = 0, a: float | None = None
) -> CompareDocument:
    """Return verdicts of which the first are over the budget, or the last are faults."""
    found = tuple(
        Verdict(
            workload="w",
            side=1,
            judged=of,
            over=number < over,
            fault=number >= len(judged) - fault,
            a=a,
        )
        for number, of in enumerate(judged)
    )
    return document().model_copy(update={"verdicts": found})


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (verdicts("same", "more", "less"), 0),
        (verdicts("same", "lacking"), 0),
        # A can do it, and B cannot.
        (verdicts("same", "lacking", a=1000.0), 3),
        (verdicts("more", "same", over=1), 1),
        # A regression is one, whatever else could not be told.
        (verdicts("more", "unstable", "failed", over=1), 1),
        (verdicts("same", "failed", fault=1), 1),
        (verdicts("same", "unstable"), 3),
        (verdicts("same", "failed"), 3),
        (verdicts("lacking", "lacking"), 3),
        (verdicts(), 3),
    ],
)
def test_exit_statuses(found: CompareDocument, expected: int) -> None:
    assert status(found) == expected


NUMBERS = st.floats(min_value=1.0, max_value=1e6)


@given(NUMBERS, NUMBERS, NUMBERS, st.lists(st.floats(-1e4, 1e4), max_size=40))
def test_a_verdict_agrees_with_its_figures(
    a: float, b: float, again: float, past: list[float]
) -> None:
    verdict = judge("forward4", 1, measured(a, b, again), past)
    assert verdict.threshold is not None and verdict.difference is not None
    assert verdict.threshold >= max(3.0, 0.001 * min(a, again))
    if verdict.judged == "unstable":
        assert abs(a - again) > verdict.threshold
    else:
        assert (abs(verdict.difference) > verdict.threshold) == (verdict.judged != "same")
    if verdict.over:
        assert verdict.judged == "more" and verdict.difference > 10


def test_boots_that_differ_as_they_did_before_alarm_seldom() -> None:
    """Of noise like that of its history, no more than a few in a thousand are a difference."""
    chance = random.Random(1)
    noise = [chance.gauss(0.0, 20.0) for _ in range(2000)]
    past = [abs(noise[of] - noise[of + 1]) for of in range(0, 200, 2)]
    alarms = sum(
        judge(
            "forward4",
            1,
            measured(*(1000.0 + of for of in noise[at : at + 3])),
            past,
        ).judged
        in ("more", "less")
        for at in range(200, 1997, 3)
    )
    assert alarms <= 6


MORE = measured(
    figure(1000.0, ip_rcv=100.0, fib_table_lookup=50.0),
    figure(1020.0, ip_rcv=101.0, fib_table_lookup=80.0),
    figure(1000.0, ip_rcv=100.0, fib_table_lookup=50.0),
)


def sentences(found: CompareDocument) -> list[str]:
    """Return what is told, with plain spaces."""
    return [of.replace("\xa0", " ") for of in view.sentences(found)]


def printed(found: CompareDocument) -> str:
    """Return what a terminal of 120 columns shows."""
    console = Console(width=120, record=True, highlight=False)
    for table in view.tables(found):
        console.print(table)
    return console.export_text().replace("\xa0", " ")


def test_a_workload_that_costs_more_is_told_with_its_function() -> None:
    found = document(*MORE, *measured(500.0, 500.5, 500.0, workload="veth"))
    assert compare.differing(found, found.verdicts[0])[0] == ("fib_table_lookup", 30.0)
    [sentence] = sentences(found)
    assert sentence == (
        "7.3 costs 2.0 % more than 6.12 on 1 of 2 workloads (forward4, most in "
        "fib_table_lookup()). Over the budget of 0.50 % and 10 instructions: forward4."
    )
    said = printed(found)
    assert "fib_table_lookup +30, others" in said and "over budget" in said
    assert "+2.00 %" in said and "6.7" in said


def test_a_difference_is_told_of_the_side_that_makes_it() -> None:
    fewer = [
        one.model_copy(update={"figure": MORE[1].figure if one.side == 0 else MORE[0].figure})
        for one in MORE
    ]
    [sentence] = sentences(document(*fewer))
    assert "less than 6.12 on 1 of 1 workload (forward4, most in fib_table_lookup())" in sentence


def test_what_has_no_verdict_is_told() -> None:
    found = document(
        *measured(1000.0, 1000.0, 1100.0),
        *(
            without(0, of, "lacking", "it has no VLANs").model_copy(update={"workload": "vlan"})
            for of in (0, 2)
        ),
        without(1, 1, "lacking", "it has no VLANs").model_copy(update={"workload": "vlan"}),
    )
    [sentence] = sentences(found)
    assert sentence.startswith("7.3 costs the same as 6.12 on 0 of 2 workloads.")
    assert "A and A again differ by more than the threshold: forward4." in sentence
    assert "Not supported by one of the two: vlan." in sentence
    said = printed(found)
    assert "unstable (+100.0 A again)" in said and "it has no VLANs" in said


def test_each_side_is_compared_with_a() -> None:
    found = document(
        *(one.model_copy(update={"boot": one.boot + (one.boot == 2)}) for one in MORE),
        Measured(workload="forward4", side=2, boot=2, figure=figure(900.0)),
        sides=3,
    )
    assert [one.judged for one in found.verdicts] == ["more", "less"]
    first, second = sentences(found)
    assert first.startswith("7.3 costs") and second.startswith("debian:6.1 costs 10 % less")
    assert "B: debian:6.1" in printed(found)


def test_one_side_alone_shows_both_of_its_boots() -> None:
    first, _, again = measured(1000.0, 0.0, 1001.5)
    found = document(first, again.model_copy(update={"boot": 1}), sides=1)
    said = printed(found)
    assert "1 000.0" in said and "1 001.5" in said and "+1.5" in said
    assert view.sentences(found) == [] and found.verdicts == ()


def test_one_side_alone_may_differ_as_much_as_it_did_before() -> None:
    first, _, again = measured(1000.0, 0.0, 1010.0)
    found = document(first, again.model_copy(update={"boot": 1}), sides=1)
    assert status(found) == 3
    assert status(found, lambda workload: [float(of) for of in range(30)]) == 0
    assert status(found, lambda workload: []) == 3


def test_for_other_programs() -> None:
    found = document(*MORE)
    [row] = list(csv.DictReader(io.StringIO(view.as_csv(found))))
    assert row["workload"] == "forward4" and row["judged"] == "more" and row["over"] == "true"
    assert math.isclose(float(row["difference"]), 20.0) and row["because"] == "instructions"
    said = view.markdown(found).replace("\xa0", " ")
    assert "| forward4 | 1 000.0 | 1 020.0 | +20.0 | +2.00 % | 3.0 | 6.7 |" in said
    assert said.rstrip().endswith("forward4.")
    assert len({line.count("|") for line in said.splitlines() if line.startswith("|")}) == 1


def test_sides_of_one_name_are_told_apart() -> None:
    found = document(*MORE)
    same = tuple(
        one.model_copy(
            update={
                "name": "git:linux@HEAD",
                "kernel": one.kernel.model_copy(update={"revision": f"{number}" * 40}),
            }
        )
        for number, one in enumerate(found.sides)
    )
    [sentence] = sentences(found.model_copy(update={"sides": same}))
    assert "git:linux@HEAD (111111111111) costs" in sentence
    assert "more than git:linux@HEAD (000000000000) on" in sentence
    same = tuple(one.model_copy(update={"name": "6.12"}) for one in found.sides)
    [sentence] = sentences(found.model_copy(update={"sides": same}))
    assert sentence.startswith("6.12 (B) costs 2.0 % more than 6.12 (A)")


def test_a_tree_with_changes_is_told_as_such() -> None:
    kernel = side("tree:linux").kernel.model_copy(update={"revision": f"{'1' * 40}-dirty"})
    assert kernel.commit == "111111111111-dirty"
    assert side("6.12").kernel.commit == ""


def test_a_document_is_read_as_it_was_written() -> None:
    found = document(*MORE, configurations={"1": ("CONFIG_X: n -> y",)})
    assert CompareDocument.model_validate_json(found.model_dump_json(by_alias=True)) == found


def missed(*lines: float) -> list[Measured]:
    """Return A, B and A again, which miss so many lines of data."""
    found = measured(1000.0, 1000.0, 1000.0)
    return [
        one.model_copy(
            update={
                "figure": one.figure and one.figure.model_copy(update={"missed": Misses(data=data)})
            }
        )
        for one, data in zip(found, lines, strict=True)
    ]


CACHES = Simulated(
    title="a box",
    source="its manual",
    line=64,
    code=Cache(bytes=1024, ways=2),
    data=Cache(bytes=1024, ways=2),
)


def test_what_is_missed_stands_beside_the_verdict_and_changes_none(tmp_path: Path) -> None:
    found = document(*missed(10.0, 14.0, 11.0), caches=CACHES)
    assert [one.judged for one in found.verdicts] == ["same"]
    [_, misses] = view.tables(found)
    file = io.StringIO()
    Console(file=file, width=120, color_system=None).print(misses)
    # Beside the mean of both boots of A, and what these differ by.
    assert ["forward4", "0.0", "(0.0)", "0.0", "(0.0)", "+3.5", "(1.0)", "0.0", "(0.0)"] in [
        line.split() for line in file.getvalue().splitlines()
    ]
    assert "Simulated: ideal LRU" in file.getvalue()
    folder = RunFolder.create(tmp_path, "compare", Plan(experiment="c", seed=1, again="c"))
    (folder.path / compare.FILE).write_text(found.model_dump_json(by_alias=True))
    page = build_report(folder.path, None).read_text()
    assert "No verdict goes by it" in page
    assert len(view.tables(document(*measured(1.0, 1.0, 1.0)))) == 1
    assert len(view.tables(document(*measured(1.0, 1.0, 1.0), caches=CACHES))) == 1
