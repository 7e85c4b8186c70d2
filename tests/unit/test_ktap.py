# SPDX-License-Identifier: GPL-2.0-or-later
"""What a selftest prints is understood, and what it does not print is not taken for success."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skblab.selftests.ktap import Case, Result, loose, parse

GOOD = """KTAP version 1
1..4
# Check| something
ok 1 net_path.first
not ok 2 net_path.second
ok 3 net_path.third # SKIP no sctp here
ok 4 net_path.fourth # XFAIL known
# Totals: pass:1 fail:1 xfail:1 xpass:0 skip:1 error:0
"""


def test_cases_results_and_reasons() -> None:
    report = parse(GOOD)
    assert report.faults == ()
    assert report.cases == (
        Case("net_path.first", Result.PASS),
        Case("net_path.second", Result.FAIL),
        Case("net_path.third", Result.SKIP, "no sctp here"),
        Case("net_path.fourth", Result.XFAIL, "known"),
    )
    assert [report.count(result) for result in Result] == [1, 1, 1, 1]


def test_a_failed_case_says_which_check_did_not_hold() -> None:
    """As the kernel's lib/py/ksft.py prints it: of a traceback the last line."""
    report = parse(
        "KTAP version 1\n1..4\n"
        "# Check| At net_path.py, line 12, in one:\n"
        "# Check|     ksft_eq(1, 2)\n"
        "# Check failed 1 != 2 frames\n"
        "# Check failed 9 >= 5 ms\n"
        "not ok 1 one\n"
        "ok 2 two\n"
        "# Exception| Traceback (most recent call last):\n"
        '# Exception|   File "net_path.py", line 3, in three\n'
        "# Exception| TimeoutError: timed out\n"
        "# Exception| STDERR: b''\n"
        "not ok 3 three\n"
        "# Check failed 4 != 5\n"
        "not ok 4 four # because\n"
    )
    assert report.faults == ()
    assert [case.comment for case in report.cases] == [
        "Check failed 1 != 2 frames; Check failed 9 >= 5 ms",
        "",
        "Exception| TimeoutError: timed out",
        "because",
    ]


def test_what_was_said_of_a_case_is_a_line_that_can_be_read() -> None:
    many = "".join(f"# # Check failed {number} != 0 \x1b[31m\n" for number in range(50))
    early = "# Check failed of nobody\n"
    [case] = parse(f"{early}KTAP version 1\n1..1\n{many}not ok 1 one\n").cases
    assert case.comment == (
        "Check failed 0 != 0 [31m; Check failed 1 != 0 [31m; Check failed 2 != 0 [31m; 47 more"
    )


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", "it printed no KTAP"),
        ("all is well\n", "it printed no KTAP"),
        ("TAP version 13\n", "it has no plan"),
        ("TAP version 13\nok 1 a\n", "it has no plan"),
        ("KTAP version 1\n1..3\nok 1 a\nok 2 b\n", "it planned 3 cases and reported 2"),
        ("KTAP version 1\n1..1\nok 1 a\nok 2 b\n", "it planned 1 cases and reported 2"),
        ("KTAP version 1\n1..2\nok 2 b\n", "case 1 has the number 2"),
        ("KTAP version 1\n1..1\n1..1\nok 1 a\n", "two plans"),
        ("KTAP version 1\n1..2\nok 1 a\nBail out! no memory\n", "bailed out: no memory"),
        ("KTAP version 1\n1..2\nok 1 a\nBail out!\n", "bailed out: no reason"),
    ],
)
def test_an_output_that_is_not_whole_is_a_fault(text: str, fault: str) -> None:
    assert fault in parse(text).faults


def test_a_whole_test_may_be_skipped() -> None:
    report = parse("TAP version 13\n1..0 # SKIP needs nftables\n")
    assert (report.cases, report.faults, report.skipped) == ((), (), "needs nftables")


def test_a_plan_may_come_last() -> None:
    assert parse("TAP version 13\nok 1 a\nok 2 b\n1..2\n").faults == ()


