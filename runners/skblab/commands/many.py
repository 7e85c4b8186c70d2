# SPDX-License-Identifier: GPL-2.0-or-later
"""Options of commands whose tasks run on many machines, and the submitter that they name."""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from skblab.jobs import slurm
from skblab.jobs.campaign import Place
from skblab.jobs.elsewhere import Elsewhere
from skblab.jobs.local import Local
from skblab.jobs.model import Engine
from skblab.jobs.packing import LEAST, MOST, Packing
from skblab.jobs.slurm import Slurm
from skblab.jobs.store import Store
from skblab.jobs.submitter import Submitter
from skblab.lab.reporter import Reporter
from skblab.sweep.measure.exact import guests_at_once
from skblab_analysis.base.errors import Stopped, UsageError

PANEL = "Many machines"
ON_HELP = "Run the tasks as processes of this machine (local), or on a cluster by sbatch (slurm)."
STORE_HELP = "Shared folder for the results, which all nodes see under this name."
OnOption = Annotated[Engine, typer.Option("--on", help=ON_HELP, rich_help_panel=PANEL)]
StoreOption = Annotated[
    Path | None,
    typer.Option(
        "--store",
        metavar="DIR",
        help=f"{STORE_HELP} What it has is not measured again.",
        rich_help_panel=PANEL,
    ),
]
OnStoreOption = Annotated[
    Engine | None,
    typer.Option(
        "--on",
        help=f"{ON_HELP} It needs --store. Default with --store: local.",
        rich_help_panel=PANEL,
    ),
]
Jobs = Annotated[
    int | None,
    typer.Option(
        "--jobs",
        metavar="N",
        min=1,
        max=1024,
        help="Run so many processes at once on this machine. Default: as many guests as it has "
        "CPUs and memory for, at most 4.",
        rich_help_panel=PANEL,
        show_default=False,
    ),
]
Sbatch = Annotated[
    list[str] | None,
    typer.Option(
        "--sbatch",
        metavar="OPTION",
        help="Give an option to sbatch, such as --sbatch=--partition=long; may be repeated.",
        rich_help_panel=PANEL,
    ),
]
ElementMinutes = Annotated[
    float,
    typer.Option(
        "--element-minutes",
        min=0,
        max=MOST / 60,
        help="Put so many minutes of tasks into an element of a job array, at least.",
        rich_help_panel=PANEL,
    ),
]
MINUTES = LEAST / 60


def require(on: Engine, sbatch: Sequence[str] | None, jobs: int | None) -> None:
    """Raise UsageError for options that do not fit, or a machine without Slurm."""
    if on == "slurm":
        if jobs is not None:
            raise UsageError(
                f"--jobs {jobs}: expected --on local with it; Slurm has its own limits"
            )
        slurm.require(sbatch or ())
    elif sbatch:
        raise UsageError("--sbatch: expected --on slurm with it")


def require_no_store(on: Engine | None, sbatch: Sequence[str] | None, jobs: int | None) -> None:
    """Raise UsageError for options that mean nothing without a store."""
    for option, of in (("--on", on), ("--sbatch", sbatch), ("--jobs", jobs)):
        if of:
            raise UsageError(f"{option}: expected --store with it, such as --store /shared/store")


def elsewhere(
    store: Path | None,
    on: Engine | None,
    sbatch: list[str] | None,
    jobs: int | None,
    minutes: float,
) -> Elsewhere | None:
    """Return where tasks run, if not in this process; UsageError for what cannot be."""
    if store is None:
        require_no_store(on, sbatch, jobs)
        return None
    place = on or "local"
    require(place, sbatch, jobs)
    there = Store.open(store, make=True)
    return Elsewhere(there, place, partial(submitting, place, sbatch, jobs), bounds(minutes))


def words(
    store: Elsewhere | None,
    on: Engine | None,
    sbatch: Sequence[str] | None,
    jobs: int | None,
    minutes: float,
) -> list[str]:
    """Return these options as they are typed again, in whatever folder."""
    found = [] if store is None else ["--store", str(store.store.path)]
    found += [] if on is None else ["--on", on]
    found += [f"--sbatch={one}" for one in sbatch or []]
    found += [] if jobs is None else ["--jobs", str(jobs)]
    found += [] if minutes == MINUTES else ["--element-minutes", f"{minutes:g}"]
    return found


@contextlib.contextmanager
def submitting(
    on: Engine, sbatch: Sequence[str] | None, jobs: int | None, memory: int, place: Place
) -> Iterator[Submitter]:
    """Yield the submitter of tasks of `memory` MiB; local processes end with the block."""
    require(on, sbatch, jobs)
    if on == "slurm":
        try:
            yield Slurm(memory, tuple(sbatch or ()))
        except Stopped:
            Reporter().say(
                "its jobs on the cluster go on; the same command goes on with them, and this ends "
                f"them: ./skblab jobs cancel {shlex.quote(str(place.store.path))}"
            )
            raise
        return
    local = Local(jobs or guests_at_once())
    try:
        yield local
    finally:
        local.cancel(place)


def bounds(minutes: float) -> Packing:
    """Return the bounds of elements that have at least so many minutes."""
    return Packing(least=minutes * 60)
