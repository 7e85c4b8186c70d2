# SPDX-License-Identifier: GPL-2.0-or-later
"""Figures that are stored by kernel: what holds of this one, of another one, and of none."""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path

import pytest

from exact_figures import FILE, Built, Stored, hold_to, read, write
from skblab_analysis.base.errors import SkblabWarning

BUILT = Built("6.12.117-skblab", "stock", True, "14.2.0-19", "10.0.13", "Broadwell-v4")
OLDER = replace(BUILT, release="6.12.48-skblab")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    made = tmp_path / "figures.toml"
    write(made, [Stored(OLDER, {"test_x: path": 500.0}), Stored(BUILT, {"test_x: path": 1000.0})])
    return made


def test_what_is_stored_is_read(file: Path) -> None:
    assert [(entry.built.release, entry.figures) for entry in read(file)] == [
        ("6.12.48-skblab", {"test_x: path": 500.0}),
        ("6.12.117-skblab", {"test_x: path": 1000.0}),
    ]


@pytest.mark.parametrize(("value", "good"), [(990.1, True), (1009, True), (989, False), (0, False)])
def test_its_own_kernel_is_held_to_a_hundredth(file: Path, value: float, good: bool) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        if good:
            hold_to("test_x", {"path": value}, BUILT, file)
            return
        with pytest.raises(pytest.fail.Exception, match=r"path is .* of 1000\.0 of 6\.12\.117-skb"):
            hold_to("test_x", {"path": value}, BUILT, file)


@pytest.mark.parametrize(
    "other",
    [
        replace(BUILT, release="6.12.130-skblab"),
        replace(BUILT, emulator="10.1.0"),
        replace(BUILT, compiler="15.1.0-2"),
    ],
)
def test_another_one_to_a_tenth_of_the_nearest_with_a_warning(file: Path, other: Built) -> None:
    with pytest.warns(SkblabWarning, match=r"another one than .* stored .*SKBLAB_FIGURES=write"):
        hold_to("test_x", {"path": 1090}, other, file)
    with pytest.raises(pytest.fail.Exception, match=r"\+12\.00% of 1000\.0 of 6\.12\.117"):
        hold_to("test_x", {"path": 1120}, other, file)


def test_a_kernel_of_another_kind_has_nothing_to_be_held_to(file: Path) -> None:
    plain = replace(BUILT, patched=False)
    with pytest.raises(pytest.fail.Exception, match=r"is 1000\.0, and nothing is stored of such a"):
        hold_to("test_x", {"path": 1000}, plain, file)


def test_storing_passes_nothing(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SKBLAB_FIGURES", "write")
    with pytest.raises(pytest.skip.Exception, match="run the test again"):
        hold_to("test_x", {"path": 1234.56, "tester": 7}, BUILT, file)
    assert [entry.figures for entry in read(file)] == [
        {"test_x: path": 500.0},
        {"test_x: path": 1234.6, "test_x: tester": 7},
    ]


def test_what_is_committed_is_of_tests_that_there_are() -> None:
    stored = read(FILE)
    assert stored
    for entry in stored:
        for name, value in entry.figures.items():
            assert (FILE.parent / f"{name.partition(':')[0]}.py").is_file(), name
            assert value > 0
