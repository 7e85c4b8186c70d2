# SPDX-License-Identifier: GPL-2.0-or-later
"""The cache: an entry is whole or absent, whatever happens while it is built."""

import contextlib
import errno
import multiprocessing
import os
import signal
import threading
import time
from pathlib import Path

import pytest

from skblab.lab import store
from skblab.lab.paths import cache
from skblab.lab.reporter import Reporter
from skblab_analysis.base import disk
from skblab_analysis.base.errors import SkblabError, UsageError
from waiting import PATIENCE, at_lock, until

QUIET = Reporter(quiet=True)


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SKBLAB_CACHE", str(tmp_path / "cache"))


def _fill(folder: Path) -> None:
    (folder / "content").write_text("whole")


def test_an_entry_is_built_once() -> None:
    calls = []

    def build(folder: Path) -> None:
        calls.append(folder)
        _fill(folder)

    first = store.ensure("kind", "key", QUIET, build)
    second = store.ensure("kind", "key", QUIET, build)
    assert first == second
    assert (first / "content").read_text() == "whole"
    assert len(calls) == 1


@pytest.mark.parametrize("error", [ValueError("x"), KeyboardInterrupt()])
def test_a_failed_build_leaves_nothing(error: BaseException) -> None:
    def build(folder: Path) -> None:
        _fill(folder)
        raise error

    with pytest.raises(type(error)):
        store.ensure("kind", "key", QUIET, build)
    assert list((cache() / "kind").iterdir()) == []


def test_what_still_writes_while_it_is_killed_leaves_nothing() -> None:
    writers = []

    def build(folder: Path) -> None:
        def write() -> None:
            end = time.monotonic() + 0.5
            number = 0
            while time.monotonic() < end:
                number += 1
                with contextlib.suppress(FileNotFoundError):
                    (folder / str(number)).write_text("")

        writers.append(threading.Thread(target=write))
        writers[0].start()
        while not (folder / "1").exists():
            assert writers[0].is_alive()
            time.sleep(0.001)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        store.ensure("kind", "key", QUIET, build)
    writers[0].join()
    assert list((cache() / "kind").iterdir()) == []


def test_a_full_disk_is_said_with_the_free_space() -> None:
    def build(folder: Path) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with pytest.raises(SkblabError, match=r"disk is full: \d+ MiB free") as caught:
        store.ensure("kind", "key", QUIET, build)
    assert caught.value.exit_code == 1
    assert list((cache() / "kind").iterdir()) == []


def _slow(folder: Path) -> None:
    _fill(folder)
    time.sleep(60)


def test_a_killed_build_leaves_no_entry_and_the_next_one_works() -> None:
    child = multiprocessing.get_context("fork").Process(
        target=store.ensure, args=("kind", "key", QUIET, _slow)
    )
    child.start()
    part = cache() / "kind" / "key.part" / "content"
    until("its build has begun", PATIENCE, lambda: part.exists())
    assert child.pid is not None
    os.kill(child.pid, signal.SIGKILL)
    child.join()
    assert not store.entry("kind", "key").exists()
    assert (store.ensure("kind", "key", QUIET, _fill) / "content").exists()
    assert not part.exists()


def test_what_a_killed_build_of_another_entry_left_is_swept_but_not_a_living_one() -> None:
    fork = multiprocessing.get_context("fork")
    living = fork.Process(target=store.ensure, args=("kind", "living", QUIET, _slow))
    living.start()
    dead = cache() / "kind" / "dead.part"
    part = cache() / "kind" / "living.part"
    until("its build has begun", PATIENCE, lambda: part.exists())
    dead.mkdir()
    store.ensure("kind", "other", QUIET, _fill)
    assert not dead.exists()
    assert part.exists()
    living.kill()
    living.join()


def test_two_builders_make_one_entry() -> None:
    calls = cache() / "calls"
    (pids := cache() / "pids").mkdir()

    def others_wait() -> bool:
        waiting = [at_lock(int(file.name)) for file in pids.iterdir()]
        return sum(waiting) == 2 or len(calls.read_text()) > 1

    def build(folder: Path) -> None:
        with calls.open("a") as file:
            file.write("x")
        until("the others wait, or build as well", PATIENCE, others_wait)
        _fill(folder)

    def ensure() -> None:
        (pids / str(os.getpid())).touch()
        store.ensure("kind", "key", QUIET, build)

    fork = multiprocessing.get_context("fork")
    children = [fork.Process(target=ensure) for _ in range(3)]
    for child in children:
        child.start()
    for child in children:
        child.join()
    assert [child.exitcode for child in children] == [0, 0, 0]
    assert (cache() / "calls").read_text() == "x"


def test_digest_tells_parts_apart() -> None:
    assert store.digest(["ab", "c"]) != store.digest(["a", "bc"])
    assert store.digest(["a"]) == store.digest([b"a"])


def test_a_cache_that_cannot_be_made_is_a_usage_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("SKBLAB_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.raises(UsageError, match="SKBLAB_CACHE"):
        cache()


def test_what_is_written_whole_is_on_the_disk_before_it_has_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target, flushed = tmp_path / "file", list[tuple[bool, str]]()

    def note(descriptor: int) -> None:
        flushed.append((target.exists(), Path(f"/proc/self/fd/{descriptor}").read_text()))

    monkeypatch.setattr(os, "fsync", note)
    disk.write_whole(target, "new")
    assert flushed == [(False, "new")]
    assert target.read_text() == "new"


def test_write_whole_leaves_the_old_file_when_it_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "file"
    disk.write_whole(target, "old")

    def fail(_: int) -> None:
        raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="full"):
        disk.write_whole(target, "new")
    assert target.read_text() == "old"
    assert list(tmp_path.glob(".*.part")) == []
