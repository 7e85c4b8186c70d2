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
from skblab_analysis.base.errors import EXIT_SIGNAL, SkblabError, Stopped, one_line, os_trouble

Result = dict[str, JsonValue]
# Runs one task; its files go to a folder of its own, which is kept if there is no result.
Run = Callable[[Task, Path], Result]
# What is made once for all tasks of an element.
Begin = Callable[[Campaign, Reporter], AbstractContextManager[Run]]
Kinds = Mapping[str, Begin]
# A time limit is looked at twice a minute by slurmctld: never early.
LATE_SECONDS = 5


class FinalError(SkblabError):
    """A task gives nothing, and no other try would, on whatever node."""


@contextmanager
def nothing(campaign: Campaign, _: Reporter) -> Iterator[Run]:
    """Begin tasks that take `sleep` seconds, none if it is not said, and give nothing."""

    def run(task: Task, folder: Path) -> Result:
        time.sleep(float(str(task.does.get("sleep", 0))))
        for word, kind in (("fails", SkblabError), ("never", FinalError)):
            if why := task.does.get(word):
                raise kind(str(why))
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
        """Run all tasks that have no record; one that fails is tried again in another element.

        SkblabError if nothing can be run or kept here.
        """
        left = [task for task in self.job.tasks if not self._there(task)]
        if not left:
            return
        try:
            artefacts.take(self.place.store, self.campaign.artefacts, reporter)
            with self.begin(self.campaign, reporter) as run:
                for task in left:
                    self._run(task, run, reporter)
        except SkblabError as error:
            what = Stuck(host=name_of_node(), why=str(error))
            self.place.stuck(self.array, self.index, what)
            raise

    def _there(self, task: Task) -> bool:
        return self.place.store.record_file(task.key).is_file()

    def _run(self, task: Task, run: Run, reporter: Reporter) -> None:
        """Run a task if it may be, and put its result."""
        if self._there(task):
            return
        artefacts.take(self.place.store, task.artefacts, reporter)
        # What this node lacks is no try of the task's.
        with _scratch(reporter) as scratch:
            self._try(task, run, scratch, reporter)

    def _try(self, task: Task, run: Run, scratch: Path, reporter: Reporter) -> None:
        store = self.place.store
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
            return
        began = time.monotonic()
        try:
            result = run(task, scratch)
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
            self._keep(task, number, scratch, reporter)
            attempts.end(store, task.key, number, why, final=isinstance(error, FinalError))
            return
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

    def _why(self, stopped: Stopped) -> str:
        if time.monotonic() > self.until - LATE_SECONDS:
            return "the time limit of its job"
        name = signal.Signals(stopped.exit_code - EXIT_SIGNAL).name
        return f"stopped by {name}: preempted, cancelled, or beyond a time limit"

    def _keep(self, task: Task, number: int, scratch: Path, reporter: Reporter) -> None:
        """Keep what a try has left to read, as far as it can be copied."""
        kept = self.place.store.logs(task.key, number)
        try:
            if any(scratch.iterdir()):
                shutil.copytree(scratch, kept, symlinks=True, dirs_exist_ok=True)
        except shutil.Error as error:
            # Of each file that is not there: the rest is.
            whys = "; ".join(f"{file}: {why}" for file, _, why in error.args[0])
            reporter.say(f"not all is kept in {kept}: {one_line(whys)}")
        except OSError as error:
            reporter.say(f"nothing is kept in {kept}: {os_trouble(error)}")


@contextmanager
def _scratch(reporter: Reporter) -> Iterator[Path]:
    """Yield a folder for a task; SkblabError if this node has no room for one."""
    try:
        folder = Path(tempfile.mkdtemp(prefix="skblab-task-"))
    except OSError as error:
        raise SkblabError(f"cannot make a folder for a task: {os_trouble(error)}") from error
    try:
        yield folder
    finally:
        try:
            shutil.rmtree(folder)
        except OSError as error:
            reporter.say(f"cannot remove {folder}: {os_trouble(error)}")
