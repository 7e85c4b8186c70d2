# SPDX-License-Identifier: GPL-2.0-or-later
"""What a node runs: the tasks of an element, each put as soon as it is there."""

from __future__ import annotations

import os
import platform
import shutil
import signal
import socket
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from pydantic import JsonValue

from skblab import __version__
from skblab.jobs import artefacts, attempts
from skblab.jobs.campaign import Place, Stuck
from skblab.jobs.model import Begun, Campaign, Record, Task
from skblab.lab.reporter import Reporter
from skblab_analysis.base.disk import now
from skblab_analysis.base.errors import EXIT_SIGNAL, SkblabError, Stopped, one_line

Result = dict[str, JsonValue]
# Runs one task; its files go to a folder of its own, which is kept if there is no result.
Run = Callable[[Task, Path], Result]
# What is made once for all tasks of an element.
Begin = Callable[[Campaign, Reporter], AbstractContextManager[Run]]
Kinds = Mapping[str, Begin]
# A time limit is looked at twice a minute by slurmctld: never early.
LATE_SECONDS = 5


@contextmanager
def nothing(campaign: Campaign, _: Reporter) -> Iterator[Run]:
    """Begin tasks that take `sleep` seconds, none if it is not said, and give nothing."""

    def run(task: Task, folder: Path) -> Result:
        time.sleep(float(str(task.does.get("sleep", 0))))
        if why := task.does.get("fails"):
            raise SkblabError(str(why))
        return {}

    yield run


def name_of_job() -> str:
    """Return what Slurm calls this element; empty if it did not start it."""
    words = (os.environ.get(f"SLURM_ARRAY_{word}_ID", "") for word in ("JOB", "TASK"))
    return "_".join(word for word in words if word)


def name_of_node() -> str:
    """Return what the cluster calls this machine, or its own name."""
    return os.environ.get("SLURMD_NODENAME") or socket.gethostname()


class Element:
    """One element that runs here."""

    def __init__(self, place: Place, array: int, index: int, kinds: Kinds) -> None:
        self.place, self.array, self.index = place, array, index
        self.job, self.campaign = place.job(array, index), place.campaign()
        if self.campaign.kind not in kinds:
            raise SkblabError(
                f"campaign {place.id}: tasks of kind {self.campaign.kind!r} are not known here; "
                "run the same skblab on client and nodes"
            )
        self.begin = kinds[self.campaign.kind]
        # Recent versions of Slurm tell, whatever the user's options for sbatch have made of ours.
        ends = os.environ.get("SLURM_JOB_END_TIME", "")
        left = float(ends) - time.time() if ends.isdecimal() else 60 * self.job.minutes
        self.until = time.monotonic() + left

    def run(self, reporter: Reporter) -> None:
        """Run all tasks that have no record; a task that fails is tried again in the end.

        SkblabError if nothing can be run or kept here.
        """
        left = [task for task in self.job.tasks if not self._there(task)]
        if not left:
            return
        try:
            artefacts.take(self.place.store, self.campaign.artefacts, reporter)
            with self.begin(self.campaign, reporter) as run:
                while left:
                    left = [task for task in left if self._failed(task, run, reporter)]
        except SkblabError as error:
            what = Stuck(host=name_of_node(), why=str(error))
            self.place.stuck(self.array, self.index, what)
            raise

    def _there(self, task: Task) -> bool:
        return self.place.store.record_file(task.key).is_file()

    def _failed(self, task: Task, run: Run, reporter: Reporter) -> bool:
        """Run a task if it may be; return whether it may be tried again."""
        store = self.place.store
        if self._there(task):
            return False
        artefacts.take(store, task.artefacts, reporter)
        note = Begun(
            host=name_of_node(),
            job=name_of_job(),
            campaign=self.place.id,
            array=self.array,
            index=self.index,
            begun=now().isoformat(),
        )
        number = attempts.begin(store, task.key, note)
        if number is None:
            return False
        began = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="skblab-task-") as scratch:
            try:
                result = run(task, Path(scratch))
            except Stopped as stopped:
                attempts.end(store, task.key, number, self._why(stopped))
                raise
            except Exception as error:
                # Also a fault of ours costs no other task.
                if not isinstance(error, SkblabError):
                    traceback.print_exc()
                why = one_line(f"{type(error).__name__}: {error}")
                why = str(error) if isinstance(error, SkblabError) else why
                reporter.say(f"{task.key}, try {number}: {why}")
                attempts.end(store, task.key, number, why)
                self._keep(task, number, Path(scratch))
                return True
        record = Record(
            key=task.key,
            kind=self.campaign.kind,
            versions={"skblab": __version__, "python": platform.python_version()},
            host=note.host,
            job=note.job,
            attempt=number,
            made=now().isoformat(),
            seconds=time.monotonic() - began,
            result=result,
        )
        try:
            store.put(record)
        except SkblabError:
            # A full disk is no fault of the task's.
            attempts.forget(store, task.key, number)
            raise
        return False

    def _why(self, stopped: Stopped) -> str:
        if time.monotonic() > self.until - LATE_SECONDS:
            return "the time limit of its job"
        name = signal.Signals(stopped.exit_code - EXIT_SIGNAL).name
        return f"stopped by {name}: preempted, cancelled, or beyond a time limit"

    def _keep(self, task: Task, number: int, scratch: Path) -> None:
        if any(scratch.iterdir()):
            kept = self.place.store.logs(task.key, number)
            shutil.copytree(scratch, kept, dirs_exist_ok=True)
