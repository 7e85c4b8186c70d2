# SPDX-License-Identifier: GPL-2.0-or-later
"""`skblab runs`: what it prints, in each form, and with which exit status."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import made_up_store
import pytest
import schema_checks

from conftest import TREE, Skblab
from skblab.commands.documents import PRINTED
from skblab_analysis.warehouse import shown
from skblab_analysis.warehouse.rows import STORE

COSTS = {"baseline": (100.0, 102.0), "other": (140.0, 141.0)}


@pytest.fixture
def results(tmp_path: Path) -> Path:
    made_up_store.comparison(tmp_path / "runs", 0, 1000.0, 1100.0, 1001.0)
    made_up_store.sweep(tmp_path / "runs", 30, COSTS)
    made_up_store.sweep(tmp_path / "runs", 60, {"baseline": (90.0, 91.0)}, "later")
    return tmp_path / "runs"


def printed(done: subprocess.CompletedProcess[str], command: str, status: int = 0) -> Any:  # noqa: ANN401
    assert done.returncode == status, done.stderr
    [name] = PRINTED[command]
    found = json.loads(done.stdout)
    schema_checks.schema(name).validate(found)
    return found


def names(done: subprocess.CompletedProcess[str], status: int = 0) -> list[str]:
    return [one["name"] for one in printed(done, "runs list", status)["runs"]]


@pytest.mark.parametrize(
    ("words", "left"),
    [
        ((), ["compare", "counts", "later"]),
        (("--kind", "sweep"), ["counts", "later"]),
        (("--kernel", "7.3"), ["compare"]),
        (("--kernel", "6.12"), ["compare", "counts", "later"]),
        (("--setting", "oth*"), ["counts"]),
        (("--setting", "7.3"), ["compare"]),
        (("--since", "2026-11-02"), ["counts", "later"]),
        (("--until", "2026-11-02"), ["compare", "counts"]),
        (("--since", "2026-11-02", "--until", "2026-11-02T20:00"), ["counts"]),
        (("--name", "late"), ["later"]),
    ],
)
def test_runs_are_listed(
    skblab_here: Skblab, results: Path, words: tuple[str, ...], left: list[str]
) -> None:
    assert names(skblab_here("runs", "list", str(results), *words, "--json")) == left


def test_the_results_folder_is_listed_by_itself(skblab_here: Skblab, results: Path) -> None:
    env = {"SKBLAB_RESULTS": str(results)}
    said = skblab_here("runs", "list", env=env)
    assert said.returncode == 0
    assert len([line for line in said.stdout.splitlines() if "2026-11-0" in line]) == 3
    [head, *lines] = csv.reader(io.StringIO(skblab_here("runs", "list", "--csv", env=env).stdout))
    assert [dict(zip(head, line, strict=True))["kind"] for line in lines] == [
        *("compare", "sweep", "sweep"),
    ]


def test_nothing_like_it_is_said(skblab_here: Skblab, results: Path) -> None:
    done = skblab_here("runs", "list", str(results), "--setting", "nothing", "--json")
    assert names(done, status=1) == []
    assert done.stderr == f"none of 3 runs in {results} is like that\n"


def test_an_empty_or_absent_results_folder_has_no_runs(skblab_here: Skblab, tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "none"):
        done = skblab_here("runs", "list", env={"SKBLAB_RESULTS": str(folder)})
        assert (done.returncode, done.stdout) == (0, "")
        assert done.stderr == f"no runs in {folder}\n"
    done = skblab_here("runs", "list", str(tmp_path / "none"))
    assert done.returncode == 2 and "not there; expected a run folder" in done.stderr


def test_what_cannot_be_read_is_named_at_the_end(skblab_here: Skblab, results: Path) -> None:
    bad = made_up_store.sweep(results, 90, COSTS)
    (bad / "run.json").write_text("{")
    for command in (
        ("list",),
        ("pack", "--into", str(results.parent / "store")),
        ("figures", "--setting", "baseline"),
    ):
        done = skblab_here("runs", *command, str(results))
        assert done.returncode == 0, command
        assert done.stderr.splitlines()[-1].startswith(f"cannot be read: {bad}: the run document")
        done = skblab_here("runs", *command, str(bad), "--json")
        assert done.returncode == 1, command
        [one] = json.loads(done.stdout)["unreadable"]
        assert one["folder"] == str(bad)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("list", "--kind", "sweeps"), "expected one of demo, sweep"),
        (("list", "--since", "yesterday"), "expected a date"),
        (("list", "--json", "--csv"), "expected one of them"),
        (("figures", "--csv", "--markdown"), "expected one of them"),
        (("figures", "--store", "there", "{runs}"), "not both"),
        (("figures", "--store", "there"), "is no store"),
        (("query", "FROM runs", "--store", "there"), "is no store"),
        (("pack", "--into", "{runs}"), "is no store; expected"),
        (("pack", "{runs}"), "--into"),
    ],
)
def test_bad_usage(skblab_here: Skblab, results: Path, words: tuple[str, ...], said: str) -> None:
    done = skblab_here("runs", *(word.format(runs=results) for word in words))
    assert done.returncode == 2
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_packing_says_what_it_did(skblab_here: Skblab, results: Path, tmp_path: Path) -> None:
    target = str(tmp_path / "store")
    found = printed(
        skblab_here("runs", "pack", str(results), "--into", target, "--json"), "runs pack"
    )
    assert (found["runs"], len(found["added"]), found["unchanged"]) == (3, 3, [])
    assert {one["table"] for one in found["files"]} == {table.file for table in STORE}
    said = skblab_here("runs", "pack", str(results), "--into", target)
    assert said.stdout.startswith(f"{target}: 3 runs in 7 files, ")
    assert said.stdout.endswith("; 3 unchanged\n")


def test_figures_of_a_store_are_those_of_the_folders(
    skblab_here: Skblab, results: Path, tmp_path: Path
) -> None:
    target = str(tmp_path / "store")
    skblab_here("runs", "pack", str(results), "--into", target)
    words = ("--measure", "instructions", "--setting", "baseline")
    of_store = skblab_here("runs", "figures", "--store", target, *words, "--json")
    of_folders = skblab_here("runs", "figures", str(results), *words, "--json")
    found = printed(of_store, "runs figures")
    assert found == printed(of_folders, "runs figures")
    [series] = found["series"]
    first, second = series["runs"]
    assert (first["value"], first["previous"], first["first"]) == (101.0, None, None)
    assert second["previous"] == second["first"]
    assert second["first"]["effect"] == pytest.approx(-10.5)
    [head, *lines] = csv.reader(
        io.StringIO(skblab_here("runs", "figures", "--store", target, *words, "--csv").stdout)
    )
    assert [dict(zip(head, line, strict=True))["value"] for line in lines] == ["101.0", "90.5"]
    text = skblab_here("runs", "figures", "--store", target, *words).stdout
    assert "instructions, path and tester (instructions/packet); setting baseline" in text
    table = skblab_here("runs", "figures", "--store", target, *words, "--markdown").stdout
    assert len([line for line in table.splitlines() if line.startswith("| 2026-11-0")]) == 2


@pytest.mark.parametrize("stored", [True, False])
def test_a_word_that_nothing_has(
    skblab_here: Skblab, results: Path, tmp_path: Path, stored: bool
) -> None:
    target = str(tmp_path / "store")
    skblab_here("runs", "pack", str(results), "--into", target)
    where = ("--store", target) if stored else (str(results),)
    done = skblab_here("runs", "figures", *where, "--setting", "nothing")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        f"--setting nothing: nothing in {where[-1]} is like that; "
        "there is 6.12, 7.3, baseline and other\n"
    )
    done = skblab_here("runs", "figures", *where, "--since", "2030-01-01", "--json")
    assert printed(done, "runs figures", status=1)["series"] == []
    assert "no figures" in done.stderr


def test_a_store_is_asked(skblab_here: Skblab, results: Path, tmp_path: Path) -> None:
    target = str(tmp_path / "store")
    skblab_here("runs", "pack", str(results), "--into", target)
    words = ("runs", "query", "SELECT name, trials, started FROM runs ORDER BY ALL")
    found = printed(skblab_here(*words, "--store", target, "--json"), "runs query")
    assert found["rows"][0] == ["compare", 3, "2026-11-01T06:00:00"]
    assert [one["type"] for one in found["columns"]] == ["VARCHAR", "BIGINT", "TIMESTAMP"]
    text = skblab_here(*words, "--store", target, "--csv").stdout
    assert text.splitlines()[:2] == ["name,trials,started", "compare,3,2026-11-01T06:00:00"]
    assert "compare" in skblab_here(*words, "--store", target).stdout
    done = skblab_here("runs", "query", "DROP VIEW runs", "--store", target)
    assert done.returncode == 2 and "a store is only read" in done.stderr


def test_values_that_json_does_not_have() -> None:
    assert shown.plain(float("nan")) is None
    assert shown.plain({"a": [float("inf"), b"\x01"]}) == {"a": [None, "01"]}


def test_duckdb_is_loaded_by_what_needs_it_alone() -> None:
    code = (
        "import sys, skblab.cli, skblab.commands.runs\n"
        "assert 'duckdb' not in sys.modules, 'loaded by a command that may not need it'"
    )
    paths = f"{TREE / 'runners'}:{TREE / 'analysis'}"
    subprocess.run([sys.executable, "-c", code], check=True, env={"PYTHONPATH": paths})
