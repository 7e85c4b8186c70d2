# SPDX-License-Identifier: GPL-2.0-or-later
"""Has the missing tasks of a campaign run: the same for each submitter.

    place = Place.make(store, campaign, tasks)
    standing = run(place, Slurm(...), reporter)     # until each task has a record, or has failed

What there is to do is read from the folder and the submitter each time. So a client that was
killed, and one that begins, do the same: they submit what is missing.
"""

from __future__ import annotations

import shlex
import shutil
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from skblab.jobs import attempts, packing
from skblab.jobs.campaign import Keys, Place
from skblab.jobs.model import TRIES, Task
from skblab.jobs.packing import Packing
from skblab.jobs.submitter import Name, RefusedError, Submitter, SubmitterError
from skblab.lab.reporter import Reporter, Update
from skblab_analysis.base.errors import SkblabError

# A scheduler that is restarted is away for a while, in seconds.
PATIENCE = 600.0
# So often all elements may end and no task begin.
IDLE = 3
# Seconds between the first two looks, and by which factor that grows.
FIRST_PAUSE, SLOWER = 0.5, 1.2
# Below that nothing is submitted, in MiB: logs and notes of tries need some.
LEAST_FREE = 16


@dataclass(frozen=True)
class Standing:
    """How a campaign stands: keys that have a record, keys that have failed and why, the rest."""

    tasks: int
    done: frozenset[str]
    failed: Mapping[str, str]
    live: Mapping[Name, str]
    missing: tuple[Task, ...]
    # Tries that were noted of its tasks.
    tried: int = 0

    @property
    def over(self) -> bool:
        """Whether no task waits for anything."""
        return len(self.done) + len(self.failed) == self.tasks

    @property
    def states(self) -> Counter[str]:
        """How many elements are in each state."""
        return Counter(self.live.values())


def look(
    place: Place, tasks: Sequence[Task], live: Mapping[Name, str], keys: Keys | None = None
) -> Standing:
    """Return how a campaign stands. `live` is looked up before: what ends meanwhile has records.

    `keys` are those of arrays that were read before, and are added to.
    """
    store = place.store
    recorded, noted = store.recorded(), store.noted()
    keys = place.keys({} if keys is None else keys)
    out = {
        key
        for array, index in live
        if index < len(keys.get(array, ()))
        for key in keys[array][index]
    }
    done, failed, missing, tried = set(), {}, [], 0
    for task in tasks:
        tries = attempts.tried(noted, task.key)
        tried += tries
        if task.key in recorded:
            done.add(task.key)
        elif tries == TRIES and (task.key not in out or attempts.over(noted, task.key)):
            why = attempts.why(store, task.key, TRIES)
            failed[task.key] = (
                f"{why} (the last of {TRIES} tries); once that is mended: ./skblab jobs resume "
                f"{shlex.quote(str(store.path))} --failed"
            )
        elif task.key not in out:
            missing.append(task)
    return Standing(len(tasks), frozenset(done), failed, live, tuple(missing), tried)


def run(
    place: Place,
    submitter: Submitter,
    reporter: Reporter,
    bounds: Packing,
    title: str = "tasks",
) -> Standing:
    """Have all tasks run; return how they stand in the end.

    SkblabError if nothing can be submitted, or what is submitted ends and does nothing.
    """
    tasks = place.tasks()
    with place.alone(), reporter.bar(title, len(tasks)) as bar, reporter.step(title):
        return _Run(place, submitter, reporter, bounds, tasks).until_over(bar)


class _Run:
    def __init__(
        self,
        place: Place,
        submitter: Submitter,
        reporter: Reporter,
        bounds: Packing,
        tasks: Sequence[Task],
    ) -> None:
        self.place, self.submitter, self.reporter = place, submitter, reporter
        self.bounds, self.tasks = bounds, tasks
        self.keys: Keys = {}
        # Since when the submitter does not answer.
        self.silent: float | None = None
        self.refused = False
        self.pause = min(submitter.poll, FIRST_PAUSE)
        # What there was when all elements had ended, and how often that was the same.
        self.idle: tuple[int, int] | None = None
        self.idles = 0

    def until_over(self, bar: Update) -> Standing:
        """Submit what is missing, and wait, until all is there or has failed."""
        while True:
            try:
                live = self.submitter.live(self.place)
                self.silent = None
                standing = look(self.place, self.tasks, live, self.keys)
                bar(len(standing.done) + len(standing.failed), _words(standing))
                if standing.over:
                    return standing
                self._submit(standing)
            except SubmitterError as error:
                self._wait(error)
            time.sleep(self.pause)
            # What is short is soon over; of what is long nobody asks so often.
            self.pause = min(self.submitter.poll, SLOWER * self.pause)

    def _submit(self, standing: Standing) -> None:
        spent = sum(task.seconds for task in standing.missing)
        # What failed here and there waits until it makes an element.
        if not standing.missing or (standing.live and spent < self.bounds.least):
            return
        require_free(self.place)
        self._require_progress(standing)
        packed = packing.elements(standing.missing, self.bounds)
        for some in packing.arrays(packed, len(standing.live), self.bounds):
            array, minutes = self.place.add(some)
            try:
                self.submitter.submit(self.place, array, len(some), minutes)
            except RefusedError as error:
                self.place.drop(array)
                # A limit on how many jobs a user may have ends with the jobs.
                if not standing.live:
                    raise SkblabError(str(error)) from error
                if not self.refused:
                    self.reporter.say(f"{error}; the rest is submitted later")
                self.refused = True
                return
            # Others are refused now, if any is.
            standing = replace(standing, live={**standing.live, (array, 0): "submitted"})

    def _require_progress(self, standing: Standing) -> None:
        if standing.live:
            return
        now = (len(standing.done), standing.tried)
        self.idles = self.idles + 1 if now == self.idle else 0
        self.idle = now
        if self.idles >= IDLE:
            said = self.place.why_stuck() or f"see {self.place.log}"
            raise SkblabError(
                f"{IDLE} times all elements ended without a task that began or ended; {said}"
            )

    def _wait(self, error: SubmitterError) -> None:
        now = time.monotonic()
        if self.silent is None:
            self.silent = now
            self.reporter.say(f"{error}; it is asked again")
        elif now - self.silent > PATIENCE:
            raise error


def require_free(place: Place) -> None:
    """Raise SkblabError if the store's disk is full."""
    free = shutil.disk_usage(place.store.path).free / 2**20
    if free < LEAST_FREE:
        raise SkblabError(
            f"the disk is full: {free:.0f} MiB free at {place.store.path}, expected {LEAST_FREE}; "
            "all records that are there stay; free some space, then run the same command again"
        )


def _words(standing: Standing) -> str:
    words = [f"{count} {state}" for state, count in sorted(standing.states.items())]
    failed = [f"{len(standing.failed)} failed"] if standing.failed else []
    return ", ".join([*words, *failed])
