# SPDX-License-Identifier: GPL-2.0-or-later
"""Pages that are made of the code: current, and complete."""

from __future__ import annotations

from typing import Annotated

import pytest
from pydantic import BaseModel, Field

from skblab.knobs.registry import KNOBS
from skblab.lab import paths
from skblab.pages import commands, experiment
from skblab.pages.keys import HEAD, table
from skblab.pages.made import FOLDERS, pages
from skblab.sweep.measures import PARTS
from skblab_analysis import columns_page


def test_each_is_current() -> None:
    stale = {
        name
        for name, text in pages().items()
        if not (paths.tree() / name).is_file() or (paths.tree() / name).read_text() != text
    }
    assert stale == set(), "make schemas"


def test_nothing_else_is_in_their_folders() -> None:
    made = pages()
    for folder in FOLDERS:
        there = {str(file.relative_to(paths.tree())) for file in (paths.tree() / folder).iterdir()}
        assert there == {name for name in made if name.startswith(f"{folder}/")}, "make schemas"


def test_the_page_of_columns_is_current() -> None:
    assert columns_page.PAGE.read_text() == columns_page.page(), "make schemas"


def test_each_knob_and_each_section_has_its_row() -> None:
    made = pages()
    for name in KNOBS:
        assert f"| `{name}` |" in made["docs/reference/knobs.md"]
    for part in PARTS:
        assert f"### `[measure.{part.name}]`" in made[experiment.FILE]


def test_commands_have_their_options() -> None:
    made = commands.pages()
    assert "| `--dry-run` |" in made[f"{commands.FOLDER}/sweep.md"]
    assert "## `skblab probe layers`" in made[f"{commands.FOLDER}/probe.md"]
    assert "(commands/probe.md#skblab-probe-layers)" in made[commands.INDEX]
    assert "native-tests" not in made[commands.INDEX]


class _Known(BaseModel):
    rate: Annotated[int, Field(ge=1, le=2**20, description="packets | second")]
    width: Annotated[float | None, Field(gt=0, lt=1, description="relative")] = None
    goals: Annotated[tuple[str, ...], Field(description="what for")] = ("strict",)


class _Silent(BaseModel):
    rate: int


def test_a_table_of_keys() -> None:
    assert table(_Known, without=("goals",)) == (
        HEAD + "| `rate` | whole number from 1 to 1048576 | required | packets \\| second |\n"
        "| `width` | number above 0 below 1 | none | relative |\n"
    )
    assert '| a list: text | `["strict"]` | what for |' in table(_Known)


def test_a_key_without_a_description_is_found() -> None:
    with pytest.raises(ValueError, match=r"_Silent\.rate has no description"):
        table(_Silent)
