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
from skblab.sweep.request import Request, read
from skblab.testbeds import KINDS, NETNS
from skblab.tune import ahead, choosing, conduct, dryrun, page
from skblab.tune.asked import Asked
from skblab_analysis.base.errors import UsageError

LEAST_MINUTES = 1.0


def tune(
    file: Annotated[
        str,
        typer.Argument(
            help="An experiment file with the settings to try, or the name of one that comes with "
            "skblab.",
            autocompletion=sweeping.names,
            show_default=False,
        ),
    ],
    goal: Annotated[
        str,
        typer.Option(
            "--for",
            metavar="|".join(choosing.GOALS),
            help="What to look for: the highest throughput, the lowest latency, or the fewest "
            "instructions per packet. The file needs [measure.throughput] or [measure.latency] for "
            "that; instructions are counted of any.",
        ),
    ] = "throughput",
    minutes: Annotated[
        float,
        typer.Option(
            min=LEAST_MINUTES,
            max=100_000,
            help="Measure for about so many minutes; building kernels comes on top.",
        ),
    ] = 20.0,
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

    Example: `skblab tune quick --for throughput`
    """
    if goal not in choosing.GOALS:
        raise UsageError(f"--for {goal}: expected one of {', '.join(choosing.GOALS)}")
    wanted = next(one for one in choosing.GOALS if one == goal)
    where = testbed or ("hosts" if hosts else NETNS.name if goal == "instructions" else "virtio")
    if where not in KINDS:
        raise UsageError(f"--testbed {where}: expected one of {', '.join(KINDS)}")
    exact = wanted == "instructions"
    chosen = kernels.parse(name)
    request = Request(file, exact, None, where, hosts, flavour, chosen)
    found = read(file)
    choosing.require(found, wanted, file)
    if dry_run:
        plan = ahead.planned(Asked(file, wanted, minutes, request), found)
        if as_json:
            echo(plan)
        else:
            for line in dryrun.lines(plan):
                typer.echo(line)
        return
    reporter = Reporter()
    if chosen.packaged is not None:
        settled = chosen.settled(labroot.ensure(reporter), reporter)
        request = dataclasses.replace(request, kernel=settled)
    made = conduct.tune(Asked(file, wanted, minutes, request), found, reporter)
    if as_json:
        echo(
            Tuned(
                folder=str(made.folder),
                goal=wanted,
                experiment=found.name,
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
