# SPDX-License-Identifier: GPL-2.0-or-later
"""The plan of test runs: groups stay together, slices cover everything, outcomes are kept."""

from __future__ import annotations

import ast
import itertools
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skblab.lab import paths
from skblab.lab.guest import eventlog
from tiers import outcomes, schedule, store
from tiers.plugin import SLOW
from tiers.schedule import Duration

# What the longest slice takes by the stored durations, at most. They are of a machine that was busy
# now and then: a slice of 30 minutes took 26.5 on a quiet one. The gate has 34 for it (.ci/run).
MOST_MINUTES = 34
# As many as a machine with two processors has at a time.
WORKERS = 2


def test_tests_of_a_file_or_of_a_guest_are_a_group() -> None:
    assert schedule.group("tests/unit/test_a.py::test_b[c/d::e]") == "tests/unit/test_a.py"
    assert schedule.group("tests/guest/test_a.py::test_b") == "tests/guest/test_a.py"
    file = sorted(schedule.APART)[0]
    assert schedule.group(f"{file}::test_b[1]") == f"{file}::test_b[1]"
    assert schedule.group("tests/guest/stock/test_a.py::test_b") == "tests/guest/stock"


def test_the_longest_group_comes_first_and_whole() -> None:
    took = {"a::1": Duration(1), "b::1": Duration(3), "b::2": Duration(4), "c::1": Duration(5)}
    tests = ["a::1", "b::2", "c::1", "b::1"]
    assert schedule.ordered(tests, took) == ["b::2", "b::1", "c::1", "a::1"]
    assert schedule.expected(tests, took, 2) == 7
    assert schedule.expected(tests, took, 1) == 13
    took["a::1"] = Duration(1, full_seconds=60)
    assert schedule.expected(tests, took, 2, full=True) == 60
    assert schedule.ordered(tests, took, full=True) == ["a::1", "b::2", "b::1", "c::1"]
    # At each turn another one of the short groups is the last.
    took = {"a::1": Duration(1000), **{f"{name}::1": Duration(9) for name in "bcd"}}
    turns = [schedule.ordered(took, took, turn=turn) for turn in range(4)]
    assert {tests[0] for tests in turns} == {"a::1"}
    assert [tests[-1] for tests in turns] == ["d::1", "b::1", "c::1", "d::1"]
    # A file that has gone, or a new name of one, is no group of its own.
    root = Path(__file__).parents[2]
    named = schedule.APART | schedule.SWEEPING
    assert {file for file in named if not (root / file).exists()} == set()


def test_sweeps_in_guests_wait_for_each_other_in_no_slice() -> None:
    file = sorted(schedule.SWEEPING)[0]
    took = {f"{file}::test[{number}]": Duration(300) for number in range(2 * schedule.SLICES)}
    took |= {f"other{number}::test": Duration(100) for number in range(6 * schedule.SLICES)}
    for number in range(schedule.SLICES):
        chosen = schedule.choose(took, took, commit=number, workers=2)
        assert schedule.expected(chosen.tests, took, 2) == 600


@given(
    st.dictionaries(
        st.tuples(st.integers(0, 9), st.integers(0, 9)),
        st.floats(0.1, 1000),
        min_size=1,
        max_size=40,
    ),
    st.integers(1, 4),
)
def test_each_slow_test_is_in_one_slice(took: dict[tuple[int, int], float], workers: int) -> None:
    durations = {f"file{a}::test{b}": Duration(seconds) for (a, b), seconds in took.items()}
    slices = [
        schedule.choose(durations, durations, commit=number, workers=workers)
        for number in range(schedule.SLICES)
    ]
    assert sorted(test for slice_ in slices for test in slice_.tests) == sorted(durations)
    assert sum(slice_.share for slice_ in slices) == pytest.approx(1)
    # The commits that follow begin again.
    again = schedule.choose(durations, durations, commit=schedule.SLICES, workers=workers)
    assert again == slices[0]


