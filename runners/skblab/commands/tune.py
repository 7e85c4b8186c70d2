# SPDX-License-Identifier: GPL-2.0-or-later
"""The `skblab tune` command: sweep, choose, confirm, advise."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from skblab.commands import sweep as sweeping
from skblab.commands.documents import Tuned
from skblab.commands.options import KERNEL_DEFAULT, AsJson, FlavourName, KernelName, echo
from skblab.lab import labroot
from skblab.lab.kernel import names as kernels
from skblab.lab.reporter import Reporter, printer
from skblab.sweep.experiment import Experiment
from skblab.sweep.request import Request, read
from skblab.testbeds import KINDS, NETNS
from skblab.tune import ahead, choosing, conduct, dryrun, page
from skblab.tune.asked import Asked
from skblab_analysis.base.errors import UsageError

LEAST_MINUTES, MINUTES = 1.0, 20.0
THROUGHPUT = "throughput"


def tune(
    file: Annotated[
        str | None,
        typer.Argument(
            help="An experiment file with the settings to try, or the name of one that comes with "
            "skblab. Needed without --resume.",
            autocompletion=sweeping.names,
            show_default=False,
        ),
    ] = None,
    goal: Annotated[
        str,
        typer.Option(
            "--for",
            metavar="|".join(choosing.GOALS),
            help="What to look for: the highest throughput, the lowest latency, or the fewest "
            "instructions per packet. The file needs [measure.throughput] or [measure.latency] for "
            "that; instructions are counted of any.",
        ),
    ] = THROUGHPUT,
    minutes: Annotated[
        float,
        typer.Option(
            min=LEAST_MINUTES,
            max=100_000,
            help="Measure for about so many minutes; building kernels comes on top.",
        ),
    ] = MINUTES,
    testbed: Annotated[
        str,
        typer.Option(
            metavar="|".join(KINDS),
            help="Where: see skblab sweep --help. Default: hosts with --hosts, netns for "
            "instructions, else virtio.",
            autocompletion=lambda: list(KINDS),
            show_default=False,
        ),
    ] = "",
    hosts: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Measure on your own machines: the file that names them and their ports.",
            show_default=False,
        ),
    ] = None,
    flavour: FlavourName = "stock",
    name: KernelName = KERNEL_DEFAULT,
    resume: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Go on with a tune that was stopped: its folder, results/tune-NAME-TIME. The "
            "folder has all other options.",
            show_default=False,
        ),
    ] = None,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run",
            help="Only print the plan: settings, trials and their order, how long it takes, what "
            "each sweep decides, and what the time has no room for.",
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Find settings that are better, try them together, and write down what to set.

    skblab sweeps the settings of an experiment file. It then sets all that may help at once, and
    leaves out one after the other: some help only together. What is needed it measures once more,
    in guests that are booted anew or on your hosts. Only what is better again is advised. It writes
    results/tune-NAME-TIME/ with advice.md, files for sysctl.d and TuneD, and a script that sets
    sysctls, files of network devices and offload features on the router; with --revert the script
    puts back what it found.

    A tune that was stopped goes on with --resume FOLDER: what is stored is not measured again.

    Example: `skblab tune quick --for throughput`
    """
    reporter = Reporter()
    if resume is not None:
        others = (file, testbed, hosts, dry_run, goal != THROUGHPUT, minutes != MINUTES)
        if any(others) or flavour != "stock" or name != KERNEL_DEFAULT:
            raise UsageError("--resume: the folder has all other options; leave them out")
        _show(conduct.resume(resume, reporter), as_json=as_json)
        return
    if file is None:
        raise UsageError("FILE is missing; or name a tune that was stopped: --resume FOLDER")
    asked, found = _asked(file, goal, minutes, testbed, hosts, flavour, name)
    if dry_run:
        plan = ahead.planned(asked, found)
        if as_json:
            echo(plan)
        else:
            for line in dryrun.lines(plan):
                typer.echo(line)
        return
    request = asked.request
    if request.kernel.packaged is not None:
        settled = request.kernel.settled(labroot.ensure(reporter), reporter)
        asked = dataclasses.replace(asked, request=dataclasses.replace(request, kernel=settled))
    _show(conduct.tune(asked, found, reporter), as_json=as_json)


def _asked(
    file: str,
    goal: str,
    minutes: float,
    testbed: str,
    hosts: Path | None,
    flavour: str,
    name: str,
) -> tuple[Asked, Experiment]:
    """Return what is asked for, and the experiment of its file; UsageError if it is none."""
    if goal not in choosing.GOALS:
        raise UsageError(f"--for {goal}: expected one of {', '.join(choosing.GOALS)}")
    wanted = next(one for one in choosing.GOALS if one == goal)
    where = testbed or ("hosts" if hosts else NETNS.name if goal == "instructions" else "virtio")
    if where not in KINDS:
        raise UsageError(f"--testbed {where}: expected one of {', '.join(KINDS)}")
    kernel = kernels.parse(name)
    request = Request(file, wanted == "instructions", None, where, hosts, flavour, kernel)
    found = read(file)
    choosing.require(found, wanted, file)
    return Asked(file, wanted, minutes, request), found


def _show(made: conduct.Outcome, *, as_json: bool) -> None:
    """Print what is advised."""
    if as_json:
        echo(
            Tuned(
                folder=str(made.folder),
                goal=made.asked.goal,
                experiment=made.experiment,
                settings=made.kept.settings,
                confirmed=made.confirmed,
                why_none=made.why_none,
                reports=made.reports,
            )
        )
        return
    console = printer()
    for line in (made.folder / page.PAGE).read_text().splitlines():
        console.print(escape(line), soft_wrap=True)
