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
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from skblab.jobs import attempts, packing
from skblab.jobs.campaign import Keys, Place
from skblab.jobs.model import TRIES, Task
from skblab.jobs.packing import Element, Packing
from skblab.jobs.store import Store
from skblab.jobs.submitter import Queue, RefusedError, Submitter, SubmitterError
from skblab.lab.reporter import Reporter, Update
from skblab_analysis.base.errors import SkblabError

# A scheduler that is restarted is away for a while, in seconds.
PATIENCE = 600.0
# So often an array may end and none of its tasks begin.
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
    queue: Queue
    missing: tuple[Task, ...]
    # By key, tries that were noted.
    tries: Mapping[str, int]

    @property
    def over(self) -> bool:
        """Whether no task waits for anything."""
        return len(self.done) + len(self.failed) == self.tasks

    @property
    def states(self) -> Counter[str]:
        """How many elements are in each state."""
        return Counter(self.queue.live.values())

    def progress(self, keys: Iterable[str]) -> int:
        """Return how far tasks are: tries and results. It never falls, and grows with each."""
        return sum(self.tries[key] + (key in self.done) for key in keys)


# Keys of the arrays of campaigns, by campaign.
Known = dict[str, Keys]


def look(place: Place, tasks: Sequence[Task], queue: Queue, known: Known | None = None) -> Standing:
    """Return how a campaign stands. `queue` is looked up before: what ends meanwhile has records.

    `known` are keys of arrays that were read before, and is added to.
    """
    store = place.store
    recorded, noted = store.recorded(), store.noted()
    out = _out(place, queue, {} if known is None else known)
    done, failed, missing, tries = set(), {}, [], {}
    for task in tasks:
        tries[task.key] = count = attempts.tried(noted, task.key)
        if task.key in recorded:
            done.add(task.key)
        elif number := attempts.final(noted, task.key):
            failed[task.key] = _failed(store, task.key, number, "there is no other try")
        elif count == TRIES and (task.key not in out or attempts.over(noted, task.key)):
            failed[task.key] = _failed(store, task.key, TRIES, f"the last of {TRIES} tries")
        elif task.key not in out:
            missing.append(task)
    return Standing(len(tasks), frozenset(done), failed, queue, tuple(missing), tries)


def _out(place: Place, queue: Queue, known: Known) -> set[str]:
    """Return the keys of tasks that elements have: also those of other campaigns of the store."""
    out: set[str] = set()
    for id_, names in {place.id: queue.live, **queue.others}.items():
        if not names:
            continue
        try:
            keys = Place(place.store, id_).keys(known.setdefault(id_, {}))
        except SkblabError:
            if id_ == place.id:
                raise
            # `jobs status` tells of it. What it runs may be run twice, and the first result stays.
            continue
        for array, index in names:
            if index < len(keys.get(array, ())):
                out |= keys[array][index]
    return out


def _failed(store: Store, key: str, number: int, words: str) -> str:
    return (
        f"{attempts.why(store, key, number)} ({words}); once that is mended: ./skblab jobs resume "
        f"{shlex.quote(str(store.path))} --failed"
    )


def run(
    place: Place,
    submitter: Submitter,
    reporter: Reporter,
    bounds: Packing,
    title: str = "tasks",
    *,
    again: bool = False,
) -> Standing:
    """Have all tasks run; return how they stand in the end.

    `again`: tasks that have failed get new tries. SkblabError if nothing can be submitted, or what
    is submitted ends and does nothing.
    """
    tasks = place.tasks()
    with place.alone(), reporter.bar(title, len(tasks)) as bar, reporter.step(title):
        return _Run(place, submitter, reporter, bounds, tasks, again=again).until_over(bar)


