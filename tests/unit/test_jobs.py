# SPDX-License-Identifier: GPL-2.0-or-later
"""Campaigns: what is submitted, what nodes do, and what becomes of tasks that give nothing."""

from __future__ import annotations

import json
import os
import shutil
import signal
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from subprocess import CompletedProcess

import pytest
from here import QUIET, Here, failing, finished, made, programs, tasks

from skblab.jobs import artefacts, attempts, engine, slurm
from skblab.jobs.campaign import Place, Stuck
from skblab.jobs.element import Element, Run, nothing
from skblab.jobs.local import Local
from skblab.jobs.model import TRIES, Artefact, Begun, Campaign, Record, Task
from skblab.jobs.packing import Packing
from skblab.jobs.slurm import Slurm
from skblab.jobs.store import Store
from skblab.jobs.submitter import Name, Queue, RefusedError, SubmitterError
from skblab.lab import store as cache
from skblab.lab.reporter import Reporter
from skblab_analysis.base.errors import SkblabError, Stopped, UsageError

Skblab = Callable[..., CompletedProcess[str]]


@pytest.fixture
def there(tmp_path: Path) -> Store:
    return Store.open(tmp_path / "store", make=True)


def test_each_task_runs_once(there: Store) -> None:
    some = tasks(50)
    submitter = Here()
    place = made(there, some)
    standing = finished(place, submitter)
    assert standing.done == {task.key for task in some} and not standing.failed
    # Ten minutes each.
    assert submitter.submitted == [5]
    assert there.noted() == {f"{task.key}.1" for task in some}
    [first] = [there.get(some[0].key)]
    assert first is not None and first.kind == "nothing" and "skblab" in first.versions


def test_what_has_a_result_is_not_submitted(there: Store) -> None:
    finished(made(there, tasks(20)), Here())
    submitter = Here()
    standing = finished(made(there, tasks(40)), submitter)
    assert len(standing.done) == 40 and submitter.submitted == [2]
    assert len(there.noted()) == 40


def test_the_same_tasks_are_the_same_campaign(there: Store) -> None:
    one, other = made(there, tasks(5)), made(there, tasks(5))
    assert one == other and Place.all(there) == [one]
    assert made(there, tasks(6)) != one
    assert Place.find(there, one.id) == one
    with pytest.raises(UsageError, match="no campaign"):
        Place.find(there, "0" * 16)


def test_no_more_are_outstanding_than_may_be(there: Store) -> None:
    bounds = Packing(least=0, most=100, array=20, outstanding=60)
    submitter = Here()
    standing = finished(made(there, tasks(207)), submitter, bounds)
    assert len(standing.done) == 207
    assert submitter.most <= 60 and max(submitter.submitted) == 20
    # Whole arrays while there are more than fit: no call for each that ends.
    assert len(submitter.submitted) <= 207 / 20 + 2


@pytest.mark.parametrize("times", [1, 2])
def test_a_task_is_tried_again(there: Store, times: int) -> None:
    some = tasks(3)
    standing = finished(made(there, some), Here(failing(times, lambda: SkblabError("no"))))
    assert len(standing.done) == 3
    for task in some:
        record = there.get(task.key)
        assert record is not None and record.attempt == times + 1
        assert (there.logs(task.key, 1) / "console.log").read_text() == "what it said"


@pytest.mark.parametrize("error", [SkblabError("the cable is cut"), ValueError("the cable is cut")])
def test_after_three_tries_it_has_failed_and_says_why(there: Store, error: Exception) -> None:
    some = tasks(3)
    standing = finished(made(there, some), Here(failing(9, lambda: error)))
    assert not standing.done and standing.failed.keys() == {task.key for task in some}
    assert all("the cable is cut (the last of 3 tries)" in one for one in standing.failed.values())
    assert len(there.noted()) == 3 * 2 * TRIES


def test_one_that_fails_costs_no_other(there: Store) -> None:
    some = [*tasks(2), Task(key="f" * 16, seconds=1, does={"fails": "it is broken"})]
    standing = finished(made(there, some), Here())
    assert len(standing.done) == 2 and list(standing.failed) == ["f" * 16]


def begun(place: Place, task: Task, number: int = 1) -> None:
    note = Begun(
        host="n1", job="1_0", campaign=place.id, array=1, index=0, begun="2026-11-28T12:00:00"
    )
    assert attempts.begin(place.store, task.key, note) == number


def test_a_node_that_dies_costs_a_try(there: Store) -> None:
    some = tasks(1)
    place = made(there, some)
    deaths: list[Name] = []

    def dies(name: Name) -> bool:
        begun(place, some[0], len(deaths) + 1)
        deaths.append(name)
        return False

    standing = finished(place, Here(before=dies))
    [why] = standing.failed.values()
    assert "n1 gave no further word" in why
    assert len(deaths) == TRIES and len(set(deaths)) == TRIES


