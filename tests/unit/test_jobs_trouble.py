# SPDX-License-Identifier: GPL-2.0-or-later
"""Campaigns beside others, on bad nodes, and where nobody knows what a scheduler has taken."""

from __future__ import annotations

import json
import os
import tempfile
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from subprocess import CompletedProcess

import pytest
from here import QUIET, Here, failing, finished, made, programs, tasks

from skblab.jobs import attempts, engine, packing, slurm
from skblab.jobs.campaign import Place, Stuck
from skblab.jobs.element import Element, FinalError, Result, Run, nothing
from skblab.jobs.local import Local
from skblab.jobs.model import TRIES, Begun, Campaign, StoreMark, Task
from skblab.jobs.packing import Packing
from skblab.jobs.slurm import Slurm
from skblab.jobs.store import MARK, Store
from skblab.jobs.submitter import Queue, RefusedError, SubmitterError
from skblab.lab.reporter import Reporter
from skblab_analysis.base.errors import SkblabError, UsageError

Skblab = Callable[..., CompletedProcess[str]]


@pytest.fixture
def there(tmp_path: Path) -> Store:
    return Store.open(tmp_path / "store", make=True)


def other(there: Store, some: list[Task]) -> Place:
    """Another campaign, which may have some of the same tasks."""
    common = Campaign(kind="nothing", title="others", again="…", memory=1, context={"other": 1})
    return made(there, some, common)


# Beside other campaigns.


def test_elements_of_other_campaigns_are_outstanding_too(there: Store) -> None:
    bounds = Packing(least=0, most=60, array=10, outstanding=60)
    submitter = Here(others={"b" * 16: [(1, index) for index in range(45)]})
    assert len(finished(made(there, tasks(40)), submitter, bounds).done) == 40
    assert submitter.most == 10 and submitter.submitted == [10] * 4


def test_what_another_campaign_runs_is_not_submitted(there: Store) -> None:
    some = tasks(4)
    its = other(there, some[:2])
    array, _ = its.add([tuple(some[:2])], "slurm")
    standing = engine.look(made(there, some), some, Queue({}, {its.id: [(array, 0)]}))
    assert [task.key for task in standing.missing] == [task.key for task in some[2:]]
    # Its results are ours, too.
    Element(its, array, 0, {"nothing": nothing}).run(QUIET)
    assert engine.look(made(there, some), some, Queue()).done == {task.key for task in some[:2]}


def test_a_damaged_campaign_beside_it_stops_nothing(there: Store) -> None:
    its = other(there, tasks(2))
    array, _ = its.add([tuple(tasks(2))], "slurm")
    (its.arrays / "0001.jsonl").write_text("{")
    submitter = Here(others={its.id: [(array, 0)]})
    assert len(finished(made(there, tasks(2)), submitter).done) == 2


def test_two_clients_submit_one_after_the_other(there: Store) -> None:
    submitter = Here(poll=0.01)
    place = made(there, tasks(2))
    client = threading.Thread(target=finished, args=(place, submitter))
    with there.submitting():
        client.start()
        time.sleep(0.3)
        assert submitter.submitted == []
    client.join(30)
    assert submitter.submitted == [1]


