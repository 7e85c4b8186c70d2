# SPDX-License-Identifier: GPL-2.0-or-later
"""What is in use: seen by other processes, gone with its holder, and never removed."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import signal
import time
from collections.abc import Callable
from multiprocessing.process import BaseProcess
from pathlib import Path

import pytest

from skblab.lab import store, uses
from skblab.lab.paths import cache
from skblab.lab.reporter import Reporter
from waiting import PATIENCE, until, until_at_lock

QUIET = Reporter(quiet=True)
FORK = multiprocessing.get_context("fork")
LONG_AGO = 1_000_000_000


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SKBLAB_CACHE", str(tmp_path / "cache"))


def _fill(folder: Path) -> None:
    (folder / "content").write_text("x" * 10_000)


def _put(kind: str, key: str) -> Path:
    """Put an entry there as an older skblab did: nothing is known of its use."""
    folder = store.entry(kind, key)
    folder.mkdir(parents=True)
    _fill(folder)
    os.utime(folder, (LONG_AGO, LONG_AGO))
    return folder


def _elsewhere(do: Callable[[], object]) -> BaseProcess:
    """Have another process do something, say so, and live on."""
    ready = cache() / "ready"
    ready.unlink(missing_ok=True)

    def run() -> None:
        do()
        ready.touch()
        time.sleep(60)

    process = FORK.Process(target=run)
    process.start()
    until("it has begun", PATIENCE, lambda: ready.exists())
    return process


def _killed(process: BaseProcess) -> None:
    assert process.pid is not None
    os.kill(process.pid, signal.SIGKILL)
    process.join()


def test_what_another_process_uses_stays_until_it_is_killed() -> None:
    _put("kind", "key")
    user = _elsewhere(lambda: store.ensure("kind", "key", QUIET, _fill))
    assert store.discard("kind", "key") == store.IN_USE
    assert store.entry("kind", "key").is_dir()
    _killed(user)
    assert store.discard("kind", "key") is None
    assert list((cache() / "kind").iterdir()) == []
    assert list((cache() / "uses" / "kind").iterdir()) == []


def test_what_this_process_made_stays() -> None:
    store.ensure("kind", "key", QUIET, _fill)
    assert store.discard("kind", "key") == store.IN_USE
    assert ("kind", "key") in store.added


def test_a_use_of_a_with_block_ends_with_it() -> None:
    _put("kind", "key")
    with uses.using("kind", "key"):
        assert store.discard("kind", "key") == store.IN_USE
    assert store.discard("kind", "key") is None


def test_the_last_use_is_known_and_looking_is_none() -> None:
    _put("kind", "old")
    assert uses.last("kind", "old") == LONG_AGO
    uses.note_size("kind", "old", 123)
    with uses.nobody("kind", "old") as free:
        assert free
    assert (uses.last("kind", "old"), uses.size("kind", "old")) == (LONG_AGO, 123)
    before = time.time()
    store.ensure("kind", "old", QUIET, _fill)
    # A file's time is that of the last tick.
    assert uses.last("kind", "old") > before - 1
    assert uses.size("kind", "old") == 123


def test_the_size_of_what_is_made_is_known() -> None:
    assert uses.size("kind", "key") is None
    made = store.ensure("kind", "key", QUIET, _fill)
    assert uses.size("kind", "key") == store.disk_bytes(made) >= 10_000


def test_hard_links_count_once(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    _fill(tmp_path / "a")
    alone = store.disk_bytes(tmp_path / "a")
    os.link(tmp_path / "a" / "content", tmp_path / "a" / "again")
    assert store.disk_bytes(tmp_path / "a") == alone
    assert store.disk_bytes(tmp_path / "nothing") == 0


def test_who_comes_while_an_entry_goes_builds_it_again() -> None:
    _put("kind", "key")
    with uses.nobody("kind", "key") as free:
        assert free
        waits = FORK.Process(target=store.ensure, args=("kind", "key", QUIET, _fill))
        waits.start()
        until_at_lock(waits)
        shutil.rmtree(store.entry("kind", "key"))
        uses.forget("kind", "key")
    waits.join()
    assert waits.exitcode == 0
    assert (store.entry("kind", "key") / "content").exists()
    assert uses.size("kind", "key")


def test_a_cache_that_somebody_removed_is_begun_again() -> None:
    store.ensure("kind", "key", QUIET, _fill)
    shutil.rmtree(cache())
    store.ensure("kind", "key", QUIET, _fill)
    # The lock is that of the new file.
    checks = _elsewhere(lambda: (cache() / "free").write_text(str(store.discard("kind", "key"))))
    _killed(checks)
    assert (cache() / "free").read_text() == store.IN_USE


def test_killed_while_removing_no_half_entry_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """At whatever point of the removal: the entry is whole, or it is no entry."""
    many = 300
    mark = cache() / "so-far"
    for gone in (0, 1, 2, 100, many - 1):
        folder = _put("kind", "key")
        mark.unlink(missing_ok=True)
        for number in range(many):
            (folder / str(number)).touch()

        def part(path: Path, *, gone: int = gone, **_: object) -> None:
            for file in list(path.iterdir())[:gone]:
                file.unlink()
            mark.touch()
            time.sleep(600)

        def removal(remove: Callable[..., None] = part) -> None:
            with monkeypatch.context() as patch:
                patch.setattr(shutil, "rmtree", remove)
                store.discard("kind", "key")

        process = FORK.Process(target=removal, daemon=True)
        process.start()
        until("it has come so far", PATIENCE, lambda: mark.exists())
        assert not folder.exists()
        _killed(process)
        [left] = (cache() / "kind").iterdir()
        assert 0 < len(list(left.iterdir())) <= many + 1
        assert store.entries("kind") == []
        store.ensure("kind", "other", QUIET, _fill)
        assert [path.name for path in (cache() / "kind").iterdir()] == ["other"]
        # For the next round, in which it is made again.
        shutil.rmtree(cache() / "kind")


def test_alone_waits_and_says_why() -> None:
    _put("kind", "key")
    user = _elsewhere(lambda: uses.hold("kind", "key"))
    waits = FORK.Process(target=_alone, args=("kind", "key"))
    waits.start()
    until_at_lock(waits)
    assert not (cache() / "got").exists()
    assert (cache() / "waits").read_text() == "waiting for another skblab that builds\n"
    _killed(user)
    waits.join()
    assert (cache() / "got").exists()


def _alone(kind: str, key: str) -> None:
    class Told(Reporter):
        def say(self, text: str) -> None:
            (cache() / "waits").write_text(f"{text}\n")

    with uses.alone(kind, key, Told(), "that builds"):
        (cache() / "got").touch()
