# SPDX-License-Identifier: GPL-2.0-or-later
"""Elements on a cluster, by plain sbatch, squeue, sinfo and scancel: no accounting is needed.

An array's job is named by campaign and number. So it is found again by squeue, also by a client
that never saw its number, since the one before was killed.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from skblab.jobs.campaign import Place
from skblab.jobs.model import Engine
from skblab.jobs.submitter import (
    RUNNING,
    Name,
    Queue,
    RefusedError,
    SubmitterError,
    command,
)
from skblab_analysis.base.errors import UsageError, one_line

# Of a call: slurmctld answers within MessageTimeout, 10 s unless configured, and tries go on.
SECONDS = 120
# Job of the array, index, state, why it waits, name: the name last, since users choose theirs.
FORMAT = "%F|%K|%T|%r|%j"
_NAME = re.compile(r"skblab-(?P<campaign>[0-9a-f]{16})-(?P<array>\d+)")
# Others that squeue lists have ended.
_STATES = {
    "PENDING": "waiting",
    "CONFIGURING": "waiting",
    "REQUEUED": "waiting",
    "RUNNING": RUNNING,
    "COMPLETING": RUNNING,
    "SUSPENDED": "suspended",
    "STOPPED": "suspended",
    "SIGNALING": RUNNING,
    "STAGE_OUT": RUNNING,
    "RESIZING": RUNNING,
    "REQUEUE_HOLD": "held",
    "REQUEUE_FED": "waiting",
    "SPECIAL_EXIT": "held",
    "RESV_DEL_HOLD": "held",
}
# What the commands say where slurmctld is away, or too busy.
_AWAY = re.compile(
    r"contact slurm controller|timed out|temporarily|try again|connect failure|Connection refused"
    r"|Zero Bytes were|receive failure|connection failure|authentication error",
    re.IGNORECASE,
)
_COMMANDS = ("sbatch", "squeue", "scancel")
# Variables with which squeue leaves elements of ours out of its list.
_HIDES = "SQUEUE_"
# Options of sbatch by which elements would not be found again, or not run.
OURS = ("--job-name", "-J", "--array", "-a", "--clusters", "-M", "--wrap", "--output", "-o")
# What sbatch says where a user may have no more jobs now.
_LIMIT = re.compile(r"submit.*limit|MaxSubmit|MaxJob|QOS policy", re.IGNORECASE)
# And where an array is longer than MaxArraySize, or no node is left that may run a job.
_TOO_LONG = "Invalid job array specification"
_NO_NODE = re.compile(
    r"node configuration is not available|Invalid node name|node count specification",
    re.IGNORECASE,
)
_MOST = re.compile(r"^MaxArraySize\s*=\s*(\d+)", re.MULTILINE)
# States of nodes that run jobs, or may soon.
_UP = frozenset(("idle", "mixed", "allocated", "completing", "planned"))
# Reasons of waiting that end by themselves.
_USUAL = frozenset(("None", "Resources", "Priority", "BeginTime", "Dependency"))


def require(options: Sequence[str] = ()) -> None:
    """Raise UsageError if this machine has no Slurm commands, or an option is skblab's own."""
    for option in options:
        if not option.startswith("-") or option.partition("=")[0] in OURS:
            raise UsageError(
                f"--sbatch={option}: expected an option of sbatch such as --partition=long, and "
                f"none of {', '.join(OURS)}, which are skblab's"
            )
    if missing := [name for name in _COMMANDS if shutil.which(name) is None]:
        raise UsageError(
            f"this machine lacks {', '.join(missing)}; run skblab on a login node of "
            "the cluster, or: apt-get install slurm-client"
        )


@dataclass(frozen=True)
class Listed:
    """An element that is not over: the array's job, and its state."""

    job: int
    state: str


def parse(text: str) -> dict[str, dict[Name, Listed]]:
    """Return by campaign the elements that squeue lists; jobs of others are none of ours."""
    found: dict[str, dict[Name, Listed]] = defaultdict(dict)
    for line in text.splitlines():
        job, _, rest = line.partition("|")
        index, _, rest = rest.partition("|")
        state, _, rest = rest.partition("|")
        reason, _, name = rest.partition("|")
        ours = _NAME.fullmatch(name)
        if ours is None or state not in _STATES:
            continue
        if not (job.isdecimal() and index.isdecimal()):
            raise SubmitterError(f"squeue printed {one_line(line, 120)!r}: expected {FORMAT}")
        said = _STATES[state]
        if said == "waiting" and reason not in _USUAL:
            said = f"{said}: {reason}"
        found[ours["campaign"]][int(ours["array"]), int(index)] = Listed(int(job), said)
    return found


