# SPDX-License-Identifier: GPL-2.0-or-later
"""The store of records: whole or absent, and the first one stays."""

from __future__ import annotations

import errno
import multiprocessing
import os
import signal
import stat
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skblab.jobs import packing, store
from skblab.jobs.model import Record, Task
from skblab.jobs.packing import Packing
from skblab.jobs.store import Store
from skblab_analysis.base.checked import RecordError
from skblab_analysis.base.errors import SkblabError, UsageError

KEY = "0123456789abcdef"


def record(key: str = KEY, **result: int) -> Record:
    return Record(
        key=key,
        kind="empty",
        versions={"skblab": "1"},
        host="here",
        job="1_0",
        attempt=1,
        made="2026-11-28T12:00:00Z",
        seconds=1.0,
        result=dict(result),
    )


@pytest.fixture
def there(tmp_path: Path) -> Store:
    return Store.open(tmp_path / "store", make=True)


def parts(of: Store) -> list[Path]:
    return [file for file in of.path.rglob("*") if file.name.endswith(store.PART)]


def test_what_is_put_is_what_one_gets(there: Store) -> None:
    assert there.get(KEY) is None and there.recorded() == set()
    assert there.put(record(figure=7))
    assert there.get(KEY) == record(figure=7)
    assert there.recorded() == {KEY} and parts(there) == []


def test_the_first_one_wins(there: Store) -> None:
    assert there.put(record(figure=1))
    assert not there.put(record(figure=2))
    assert there.get(KEY) == record(figure=1) and parts(there) == []


def _race(folder: Path, number: int, start: float) -> None:
    time.sleep(max(0, start - time.time()))
    won = Store.open(folder).put(record(figure=number))
    (folder.parent / f"won-{number}").write_text(str(won))


def test_of_many_at_once_one_wins(there: Store) -> None:
    start = time.time() + 0.5
    context = multiprocessing.get_context("fork")
    racers = [
        context.Process(target=_race, args=(there.path, number, start)) for number in range(8)
    ]
    for one in racers:
        one.start()
    for one in racers:
        one.join()
    won = [
        number for number in range(8) if (there.path.parent / f"won-{number}").read_text() == "True"
    ]
    assert len(won) == 1 and there.get(KEY) == record(figure=won[0])
    assert parts(there) == []