def test_squeue_tells_of_all_campaigns(
    there: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = made(there, tasks(1))
    listed = f"1|0|RUNNING|None|skblab-{place.id}-1\\n2|0|PENDING|None|skblab-{'b' * 16}-3"
    found = programs(tmp_path / "bin", squeue=f'printf "{listed}\\n"')
    monkeypatch.setenv("PATH", str(found), prepend=":")
    queue = Slurm(1).queue(place)
    assert queue == Queue({(1, 0): "running"}, {"b" * 16: ((3, 0),)}) and queue.outstanding == 2


def test_the_same_tasks_in_two_stores_are_two_campaigns(there: Store, tmp_path: Path) -> None:
    second = Store.open(tmp_path / "second", make=True)
    assert made(there, tasks(2)).id != made(second, tasks(2)).id
    # The store of before has campaigns of the names that it had.
    (there.path / MARK).write_text(StoreMark().model_dump_json())
    assert Store.open(there.path).id == ""


# Which engine.


def on_cluster(there: Store) -> Place:
    """A campaign that a cluster has an element of."""
    place = made(there, tasks(2))
    place.taken(place.add([tuple(tasks(2))], "slurm")[0])
    return place


def test_a_campaign_goes_on_where_it_was(there: Store) -> None:
    place = made(there, tasks(2))
    assert place.engine() == "local"
    place.add([tuple(tasks(2))], "slurm")
    assert place.engine() == "slurm"
    place.add([tuple(tasks(2))], "local")
    assert place.engine() == "local" and place.engines() == {"slurm", "local"}


def test_resume_takes_the_engine_that_it_was_submitted_to(
    skblab_here: Skblab, there: Store, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    place = on_cluster(there)
    monkeypatch.setenv("PATH", str(programs(tmp_path / "none")))
    ran = skblab_here("jobs", "resume", str(there.path))
    assert ran.returncode == 2 and "lacks sbatch" in ran.stderr
    assert there.noted() == set() and place.engines() == {"slurm"}


@pytest.mark.parametrize(
    ("squeue", "said"),
    [
        ("echo '7|0|RUNNING|None|skblab-{id}-1'", "the cluster has 1 of its elements"),
        ("echo 'squeue: error: Unable to contact slurm controller' >&2; exit 1", "is unknown"),
    ],
)
def test_this_machine_runs_nothing_that_a_cluster_may_run(
    there: Store, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, squeue: str, said: str
) -> None:
    place = on_cluster(there)
    found = programs(
        tmp_path / "bin", squeue=squeue.format(id=place.id), sbatch="exit 1", scancel="exit 1"
    )
    monkeypatch.setenv("PATH", str(found), prepend=":")
    with pytest.raises(UsageError, match=said) as caught:
        engine.run(place, Local(1), QUIET, Packing())
    assert f"campaign {place.id}" in str(caught.value) and there.noted() == set()


def test_what_a_cluster_has_ended_this_machine_may_run(
    there: Store, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    place = on_cluster(there)
    found = programs(tmp_path / "bin", squeue="true", sbatch="exit 1", scancel="exit 1")
    monkeypatch.setenv("PATH", str(found), prepend=":")
    Local(1).ready(place)


def test_a_campaign_that_is_over_needs_no_cluster(
    skblab_here: Skblab, there: Store, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    finished(made(there, tasks(2)), Here())
    monkeypatch.setenv("PATH", str(programs(tmp_path / "none")))
    ran = skblab_here("jobs", "resume", str(there.path))
    assert ran.returncode == 0 and "2 of 2 tasks have a result" in ran.stdout, ran.stderr


def test_new_tries_are_given_by_the_only_client(there: Store, skblab_here: Skblab) -> None:
    some = tasks(1)
    place = made(there, some)
    assert finished(place, Here(failing(9, lambda: SkblabError("no")))).failed
    before = there.noted()
    with place.alone():
        ran = skblab_here("jobs", "resume", str(there.path), "--failed", "--on", "local")
    assert ran.returncode == 2 and "another skblab" in ran.stderr
    assert there.noted() == before
    assert len(engine.run(place, Here(), QUIET, Packing(), again=True).done) == 1


def test_what_runs_for_the_third_time_keeps_its_tries(there: Store) -> None:
    some = tasks(1)
    place = made(there, some)
    array, _ = place.add([tuple(some)], "slurm")
    place.taken(array)
    for number in range(1, TRIES + 1):
        begun(place, some[0], number)
    asked: list[set[str]] = []

    class Runs(Here):
        def queue(self, place: Place) -> Queue:
            asked.append(there.noted())
            if len(asked) == 3:
                Element(place, array, 0, {"nothing": nothing}).run(QUIET)
            return Queue({(array, 0): "running"} if len(asked) < 3 else {})

    engine.run(place, Runs(), QUIET, Packing(), again=True)
    assert asked[2] == asked[0]


# Tries.


def begun(place: Place, task: Task, number: int, host: str = "n1") -> None:
    note = Begun(
        host=host, job="1_0", campaign=place.id, array=1, index=0, begun="2026-11-28T12:00:00"
    )
    assert attempts.begin(place.store, task.key, note) == number


@dataclass
class Nodes(Here):
    """Nodes that take an element in turn, unless it is not to run there."""

    nodes: tuple[str, ...] = ("n1", "n2")
    ran: list[str] = field(default_factory=list)
    patch: pytest.MonkeyPatch = field(default_factory=pytest.MonkeyPatch)

    def queue(self, place: Place) -> Queue:
        for name in list(self.waiting):
            del self.waiting[name]
            able = [node for node in self.nodes if node not in self.without[name[0]]] or self.nodes
            self.ran.append(able[0])
            with self.patch.context() as patch:
                patch.setenv("SLURMD_NODENAME", able[0])
                try:
                    Element(place, *name, self.kinds).run(QUIET)  # type: ignore[arg-type]
                except SkblabError as error:
                    assert "no root rights" in str(error)
        return Queue(dict(self.waiting))


def on_nodes(fails: Callable[[Task], bool]) -> Mapping[str, Callable[..., object]]:
    """Tasks that some nodes fail at."""

    @contextmanager
    def begin(_: Campaign, __: Reporter) -> Iterator[Run]:
        def run(task: Task, _: Path) -> Result:
            if fails(task):
                raise SkblabError("the disk of this node is full")
            return {}

        yield run

    return {"nothing": begin}


def bad_n1(_: object) -> bool:
    return os.environ["SLURMD_NODENAME"] == "n1"


def test_a_bad_node_fails_no_task(there: Store) -> None:
    some = tasks(20)
    submitter = Nodes(on_nodes(bad_n1))
    standing = finished(made(there, some), submitter)
    assert len(standing.done) == 20 and not standing.failed
    # Two elements on the bad node, then the same tasks on the other.
    assert submitter.ran == ["n1", "n1", "n2", "n2"]
    assert submitter.without == {1: (), 2: ("n1",)}
    records = [there.get(task.key) for task in some]
    assert {record.attempt for record in records if record} == {2}


def test_an_element_tries_a_task_once(there: Store) -> None:
    some = tasks(3)
    place = made(there, some)
    place.add([tuple(some)], "slurm")
    kinds = failing(9, lambda: SkblabError("no"))
    Element(place, 1, 0, kinds).run(QUIET)  # type: ignore[arg-type]
    assert {name for name in there.noted() if not name.endswith(attempts.END)} == {
        f"{task.key}.1" for task in some
    }


def test_only_what_failed_on_a_node_goes_elsewhere(there: Store) -> None:
    some = tasks(4, seconds=600)
    place = made(there, some)
    begun(place, some[0], 1, "n1")
    begun(place, some[1], 1, "n2")
    submitter = Here()
    finished(place, submitter)
    assert sorted(submitter.without.values()) == [(), ("n1",), ("n2",)]
    assert sorted(submitter.submitted) == [1, 1, 2]


def test_a_task_may_say_that_no_other_try_helps(there: Store) -> None:
    some = tasks(2)
    standing = finished(made(there, some), Here(failing(9, lambda: FinalError("it has no veth"))))
    assert standing.failed.keys() == {task.key for task in some} and standing.over
    assert all("it has no veth (there is no other try)" in why for why in standing.failed.values())
    assert {attempts.tried(there.noted(), task.key) for task in some} == {1}
    # And the user may say that it does.
    again = engine.run(made(there, some), Here(), QUIET, Packing(), again=True)
    assert len(again.done) == 2


def test_a_node_without_room_costs_no_try(there: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    place = made(there, tasks(1))
    place.add([tuple(tasks(1))], "slurm")

    def full(**_: object) -> str:
        raise OSError(28, "No space left on device", "/tmp/skblab-task-x")

    with monkeypatch.context() as patch, pytest.raises(SkblabError, match="No space left"):
        patch.setattr(tempfile, "mkdtemp", full)
        Element(place, 1, 0, {"nothing": nothing}).run(QUIET)
    assert there.noted() == set() and "No space left" in place.why_stuck()


def test_a_node_that_can_begin_nothing_is_not_asked_again(there: Store) -> None:
    @contextmanager
    def begin(_: Campaign, __: Reporter) -> Iterator[Run]:
        if bad_n1(None):
            raise SkblabError("no root rights")
        yield lambda *_: {}

    submitter = Nodes({"nothing": begin})
    assert len(finished(made(there, tasks(20)), submitter).done) == 20
    assert submitter.without == {1: (), 2: ("n1",)}


def test_what_stopped_nodes_before_does_not_matter_now(there: Store) -> None:
    place = made(there, tasks(1))
    place.add([tuple(tasks(1))], "slurm")
    place.stuck(1, 0, Stuck(host="n1", why="no root rights"))
    submitter = Here()
    assert finished(place, submitter).over and submitter.without == {2: ()}


@pytest.mark.parametrize("kind", ["fifo", "store"])
def test_what_cannot_be_kept_costs_nothing_else(
    there: Store, capfd: pytest.CaptureFixture[str], kind: str
) -> None:
    """The try is noted, what can be kept is, and one line says what is not."""

    @contextmanager
    def begin(_: Campaign, __: Reporter) -> Iterator[Run]:
        def run(_: Task, folder: Path) -> Result:
            (folder / "console.log").write_text("what it said")
            if kind == "fifo":
                os.mkfifo(folder / "pipe")
            else:
                (there.path / "logs").touch()
            raise SkblabError("no")

        yield run

    some = tasks(1)
    place = made(there, some)
    place.add([tuple(some)], "slurm")
    Element(place, 1, 0, {"nothing": begin}).run(Reporter())
    said = [line for line in capfd.readouterr().err.splitlines() if "kept" in line]
    assert len(said) == 1 and attempts.why(there, some[0].key, 1) == "no"
    if kind == "fifo":
        assert "not all is kept" in said[0] and "pipe" in said[0]
        assert (there.logs(some[0].key, 1) / "console.log").read_text() == "what it said"


# What a scheduler has taken, and what not.


class Unsure(Here):
    """One whose first answers get lost, as a socket that times out loses them."""

    lost = 1
    takes = False

    def submit(
        self, place: Place, array: int, count: int, minutes: int, without: Collection[str] = ()
    ) -> None:
        if self.lost:
            self.lost -= 1
            if self.takes:
                super().submit(place, array, count, minutes, without)
            raise SubmitterError("sbatch failed: Socket timed out on send/recv operation")
        super().submit(place, array, count, minutes, without)


def test_an_array_that_was_not_taken_is_submitted_anew(there: Store) -> None:
    place = made(there, tasks(3))
    submitter = Unsure()
    assert len(finished(place, submitter).done) == 3
    assert submitter.without.keys() == {2}
    # Should it come after all, none of it runs.
    assert place.keys({}).keys() == {2}
    with pytest.raises(SkblabError, match="its tasks are in another one"):
        Element(place, 1, 0, {"nothing": nothing})


def test_an_array_that_was_taken_is_not_submitted_again(there: Store) -> None:
    class Slow(Unsure):
        takes = True
        looks = 0

        def queue(self, place: Place) -> Queue:
            self.looks += 1
            # Long enough to be seen.
            return super().queue(place) if self.looks > 3 else Queue(dict(self.waiting))

    place = made(there, tasks(3))
    submitter = Slow()
    assert len(finished(place, submitter).done) == 3
    assert submitter.submitted == [1] and place.keys({}).keys() == {1}
    assert there.noted() == {f"{task.key}.1" for task in tasks(3)} and place.unsure() == set()


def test_what_a_killed_client_was_about_to_submit_is_settled(there: Store) -> None:
    """Its sbatch may outlive it: the array that it submits has no elements any more."""
    place = made(there, tasks(3))
    array, _ = place.add([tuple(tasks(3))], "slurm")
    submitter = Here()
    assert len(finished(place, submitter).done) == 3
    with pytest.raises(SkblabError, match="nobody knew"):
        place.job(array, 0)


def test_no_number_is_used_twice(there: Store) -> None:
    place = made(there, tasks(1))
    for number in (1, 2, 3):
        assert place.add([tuple(tasks(1))], "slurm")[0] == number
        place.drop(number)


def test_calls_that_fail_are_no_idle_elements(there: Store) -> None:
    submitter = Unsure()
    submitter.lost = 3 * engine.IDLE
    assert len(finished(made(there, tasks(1)), submitter).done) == 1


def test_sbatch_that_never_answers_is_the_end(
    there: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "PATIENCE", 0.05)
    submitter = Unsure()
    submitter.lost = 10**9
    with pytest.raises(SubmitterError, match="Socket timed out"):
        finished(made(there, tasks(1)), submitter)


def test_where_an_array_did_nothing_no_other_follows_at_once(there: Store) -> None:
    """A node that ends elements as soon as they begin is not fed while others work."""
    place = made(there, tasks(60))

    class Black(Here):
        looks = 0

        def queue(self, place: Place) -> Queue:
            self.looks += 1
            for name in list(self.waiting):
                if name != (1, 0):
                    del self.waiting[name]
                elif self.looks > 40:
                    del self.waiting[name]
                    Element(place, *name, self.kinds).run(QUIET)  # type: ignore[arg-type]
            return Queue(dict(self.waiting))

    submitter = Black()
    bounds = Packing(least=600, most=600, array=1)
    with pytest.raises(SkblabError, match="without a task"):
        finished(place, submitter, bounds)
    assert len(submitter.submitted) <= 6 + 5 * (engine.IDLE + 1)


def test_a_cluster_with_short_arrays_gets_short_arrays(there: Store) -> None:
    class Short(Here):
        def submit(
            self, place: Place, array: int, count: int, minutes: int, without: Collection[str] = ()
        ) -> None:
            if count > 7:
                raise RefusedError("the cluster takes 7 elements an array", most=7)
            super().submit(place, array, count, minutes, without)

    submitter = Short()
    bounds = Packing(least=0, most=60, array=100)
    assert len(finished(made(there, tasks(20)), submitter, bounds).done) == 20
    assert submitter.submitted == [7, 7, 6]


def test_a_limit_ends_with_the_jobs_of_other_campaigns(there: Store) -> None:
    class Few(Here):
        refused = 0

        def submit(
            self, place: Place, array: int, count: int, minutes: int, without: Collection[str] = ()
        ) -> None:
            if self.others:
                self.refused += 1
                self.others = {} if self.refused == 3 else self.others
                raise RefusedError("job submit limit", limit=True)
            super().submit(place, array, count, minutes, without)

    submitter = Few(others={"b" * 16: [(1, 0)]})
    assert finished(made(there, tasks(2)), submitter).over and submitter.refused == 3


# What sbatch is told, and says.


def calls(folder: Path) -> list[str]:
    return [file.read_text() for file in sorted(folder.glob("call-*"))]


SBATCH = """
n=$(ls {folder} | grep -c call-); echo "$*" >{folder}/call-$n
case "$*" in {case}) echo "sbatch: error: {said}" >&2; exit 1;; esac; echo 7
"""


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """Programs that stand for Slurm's; sbatch refuses what is like `case`."""

    def make(case: str = "none", said: str = "", **more: str) -> Path:
        folder = tmp_path / "calls"
        folder.mkdir()
        sbatch = SBATCH.format(folder=folder, case=case, said=said)
        monkeypatch.setenv(
            "PATH", str(programs(tmp_path / "bin", sbatch=sbatch, **more)), prepend=":"
        )
        return folder

    return make


UP = "echo 'n1 idle'; echo 'n2 mixed'; echo 'n3 down*'"


def test_sbatch_is_told_which_nodes_failed(there: Store, cluster: Callable[..., Path]) -> None:
    folder = cluster(sinfo=UP)
    Slurm(1, ("--exclude=n9",)).submit(made(there, tasks(1)), 1, 1, 1, {"n1"})
    [call] = calls(folder)
    # The user's own options go last: they have the last word.
    assert call.split()[-2:] == ["--exclude=n1", "--exclude=n9"]


def test_nodes_are_excluded_only_if_others_are_up(
    there: Store, cluster: Callable[..., Path]
) -> None:
    folder = cluster(sinfo=f'{UP}; echo "$*" >>{"$0"}.words')
    slurm_ = Slurm(1, ("--partition=long",))
    slurm_.submit(made(there, tasks(1)), 1, 1, 1, {"n1", "n2"})
    [call] = calls(folder)
    assert "--exclude" not in call
    assert "--partition=long" in (folder.parent / "bin" / "sinfo.words").read_text()


def test_nodes_that_sbatch_cannot_do_without_stay(
    there: Store, cluster: Callable[..., Path]
) -> None:
    said = "Batch job submission failed: Requested node configuration is not available"
    folder = cluster("*--exclude*", said, sinfo=UP)
    Slurm(1).submit(made(there, tasks(1)), 1, 1, 1, {"n1"})
    first, second = calls(folder)
    assert "--exclude=n1" in first and "--exclude" not in second


@pytest.mark.parametrize(("limit", "most"), [("64", 64), ("1001", None), ("", None)])
def test_an_array_that_is_too_long(
    there: Store, cluster: Callable[..., Path], limit: str, most: int | None
) -> None:
    config = f"echo 'MaxArraySize            = {limit}'" if limit else "exit 1"
    cluster("*", "Batch job submission failed: Invalid job array specification", scontrol=config)
    with pytest.raises(RefusedError, match="MaxArraySize") as caught:
        Slurm(1).submit(made(there, tasks(1)), 1, 100, 1)
    assert caught.value.most == most and "100" in str(caught.value)


@pytest.mark.parametrize(
    ("said", "limit"),
    [
        ("Job violates accounting/QOS policy (job submit limit, user's size limits)", True),
        ("Requested time limit is invalid (missing or exceeds some limit)", False),
        ("Invalid partition name specified", False),
    ],
)
def test_which_refusals_end_by_themselves(
    there: Store, cluster: Callable[..., Path], said: str, limit: bool
) -> None:
    cluster("*", f"Batch job submission failed: {said}")
    with pytest.raises(RefusedError) as caught:
        Slurm(1).submit(made(there, tasks(1)), 1, 1, 1)
    assert caught.value.limit is limit


# This machine's CPUs.


def test_short_tasks_are_spread_over_cpus(there: Store) -> None:
    submitter = Here(at_once=2, on="local")
    assert finished(made(there, tasks(4, seconds=20)), submitter).over
    assert sum(submitter.submitted) == 4
    # On a cluster they are one element.
    submitter = Here()
    assert finished(other(there, tasks(8, seconds=20)[4:]), submitter).over
    assert submitter.submitted == [1]


@pytest.mark.parametrize(("count", "at_once"), [(30, 2), (1000, 4), (3, 4), (1, 1)])
def test_each_process_has_its_share(count: int, at_once: int) -> None:
    some = tasks(count, seconds=20)
    packed = packing.elements(some, packing.for_cpus(Packing(), some, at_once))
    assert len(packed) >= min(count, 2 * at_once)
    longest = max(sum(task.seconds for task in element) for element in packed)
    assert longest <= max(20, count * 20 / at_once)


def test_what_failed_here_waits_for_nobody(there: Store) -> None:
    """A process that is free takes it, also if it is short."""
    some = [*tasks(1, seconds=600), Task(key="f" * 16, seconds=1)]
    place = made(there, some)
    place.taken(place.add([tuple(some[:1])], "local")[0])
    submitter = Here(at_once=2, on="local")
    standing = engine.look(place, some, Queue({(1, 0): "running"}))
    run = engine._Run(place, submitter, QUIET, Packing(), some, again=False)
    assert run._due(standing)
    submitter.at_once = 1
    assert not run._due(standing)


@pytest.mark.process
def test_so_many_processes_as_the_user_says(skblab: Skblab, tmp_path: Path) -> None:
    words = ("--tasks", "4", "--seconds", "1.5", "--jobs", "4", "--estimate", "1")
    ran = skblab("jobs", "try", str(tmp_path / "store"), *words)
    assert ran.returncode == 0, ran.stderr
    store = Store.open(tmp_path / "store")
    found = [store.get(key) for key in store.recorded()]
    ends = [one.made for one in found if one is not None]
    files = store.path.glob("attempts/*/*")
    begins = [Begun.model_validate_json(file.read_text()).begun for file in files]
    assert len(ends) == 4 and max(begins) < min(ends)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["jobs", "try", "STORE", "--on", "slurm", "--jobs", "2"], "--jobs 2: expected --on local"),
        (["compare", "6.12", "7.3", "--jobs", "2"], "--jobs: expected --store"),
    ],
)
def test_what_jobs_does_not_go_with(
    skblab_here: Skblab, tmp_path: Path, words: list[str], said: str
) -> None:
    words = [str(tmp_path / "store") if word == "STORE" else word for word in words]
    ran = skblab_here(*words)
    assert ran.returncode in (2, 3) and said in ran.stderr
    assert len(ran.stderr.splitlines()) == 1


# Names of stores, and what is damaged.


def test_a_store_is_called_as_the_user_calls_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, link = tmp_path / "real", tmp_path / "shared"
    real.mkdir()
    link.symlink_to(real)
    assert Store.open(link / "store", make=True).path == link / "store"
    monkeypatch.chdir(link)
    monkeypatch.setenv("PWD", str(link))
    assert Store.open(Path("store")).path == link / "store"
    # One that is of another folder says nothing of this one.
    monkeypatch.setenv("PWD", "/")
    assert Store.open(Path("store")).path == real / "store"


def test_the_command_again_is_of_any_folder(
    skblab_here: Skblab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PWD", str(tmp_path))
    monkeypatch.setattr("skblab.jobs.engine.run", lambda place, *_, **__: place.tasks())
    monkeypatch.setattr("skblab.commands.jobs._told", lambda *_: False)
    ran = skblab_here("jobs", "try", "my store", "--tasks", "2", "--estimate", "5", "--jobs", "3")
    assert ran.returncode == 0, ran.stderr
    [place] = Place.all(Store.open(tmp_path / "my store"))
    assert place.campaign().again == (
        f"./skblab jobs try '{tmp_path}/my store' --tasks 2 --seconds 0 --estimate 5 --on local "
        "--jobs 3"
    )


@pytest.mark.parametrize("file", ["campaign.json", "tasks.jsonl", "arrays/0001.jsonl"])
def test_a_damaged_campaign_is_told_of_beside_others(
    skblab_here: Skblab, there: Store, file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    bad, good = other(there, tasks(2)), made(there, tasks(3))
    finished(bad, Here())
    finished(good, Here())
    (bad.path / file).write_text("{")
    monkeypatch.setattr(slurm, "look", lambda: {bad.id: {(1, 0): slurm.Listed(1, "running")}})
    monkeypatch.setattr(slurm, "require", lambda *_: None)
    ran = skblab_here("jobs", "status", str(there.path), "--json")
    document = json.loads(ran.stdout)
    assert ran.returncode == 1 and [one["campaign"] for one in document["campaigns"]] == [good.id]
    assert list(document["damaged"]) == [bad.id] and file in document["damaged"][bad.id]
    ran = skblab_here("jobs", "status", str(there.path))
    assert ran.returncode == 1 and f"{bad.id} is damaged" in ran.stdout and good.id in ran.stdout
    if file != "arrays/0001.jsonl":
        ran = skblab_here("jobs", "resume", str(there.path))
        assert ran.returncode == 1 and f"{bad.id} is damaged" in ran.stderr
        assert "3 of 3 tasks" in ran.stdout