def test_as_many_submissions_as_slices_run_every_slow_test() -> None:
    durations = schedule.read()
    slow = [name for name, duration in durations.items() if duration.slow]
    assert slow
    for number in range(schedule.SLICES):
        chosen = schedule.choose(slow, durations, commit=number, workers=WORKERS)
        assert schedule.expected(chosen.tests, durations, WORKERS) <= 60 * MOST_MINUTES


def test_every_slow_test_has_a_stored_duration(pytestconfig: pytest.Config) -> None:
    """One without is in a slice that does not know how long it takes.

    Store an estimate: `{"seconds": 60, "boots": 1, "slow": true, "estimated": true}`.
    """
    stored = {name for name, duration in schedule.read().items() if duration.slow}
    collected = pytestconfig.stash[SLOW]
    assert collected - stored == set()
    # Of a part of the tests, the others are not known.
    if pytestconfig.args == pytestconfig.getini("testpaths"):
        assert stored - collected == set()


def test_stored_durations_are_of_tests_that_exist() -> None:
    """A test that is renamed takes its duration with it."""
    root = Path(__file__).parents[2]
    for name in schedule.read():
        file, _, rest = name.partition("::")
        assert f"def {rest.partition('[')[0]}(" in (root / file).read_text(), name


def test_outcomes_are_kept_and_those_that_passed_known(tmp_path: Path) -> None:
    file = tmp_path / "outcomes.jsonl"
    row = (
        '{"test": "%s", "seconds": 1.5, "boots": 2, "again": 0, "slow": true, "full": false, '
        '"result": "%s", "processor": 0.5}\n'
    )
    file.write_text(row % ("a", "failed") + row % ("a", "passed") + row % ("b", "failed"))
    with file.open("a") as end:
        end.write('{"test": "c", "seco')
    assert outcomes.passed(file) == {"a"}
    known = {"a": Duration(9, 1, True, 50), "d": Duration(3)}
    assert store.merged(known, outcomes.table(file)) == {
        "a": Duration(1.5, 2, True, 50),
        "d": Duration(3),
    }
    assert store.merged(known, outcomes.table(file), commit=7) == {
        "a": Duration(1.5, 2, True, 50),
        "d": Duration(3),
    }
    known["a"] = Duration(9, 1, True)
    assert store.merged(known, outcomes.table(file), commit=7)["a"].whole_at == 7
    # Beside something else, the pass counts and the time does not.
    assert store.merged(known, outcomes.table(file), commit=7, busy=True)["a"] == Duration(
        9, 1, True, whole_at=7
    )
    failed = {"b": Duration(2, 1, True, whole_at=6), "a": Duration(9, 1, True, 50, whole_at=6)}
    merged = store.merged(failed, outcomes.table(file), commit=7)
    # A failure is no pass of before, and a part of one that has a full scale is not the whole.
    assert (merged["b"].whole_at, merged["a"].whole_at) == (None, 6)
    results = outcomes.Outcomes(file)
    results.write_table(tmp_path / "table.md")
    assert (tmp_path / "table.md").read_text().splitlines()[2:] == [
        "| `a` | passed | 1.5 | 0.5 | 2 |",
        "| `b` | failed | 1.5 | 0.5 | 2 |",
        "| all 2 | | 3 | 1 | 4 |",
    ]
    file.write_text("{\n" + row % ("a", "passed"))
    with pytest.raises(ValueError, match=r"outcomes.jsonl:1: not an outcome"):
        outcomes.passed(file)


def test_what_a_test_failed_with_is_there_before_the_run_ends(tmp_path: Path) -> None:
    results = outcomes.Outcomes(tmp_path / "all" / "outcomes.jsonl")
    for when, outcome in (("setup", "passed"), ("call", "failed"), ("teardown", "passed")):
        results.add(
            pytest.TestReport(
                *("file::test", ("file", 1, "test"), {}, outcome),  # type: ignore[arg-type]
                longrepr="AssertionError: 1 > 10" if outcome == "failed" else None,
                when=when,  # type: ignore[arg-type]
            )
        )
    said = (tmp_path / "all" / "failures.txt").read_text()
    assert said == "== file::test: call\nAssertionError: 1 > 10\n\n"
    assert outcomes.table(tmp_path / "all" / "outcomes.jsonl")["file::test"].result == "failed"


