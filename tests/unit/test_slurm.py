# SPDX-License-Identifier: GPL-2.0-or-later
"""Tasks on a real Slurm: all of them, once, whatever dies meanwhile."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest

from skblab.jobs import attempts
from skblab.jobs.campaign import Place
from skblab.jobs.model import Campaign, Record, Task
from skblab.jobs.store import Store
from slurm_cluster import NODES, Cluster, cluster
from waiting import PATIENCE, until

pytestmark = [pytest.mark.process, pytest.mark.slow]

TREE = Path(__file__).resolve().parents[2]
Skblab = Callable[..., CompletedProcess[str]]
# Of a requeued job: its credential has to lapse, a node's death has to be seen.
REQUEUE_SECONDS = 300.0


@pytest.fixture(scope="module")
def slurm() -> Iterator[Cluster]:
    """A cluster of two nodes for the tests of this file."""
    with cluster() as made:
        yield made


@contextlib.contextmanager
def client(slurm: Cluster, *words: str) -> Iterator[subprocess.Popen[str]]:
    """Run skblab beside the test."""
    process = subprocess.Popen(
        [str(TREE / "skblab"), *words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, **slurm.env},
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def tried(store: Path, *words: str) -> list[str]:
    """The words that have tasks submitted that do nothing."""
    return ["jobs", "try", str(store), "--on", "slurm", *words]


def there(store: Path) -> int:
    """Return how many records there are."""
    return len(list(store.glob("records/*/*.json")))


def begun(store: Path) -> int:
    """Return how many tries have begun."""
    return len([one for one in store.glob("attempts/*/*") if one.suffix != attempts.END])


def records(store: Path) -> list[Record]:
    """Return all of them."""
    opened = Store.open(store)
    found = [opened.get(key) for key in opened.recorded()]
    assert all(found)
    return [one for one in found if one is not None]


def ends(store: Path) -> list[str]:
    """Return why tries gave nothing."""
    return [json.loads(file.read_text())["why"] for file in store.glob("attempts/*/*.end")]


def status(skblab: Skblab, slurm: Cluster, store: Path) -> dict[str, Any]:
    """Return how the only campaign stands."""
    told = skblab("jobs", "status", str(store), "--json", env=slurm.env)
    document = json.loads(told.stdout)
    assert document["squeue"], told.stderr
    [one] = document["campaigns"]
    assert isinstance(one, dict)
    return one


def test_each_task_runs_once_on_some_node(skblab: Skblab, slurm: Cluster, tmp_path: Path) -> None:
    store = tmp_path / "store"
    words = ("--tasks", "40", "--seconds", "0.2", "--estimate", "300")
    ran = skblab(*tried(store, *words), env=slurm.env)
    assert ran.returncode == 0, f"{ran.stderr}\n{slurm.logs()}"
    assert "40 of 40 tasks have a result" in ran.stdout
    assert Counter(one.attempt for one in records(store)) == {1: 40}
    assert {one.host for one in records(store)} == set(NODES)
    assert all(one.job for one in records(store))
    assert begun(store) == 40 and ends(store) == []


def test_a_client_that_is_killed_loses_nothing(
    skblab: Skblab, slurm: Cluster, tmp_path: Path
) -> None:
    """What it submitted goes on, and the next client submits nothing of it again."""
    store = tmp_path / "store"
    words = ("--tasks", "16", "--seconds", "15", "--estimate", "300")
    with client(slurm, *tried(store, *words)) as process:
        until("a task begins", PATIENCE, lambda: begun(store))
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert there(store) < 16
    one = status(skblab, slurm, store)
    assert one["missing"] == 0 and sum(one["elements"].values()) > 0
    # Nobody says where: it was submitted to the cluster, and nothing else may run it.
    ran = skblab("jobs", "resume", str(store), "--on", "local", env=slurm.env)
    assert ran.returncode == 2 and "the cluster has" in ran.stderr, ran.stderr
    ran = skblab("jobs", "resume", str(store), env=slurm.env)
    assert ran.returncode == 0 and "16 of 16" in ran.stdout, ran.stderr
    assert begun(store) == 16 and Counter(one.attempt for one in records(store)) == {1: 16}
    assert len(list(store.glob("campaigns/*/arrays/*.jsonl"))) == 1


def test_one_partition_too_many_is_one_line(skblab: Skblab, slurm: Cluster, tmp_path: Path) -> None:
    words = ("--tasks", "1", "--sbatch=--partition=none-such")
    ran = skblab(*tried(tmp_path / "store", *words), env=slurm.env)
    assert ran.returncode == 1 and "invalid partition" in ran.stderr.lower()
    assert len(ran.stderr.strip().splitlines()) == 1
    assert list((tmp_path / "store").glob("campaigns/*/arrays/*.jsonl")) == []


def test_what_fails_on_a_node_is_tried_on_another(
    skblab: Skblab, slurm: Cluster, tmp_path: Path
) -> None:
    """Twice; the third time no node is left, and it may run on any."""
    store = Store.open(tmp_path / "store", make=True)
    campaign = Campaign(kind="nothing", title="it fails", again="…", memory=1, on="slurm")
    task = Task(key="f" * 16, seconds=60, does={"fails": "the disk is broken"})
    Place.make(store, campaign, [task])
    ran = skblab("jobs", "resume", str(store.path), env=slurm.env)
    assert ran.returncode == 1 and "the disk is broken (the last of 3 tries)" in ran.stderr
    first, second, third = attempts.hosts(store, task.key)
    assert {first, second} == set(NODES) and third in NODES


def test_ten_thousand_tasks(
    skblab: Skblab,
    slurm: Cluster,
    tmp_path: Path,
    full: bool,
    record_testsuite_property: Callable[[str, object], None],
) -> None:
    """None is lost, none runs twice, and they are few calls of sbatch."""
    count = 10_000 if full else 2_000
    store, calls = tmp_path / "store", tmp_path / "calls"
    counting = tmp_path / "bin" / "sbatch"
    counting.parent.mkdir()
    counting.write_text(
        f'#!/bin/sh\ndate +%s.%N >>{calls}\n/usr/bin/sbatch "$@"\nstatus=$?\n'
        f"date +%s.%N >>{calls}\nexit $status\n"
    )
    counting.chmod(0o755)
    began = time.time()
    env = {**slurm.env, "PATH": f"{counting.parent}:{os.environ['PATH']}"}
    words = ("--tasks", str(count), "--estimate", "60")
    ran = skblab(*tried(store, *words), env=env, timeout=2000)
    assert ran.returncode == 0 and f"{count} of {count}" in ran.stdout, ran.stderr
    times = [float(line) for line in calls.read_text().split()]
    submitted = times[-1] - began
    # `make test-all` has them in junit.xml.
    record_testsuite_property("sbatch_calls", len(times) // 2)
    record_testsuite_property("submitted_seconds", round(submitted, 1))
    assert len(times) // 2 <= 20 and submitted < 60
    assert there(store) == count and begun(store) == count and ends(store) == []
    assert {one.attempt for one in records(store)} == {1}


def test_a_node_that_dies(skblab: Skblab, slurm: Cluster, tmp_path: Path) -> None:
    """What it ran begins anew elsewhere; the other tasks of the same element had their records."""
    store = tmp_path / "store"
    words = ("--tasks", "24", "--seconds", "2", "--estimate", "200", "--element-minutes", "10")
    with client(slurm, *tried(store, *words)) as process:
        until("both nodes have records", PATIENCE, lambda: hosts(store) == set(NODES))
        slurm.kill("n1")
        try:
            output, _ = process.communicate(timeout=REQUEUE_SECONDS)
        finally:
            slurm.start("n1")
    slurm.until_up()
    assert process.returncode == 0 and "24 of 24" in output, f"{output}\n{slurm.logs()}"
    assert there(store) == 24
    attempts_ = Counter(one.attempt for one in records(store))
    # Those that were under way, and no others: at most one for each CPU of the node.
    assert set(attempts_) == {1, 2} and 1 <= attempts_[2] <= 4
    assert begun(store) == 24 + attempts_[2]


def hosts(store: Path) -> set[str]:
    """Return which nodes have put records."""
    return {one.host for one in records(store)} if there(store) else set()


def test_a_time_limit(skblab: Skblab, slurm: Cluster, tmp_path: Path, full: bool) -> None:
    """A task that has its time limit begins anew, and after three times has failed.

    Slurm's shortest limit is a minute, and it looks twice a minute. In a slice it is once.
    """
    store, tries = tmp_path / "store", 3 if full else 1
    words = ("--tasks", "1", "--seconds", "1200", "--sbatch=--time=1")
    with client(slurm, *tried(store, *words)) as process:
        until("it has its limit", 200 * tries, lambda: len(ends(store)) == tries)
        assert all("time limit" in why for why in ends(store))
        if full:
            output, _ = process.communicate(timeout=PATIENCE)
            assert process.returncode == 1 and "0 of 1 tasks" in output
            assert "time limit (the last of 3 tries)" in output
            assert len(status(skblab, slurm, store)["failed"]) == 1
            return
        until("it begins anew", PATIENCE, lambda: begun(store) == tries + 1)
    ran = skblab("jobs", "cancel", str(store), env=slurm.env)
    assert ran.returncode == 0 and "1 elements ended" in ran.stdout
    until("all has ended", PATIENCE, lambda: not status(skblab, slurm, store)["elements"])


def test_preemption(skblab: Skblab, slurm: Cluster, tmp_path: Path) -> None:
    """Jobs of a better partition take the nodes; tasks begin anew, by Slurm's own requeueing."""
    store = tmp_path / "store"
    words = ("--tasks", "4", "--seconds", "8", "--estimate", "600")
    with client(slurm, *tried(store, *words)) as process:
        until("all run", PATIENCE, lambda: begun(store) == 4)
        slurm.run(
            *("sbatch", "--partition=high", "--nodes=2", "--exclusive", "--time=2"),
            *("--output=/dev/null", "--wrap=sleep 3"),
        )
        output, _ = process.communicate(timeout=REQUEUE_SECONDS)
    assert process.returncode == 0 and "4 of 4" in output, f"{output}\n{slurm.logs()}"
    assert Counter(one.attempt for one in records(store)) == {2: 4}
    assert len(ends(store)) == 4 and all("SIGTERM: preempted" in why for why in ends(store))
    # The same array: nobody had to submit anything.
    assert len(list(store.glob("campaigns/*/arrays/*.jsonl"))) == 1


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A store on a disk of 24 MiB."""
    place = tmp_path / "small"
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=24m", "none", str(place)], check=True)
    try:
        yield place
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True)


def test_a_full_disk(skblab: Skblab, slurm: Cluster, small_disk: Path) -> None:
    """One line says so, no record is half written, no try is lost, and it goes on with room."""
    store = small_disk / "store"
    words = ("--tasks", "60", "--seconds", "0.5", "--estimate", "300")
    with client(slurm, *tried(store, *words)) as process:
        until("a record", PATIENCE, lambda: there(store) >= 2)
        ballast = small_disk / "ballast"
        with contextlib.suppress(OSError), ballast.open("wb") as handle:
            while True:
                handle.write(bytes(4096))
                handle.flush()
        output, _ = process.communicate(timeout=REQUEUE_SECONDS)
    assert process.returncode == 1, f"{output}\n{slurm.logs()}"
    *_, last = output.strip().splitlines()
    assert "the disk is full" in last and str(store) in last
    assert all(one.attempt == 1 for one in records(store))
    before = there(store)
    assert 2 <= before < 60 and ends(store) == []
    ballast.unlink()
    ran = skblab("jobs", "resume", str(store), "--on", "slurm", env=slurm.env)
    assert ran.returncode == 0 and "60 of 60" in ran.stdout, ran.stderr
    assert there(store) == 60
    assert not [file for file in store.rglob("*") if file.name.endswith(".part")]
