# SPDX-License-Identifier: GPL-2.0-or-later
"""The terminal's tables: golden text at 80 columns, and the words and numbers in them."""

from __future__ import annotations

import io
import math
from pathlib import Path

import golden_files
import pytest
import synthetic_run
from rich.console import Console

from skblab_analysis.base import words
from skblab_analysis.exact.rows import ExactTrial
from skblab_analysis.exact.summary import summarise
from skblab_analysis.exact.view import exact_table
from skblab_analysis.report.terminal import of_run
from skblab_analysis.runfolder import RunFolder
from skblab_analysis.trials.rows import Part


def text(*renderables: object, width: int = 80) -> str:
    console = Console(file=io.StringIO(), width=width, color_system=None)
    for renderable in renderables:
        console.print(renderable)
    assert isinstance(console.file, io.StringIO)
    return "\n".join(line.rstrip() for line in console.file.getvalue().splitlines()) + "\n"


def test_golden_tables_fit_eighty_columns(tmp_path: Path) -> None:
    shown = text(*of_run(synthetic_run.finished_run(tmp_path)))
    golden_files.check("tables.txt", shown)
    assert "…" not in shown


def test_long_times_of_many_packets_are_not_cut(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path, "demo", synthetic_run.plan(20_000), synthetic=True)
    shapes = (*[(1_000, 0.5)] * 6, (30_000_000, 1.0), (700, 0.5))
    folder.record_probe(
        synthetic_run.pathlat(shapes=shapes),
        said=(synthetic_run.sender(), synthetic_run.receiver()),
    )
    assert "…" not in text(*of_run(folder.path))


def test_percentile_without_enough_samples_is_a_dash(tmp_path: Path) -> None:
    shown = text(*of_run(synthetic_run.finished_run(tmp_path, 500)))
    row = next(line for line in shown.splitlines() if line.strip().startswith("whole path"))
    assert row.split()[6:8] == ["–", "–"]


def test_spread_over_the_limit_and_what_is_not_significant_are_said() -> None:
    trials = [
        ExactTrial(
            setting=setting, block=boot, packets=10, delivered=10, instructions=10_000 + 40 * boot
        )
        for setting in ("a", "b")
        for boot in range(2)
    ]
    shown = text(exact_table(summarise(trials)))
    assert "4.0 > 1.0" in shown
    assert "spread with >: trials further apart than 0.10" in " ".join(shown.split())
    assert "not significant, the smallest detectable difference is 16.0" in " ".join(shown.split())


@pytest.mark.parametrize(
    ("part", "column", "difference", "said"),
    [
        ("tester", "of path", "+50.0 %", False),
        # The same setting, and nobody knows what the tester's part is.
        ("whole", "of all", "+25.0 %", True),
    ],
)
def test_a_percentage_is_of_the_path_and_else_says_what_it_is_of(
    part: Part, column: str, difference: str, said: bool
) -> None:
    costs = {"baseline": 40, "more": 50, "tester": 20}
    trials = [
        ExactTrial(
            setting=setting,
            part=part if setting == "tester" else "whole",
            block=boot,
            packets=10,
            delivered=10,
            instructions=10 * cost,
        )
        for setting, cost in costs.items()
        for boot in range(2)
    ]
    shown = " ".join(text(exact_table(summarise(trials))).replace(words.FIXED_SPACE, " ").split())
    assert f"difference {column}" in shown
    assert difference in shown
    assert ("the tester was not measured" in shown) is said


@pytest.mark.parametrize(
    ("value", "unit", "expected"),
    [
        (929, "ns", "929 ns"),
        (0, "ns", "0 ns"),
        (31_240, "ns", "31.2 µs"),
        (9_999_000, "ns", "10.00 ms"),
        (2_326_500, "ns", "2.33 ms"),
        (4_210_000_000, "ns", "4.21 s"),
        (4_210.4, "instructions", "4 210 instructions"),
        (None, "ns", "–"),
    ],
)
def test_quantity_names_its_unit(value: float | None, unit: str, expected: str) -> None:
    assert words.quantity(value, unit, " ") == expected


@pytest.mark.parametrize(
    ("part", "expected"),
    [
        *((0.00034, "0.034 %"), (0.012, "1.2 %"), (0.0, "0 %"), (None, "–")),
        # Of a damaged run.
        *((1e307, "inf %"), (math.inf, "inf %"), (math.nan, "nan %")),
    ],
)
def test_small_share_keeps_two_digits(part: float | None, expected: str) -> None:
    assert words.small_share(part).replace(words.FIXED_SPACE, " ") == expected


@pytest.mark.parametrize(
    ("part", "expected"),
    [(0.876, "87.6 %"), (0.0002, "0.02 %"), (0.00008, "0.008 %"), (0.0, "0.0 %"), (1.0, "100.0 %")],
)
def test_share_is_never_rounded_to_nothing(part: float, expected: str) -> None:
    assert words.share(part).replace(words.FIXED_SPACE, " ") == expected


def test_seconds_and_joined() -> None:
    assert [words.seconds(value) for value in (3.14, 59.94, 252, 3600, 86_399)] == [
        "3.1 s",
        "59.9 s",
        "4 min 12 s",
        "1 h 00 min",
        "24 h 00 min",
    ]
    assert words.joined(["a"]) == "a"
    assert words.joined(["a", "b", "c"]) == "a, b and c"