def test_one_that_comes_back_from_a_death_has_its_result(there: Store) -> None:
    some = tasks(1)
    place = made(there, some)
    submitter = Here()

    def dies_once(name: Name) -> bool:
        if name == (1, 0):
            begun(place, some[0])
        return name != (1, 0)

    submitter.before = dies_once
    assert len(finished(place, submitter).done) == 1
    record = there.get(some[0].key)
    assert record is not None and record.attempt == 2


def test_failed_tasks_get_new_tries(there: Store) -> None:
    some = tasks(1)
    place = made(there, some)
    assert finished(place, Here(failing(9, lambda: SkblabError("no")))).failed
    attempts.forget_all(there, some[0].key)
    assert len(finished(place, Here()).done) == 1


def test_a_signal_is_noted_with_its_try(there: Store) -> None:
    some = tasks(2)
    place = made(there, some)
    array, _ = place.add([tuple(some)], "slurm")
    kinds = failing(9, lambda: Stopped(signal.SIGTERM))
    with pytest.raises(Stopped):
        Element(place, array, 0, kinds).run(QUIET)  # type: ignore[arg-type]
    assert "SIGTERM" in attempts.why(there, some[0].key, 1)
    # The other one never began.
    assert attempts.tried(there.noted(), some[1].key) == 0


