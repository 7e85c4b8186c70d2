# SPDX-License-Identifier: GPL-2.0-or-later
"""The `skblab jobs` commands: tasks in a shared folder, on this machine or a cluster."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from skblab.commands.documents import CampaignStatus, JobsStatus
from skblab.commands.many import (
    MINUTES,
    PANEL,
    STORE_HELP,
    ElementMinutes,
    Jobs,
    OnOption,
    Sbatch,
    bounds,
    elsewhere,
    require,
    submitting,
    words,
)
from skblab.commands.options import AsJson, echo
from skblab.jobs import engine, slurm
from skblab.jobs.campaign import Place
from skblab.jobs.engine import Known, Standing
from skblab.jobs.model import Campaign, Engine, Task
from skblab.jobs.slurm import Slurm
from skblab.jobs.store import Store
from skblab.jobs.submitter import RUNNING, Name, Queue, SubmitterError
from skblab.lab.reporter import Reporter, printer
from skblab.lab.store import digest
from skblab_analysis.base.errors import EXIT_NO, SkblabError, UsageError

jobs = typer.Typer(
    help="Look at tasks that run on a cluster or on this machine, and go on with them.\n\n"
    "Their results are in a shared folder, the store, by `--store` of `skblab compare`. "
    "docs/howto/compare-on-slurm.md begins with two machines.\n\n"
    "Example: `skblab jobs status /shared/store`",
    no_args_is_help=True,
    rich_markup_mode="markdown",
)

StoreName = Annotated[Path, typer.Argument(metavar="STORE", help=STORE_HELP, show_default=False)]
CampaignName = Annotated[
    str | None,
    typer.Argument(
        metavar="CAMPAIGN",
        help="Name of the campaign, as `skblab jobs status` prints it. Default: all.",
        show_default=False,
    ),
]
TRY_MEMORY = 256


@jobs.command("try")
def try_(
    store: StoreName,
    on: OnOption = "local",
    tasks: Annotated[int, typer.Option(min=1, max=100_000, help="Run so many tasks.")] = 20,
    seconds: Annotated[
        float, typer.Option(min=0, max=3600, help="Have each task sleep so long.")
    ] = 0.0,
    estimate: Annotated[
        float, typer.Option(min=0, max=3600, help="Take each task to last so many seconds.")
    ] = 60.0,
    sbatch: Sbatch = None,
    at_once: Jobs = None,
    minutes: ElementMinutes = MINUTES,
) -> None:
    """Run tasks that do nothing: does the cluster run them, and is the folder shared?

    It makes the store if the folder is empty or not there.

    Example: `skblab jobs try /shared/store --on slurm`
    """
    place = elsewhere(store, on, sbatch, at_once, minutes)
    assert place is not None
    there = place.store
    options = words(None, on, sbatch, at_once, minutes)
    figures = ["--tasks", f"{tasks}", "--seconds", f"{seconds:g}", "--estimate", f"{estimate:g}"]
    campaign = Campaign(
        kind="nothing",
        title=f"{tasks} tasks that do nothing",
        again=shlex.join(["./skblab", "jobs", "try", str(there.path), *figures, *options]),
        memory=TRY_MEMORY,
        on=on,
    )
    number = len(Place.all(there))
    made = [
        Task(
            key=digest(["nothing", str(number), str(one)]),
            seconds=estimate,
            does={"sleep": seconds} if seconds else {},
        )
        for one in range(tasks)
    ]
    if _go_on(Place.make(there, campaign, made), on, sbatch, at_once, minutes):
        raise typer.Exit(EXIT_NO)


@jobs.command()
def status(store: StoreName, as_json: AsJson = False) -> None:
    """Print how each campaign stands, by the shared folder and one call of squeue.

    The exit status is 1 if a campaign cannot be read.

    Example: `skblab jobs status /shared/store`
    """
    there = Store.open(store)
    listed, why = _listed()
    found, damaged, known = [], {}, Known()
    for place in Place.all(there):
        others = {id_: names for id_, names in listed.items() if id_ != place.id}
        queue = Queue(listed.get(place.id, {}), others)
        try:
            found.append(_status(place, engine.look(place, place.tasks(), queue, known)))
        except SkblabError as error:
            damaged[place.id] = str(error)
    document = JobsStatus(store=there.path, squeue=not why, campaigns=tuple(found), damaged=damaged)
    if as_json:
        echo(document)
    else:
        _show(document, why)
    if damaged:
        raise typer.Exit(EXIT_NO)


def _show(document: JobsStatus, why: str) -> None:
    """Print how campaigns stand; `why` nobody knows which elements there are, if so."""
    table = Table(box=None, pad_edge=False)
    for title in ("campaign", "tasks", "done", "failed", "elements"):
        number = title in ("tasks", "done", "failed")
        table.add_column(title, no_wrap=True, justify="right" if number else "left")
    table.add_column("what", overflow="fold")
    for one in document.campaigns:
        states = ", ".join(f"{count} {state}" for state, count in one.elements.items()) or "none"
        elements = "unknown" if why else states
        table.add_row(
            *(one.campaign, str(one.tasks), str(one.done), str(len(one.failed)), elements),
            one.title,
        )
    console = printer()
    console.print(table)
    for one in document.campaigns:
        for key, reason in one.failed.items():
            console.print(f"{one.campaign}: {key} failed: {reason}", markup=False, soft_wrap=True)
    for line in _damaged(document.damaged):
        console.print(line, markup=False, soft_wrap=True)
    if why:
        Reporter().say(f"which elements run on a cluster is unknown: {why}")


@jobs.command()
def resume(
    store: StoreName,
    name: CampaignName = None,
    on: Annotated[
        Engine | None,
        typer.Option(
            "--on",
            help="Run the tasks on this machine (local) or on a cluster (slurm). Default: where "
            "the campaign was submitted to last.",
            rich_help_panel=PANEL,
            show_default=False,
        ),
    ] = None,
    failed: Annotated[
        bool, typer.Option("--failed", help="Give tasks that have failed three new tries.")
    ] = False,
    sbatch: Sbatch = None,
    at_once: Jobs = None,
    minutes: ElementMinutes = MINUTES,
) -> None:
    """Submit the tasks that have no result and do not run, and wait for all.

    Then repeat the command that made them: it finds all results. The exit status is 1 if a task
    has failed, or a campaign cannot be read.

    Example: `skblab jobs resume /shared/store`
    """
    if on is not None:
        require(on, sbatch, at_once)
    there = Store.open(store)
    there.sweep()
    bad, damaged = False, {}
    for place in [Place.find(there, name)] if name else Place.all(there):
        try:
            place.campaign()
            chosen = on or place.engine()
            standing = engine.look(place, place.tasks(), Queue())
        except SkblabError as error:
            damaged[place.id] = str(error)
            continue
        if standing.over and not (failed and standing.failed):
            bad |= _told(place, standing)
        else:
            bad |= _go_on(place, chosen, sbatch, at_once, minutes, again=failed)
    for line in _damaged(damaged):
        Reporter().say(line)
    if bad or damaged:
        raise typer.Exit(EXIT_NO)


@jobs.command()
def cancel(store: StoreName, name: CampaignName = None) -> None:
    """End all elements on the cluster by scancel; results that are there stay.

    Example: `skblab jobs cancel /shared/store`
    """
    slurm.require()
    there = Store.open(store)
    for place in [Place.find(there, name)] if name else Place.all(there):
        count = Slurm(TRY_MEMORY).cancel(place)
        typer.echo(f"{place.id}: {count} elements ended")


def _listed() -> tuple[dict[str, dict[Name, str]], str]:
    """Return by campaign the state of each element that squeue lists, and why there is none."""
    try:
        slurm.require()
        found = slurm.look()
    except (UsageError, SubmitterError) as error:
        return {}, str(error)
    return {
        campaign: {name: one.state for name, one in elements.items()}
        for campaign, elements in found.items()
    }, ""


def _status(place: Place, standing: Standing) -> CampaignStatus:
    campaign = place.campaign()
    return CampaignStatus(
        campaign=place.id,
        title=campaign.title,
        again=campaign.again,
        tasks=standing.tasks,
        done=len(standing.done),
        failed=dict(standing.failed),
        missing=len(standing.missing),
        running=standing.states[RUNNING],
        elements=dict(sorted(standing.states.items())),
    )


def _damaged(found: dict[str, str]) -> Iterator[str]:
    for id_, why in found.items():
        yield f"campaign {id_} is damaged: {why}; delete its folder, then give its command again"


def _go_on(
    place: Place,
    on: Engine,
    sbatch: list[str] | None,
    at_once: int | None,
    minutes: float,
    *,
    again: bool = False,
) -> bool:
    """Have a campaign's tasks run; return whether one has failed."""
    campaign = place.campaign()
    with submitting(on, sbatch, at_once, campaign.memory, place) as submitter:
        standing = engine.run(
            place, submitter, Reporter(), bounds(minutes), campaign.title, again=again
        )
    return _told(place, standing)


def _told(place: Place, standing: Standing) -> bool:
    """Print how a campaign that is over stands; return whether a task has failed."""
    reporter = Reporter()
    for key, why in standing.failed.items():
        reporter.say(f"{key} failed: {why}")
    hosts: dict[str, int] = {}
    for key in standing.done:
        record = place.store.get(key)
        assert record is not None
        hosts[record.host] = hosts.get(record.host, 0) + 1
    ran = ", ".join(f"{count} on {host}" for host, count in sorted(hosts.items()))
    typer.echo(
        f"{place.id}: {len(standing.done)} of {standing.tasks} tasks have a result"
        f"{f' ({ran})' if ran else ''}, {len(standing.failed)} failed"
    )
    return bool(standing.failed)
