# SPDX-License-Identifier: GPL-2.0-or-later
"""Options of commands whose tasks run on many machines, and the submitter that they name."""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Iterator, Sequence
from typing import Annotated, Literal

import typer

from skblab.jobs import slurm
from skblab.jobs.campaign import Place
from skblab.jobs.local import Local
from skblab.jobs.packing import LEAST, MOST, Packing
from skblab.jobs.slurm import Slurm
from skblab.jobs.submitter import Submitter
from skblab.lab.reporter import Reporter
from skblab.sweep.measure.exact import guests_at_once
from skblab_analysis.base.errors import Stopped, UsageError

On = Literal["local", "slurm"]
PANEL = "Many machines"
ON_HELP = "Run the tasks as processes of this machine (local), or on a cluster by sbatch (slurm)."
STORE_HELP = "Shared folder for the results, which all nodes see under this name."
OnOption = Annotated[On, typer.Option("--on", help=ON_HELP, rich_help_panel=PANEL)]
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


def require(on: On, sbatch: Sequence[str] | None) -> None:
    """Raise UsageError for options that do not fit, or a machine without Slurm."""
    if on == "slurm":
        slurm.require(sbatch or ())
    elif sbatch:
        raise UsageError("--sbatch: expected --on slurm with it")


@contextlib.contextmanager
def submitting(
    on: On, sbatch: Sequence[str] | None, memory: int, place: Place
) -> Iterator[Submitter]:
    """Yield the submitter of tasks of `memory` MiB; local processes end with the block."""
    require(on, sbatch)
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
    local = Local(guests_at_once())
    try:
        yield local
    finally:
        local.cancel(place)


def bounds(minutes: float) -> Packing:
    """Return the bounds of elements that have at least so many minutes."""
    return Packing(least=minutes * 60)
