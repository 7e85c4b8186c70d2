# SPDX-License-Identifier: GPL-2.0-or-later
"""Many runs: what is listed, what a store of them has, and figures over time."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import made_up_store
import pyarrow.parquet as pq
import pytest
import searches
from hypothesis import given, settings
from hypothesis import strategies as st

from conftest import TREE
from skblab_analysis.base import disk
from skblab_analysis.base.checked import RecordError
from skblab_analysis.base.errors import UsageError
from skblab_analysis.base.rows import Row, Stored
from skblab_analysis.load import load
from skblab_analysis.report import runs as several
from skblab_analysis.runfolder import RunFolder
from skblab_analysis.warehouse import history, listing, reading, sql, store
from skblab_analysis.warehouse.history import Nothing, Series, Wanted
from skblab_analysis.warehouse.reading import Gathered
from skblab_analysis.warehouse.rows import BLOCKS, FIGURES, FUNCTIONS, RUNS, STORE

EXAMPLE = TREE / "results-schema" / "example"
STORED_EXAMPLE = TREE / "results-schema" / "example-store"
OLD = Path(__file__).parent / "old_runs"
COSTS = {"baseline": (100.0, 102.0), "other": (140.0, 141.0)}
# Packs in a process of its own, which kills itself when the files that it flushes are so many.
KILLED = """
import os, signal, sys
from pathlib import Path
from skblab_analysis.warehouse import listing, store
left = int(sys.argv[3])
flush = os.fsync
def last(descriptor):
    global left
    left -= 1
    if left == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    flush(descriptor)