@pytest.mark.parametrize("mark", ["  ", "# "])
def test_sub_tests_count_and_their_sum_does_not(mark: str) -> None:
    lines = ["KTAP version 1", "1..2", *(mark + line for line in GOOD.splitlines())]
    lines += ["not ok 1 net_path", "ok 2 other"]
    report = parse("\n".join(lines))
    assert report.faults == ()
    assert [case.name for case in report.cases][-1] == "other"
    assert len(report.cases) == 5


def test_a_sum_that_hides_a_failure_is_a_fault() -> None:
    text = "KTAP version 1\n1..1\n  KTAP version 1\n  1..1\n  not ok 1 a\nok 1 all\n"
    assert parse(text).faults == ("all says pass, but a case below it failed",)


def test_names_with_a_hash_dashes_and_no_number() -> None:
    text = "KTAP version 1\n1..3\nok 1 - a # 3 of 4\nok 2 b-c # SKIP: none\nok c\n"
    assert parse(text).cases == (
        Case("a", Result.PASS, "3 of 4"),
        Case("b-c", Result.SKIP, "none"),
        Case("c", Result.PASS),
    )


def test_a_timeout_is_a_failure_whatever_stands_before_it() -> None:
    text = "TAP version 13\n1..1\nnot ok 1 selftests: net: x.sh # TIMEOUT 45 seconds\n"
    assert parse(text).cases == (Case("selftests: net: x.sh", Result.FAIL, "TIMEOUT 45 seconds"),)


def test_loose_reads_the_ways_of_the_older_tests() -> None:
    text = """
    TEST: ping local IPv4                                               [ OK ]
TEST: ping local IPv6                                               [FAIL]
PASS: policy routing
SKIP: gre: iproute2 too old
ok 1 - from.plan
[PASS] IPv4 address
no offload                                       ok
[ OK ]
1.2 tcp - forwarding.................... PASS
        - peer gro flag                                      ok
 bad GRO lookup                          fail
Plain words that are no verdict
"""
    found = loose(text)
    assert found["ping local IPv4"] is Result.PASS
    assert found["ping local IPv6"] is Result.FAIL
    assert found["policy routing"] is Result.PASS
    assert found["gre: iproute2 too old"] is Result.SKIP
    assert found["from.plan"] is Result.PASS
    assert found["IPv4 address"] is Result.PASS
    assert found["1.2 tcp - forwarding"] is Result.PASS
    assert found["- peer gro flag"] is Result.PASS
    assert found["bad GRO lookup"] is Result.FAIL
    assert not any("Plain" in name for name in found)


def test_loose_numbers_equal_names_and_drops_what_a_clock_said() -> None:
    text = "PASS: took 12 ms\nPASS: took 13 ms\nPASS: ns ab-Xy12Zq\n"
    assert list(loose(text)) == ["took …", "took … (2)", "ns …"]


_NAMES = st.from_regex(r"[a-z][a-z0-9_.]{0,20}", fullmatch=True)
_CASES = st.lists(st.tuples(_NAMES, st.sampled_from(Result)), min_size=1, max_size=20)
_NOISE = st.sampled_from(["# Check| said", "a program's own words", "", "#", "   indented"])


@given(_CASES, st.lists(_NOISE, max_size=5))
@settings(deadline=None)
def test_what_was_reported_is_read_whatever_stands_between(
    cases: list[tuple[str, Result]], noise: list[str]
) -> None:
    lines = ["KTAP version 1", f"1..{len(cases)}"]
    for number, (name, result) in enumerate(cases, 1):
        mark = "not ok" if result is Result.FAIL else "ok"
        why = {Result.SKIP: " # SKIP why", Result.XFAIL: " # XFAIL why"}.get(result, "")
        lines += [*noise, f"{mark} {number} {name}{why}"]
    report = parse("\n".join(lines))
    assert report.faults == ()
    assert [(case.name, case.result) for case in report.cases] == cases
    # A test that dies half-way is never taken for a whole one.
    assert parse("\n".join(lines[:-1])).faults


@given(st.text(max_size=300))
@settings(deadline=None)
def test_nothing_that_a_test_prints_stops_the_reader(text: str) -> None:
    parse(text)
    loose(text)