def test_a_link_whose_answer_got_lost_is_ours(
    there: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = os.link

    def lost(source: Path, target: Path) -> None:
        link(source, target)
        raise FileExistsError(errno.EEXIST, "File exists", str(target))

    monkeypatch.setattr(os, "link", lost)
    assert there.put(record())


def test_it_is_on_the_disk_before_it_has_its_name(
    there: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []
    link = os.link

    def synced(descriptor: int) -> None:
        folder = stat.S_ISDIR(os.fstat(descriptor).st_mode)
        calls.append("folder" if folder else "file")

    def linked(source: Path, target: Path) -> None:
        calls.append("link")
        link(source, target)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "link", linked)
    there.put(record())
    assert calls == ["file", "link", "folder"]


@pytest.mark.parametrize(
    ("number", "said"),
    [
        (errno.ENOSPC, "the disk is full"),
        (errno.EDQUOT, "the disk is full"),
        (errno.EPERM, "hard links"),
        (errno.EIO, "Input/output error"),
    ],
)
def test_what_the_disk_refuses_leaves_nothing(
    there: Store, monkeypatch: pytest.MonkeyPatch, number: int, said: str
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "link", refuse)
    with pytest.raises(SkblabError, match=said) as caught:
        there.put(record())
    assert "\n" not in str(caught.value)
    assert there.get(KEY) is None and parts(there) == []


def _write_for_ever(folder: Path) -> None:
    number = 0
    while True:
        Store.open(folder).put(record(f"{number:016x}", figure=number))
        number += 1


def test_what_is_killed_leaves_whole_records(there: Store) -> None:
    for delay in (0.02, 0.05, 0.11):
        before = len(there.recorded())
        writer = multiprocessing.get_context("fork").Process(
            target=_write_for_ever, args=(there.path,)
        )
        writer.start()
        deadline = time.monotonic() + 30
        while len(there.recorded()) == before and time.monotonic() < deadline:
            time.sleep(0.01)
        time.sleep(delay)
        assert writer.pid is not None
        os.kill(writer.pid, signal.SIGKILL)
        writer.join()
        assert len(there.recorded()) > before
        for key in there.recorded():
            assert there.get(key) == record(key, figure=int(key, 16))
        # Others begin where this one ended, so that there is something new.
        for key in list(there.recorded())[len(there.recorded()) // 2 :]:
            there.record_file(key).unlink()


def test_what_killed_writers_left_goes_after_a_day(there: Store) -> None:
    old, new = (there.path / "records" / "01" / f".{name}{store.PART}" for name in ("old", "new"))
    old.parent.mkdir(parents=True)
    for file in (old, new):
        file.touch()
    os.utime(old, (0, 0))
    there.sweep()
    assert not old.exists() and new.exists()


def test_a_damaged_record_is_one_line(there: Store) -> None:
    there.put(record())
    there.record_file(KEY).write_text("{")
    with pytest.raises(RecordError, match=KEY):
        there.get(KEY)


@pytest.mark.parametrize("make", [True, False])
def test_a_folder_with_other_things_is_no_store(tmp_path: Path, make: bool) -> None:
    (tmp_path / "mine").touch()
    with pytest.raises(UsageError, match="expected a store"):
        Store.open(tmp_path, make=make)
    assert [file.name for file in tmp_path.iterdir()] == ["mine"]


def test_a_store_is_made_only_where_one_is_asked_for(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no store"):
        Store.open(tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_a_store_of_another_version_is_refused(there: Store) -> None:
    (there.path / store.MARK).write_text('{"schema_name": "skblab.store/2"}')
    with pytest.raises(RecordError, match=r"skblab.store/1"):
        Store.open(there.path)


def tasks(seconds: list[float]) -> list[Task]:
    return [Task(key=f"{number:016x}", seconds=of) for number, of in enumerate(seconds)]


PACKINGS = st.builds(
    lambda least, more, array, some: Packing(least, least + more, array, array + some),
    st.floats(0, 1000),
    st.floats(0, 2000),
    st.integers(1, 20),
    st.integers(0, 50),
)


@given(st.lists(st.floats(0, 5000), max_size=60), PACKINGS)
def test_each_task_is_in_one_element_and_within_the_bounds(
    seconds: list[float], bounds: Packing
) -> None:
    given_ = tasks(seconds)
    packed = packing.elements(given_, bounds)
    assert [task for element in packed for task in element] == given_
    sums = [sum(task.seconds for task in element) for element in packed]
    for place, (element, spent) in enumerate(zip(packed, sums, strict=True)):
        assert element
        assert spent <= bounds.most or len(element) == 1
        if spent < bounds.least and place < len(packed) - 1:
            assert spent + packed[place + 1][0].seconds > bounds.most
    if len(packed) > 1 and sums[-1] < bounds.least:
        assert sums[-2] + sums[-1] > bounds.most


@given(st.lists(st.floats(0.1, packing.LEAST), min_size=1, max_size=300))
def test_short_tasks_make_elements_of_10_to_30_minutes(seconds: list[float]) -> None:
    packed = packing.elements(tasks(seconds))
    sums = [sum(task.seconds for task in element) for element in packed]
    assert all(spent <= packing.MOST for spent in sums)
    assert all(spent >= packing.LEAST for spent in sums[:-1])
    assert sums[-1] >= packing.LEAST or len(sums) == 1


@given(st.lists(st.floats(0, 100), max_size=200), st.integers(0, 100), PACKINGS)
def test_no_array_is_too_long_and_no_more_are_outstanding(
    seconds: list[float], live: int, bounds: Packing
) -> None:
    packed = packing.elements(tasks(seconds), bounds)
    made = list(packing.arrays(packed, live, bounds))
    some = [element for array in made for element in array]
    assert some == packed[: len(some)]
    assert all(1 <= len(array) <= bounds.array for array in made)
    room = max(0, bounds.outstanding - live)
    if len(packed) <= room:
        assert some == packed
    else:
        # Nearly as many as there is room for, and whole arrays of them.
        assert room - bounds.array < len(some) <= room
        assert all(len(array) == bounds.array for array in made)


def test_ten_thousand_tasks_of_a_minute_are_one_array() -> None:
    packed = packing.elements(tasks([60.0] * 10_000))
    assert len(packed) == 1000
    assert [len(array) for array in packing.arrays(packed, 0, Packing())] == [1000]


def test_ten_thousand_elements_wait_for_room() -> None:
    packed = packing.elements(tasks([900.0] * 10_000))
    made = list(packing.arrays(packed, 0, Packing()))
    assert [len(array) for array in made] == [1000] * 5
    assert list(packing.arrays(packed, 5000, Packing())) == []


def test_the_time_limit_is_of_the_longest_element() -> None:
    packed = packing.elements(tasks([600.0, 1200.0]))
    assert packing.minutes(packed) == 40 + packing.SPARE_MINUTES