@dataclass
class Slurm:
    """The Submitter of a cluster; `options` are the user's own for sbatch, and go last."""

    memory: int
    options: Sequence[str] = ()
    poll: float = 10.0
    on: Engine = "slurm"
    at_once: int | None = None

    def ready(self, place: Place) -> None:
        """Nothing: what squeue lists is all, for elements of this machine end with their client."""

    def submit(
        self, place: Place, array: int, count: int, minutes: int, without: Collection[str] = ()
    ) -> None:
        """Submit an array by one call of sbatch; by another one if it is too picky."""
        script = f'#!/bin/sh\nexec {shlex.join(command(place, array))} "$SLURM_ARRAY_TASK_ID"\n'
        call = self._call(place, array, count, minutes)
        if without and self._others(without):
            try:
                _run([*call, f"--exclude={','.join(sorted(without))}", *self.options], script)
                return
            except RefusedError as error:
                if not _NO_NODE.search(str(error)):
                    raise _explained(error, count) from error
        try:
            _run([*call, *self.options], script)
        except RefusedError as error:
            raise _explained(error, count) from error

    def _call(self, place: Place, array: int, count: int, minutes: int) -> list[str]:
        return [
            *("sbatch", "--parsable", f"--job-name=skblab-{place.id}-{array}"),
            *(f"--array=0-{count - 1}", "--ntasks=1", "--cpus-per-task=1"),
            *(f"--mem={self.memory}", f"--time={minutes}", "--requeue", "--chdir=/"),
            *("--open-mode=append", f"--output={_plain(place.log)}/{array:04}-%a.txt"),
        ]

    def _others(self, without: Collection[str]) -> bool:
        """Tell whether nodes are up beside these, in the user's partition if there is one.

        Else a job would wait for a node that is down, or for ever.
        """
        partition = [
            f"--partition={option.partition('=')[2] or option[2:]}"
            for option in self.options
            if option.startswith(("--partition=", "-p"))
        ]
        lines = _run(["sinfo", "--noheader", "--Node", "--format=%N %T", *partition]).splitlines()
        nodes = dict(line.split()[:2] for line in lines if line.strip())
        return any(state in _UP for node, state in nodes.items() if node not in without)

    def queue(self, place: Place) -> Queue:
        """Return what squeue lists of a campaign, and of the user's others."""
        found = look()
        live = {name: one.state for name, one in found.pop(place.id, {}).items()}
        return Queue(live, {id_: tuple(names) for id_, names in found.items()})

    def cancel(self, place: Place) -> int:
        """End all elements of a campaign by scancel."""
        listed = look().get(place.id, {})
        if jobs := sorted({str(one.job) for one in listed.values()}):
            _run(["scancel", *jobs])
        return len(listed)


def require_none(place: Place) -> None:
    """Raise UsageError if the cluster has elements of a campaign, or nobody knows."""
    where = f"{shlex.quote(str(place.store.path))} {place.id}"
    try:
        require()
        listed = look().get(place.id, {})
    except (UsageError, SubmitterError) as error:
        raise UsageError(
            f"campaign {place.id}: it was submitted to a cluster, and whether its jobs run is "
            f"unknown ({error}); go on with --on slurm where that cluster is; if it is gone, "
            f"delete {place.arrays}"
        ) from error
    if listed:
        raise UsageError(
            f"campaign {place.id}: the cluster has {len(listed)} of its elements; go on with: "
            f"./skblab jobs resume {where} --on slurm; or end them: ./skblab jobs cancel {where}"
        )


def _explained(error: RefusedError, count: int) -> RefusedError:
    """Return what a refusal means for whoever has submitted an array of so many elements."""
    said = str(error)
    if _TOO_LONG not in said:
        return RefusedError(said, limit=bool(_LIMIT.search(said)))
    try:
        found = _MOST.search(_run(["scontrol", "show", "config"]))
    except SubmitterError:
        found = None
    # The highest index is MaxArraySize - 1, and so many are 0 to that.
    most = int(found[1]) if found else None
    if most is None or not 0 < most < count:
        return RefusedError(
            f"{said}: an array of {count} elements; see MaxArraySize of `scontrol show config`, "
            "and options of --sbatch"
        )
    return RefusedError(
        f"the cluster takes {most} elements an array (MaxArraySize), and not {count}", most=most
    )


def _plain(path: object) -> str:
    """Return a path in which sbatch expands nothing."""
    return str(path).replace("%", "%%")


def look() -> dict[str, dict[Name, Listed]]:
    """Return all elements of this user's that are not over, by campaign, by one call of squeue."""
    return parse(_run(["squeue", "--me", "--noheader", "--array", f"--format={FORMAT}"]))


def _run(call: Sequence[str], script: str = "") -> str:
    """Run a command of Slurm's; SubmitterError with what it said if it fails."""
    try:
        done = subprocess.run(
            call,
            input=script,
            capture_output=True,
            text=True,
            check=False,
            timeout=SECONDS,
            env={name: value for name, value in os.environ.items() if not name.startswith(_HIDES)},
        )
    except subprocess.TimeoutExpired as error:
        raise SubmitterError(f"{call[0]} did not answer within {SECONDS} s") from error
    except OSError as error:
        raise SubmitterError(f"{call[0]}: {error.strerror}") from error
    if done.returncode:
        said = one_line(done.stderr) or f"exit status {done.returncode}"
        kind = SubmitterError if _AWAY.search(said) or call[0] != "sbatch" else RefusedError
        raise kind(f"{call[0]} failed: {said}")
    return done.stdout