def test_what_passed_whole_since_a_commit_is_left_out(tmp_path: Path) -> None:
    durations = {
        "before": Duration(9, slow=True, whole_at=6),
        "in it": Duration(9, slow=True, whole_at=7),
        "later": Duration(9, slow=True, whole_at=8),
        "never": Duration(9, slow=True),
        "quick": Duration(1, whole_at=8),
    }
    assert schedule.passed_since(7, durations) == {"in it", "later"}
    schedule.write(durations, tmp_path / "durations.json")
    assert schedule.read(tmp_path / "durations.json") == durations


def test_what_no_pattern_allows_is_a_complaint() -> None:
    ended = eventlog.Event(event=eventlog.ENDED, kernel="k", findings=("WARNING: a", "BUG: b"))
    assert outcomes.complaints([ended], [r"^WARNING: "]) == ["BUG: b"]
    assert outcomes.complaints([ended], []) == ["WARNING: a", "BUG: b"]


def test_what_a_guest_said_that_was_booted_again_is_none() -> None:
    again = eventlog.Event(event=eventlog.AGAIN, kernel="k", findings=("rcu: INFO: stalls",))
    ended = eventlog.Event(event=eventlog.ENDED, kernel="k", findings=("BUG: b",))
    assert outcomes.complaints([again, ended], []) == ["BUG: b"]


@pytest.mark.slow
def test_a_run_that_goes_on_knows_its_options(tmp_path: Path) -> None:
    # A word that names a file is one to collect for pytest: it then reads no conftest elsewhere.
    folder = tmp_path / "results/test-all/tree"
    folder.mkdir(parents=True)
    (folder / "outcomes.jsonl").write_text("")
    for name in ("pyproject.toml", "tests", "runners", "analysis"):
        (tmp_path / name).symlink_to(paths.tree() / name)
    shutil.copy(paths.tree() / "Makefile", tmp_path)
    words = ["make", "--no-print-directory", "-n", "test-all", "ALL=results/test-all/tree"]
    told = subprocess.run(words, cwd=tmp_path, check=True, capture_output=True, text=True).stdout
    line = told.replace("\\\n", " ").splitlines()[-1]
    argv = shlex.split(line.partition(" -m pytest ")[2])
    assert "--full" in argv
    asked = [sys.executable, "-m", "pytest", *argv, "--help"]
    done = subprocess.run(asked, cwd=tmp_path, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "--outcomes=FILE" in done.stdout


def unpatched(test: ast.AST) -> bool:
    """Whether a test gives a kernel without our series to a command."""
    for node in ast.walk(test):
        words = getattr(node, "elts", None) or getattr(node, "args", None)
        said = [getattr(word, "value", None) for word in words] if isinstance(words, list) else []
        for option, value in itertools.pairwise(said):
            if option == "--kernel" and re.fullmatch(r"\d+\.\d+", str(value)):
                return True
    return False


def test_only_slow_tests_boot_a_kernel_without_our_series() -> None:
    """With an empty cache one of them built it for ten minutes: a third of `make test`."""
    found, there = [], 0
    for file in sorted((paths.tree() / "tests" / "guest").rglob("test_*.py")):
        body = ast.parse(file.read_text()).body
        whole = [node for node in body if ast.unparse(node).startswith("pytestmark")]
        for test in body:
            if isinstance(test, ast.FunctionDef) and unpatched(test):
                there += 1
                marks = map(ast.unparse, (*whole, *test.decorator_list))
                if not any("mark.slow" in mark for mark in marks):
                    found.append(f"{file.name}::{test.name}")
    assert there > 3 and found == []
