# SPDX-License-Identifier: GPL-2.0-or-later
"""How often a task has begun, and why it gave nothing: files in the store.

A try is noted before it begins. So one whose node dies counts, and so does one that is preempted.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from skblab.jobs.model import TRIES, Begun, Ended
from skblab.jobs.store import Store, put_new
from skblab_analysis.base.checked import read
from skblab_analysis.base.disk import now

END, FINAL = ".end", ".final"


def begin(store: Store, key: str, note: Begun) -> int | None:
    """Note that a task is about to begin; return the number of the try, None if none is left."""
    for number in range(1, TRIES + 1):
        if put_new(store.attempt_file(key, number), note.model_dump_json() + "\n"):
            return number
    return None


def end(store: Store, key: str, number: int, why: str, *, final: bool = False) -> None:
    """Note why a try gave no record; after a `final` one there is no other."""
    note = Ended(why=why, ended=now().isoformat())
    put_new(store.attempt_file(key, number, FINAL if final else END), note.model_dump_json() + "\n")


def forget(store: Store, key: str, number: int) -> None:
    """Take a try back: it was none of the task's that it gave nothing."""
    for suffix in (FINAL, END, ""):
        store.attempt_file(key, number, suffix).unlink(missing_ok=True)


def forget_all(store: Store, key: str) -> None:
    """Have a task begin as if it never had, from the last try to the first."""
    for number in range(TRIES, 0, -1):
        forget(store, key, number)


def tried(noted: Collection[str], key: str) -> int:
    """Return how many tries there were; `noted` is what the store says."""
    return sum(f"{key}.{number}" in noted for number in range(1, TRIES + 1))


def over(noted: Collection[str], key: str) -> bool:
    """Tell whether all tries are over, and said so."""
    return all(f"{key}.{number}{END}" in noted for number in range(1, TRIES + 1))


def final(noted: Collection[str], key: str) -> int:
    """Return the number of the try after which there is no other; 0 if none said so."""
    return max(
        (number for number in range(1, TRIES + 1) if f"{key}.{number}{FINAL}" in noted), default=0
    )


def why(store: Store, key: str, number: int) -> str:
    """Return why a try gave nothing."""
    for suffix in (FINAL, END):
        file = store.attempt_file(key, number, suffix)
        if file.is_file():
            return read(Ended, file, "the note of a try").why
    begun = read(Begun, store.attempt_file(key, number), "the note of a try")
    return f"{begun.host} gave no further word: the node died, or the job was killed"


def hosts(store: Store, key: str) -> Iterator[str]:
    """Yield the nodes on which tries of a task gave nothing, the first try's first."""
    for number in range(1, TRIES + 1):
        file = store.attempt_file(key, number)
        if file.is_file():
            yield read(Begun, file, "the note of a try").host