def test_a_signal_at_the_end_is_the_time_limit(
    there: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    some = tasks(1)
    place = made(there, some)
    place.add([tuple(some)], "slurm")
    monkeypatch.setenv("SLURM_JOB_END_TIME", str(int(time.time()) + 1))
    kinds = failing(9, lambda: Stopped(signal.SIGTERM))
    with pytest.raises(Stopped):
        Element(place, 1, 0, kinds).run(QUIET)  # type: ignore[arg-type]
    assert attempts.why(there, some[0].key, 1) == "the time limit of its job"


def test_a_result_that_cannot_be_kept_is_no_try(
    there: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    some = tasks(2)
    place = made(there, some)
    place.add([tuple(some)], "slurm")

    def full(*_: object) -> bool:
        raise SkblabError("the disk is full")

    with monkeypatch.context() as patch, pytest.raises(SkblabError, match="full"):
        patch.setattr(Store, "put", full)
        Element(place, 1, 0, {"nothing": nothing}).run(QUIET)
    assert there.noted() == set() and there.recorded() == set()
    assert len(finished(place, Here()).done) == 2


def test_elements_that_do_nothing_end_it(there: Store) -> None:
    place = made(there, tasks(2))

    def stuck(name: Name) -> bool:
        place.stuck(*name, Stuck(host="n2", why="no root rights"))
        return False

    submitter = Here(before=stuck)
    with pytest.raises(SkblabError, match=r"without a task.*n2: no root rights"):
        finished(place, submitter)
    assert len(submitter.submitted) == engine.IDLE


def test_what_nodes_cannot_begin_is_said(there: Store) -> None:
    @contextmanager
    def begin(_: Campaign, __: Reporter) -> Iterator[Run]:
        raise SkblabError("root rights are needed")
        yield

    place = made(there, tasks(1))
    place.add([tuple(tasks(1))], "slurm")
    with pytest.raises(SkblabError, match="root rights"):
        Element(place, 1, 0, {"nothing": begin}).run(QUIET)
    assert "root rights are needed" in place.why_stuck() and there.noted() == set()


def test_a_kind_that_is_not_known_here(there: Store) -> None:
    place = made(there, tasks(1))
    place.add([tuple(tasks(1))], "slurm")
    with pytest.raises(SkblabError, match="kind 'nothing'"):
        Element(place, 1, 0, {})


def test_only_one_submits(there: Store) -> None:
    place = made(there, tasks(1))
    with place.alone(), pytest.raises(UsageError, match="another skblab"), place.alone():
        pass
    with place.alone():
        pass


def test_a_refusal_without_jobs_is_the_end(there: Store) -> None:
    class Refuses(Here):
        def submit(
            self, place: Place, array: int, count: int, minutes: int, without: Collection[str] = ()
        ) -> None:
            raise RefusedError("sbatch failed: Invalid partition")

    place = made(there, tasks(1))
    with pytest.raises(SkblabError, match="Invalid partition"):
        finished(place, Refuses())
    assert place.keys({}) == {}


def test_a_refusal_beside_jobs_is_only_for_now(there: Store) -> None:
    class Few(Here):
        def submit(
            self, place: Place, array: int, count: int, minutes: int, without: Collection[str] = ()
        ) -> None:
            if self.waiting:
                raise RefusedError("sbatch failed: job submit limit")
            super().submit(place, array, count, minutes, without)

    bounds = Packing(least=0, most=60, array=10, outstanding=100)
    assert len(finished(made(there, tasks(35)), Few(), bounds).done) == 35


def test_a_scheduler_that_is_away_is_asked_again(
    there: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Away(Here):
        asked = 0

        def queue(self, place: Place) -> Queue:
            self.asked += 1
            if self.asked < 4:
                raise SubmitterError("squeue failed: cannot contact slurm controller")
            return super().queue(place)

    submitter = Away()
    assert len(finished(made(there, tasks(1)), submitter).done) == 1
    # Nothing is submitted by somebody who does not know what runs.
    assert submitter.submitted == [1]
    monkeypatch.setattr(engine, "PATIENCE", 0.0)
    with pytest.raises(SubmitterError, match="cannot contact"):
        finished(made(there, tasks(2)), Away())


def test_a_store_without_room_gets_no_jobs(there: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "LEAST_FREE", 10**12)
    submitter = Here()
    with pytest.raises(SkblabError, match="the disk is full"):
        finished(made(there, tasks(1)), submitter)
    assert submitter.submitted == []


LISTED = """\
12|0|RUNNING|None|skblab-00000000000000aa-1
12|1|PENDING|Resources|skblab-00000000000000aa-1
12|2|PENDING|JobHeldUser|skblab-00000000000000aa-1
13|0|COMPLETING|None|skblab-00000000000000bb-7
14|N/A|RUNNING|None|bash
15|N/A|RUNNING|None|skblab-mine|0
16|3|COMPLETED|None|skblab-00000000000000aa-1
"""


def test_what_squeue_lists() -> None:
    found = slurm.parse(LISTED)
    assert {name: one.state for name, one in found["0" * 14 + "aa"].items()} == {
        (1, 0): "running",
        (1, 1): "waiting",
        (1, 2): "waiting: JobHeldUser",
    }
    assert found["0" * 14 + "bb"][7, 0].job == 13
    assert len(found) == 2 and slurm.parse("") == {}


def test_a_job_of_ours_without_an_index_is_said() -> None:
    with pytest.raises(SubmitterError, match="squeue printed"):
        slurm.parse("12|N/A|RUNNING|None|skblab-00000000000000aa-1\n")


def test_an_array_is_one_call_of_sbatch(
    there: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = tmp_path / "call"
    found = programs(tmp_path / "bin", sbatch=f'printf "%s\\n" "$@" >{kept}; cat >>{kept}')
    monkeypatch.setenv("PATH", str(found), prepend=":")
    place = made(there, tasks(1))
    Slurm(2048, ("--partition=long",)).submit(place, 3, 7, 45)
    words = kept.read_text().splitlines()
    assert f"--job-name=skblab-{place.id}-3" in words and "--array=0-6" in words
    assert "--time=45" in words and "--mem=2048" in words and "--requeue" in words
    assert words.index("--partition=long") == words.index("#!/bin/sh") - 1
    assert f'element {there.path} {place.id} 3 "$SLURM_ARRAY_TASK_ID"' in words[-1]


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ("sbatch: error: Batch job submission failed: Invalid partition", RefusedError),
        ("sbatch: error: Unable to contact slurm controller (connect failure)", SubmitterError),
        ("sbatch: error: Socket timed out on send/recv operation", SubmitterError),
    ],
)
def test_what_sbatch_says(
    there: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str, kind: type[Exception]
) -> None:
    found = programs(tmp_path / "bin", sbatch=f"echo '{said}' >&2; exit 1")
    monkeypatch.setenv("PATH", str(found), prepend=":")
    with pytest.raises(SubmitterError, match=said[-20:].replace("(", ".")[:10]) as caught:
        Slurm(1).submit(made(there, tasks(1)), 1, 1, 1)
    assert type(caught.value) is kind


def test_a_machine_without_slurm(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UsageError, match="lacks sbatch, squeue, scancel"):
        slurm.require()


@pytest.mark.parametrize("zstd", [True, False])
def test_what_a_node_lacks_is_unpacked(
    there: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, zstd: bool
) -> None:
    which = shutil.which
    if zstd and which("zstd") is None:
        pytest.skip("this machine has no zstd; archives are plain then, which the other case tests")
    monkeypatch.setattr(
        shutil, "which", lambda name: which(name) if zstd or name != "zstd" else None
    )
    monkeypatch.setenv("SKBLAB_CACHE", str(tmp_path / "client"))
    one = Artefact(kind="kernels", key=16 * "a")

    def build(folder: Path) -> None:
        (folder / "bin").mkdir()
        (folder / "bin" / "tool").write_text("tool")
        (folder / "bin" / "tool").chmod(0o4755)
        (folder / "link").symlink_to("bin/tool")
        os.setxattr(folder / "bin" / "tool", "user.kept", b"yes")

    cache.ensure(one.kind, one.key, QUIET, build)
    artefacts.pack(there, [one], QUIET)
    before = artefacts.found(there, one)
    artefacts.pack(there, [one], QUIET)
    assert before is not None and len(list(before.parent.iterdir())) == 1
    monkeypatch.setenv("SKBLAB_CACHE", str(tmp_path / "node"))
    artefacts.take(there, [one], QUIET)
    tool = tmp_path / "node" / one.kind / one.key / "link"
    assert tool.read_text() == "tool" and tool.stat().st_mode & 0o7777 == 0o4755
    assert os.getxattr(tool, "user.kept") == b"yes"
    # A second time nothing is read.
    before.unlink()
    artefacts.take(there, [one], QUIET)


def test_what_is_not_in_the_store_is_said(there: Store, tmp_path: Path) -> None:
    with (
        pytest.MonkeyPatch.context() as patch,
        pytest.raises(SkblabError, match="kernels/aaaa"),
    ):
        patch.setenv("SKBLAB_CACHE", str(tmp_path / "node"))
        artefacts.take(there, [Artefact(kind="kernels", key=16 * "a")], QUIET)


def test_a_record_is_all_that_a_client_needs(there: Store) -> None:
    """Also one of an element that was submitted by another client."""
    some = tasks(1)
    place = made(there, some)
    there.put(
        Record(
            key=some[0].key,
            kind="nothing",
            versions={},
            host="n1",
            job="",
            attempt=1,
            made="",
            seconds=0,
            result={},
        )
    )
    submitter = Here()
    assert finished(place, submitter).over and submitter.submitted == []


@pytest.mark.process
def test_local_elements_are_processes_that_end_with_it(there: Store) -> None:
    some = tasks(6, seconds=600, sleep=0.01)
    place = made(there, some)
    local = Local(2)
    standing = engine.run(place, local, QUIET, Packing())
    assert len(standing.done) == 6 and there.noted() == {f"{task.key}.1" for task in some}
    slow = tasks(2, seconds=601, sleep=600)
    slow = [task.model_copy(update={"key": task.key[::-1][:-1] + "f"}) for task in slow]
    place = made(there, slow)
    array, minutes = place.add([(task,) for task in slow], "local")
    local.submit(place, array, 2, minutes)
    deadline = time.monotonic() + 60
    while len(there.noted()) < 8 and time.monotonic() < deadline:
        local.queue(place)
        time.sleep(0.05)
    # A note is there before it is on the disk, and until then a signal finds no task.
    time.sleep(1)
    assert local.cancel(place) == 2 and local.queue(place) == Queue()
    for task in slow:
        assert "SIGTERM" in attempts.why(there, task.key, 1)


@pytest.mark.process
def test_the_command_tries_tells_and_goes_on(skblab: Skblab, tmp_path: Path) -> None:
    store = str(tmp_path / "store")
    ran = skblab("jobs", "try", store, "--tasks", "3")
    assert ran.returncode == 0 and "3 of 3 tasks have a result" in ran.stdout, ran.stderr
    told = json.loads(skblab("jobs", "status", store, "--json").stdout)
    [one] = told["campaigns"]
    assert (one["tasks"], one["done"], one["missing"], one["failed"]) == (3, 3, 0, {})
    [file, *_] = (tmp_path / "store" / "records").rglob("*.json")
    file.unlink()
    for note in (tmp_path / "store" / "attempts").rglob(f"{file.stem}.*"):
        note.unlink()
    ran = skblab("jobs", "resume", store)
    assert ran.returncode == 0 and "3 of 3 tasks have a result" in ran.stdout, ran.stderr
    assert file.is_file()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["jobs", "status", "/nowhere/store"], "there is no store"),
        (["jobs", "resume", "/nowhere/store", "--on", "slurm"], "there is no store"),
        (["jobs", "try", "/proc/self/status"], "expected a store"),
        (["element", "/nowhere/store", "0" * 16, "1", "0"], "there is no store"),
    ],
)
def test_bad_usage(skblab_here: Skblab, words: list[str], said: str) -> None:
    ran = skblab_here(*words)
    assert ran.returncode == 2 and said in ran.stderr and len(ran.stderr.splitlines()) == 1
