# SPDX-License-Identifier: GPL-2.0-or-later
"""Faults of a TOML file are said with the line that they are in."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict

from skblab_analysis.base import tomlfile
from skblab_analysis.base.errors import UsageError


class Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")
    name: str
    values: tuple[int, ...] = ()


class Whole(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")
    title: str
    first: Part
    parts: tuple[Part, ...] = ()


GOOD = """# A comment
title = "it"

[first]
name = "a" # here
"values" = [
    1,
    2,
]

[[parts]]
name = "b"

[[parts]]
name = "c"
values = [3]
"""


def fault(tmp_path: Path, text: str) -> str:
    file = tmp_path / "it.toml"
    file.write_text(text)
    with pytest.raises(UsageError) as caught:
        tomlfile.read(Whole, file, "the thing")
    return str(caught.value).replace(f"{file}:", "")


def test_a_good_file_is_read(tmp_path: Path) -> None:
    file = tmp_path / "it.toml"
    file.write_text(GOOD)
    found = tomlfile.read(Whole, file, "the thing")
    assert [part.name for part in found.parts] == ["b", "c"]
    assert found.first.values == (1, 2)


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ('title = "it"', "title = 3", "2: title: Input should be a valid string"),
        ("    2,\n", '    "x",\n', "6: first.values.1: Input should be a valid integer"),
        (
            'name = "b"',
            "nam = 1",
            "11: parts.0.name: is missing: write it; line 12: parts.0.nam: there",
        ),
        ("values = [3]", "values = [3.5]", "16: parts.1.values.0: Input should be a valid"),
        ('[first]\nname = "a" # here', "[first]\nother = 1", "4: first.name: is missing: write it"),
        ('title = "it"', "", "1: title: is missing: write it"),
    ],
)
def test_a_fault_has_its_line(tmp_path: Path, before: str, after: str, said: str) -> None:
    assert before in GOOD
    assert fault(tmp_path, GOOD.replace(before, after)).startswith(said)


def test_many_faults_are_cut(tmp_path: Path) -> None:
    said = fault(tmp_path, GOOD.replace("name", "nam"))
    assert said.count("; ") == tomlfile.SHOWN_FAULTS
    assert said.endswith("; and 3 more")


def test_a_table_below_one_of_several_is_in_the_last() -> None:
    text = "[[a]]\nx = 1\n[a.b]\ny = 2\n[[a]]\n[a.b]\ny = 3\n[[a.c]]\nz.w = 4\n"
    assert dict(tomlfile.places(text)) == {
        ("a", 0): 1,
        ("a", 0, "x"): 2,
        ("a", 0, "b"): 3,
        ("a", 0, "b", "y"): 4,
        ("a", 1): 5,
        ("a", 1, "b"): 6,
        ("a", 1, "b", "y"): 7,
        ("a", 1, "c", 0): 8,
        ("a", 1, "c", 0, "z", "w"): 9,
    }


@given(st.text())
def test_any_text_has_places_or_none(text: str) -> None:
    lines = len(text.splitlines())
    assert all(1 <= line <= lines for _, line in tomlfile.places(text))


def test_what_is_no_toml_says_where(tmp_path: Path) -> None:
    assert "is no TOML: " in fault(tmp_path, "title\n")
    with pytest.raises(UsageError, match=r"cannot read the thing .*: No such file"):
        tomlfile.read(Whole, tmp_path / "absent", "the thing")