class _Run:
    def __init__(
        self,
        place: Place,
        submitter: Submitter,
        reporter: Reporter,
        bounds: Packing,
        tasks: Sequence[Task],
        *,
        again: bool,
    ) -> None:
        self.place, self.submitter, self.reporter = place, submitter, reporter
        self.bounds, self.tasks, self.again = bounds, tasks, again
        self.known: Known = {}
        # Arrays that the submitter may have, or not: the next look tells.
        self.unsure = place.unsure()
        # Since when the submitter does not answer.
        self.silent: float | None = None
        self.refused = False
        self.pause = min(submitter.poll, FIRST_PAUSE)
        # Of each array that was submitted and is not over: its keys, and how far they were.
        self.before: dict[int, tuple[list[str], int]] = {}
        # The first array of this client's, and how many ended in a row and none of its tasks began.
        self.first: int | None = None
        self.idles = 0

    def until_over(self, bar: Update) -> Standing:
        """Submit what is missing, and wait, until all is there or has failed."""
        while True:
            try:
                standing = self._look()
                bar(len(standing.done) + len(standing.failed), _words(standing))
                if standing.over:
                    return standing
                if self._due(standing):
                    with self.place.store.submitting():
                        # Meanwhile another campaign may have.
                        self._submit(self._look())
                self.silent = None
            except SubmitterError as error:
                self._wait(error)
            time.sleep(self.pause)
            # What is short is soon over; of what is long nobody asks so often.
            self.pause = min(self.submitter.poll, SLOWER * self.pause)

    def _look(self) -> Standing:
        queue = self.submitter.queue(self.place)
        self._settle(queue)
        standing = look(self.place, self.tasks, queue, self.known)
        if self.again:
            self.again = False
            for key in standing.failed:
                attempts.forget_all(self.place.store, key)
            standing = look(self.place, self.tasks, queue, self.known)
        self._require_progress(standing)
        return standing

    def _settle(self, queue: Queue) -> None:
        """Drop the arrays that may have been submitted and are not in the queue."""
        there = {array for array, _ in queue.live}
        for array in self.unsure:
            if array in there:
                self.place.taken(array)
                continue
            self.place.drop(array)
            self.known.get(self.place.id, {}).pop(array, None)
            self.before.pop(array, None)
        self.unsure = set()

    def _due(self, standing: Standing) -> bool:
        """Tell whether something is to be submitted now."""
        if not standing.missing or not standing.queue.live:
            return bool(standing.missing)
        if self.idles:
            # Where the last array did nothing, the next one may as well.
            return False
        at_once = self.submitter.at_once
        if at_once is not None and len(standing.queue.live) < at_once:
            return True
        # What failed here and there waits until it makes an element.
        return sum(task.seconds for task in standing.missing) >= self.bounds.least

    def _submit(self, standing: Standing) -> None:
        if not standing.missing:
            return
        require_free(self.place)
        self.submitter.ready(self.place)
        bounds, at_once = self.bounds, self.submitter.at_once
        if at_once is not None:
            bounds = packing.for_cpus(bounds, standing.missing, at_once)
        outstanding = standing.queue.outstanding
        for without, tasks in self._by_nodes(standing).items():
            for some in packing.arrays(packing.elements(tasks, bounds), outstanding, bounds):
                if not self._add(standing, some, without, outstanding):
                    return
                outstanding += len(some)

    def _by_nodes(self, standing: Standing) -> dict[tuple[str, ...], list[Task]]:
        """Return the missing tasks by the nodes that they do not run on: there they failed.

        Of elements that could not begin, no node is asked again by this client.
        """
        stuck = self.place.stuck_hosts(self.first) if self.first is not None else set()
        found: dict[tuple[str, ...], list[Task]] = {}
        for task in standing.missing:
            hosts = set(stuck)
            if standing.tries[task.key]:
                hosts |= set(attempts.hosts(self.place.store, task.key))
            found.setdefault(tuple(sorted(hosts)), []).append(task)
        return found

    def _add(
        self,
        standing: Standing,
        some: Sequence[Element],
        without: Sequence[str],
        outstanding: int,
    ) -> bool:
        """Submit an array; return whether it was taken."""
        array, minutes = self.place.add(some, self.submitter.on)
        self.first = array if self.first is None else self.first
        keys = [task.key for element in some for task in element]
        try:
            self.submitter.submit(self.place, array, len(some), minutes, without)
        except RefusedError as error:
            self.place.drop(array)
            self._refused(error, len(some), standing, outstanding)
            return False
        except SubmitterError:
            self.unsure.add(array)
            self.before[array] = keys, standing.progress(keys)
            raise
        self.place.taken(array)
        self.before[array] = keys, standing.progress(keys)
        return True

    def _refused(
        self, error: RefusedError, count: int, standing: Standing, outstanding: int
    ) -> None:
        """Say what is done about a refusal; SkblabError if that is nothing."""
        if error.most is not None and error.most < count:
            self.bounds = replace(self.bounds, array=error.most)
            self.reporter.say(f"{error}; smaller arrays are submitted")
            return
        # A limit on how many jobs a user may have ends with the jobs.
        if not (self.before or standing.queue.live or (error.limit and outstanding)):
            raise SkblabError(str(error)) from error
        if not self.refused:
            self.reporter.say(f"{error}; the rest is submitted later")
        self.refused = True

    def _require_progress(self, standing: Standing) -> None:
        """Count arrays that have ended and did nothing; SkblabError if they are too many."""
        there = {array for array, _ in standing.queue.live}
        ended = [self.before.pop(array) for array in list(self.before) if array not in there]
        if not ended:
            return
        idle = all(standing.progress(keys) == before for keys, before in ended)
        self.idles = self.idles + 1 if idle else 0
        if self.idles >= IDLE and not standing.queue.live:
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