os.fsync = last
store.pack(Path(sys.argv[1]), listing.look([Path(sys.argv[2])]))
"""


def packing(target: Path, runs: Path, flushes: int = 0) -> subprocess.Popen[bytes]:
    path = f"{TREE / 'analysis'}"
    return subprocess.Popen(
        [sys.executable, "-c", KILLED, str(target), str(runs), str(flushes)],
        env={**os.environ, "PYTHONPATH": path},
    )


def plainly(*folders: Path) -> list[Gathered]:
    """What run folders hold, read one by one."""
    looked = [listing.look_at(folder) for folder in folders]
    return [reading.gather(one, reading.content(one.folder)) for one in looked]


def rows_of(found: Sequence[Gathered], table: Stored) -> list[dict[str, Any]]:
    by_table: dict[Stored, list[Row]] = {
        RUNS: [one.run for one in found],
        FIGURES: [row for one in found for row in one.figures],
        BLOCKS: [row for one in found for row in one.blocks],
        FUNCTIONS: [row for one in found for row in one.functions],
    }
    return in_order([row.model_dump() for row in by_table[table]])


def in_order(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: json.dumps(row, default=str))


def asked(target: Path, table: Stored) -> list[dict[str, Any]]:
    with sql.connected(target) as connection:
        return in_order(sql.rows(connection, f"FROM {table.file}"))


def held(target: Path) -> dict[str, list[dict[str, Any]]]:
    return {table.file: asked(target, table) for table in STORE}


# -- a store has what the run folders have

COST = st.floats(min_value=50, max_value=5000, allow_nan=False).map(lambda cost: round(cost, 3))
RUN = st.one_of(
    st.tuples(st.just("compare"), st.lists(COST, min_size=3, max_size=3)),
    st.tuples(st.just("sweep"), st.lists(COST, min_size=2, max_size=6)),
)


def make(results: Path, hours: int, kind: str, costs: Sequence[float]) -> Path:
    if kind == "compare":
        return made_up_store.comparison(results, hours, *costs)
    half = len(costs) // 2
    return made_up_store.sweep(results, hours, {"baseline": costs[:half], "other": costs[half:]})


@settings(max_examples=12)
@given(st.lists(RUN, min_size=1, max_size=4), st.randoms(use_true_random=False))
def test_a_store_answers_what_reading_the_folders_plainly_does(
    made: list[tuple[str, list[float]]], dice: random.Random
) -> None:
    with tempfile.TemporaryDirectory() as place:
        folder, target = Path(place), Path(place) / "store"
        runs = [
            make(folder / str(hours), hours, kind, costs)
            for hours, (kind, costs) in enumerate(made)
        ]
        dice.shuffle(runs)
        # In two parts, the second of which has all.
        store.pack(target, listing.look(runs[: len(runs) // 2]))
        store.pack(target, listing.look(runs))
        found = plainly(*runs)
        for table in STORE:
            assert asked(target, table) == rows_of(found, table)
        figures = [row for one in found for row in one.figures]
        blocks = [row for one in found for row in one.blocks]
        for words in ({}, {"setting": "base*"}, {"kernel": "6.12"}, {"workload": "forward4"}):
            wanted = Wanted(words, until=figures[0].started + timedelta(hours=2))
            assert history.of_store(target, wanted) == history.of_rows(figures, blocks, wanted)


def test_real_and_older_runs_are_packed(tmp_path: Path) -> None:
    runs = [EXAMPLE, OLD / "sweep", searches.finished_run(tmp_path / "runs")]
    done = store.pack(tmp_path / "store", listing.look(runs))
    assert set(done.added) == set(runs) and not done.unreadable
    for table in STORE:
        assert asked(tmp_path / "store", table) == rows_of(plainly(*runs), table)
    assert asked(tmp_path / "store", FIGURES) and asked(tmp_path / "store", BLOCKS)


def test_each_file_has_one_clock_and_every_unit_its_column(tmp_path: Path) -> None:
    target = tmp_path / "store"
    done = store.pack(target, listing.look([EXAMPLE, OLD / "sweep"]))
    assert len(done.document.files) <= 10
    clocks = set()
    for one in done.document.files:
        rows = pq.read_table(target / store.CURRENT / one.file)
        assert rows.num_rows == one.rows
        assert json.loads(rows.schema.metadata[b"units"])
        if one.clock is not None:
            found = set(rows.column("clock").to_pylist())
            assert found <= {one.clock}
            clocks |= found
            counted = {unit.startswith("instructions") for unit in rows["unit"].to_pylist()}
            assert counted <= {one.clock == "exact"}
    assert clocks == {"wall", "exact"}


def test_a_run_again_changes_nothing(tmp_path: Path) -> None:
    target = tmp_path / "store"
    run = made_up_store.sweep(tmp_path / "runs", 0, COSTS)
    store.pack(target, listing.look([run]))
    before = {path: path.stat().st_mtime_ns for path in target.rglob("*")}
    # By another name, too.
    copy = shutil.copytree(run, tmp_path / "copies" / "renamed")
    for again in (run, copy, tmp_path / "runs"):
        done = store.pack(target, listing.look([again]))
        assert done.unchanged == (again if again in (run, copy) else run,)
        assert not (done.added or done.replaced or done.kept)
    after = {path: path.stat().st_mtime_ns for path in target.rglob("*")}
    # The lock was taken.
    lock = target / store.LOCK
    assert before | {lock: 0} == after | {lock: 0}


def test_a_run_that_has_grown_replaces_what_it_was(tmp_path: Path) -> None:
    target, results = tmp_path / "store", tmp_path / "runs"
    folder = made_up_store.written(results, COSTS)
    made_up_store.begun(folder.path, 0)
    earlier = shutil.copytree(folder.path, tmp_path / "earlier")
    other = made_up_store.comparison(results, 3, 100.0, 120.0, 100.0)
    store.pack(target, listing.look([results]))
    assert [row["state"] for row in asked(target, RUNS)].count("running") == 1
    run = RunFolder.open(folder.path)
    ended = run.finish(None, {})
    done = store.pack(target, listing.look([results]))
    assert (done.replaced, done.unchanged) == ((ended,), (other,))
    for table in STORE:
        assert asked(target, table) == rows_of(plainly(ended, other), table)
    # What there was of it before is less than the store has.
    assert store.pack(target, listing.look([earlier])).kept == (earlier,)
    assert sorted(row["state"] for row in asked(target, RUNS)) == ["finished", "finished"]


def test_what_is_in_the_store_and_not_in_the_folders_stays(tmp_path: Path) -> None:
    target = tmp_path / "store"
    first = made_up_store.comparison(tmp_path / "1", 0, 100.0, 120.0, 100.0)
    store.pack(target, listing.look([first]))
    kept = held(target)
    shutil.rmtree(first)
    store.pack(target, listing.look([made_up_store.sweep(tmp_path / "2", 1, COSTS)]))
    now = held(target)
    assert all(row in now[name] for name, rows in kept.items() for row in rows)
    assert len(now["runs"]) == 2


def test_an_empty_folder_makes_an_empty_store(tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    done = store.pack(tmp_path / "store", listing.look([tmp_path / "runs"]))
    assert done.document.runs == 0
    assert held(tmp_path / "store") == {table.file: [] for table in STORE}


# -- what goes wrong


@pytest.mark.process
@pytest.mark.parametrize("flushes", [1, 4, 8, 10, 13])
def test_a_killed_pack_leaves_the_old_store(tmp_path: Path, flushes: int) -> None:
    target, results = tmp_path / "store", tmp_path / "runs"
    made_up_store.comparison(results, 0, 100.0, 120.0, 100.0)
    store.pack(target, listing.look([results]))
    before = held(target)
    made_up_store.sweep(results, 1, COSTS)
    assert packing(target, results, flushes).wait() == -signal.SIGKILL
    # The last flush is that of the new name.
    found = held(target)
    assert found == before or (flushes == 13 and len(found["runs"]) == 2)
    done = store.pack(target, listing.look([results]))
    assert len(done.added) + len(done.unchanged) == 2
    assert len(held(target)["runs"]) == 2
    assert sorted(path.name for path in target.iterdir())[:2] == [store.LOCK, store.CURRENT]
    assert len(list(target.iterdir())) == 3


@pytest.mark.process
def test_packs_at_once_lose_nothing(tmp_path: Path) -> None:
    target = tmp_path / "store"
    places = [tmp_path / str(number) for number in range(4)]
    for number, place in enumerate(places):
        made_up_store.comparison(place, number, 100.0, 120.0 + number, 100.0)
    packs = [packing(target, place) for place in places]
    assert [one.wait() for one in packs] == [0] * len(packs)
    assert len(held(target)["runs"]) == len(places)


def test_what_is_read_is_not_removed(tmp_path: Path) -> None:
    target, results = tmp_path / "store", tmp_path / "runs"
    made_up_store.comparison(results, 0, 100.0, 120.0, 100.0)
    store.pack(target, listing.look([results]))
    with store.opened(target) as pack:
        made_up_store.comparison(results, 1, 100.0, 120.0, 100.0)
        store.pack(target, listing.look([results]))
        assert len(pack.runs()) == 1
        assert pack.folder.is_dir()
    made_up_store.comparison(results, 2, 100.0, 120.0, 100.0)
    store.pack(target, listing.look([results]))
    assert not pack.folder.exists()
    assert len(held(target)["runs"]) == 3


def spoil(run: Path, how: str) -> None:
    if how == "no document":
        (run / "run.json").unlink()
    elif how == "half a document":
        (run / "run.json").write_text((run / "run.json").read_text()[:200])
    elif how == "another version":
        text = (run / "run.json").read_text()
        (run / "run.json").write_text(text.replace("skblab.run/5", "skblab.run/99"))
    elif how == "torn table":
        data = (run / "trials.parquet").read_bytes()
        (run / "trials.parquet").write_bytes(data[: len(data) // 2])
    else:
        (run / "layers.parquet").unlink()


BROKEN = ("no document", "half a document", "another version", "torn table", "no layers")


@pytest.mark.parametrize("how", BROKEN)
def test_a_broken_run_is_named_and_the_others_are_packed(tmp_path: Path, how: str) -> None:
    results, target = tmp_path / "runs", tmp_path / "store"
    good = made_up_store.comparison(results, 0, 100.0, 120.0, 100.0)
    bad = made_up_store.sweep(results, 1, COSTS)
    spoil(bad, how)
    done = store.pack(target, listing.look([results]))
    assert done.added == (good,)
    [named] = done.unreadable
    assert named.folder == bad and str(bad) in named.why
    assert [row["run"] for row in asked(target, RUNS)] == [good.name]


def test_a_broken_or_a_newer_store_is_said(tmp_path: Path) -> None:
    target = tmp_path / "store"
    store.pack(target, listing.look([made_up_store.sweep(tmp_path / "runs", 0, COSTS)]))
    document = target / store.CURRENT / store.MANIFEST
    text = document.read_text()
    document.write_text(text.replace("skblab.store/1", "skblab.store/2"))
    with pytest.raises(RecordError, match=r"schema: Input should be .skblab\.store/1"):
        held(target)
    document.write_text(text)
    (target / store.CURRENT / "figures" / "exact-0.parquet").write_bytes(b"PAR1")
    with pytest.raises(RecordError, match=r"exact-0\.parquet"):
        asked(target, FIGURES)
    (target / store.CURRENT).unlink()
    (target / store.CURRENT).symlink_to("pack-9")
    with pytest.raises(RecordError, match="pack-9 is missing"):
        asked(target, RUNS)


@pytest.mark.parametrize("what", ["a file", "a folder with files", "a run"])
def test_what_is_no_store_is_not_touched(tmp_path: Path, what: str) -> None:
    target = tmp_path / "there"
    if what == "a file":
        target.write_text("mine")
    elif what == "a run":
        target = made_up_store.sweep(tmp_path, 0, COSTS)
    else:
        target.mkdir()
        (target / "mine").write_text("mine")
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(UsageError, match="expected"):
        store.pack(target, listing.look([EXAMPLE]))
    assert sorted(tmp_path.rglob("*")) == before


# -- questions


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("SELECT * FROM read_csv('/etc/passwd')", "disabled"),
        ("FROM read_text('{store}/../secret')", "disabled"),
        ("FROM read_text('{store}/current/../../secret')", "disabled"),
        ("FROM '{example}/trials.parquet'", "disabled"),
        ("COPY (SELECT 1) TO '{store}/current/x.csv'", "expected one SELECT"),
        ("CREATE TABLE x AS SELECT 1", "expected one SELECT"),
        ("SET enable_external_access = true", "expected one SELECT"),
        ("ATTACH '/tmp/x.db'", "expected one SELECT"),
        ("SELECT 1; SELECT 2", "2 statements"),
        ("", "0 statements"),
        ("SELEC", "syntax error"),
        ("SELECT nothing FROM runs", "not found"),
        ("FROM EXAMPLE", "does not exist"),
    ],
)
def test_a_store_is_only_read(tmp_path: Path, statement: str, said: str) -> None:
    target = tmp_path / "store"
    (tmp_path / "secret").write_text("secret")
    store.pack(target, listing.look([EXAMPLE]))
    before = sorted(target.rglob("*"))
    with pytest.raises(UsageError, match=said) as refused:
        sql.query(target, statement.format(store=target, example=EXAMPLE))
    assert "\n" not in str(refused.value)
    assert sorted(target.rglob("*")) == before


def test_a_query_is_answered(tmp_path: Path) -> None:
    target = tmp_path / "it's a store"
    store.pack(target, listing.look([made_up_store.sweep(tmp_path / "runs", 0, COSTS)]))
    found = sql.query(
        target,
        "SELECT setting, avg(value) AS mean FROM blocks WHERE clock = 'exact' "
        "GROUP BY setting ORDER BY setting",
    )
    assert found.columns == ("setting", "mean")
    assert found.rows == (("baseline", 101.0), ("other", 140.5))
    # DuckDB wants a package of its own for a time with its zone.
    ((now,),) = sql.query(target, "SELECT now()").rows
    assert now.tzinfo is not None


# -- lists


def test_how_a_run_ended_is_told(tmp_path: Path) -> None:
    going = made_up_store.written(tmp_path, COSTS)
    failed = made_up_store.written(tmp_path, COSTS)
    failed.fail("it broke")
    ended = made_up_store.sweep(tmp_path, 0, COSTS)
    states = {one.folder: one.row.state for one in listing.look([tmp_path]).runs}
    assert states == {going.path: "running", failed.path: "failed", ended: "finished"}
    # As when its process is killed: nobody holds it any more.
    path = going.path
    going._held()
    assert listing.look_at(path).row.state == "cut off"
    assert not disk.is_held(path)


def test_what_a_run_is_is_told(tmp_path: Path) -> None:
    compared = made_up_store.comparison(tmp_path, 0, 100.0, 120.0, 100.0)
    swept = made_up_store.sweep(tmp_path, 1, COSTS)
    found = {one.folder: one for one in listing.look([tmp_path, EXAMPLE, OLD]).runs}
    kinds = {folder: one.row.kind for folder, one in found.items()}
    assert kinds == {
        compared: "compare",
        swept: "sweep",
        EXAMPLE: "demo",
        OLD / "demo": "demo",
        OLD / "sweep": "sweep",
    }
    one = found[compared]
    assert (one.row.trials, one.row.invalid, one.row.clock) == (3, 0, "exact")
    assert (one.row.kernels, one.settings) == ("6.12-plain, 7.3-plain", ("6.12", "7.3"))
    assert (found[swept].row.trials, found[swept].row.testbed) == (4, "netns")
    assert found[EXAMPLE].row.clock == "both"
    # The earliest first, and each once.
    started = [one.row.started for one in listing.look([tmp_path, swept]).runs]
    assert len(started) == 2 and started == sorted(started)


# -- figures over time


def series(found: list[Series] | Nothing) -> list[Series]:
    assert not isinstance(found, Nothing)
    return found


def over_time(folders: Sequence[Path], **words: str) -> list[Series] | Nothing:
    found = plainly(*folders)
    figures = [row for one in found for row in one.figures]
    return history.of_rows(figures, [row for one in found for row in one.blocks], Wanted(words))


def test_a_figure_over_time_is_what_a_page_of_several_runs_says(tmp_path: Path) -> None:
    costs = ((100.0, 102.0), (101.0, 104.0), (180.0, 184.0))
    runs = [
        made_up_store.sweep(tmp_path, hours, {"baseline": blocks})
        for hours, blocks in enumerate(costs)
    ]
    [found] = series(over_time(runs[::-1], figure="path and tester"))
    [table] = several.of([load(run) for run in runs]).tables
    [shared] = table.settings
    assert [point.sample.interval for point in found.points] == [
        line.interval for line in shared.lines
    ]
    assert [point.first for point in found.points] == [line.differs for line in shared.lines]
    assert [point.row.value for point in found.points] == [101.0, 102.5, 182.0]
    first, second, third = found.points
    assert first.previous is None and second.previous == second.first
    assert third.previous is not None and third.previous.effect == pytest.approx(79.5)
    assert third.previous.significant and not second.first.significant  # type: ignore[union-attr]


def test_other_places_and_other_settings_of_a_name_are_apart(tmp_path: Path) -> None:
    runs = [made_up_store.sweep(tmp_path / str(hours), hours, COSTS) for hours in range(2)]
    document = json.loads((runs[1] / "run.json").read_text())
    document["plan"]["parameters"]["testbed"] = "virtio"
    (runs[1] / "run.json").write_text(json.dumps(document))
    found = series(over_time(runs, setting="other", figure="path and tester"))
    assert [len(one.points) for one in found] == [1, 1]
    assert found[0].apart == () and found[1].apart == ("testbed: virtio, not netns",)


def test_clocks_are_never_in_one_series(tmp_path: Path) -> None:
    found = series(over_time([EXAMPLE, OLD / "sweep"]))
    assert {one.of.clock for one in found} == {"wall", "exact"}
    for one in found:
        assert len({point.row.clock for point in one.points}) == 1
        assert one.of.unit.startswith("instructions") == (one.of.clock == "exact")


def test_sides_of_a_comparison_are_figures_by_workload(tmp_path: Path) -> None:
    runs = [
        made_up_store.comparison(tmp_path, hours, 1000.0, cost, 1001.0)
        for hours, cost in enumerate((1100.0, 1210.0))
    ]
    a, b = series(over_time(runs, workload="forward4"))
    assert [point.row.value for point in a.points] == [1000.5, 1000.5]
    assert [point.row.value for point in b.points] == [1100.0, 1210.0]
    # Of one boot alone nothing is known.
    assert b.points[1].previous is not None and b.points[1].previous.significant is None
    assert a.points[1].previous is not None and a.points[1].previous.significant is False
    [kept] = series(over_time(runs, kernel="7.3"))
    assert kept.of.setting == "7.3"


def test_a_word_that_nothing_has_is_told() -> None:
    found = over_time([OLD / "sweep"], measure="throughput", setting="nothing")
    assert isinstance(found, Nothing)
    assert (found.column, found.word) == ("setting", "nothing")
    assert "baseline" in found.there


@pytest.mark.parametrize(
    ("column", "word", "value", "meant"),
    [
        ("setting", "baseline", "baseline", True),
        ("setting", "baseline", "baseline again", False),
        ("setting", "baseline*", "baseline again", True),
        ("kernel", "6.12", "6.12.117-skblab", True),
        ("kernel", "6.1?.*", "6.12.117-skblab", True),
        ("kernel", "7", "6.7", False),
        ("traffic", "a [b]", "a [b]", True),
    ],
)
def test_words(column: str, word: str, value: str, meant: bool) -> None:
    assert history.matches(column, word, value) is meant


def test_the_stored_example_is_what_a_pack_of_the_example_makes_golden(tmp_path: Path) -> None:
    """It stays readable, too: `make golden` writes it anew once its form is another."""
    if os.environ.get("SKBLAB_GOLDEN") == "write":
        shutil.rmtree(STORED_EXAMPLE, ignore_errors=True)
        store.pack(STORED_EXAMPLE, listing.look([EXAMPLE]))
        # Of whoever writes: no part of what is stored.
        (STORED_EXAMPLE / ".lock").unlink()
        pytest.skip(f"{STORED_EXAMPLE} is written anew")
    store.pack(tmp_path / "store", listing.look([EXAMPLE]))
    now, before = held(tmp_path / "store"), held(STORED_EXAMPLE)
    for row in (*now["runs"], *before["runs"]):
        # New tables without rows are added to the example.
        del row["bytes"], row["content"]
    assert now == before


def test_a_time_is_one_of_utc(tmp_path: Path) -> None:
    run = made_up_store.sweep(tmp_path, 5, COSTS)
    document = json.loads((run / "run.json").read_text())
    document["started"] = "2026-11-01T13:00:00.123456+02:00"
    (run / "run.json").write_text(json.dumps(document))
    assert listing.look_at(run).row.started == datetime(2026, 11, 1, 11, 0, 0, 123000)
