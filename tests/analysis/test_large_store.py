# SPDX-License-Identifier: GPL-2.0-or-later
"""The store of `make bench-store`, and that the page asks what it asks."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import large_store
import pytest

from conftest import TREE, Skblab
from skblab_analysis.warehouse import store
from skblab_analysis.warehouse.rows import STORE

PAGE = TREE / "docs" / "howto" / "keep-many-runs.md"
RUNS = 3


@pytest.fixture
def target(tmp_path: Path) -> Path:
    store.write(tmp_path / "store", large_store.made_up(RUNS))
    return tmp_path / "store"


def test_its_rows_are_a_million_in_ten_files(target: Path) -> None:
    with store.opened(target) as pack:
        assert sum(one.rows for one in pack.document.files) == 2000 * RUNS
        assert len(pack.document.files) <= 10
        assert len(pack.runs()) == RUNS
        # As large as they may be: what is made up has the columns of the store.
        assert all(pack.table(table).num_rows for table in STORE)


def test_each_question_is_answered(target: Path) -> None:
    counts = {one.name: one.ask(target) for one in large_store.questions()}
    assert counts == {
        "figures over time": RUNS,
        "runs by kind": 1,
        "throughput by kernel": len(large_store.SETTINGS),
        "functions that grew": 10,
        "scatter of blocks": len(large_store.SETTINGS),
    }
    assert {one.name: large_store.scan(target, one) for one in large_store.questions()} == {
        "figures over time": 200 * RUNS,
        "runs by kind": RUNS,
        "throughput by kernel": 200 * RUNS,
        "functions that grew": large_store.FUNCTION_COUNT * RUNS,
        "scatter of blocks": 400 * RUNS,
    }


def test_more_rows_than_a_file_has_are_several_files(
    target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "MOST_ROWS", 1000)
    tables = large_store.made_up(RUNS)
    document = store.write(target, tables)
    names = [one.file for one in document.files if one.table == "functions" and one.rows]
    assert names == [f"functions/exact-{number}.parquet" for number in range(5)]
    with store.opened(target) as pack:
        assert all(pack.table(table).num_rows == tables[table].num_rows for table in STORE)


def test_the_page_has_these_questions() -> None:
    found = re.findall(
        r"^```sql\n-- [^\n]*\n(.*?)^```$", PAGE.read_text(), re.DOTALL | re.MULTILINE
    )
    assert [" ".join(text.split()) for text in found] == [*large_store.STATEMENTS.values()]


def test_the_commands_of_the_page_work(
    skblab_here: Skblab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those that ask the stored example."""
    monkeypatch.chdir(TREE)
    text = PAGE.read_text()
    commands = re.findall(r"^    (\./skblab runs .*example-store.*)$", text, re.MULTILINE)
    commands += re.findall(r"^```sh\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    assert len(commands) == 2
    for command in commands:
        done = skblab_here(*shlex.split(command)[1:])
        assert done.returncode == 0, done.stderr
        assert len(done.stdout.splitlines()) >= 3
    [code] = re.findall(r"^```python\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    exec(code, {})
