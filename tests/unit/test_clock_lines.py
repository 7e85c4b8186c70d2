# SPDX-License-Identifier: GPL-2.0-or-later
"""What two machines' clocks differ by: lines, and how far they may be off."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_up_clocks import SAID

from skblab.traffic.clock_lines import (
    NANOSECONDS,
    OLDEST_NS,
    Bound,
    Compared,
    Line,
    line,
    off_by,
)
from skblab_analysis.base.checked import RecordError, parse
from skblab_analysis.formats.traffic import ClockDocument


def document(**more: object) -> ClockDocument:
    return parse(ClockDocument, json.dumps(SAID | more), "it")


def seen(
    at_ns: int, ahead_ns: int, forth: int = 10, back: int = 10, speeds: tuple[int, int] = (0, 0)
) -> Compared:
    """Return what a comparison finds whose fastest packets took so long each way, ns."""
    return Compared(Bound(at_ns, ahead_ns + forth), Bound(at_ns, ahead_ns - back), speeds)


def test_a_document_is_read() -> None:
    found = Compared.of(document())
    assert found == Compared(Bound(2000, 520), Bound(1060, 490), (-7, 9))
    assert (found.at_ns, found.ahead_ns) == (1530, 505)


def test_a_document_that_knows_nothing_is_none() -> None:
    unknown = {"ahead": None, "unknown": "no probe came back"}
    assert Compared.of(document(**unknown, most=None, least=None, far=None)) is None
    # It may have bounds, of a clock that was set.
    assert Compared.of(document(**unknown)) is None


@pytest.mark.parametrize(
    "wrong",
    [{"ahead": None}, {"unknown": "why"}, {"most": None}, {"far": None}, {"least": None}],
    ids=str,
)
def test_a_document_that_contradicts_itself_is_none_of_ours(wrong: dict[str, Any]) -> None:
    with pytest.raises(RecordError, match="ahead"):
        document(**wrong)


def test_one_comparison_gives_no_drift() -> None:
    assert line([seen(1000, 50)]) == Line(ahead_ns=50, at_ns=1000, drift_ppb=0)


def test_a_drift_is_that_of_the_oldest_and_the_newest() -> None:
    known = [seen(0, 0), seen(NANOSECONDS, 7), seen(2 * NANOSECONDS, 200)]
    assert line(known) == Line(ahead_ns=200, at_ns=2 * NANOSECONDS, drift_ppb=100)
    # Half a second later it is ahead by half as much more, and by the receiver's clock it is later.
    assert line(known).at(2 * NANOSECONDS + NANOSECONDS // 2) == 250
    assert line(known).received_at_ns == 2 * NANOSECONDS + 200


def test_a_drift_that_may_be_none_is_none() -> None:
    assert line([seen(0, 0), seen(NANOSECONDS, 15)]).drift_ppb == 0
    assert line([seen(0, 0), seen(NANOSECONDS, 25)]).drift_ppb == 25


def test_what_is_old_says_nothing_of_the_drift() -> None:
    known = [seen(0, 0), seen(OLDEST_NS, 10_000), seen(OLDEST_NS + NANOSECONDS, 11_000)]
    assert line(known).drift_ppb == 1000


def test_a_line_is_off_by_what_the_worse_end_says() -> None:
    told = Line(100, 0, 0)
    before, after = seen(0, 100, forth=4, back=9), seen(NANOSECONDS, 130, forth=4, back=9)
    # Ahead by 134 at most where 100 was told; before it, by 9 less at most.
    assert off_by(told, before, after) == 34
    assert off_by(Line(100, 0, 30), before, after) == 9


def test_a_clock_that_was_turned_meanwhile_is_known_worse() -> None:
    told = Line(0, 0, 0)
    before = seen(0, 0, 5, 5)
    after = seen(4 * NANOSECONDS, 0, 5, 5, speeds=(-30, 20))
    assert off_by(told, before, after) == 5 + 50


def test_a_clock_that_was_set_meanwhile_is_not_known() -> None:
    before = seen(0, 0)
    assert off_by(Line(0, 0, 0), before, seen(NANOSECONDS, 700_000)) is None
    assert off_by(Line(0, 0, 0), before, seen(NANOSECONDS, -700_000)) is None
    assert off_by(Line(0, 0, 0), before, seen(NANOSECONDS, 500_000)) == 500_010
    # The sender's own clock went back.
    assert off_by(Line(0, 0, 0), seen(NANOSECONDS, 0), seen(0, 0)) is None


@given(
    ahead=st.integers(-(10**15), 10**15),
    drift=st.integers(-50_000, 50_000),
    ways=st.lists(st.tuples(st.integers(0, 10**7), st.integers(0, 10**7)), min_size=2, max_size=6),
    seconds=st.integers(1, 100),
    moment=st.floats(0, 1),
)
def test_the_truth_is_within_what_the_line_may_be_off(
    ahead: int, drift: int, ways: list[tuple[int, int]], seconds: int, moment: float
) -> None:
    """Whatever the clocks differ by, and however long packets take each way."""
    apart = seconds * NANOSECONDS

    def truth(at_ns: int) -> float:
        return ahead + at_ns * drift / NANOSECONDS

    known = [
        seen(number * apart, round(truth(number * apart)), *way) for number, way in enumerate(ways)
    ]
    *until, after = known
    told = line(until)
    off = off_by(told, until[-1], after)
    # Ways as long as ten milliseconds may hide any step.
    assert off is not None
    at_ns = until[-1].at_ns + round(moment * apart)
    assert abs(truth(at_ns) - told.at(at_ns)) <= off + 3
