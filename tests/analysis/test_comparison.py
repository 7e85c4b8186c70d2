# SPDX-License-Identifier: GPL-2.0-or-later
"""What settings differ by: the summary in a few lines, and the table for other programs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import searches
import synthetic_run
from test_identical import read_back, sweep
from test_report import fake_gnuplot

from skblab_analysis.base import told, words
from skblab_analysis.base.certainty import AGAIN, Change, difference
from skblab_analysis.base.comparison import Comparison, Measure, Wording
from skblab_analysis.comparison.rows import COMPARISON, rows
from skblab_analysis.load import load
from skblab_analysis.report import findings
from skblab_analysis.report.page import build_report
from skblab_analysis.report.terminal import of_run

COST = Wording(
    what="instructions",
    noun="instructions a packet",
    better=("save", "{} of the path"),
    worse=("cost", "{} of the path"),
    best="Biggest saving",
    worst="Biggest cost",
    whole=" of the path",
)
WITH_TESTER = replace(
    COST,
    better=("save", "{} of path and tester"),
    worse=("cost", "{} of path and tester"),
    whole=" of path and tester",
)
BASE = 2000.0
# A block's share of what blocks scatter by.
SCATTER = (0.0, -0.4, 0.4)


def compared(
    shares: Mapping[str, float],
    *,
    blocks: int = 3,
    scatter: float = 1.0,
    measure: Measure = "instructions",
    traffic: str = "",
    tester: bool = True,
) -> Comparison:
    """Return settings that differ by these parts of a path of 1000, in instructions.

    Without a tester, shares are of all that was counted, which is twice that.
    """
    noise = [scatter * part for part in SCATTER[:blocks]]
    first = {block: BASE + more for block, more in enumerate(noise)}
    changes = []
    for setting, share in shares.items():
        other = {block: BASE + 1000 * share - more for block, more in enumerate(noise)}
        found = difference(first, other, paired=False)
        assert found is not None
        changes.append(Change(setting, found))
    return Comparison(
        measure=measure,
        figure="path" if tester else "path and tester",
        unit="instructions/packet",
        baseline="baseline",
        changes=tuple(changes),
        wording=COST if tester else WITH_TESTER,
        traffic=traffic,
        path=1000.0 if tester else None,
    )


def plain(lines: Sequence[str]) -> list[str]:
    return [line.replace(words.FIXED_SPACE, " ").replace(words.NARROW_SPACE, " ") for line in lines]


def told_of(*found: Comparison, identical: Sequence[str] = ()) -> list[str]:
    nothing, others = told.lines(found, identical)
    return plain([*nothing, *others])


def test_the_largest_effects_come_first_then_how_many_are_large() -> None:
    shares = {AGAIN: 0.0, "small": 0.05, "large": 0.3, "less": -0.5, "tiny": 0.005, "none": 0.0001}
    found = told_of(compared(shares))
    assert found[0].startswith("Biggest saving: less, −500.0 ±")
    assert found[0].endswith(" instructions a packet (−50.0 % of the path).")
    assert found[1].startswith("Biggest cost: large, +300.0 ±")
    assert found[2] == (
        "2 of 5 settings cost over 1 % of the path; 1 of 5 saves over 1 % of the path."
    )
    assert found[3].startswith("Not significant: none (smallest detectable difference 0.")
    assert found[3].endswith(" of the path).")
    assert len(found) == 4
    assert plain([str(told.headline([compared(shares)]))]) == [
        "less saves 50.0 % of the path; large costs 30.0 % of the path"
    ]


def test_settings_that_are_many_are_counted_and_not_named() -> None:
    found = told_of(compared({f"setting {number}": 0.0 for number in range(8)}))
    [line] = found
    assert line.startswith("Not significant: 8 of 8 settings (")
    assert plain([str(told.headline([compared({"a": 0.0})]))]) == [
        "No setting differs significantly from baseline"
    ]


@pytest.mark.parametrize(
    ("again", "other", "scatter", "blocks"),
    [
        # Far from itself, and significantly so; or by chance, with nothing that is significant.
        (0.46, 0.3, 1.0, 3),
        (0.46, 0.3, 3000.0, 3),
        # Of one block nothing is significant.
        (0.46, 0.6, 1.0, 1),
    ],
)
def test_a_baseline_that_differs_from_itself_hides_all(
    again: float, other: float, scatter: float, blocks: int
) -> None:
    found = compared({AGAIN: again, "other": other}, blocks=blocks, scatter=scatter)
    assert told_of(found)[0] == "Nothing can be told: the baseline differed from itself by 46 %."
    assert plain([str(told.headline([found], doubt="one block"))]) == [
        "Nothing can be told: the baseline differed from itself by 46 %"
    ]


def test_of_what_nothing_can_be_told_nothing_is_advised() -> None:
    assert not told.reliable([compared({AGAIN: 0.46, "other": 0.3})])
    assert told.reliable([compared({AGAIN: 0.0, "other": 0.3})])
    assert told.reliable([])


def test_what_is_far_larger_than_that_is_told_with_a_caution() -> None:
    found = told_of(compared({AGAIN: 0.03, "other": 0.9}))
    assert found[0].startswith("Biggest cost: other, +900.0")
    assert found[1] == (
        "The baseline differed from itself by 3.0 %: distrust differences that are not far greater."
    )


def test_a_false_alarm_of_next_to_nothing_hides_nothing() -> None:
    found = compared({AGAIN: 0.002, "other": 0.0}, scatter=0.1)
    assert found.again is not None and found.again.significant
    assert told.unreliable(found) is None


def test_only_one_traffic_is_unreliable() -> None:
    found = told_of(
        compared({AGAIN: 0.46, "other": 0.1}, traffic="IPv4"),
        compared({AGAIN: 0.0, "other": 0.2}, traffic="IPv6"),
    )
    assert found[0] == ("Nothing can be told with IPv4: the baseline differed from itself by 46 %.")
    assert found[1].startswith("Biggest cost: other, +200.0") and "(IPv6)" in found[1]


def test_what_is_of_the_path_is_counted_apart_from_what_is_of_path_and_tester() -> None:
    """The tester was not measured with one traffic: its percentages are of another whole."""
    shares = {AGAIN: 0.0, "large": 0.3, "half": 0.1, "less": -0.2, "none": 0.0}
    twice = {name: 2.2 * share for name, share in shares.items()}
    found = told_of(compared(shares, traffic="IPv4"), compared(twice, traffic="IPv6", tester=False))
    assert [line.partition(" ±")[0] for line in found[:2]] == [
        "Biggest cost: large, +300.0",
        "Biggest saving: less, −200.0",
    ]
    assert all(line.endswith(" of the path) (IPv4).") for line in found[:2])
    assert found[2] == (
        "2 of 4 settings cost over 1 % of the path; 1 of 4 saves over 1 % of the path with IPv4."
    )
    assert [line.partition(" ±")[0] for line in found[3:5]] == [
        "Biggest cost: large, +660.0",
        "Biggest saving: less, −440.0",
    ]
    assert all(line.endswith(" of path and tester) (IPv6).") for line in found[3:5])
    assert found[5] == (
        "2 of 4 settings cost over 1 % of path and tester; 1 of 4 saves over 1 % of path and "
        "tester with IPv6."
    )
    for line, traffic, whole in zip(
        found[6:], ("IPv4", "IPv6"), ("the path", "path and tester"), strict=True
    ):
        assert line.startswith(f"Not significant with {traffic}: none (smallest detectable ")
        assert line.endswith(f" of {whole}).")
    # 66 % more of the path than 33 % of path and tester: they cannot be compared.
    assert plain([str(told.headline([compared(shares), compared(twice, tester=False)]))]) == [
        "large costs 30.0 % of the path; less saves 20.0 % of the path"
    ]


def test_of_one_block_the_largest_is_told_with_its_doubt() -> None:
    found = compared({"other": 0.2, "less": -0.3}, blocks=1)
    assert plain([str(told.headline([found], doubt="one block"))]) == [
        "less saves 30.0 % of the path (one block)"
    ]
    assert told.headline([found]) is None
    assert told_of(found) == ["Not known whether significant: other and less (one block only)."]


def test_several_measures_have_a_line_each() -> None:
    found = told_of(
        compared({"other": 0.2, "less": -0.3}),
        compared({"other": 0.1, "less": 0.0}, measure="cpu"),
        identical=("same",),
    )
    assert found[0].startswith("Instructions: biggest saving: less, −300.0")
    assert "; biggest cost: other, +200.0" in found[0]
    assert found[1].startswith("Instructions: biggest cost: other, +100.0")
    assert found[2].startswith("Not significant of instructions: less (")
    assert found[3:] == ["same is identical to the baseline."]


def test_a_summary_has_five_lines_at_most(tmp_path: Path) -> None:
    made = [
        searches.search(setting, block, 80_000.0 * factor + 100 * block).model_copy(
            update={"traffic": traffic}
        )
        for traffic in ("IPv4", "IPv6", "mixed")
        for setting, factor in {"baseline": 1.0, AGAIN: 1.02, "a": 1.3, "b": 0.8, "c": 1.0}.items()
        for block in range(3)
    ]
    run = load(searches.finished_run(tmp_path, made))
    said = findings.summary(run)
    assert 3 <= len(said) <= 5
    page = build_report(run.folder, fake_gnuplot).read_text()
    shown = str(of_run(run.folder)[0])
    for line in said:
        assert line in page.replace("&#39;", "'")
        assert line in shown


def test_a_setting_that_was_the_state_already_is_marked(tmp_path: Path) -> None:
    path = sweep(
        tmp_path,
        [
            # What the baseline does not set has what was read before anything set it.
            ("baseline", ()),
            ("rp_filter=1", [read_back("1", "0")]),
            ("rp_filter=0", [read_back("0", "1")]),
        ],
    )
    assert load(path).identical == {"rp_filter=0"}
    page = build_report(path, fake_gnuplot).read_text()
    assert '<th scope="row">rp_filter=0<small>identical to the baseline</small></th>' in page
    assert "rp_filter=1<small>" not in page
    assert "rp_filter=0 is identical to the baseline." in findings.summary(load(path))
    found = pq.read_table(path / "comparison.parquet").to_pylist()
    assert {row["setting"]: row["identical"] for row in found} == {
        "rp_filter=1": False,
        "rp_filter=0": True,
    }


def test_every_difference_of_a_report_is_in_the_table(tmp_path: Path) -> None:
    path = searches.finished_run(tmp_path)
    build_report(path, fake_gnuplot)
    arrow = pq.read_table(path / "comparison.parquet")
    assert arrow.schema.equals(COMPARISON.schema, check_metadata=True)
    found = arrow.to_pylist()
    # Each goal has each setting but the baseline.
    assert len(found) == 3 * (len(searches.RATES) - 1)
    assert {row["figure"] for row in found} == {"throughput"}
    [row] = [row for row in found if (row["part"], row["setting"]) == ("strict", "NAPI threads")]
    assert row["share"] == pytest.approx(0.05, abs=0.001)
    assert row["effect"] == pytest.approx(4033, abs=10) and row["unit"] == "packets/s"
    assert row["of"] + row["effect"] == pytest.approx(84_830, abs=10)
    assert row["low"] < row["effect"] < row["high"]
    assert (row["significant"], row["why"], row["blocks"]) == (True, "", 3)
    assert (row["noise_unit"], row["share_with_tester"]) == ("ln", None)
    again = next(row for row in found if row["setting"] == AGAIN)
    assert again["significant"] is False and again["why"] in ("resolution", "scatter")
    assert again["detectable"] > abs(again["effect"])


def test_instructions_have_their_share_of_the_path(tmp_path: Path) -> None:
    path = synthetic_run.finished_run(tmp_path, 2_000)
    build_report(path, fake_gnuplot)
    [row] = pq.read_table(path / "comparison.parquet").to_pylist()
    assert (row["measure"], row["figure"], row["setting"], row["baseline"]) == (
        *("instructions", "path"),
        *("rp_filter=1", "rp_filter=0"),
    )
    assert row["share"] == pytest.approx(row["effect"] / row["of"])
    assert row["share_with_tester"] == pytest.approx(350.6 / 7627, rel=0.01)
    assert row["share"] == pytest.approx(350.6 / 4212, rel=0.01)
    assert row["noise_unit"] == row["unit"] == "instructions/packet"


def test_a_share_of_no_late_packets_is_no_number() -> None:
    found = difference({0: 0.0, 1: 0.0}, {0: 0.1, 1: 0.2})
    assert found is not None
    late = Comparison("latency", "late", "1", "baseline", (Change("other", found),))
    [row] = rows([late], {})
    assert (row.share, row.of, row.identical) == (None, 0.0, None)
    assert row.effect == pytest.approx(0.15)


def test_where_nothing_is_compared_there_is_no_table(tmp_path: Path) -> None:
    path = searches.finished_run(tmp_path, [searches.search("baseline", 0, 1000.0)])
    # It would be of another run.
    (path / "comparison.parquet").write_bytes(b"")
    build_report(path, fake_gnuplot)
    assert not (path / "comparison.parquet").exists()
