# SPDX-License-Identifier: GPL-2.0-or-later
"""The `skblab sweep`, `skblab resume` and `skblab cleanup` commands."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from skblab.commands.options import FlavourName, Patches
from skblab.lab import labroot
from skblab.lab.drawing import gnuplot
from skblab.lab.reporter import Reporter, printer
from skblab.sweep import budget, hostmachines, session
from skblab.sweep.measure.exact import PACKETS
from skblab.sweep.plan import Plan
from skblab.sweep.request import Request, unfinished
from skblab.testbeds import KINDS, NETNS
from skblab_analysis.base.errors import SkblabError
from skblab_analysis.load import load
from skblab_analysis.report import findings, terminal
from skblab_analysis.report.page import build_report
from skblab_analysis.runfolder import RunFolder


def _is_testbed(name: str) -> str:
    if name not in KINDS:
        raise typer.BadParameter(f"{name!r} is not one of {', '.join(map(repr, KINDS))}.")
    return name


def sweep(
    file: Annotated[
        str, typer.Argument(help="An experiment file, or the name of one that comes with skblab.")
    ],
    exact: Annotated[
        bool,
        typer.Option("--exact", help="Count instructions per packet of every setting, in a guest."),
    ] = False,
    packets: Annotated[
        int | None,
        typer.Option(
            min=1000,
            max=10_000_000,
            help=f"Packets of each trial, with --exact (default {PACKETS}).",
            show_default=False,
        ),
    ] = None,
    testbed: Annotated[
        str,
        typer.Option(
            metavar=f"<{'|'.join(KINDS)}>",
            callback=_is_testbed,
            help=" ".join(f"{kind.name}: {kind.sentence}" for kind in KINDS.values()),
        ),
    ] = NETNS.name,
    hosts: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Which machines, reached by ssh, and which of their ports are joined how: see "
            "docs/sweep.md. For --testbed hosts.",
            show_default=False,
        ),
    ] = None,
    flavour: FlavourName = "stock",
    patches: Patches = True,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Only print the plan, how long it takes, and all commands."),
    ] = False,
) -> None:
    """Compare settings: what does each cost?

    One file says which settings, which traffic, what is measured and how often. Every setting is
    read back before and after each trial, and the baseline runs twice under two names: what differs
    between these is the suite's own error.
    """
    request = Request(file, exact, packets, testbed, hosts, flavour, patches)
    if dry_run:
        for line in request.dry_run():
            typer.echo(line)
        return
    plan, folder = request.begin()
    reporter = Reporter()
    for sentence in budget.told(plan):
        reporter.say(sentence)
    with session.alone(folder.path, reporter):
        _run(plan, folder, reporter, resumed=False)


def resume(
    run: Annotated[
        Path, typer.Argument(help="The folder of a sweep that did not come to its end.")
    ],
) -> None:
    """Go on with a sweep that was stopped, killed or broke: the trials that it lacks."""
    reporter = Reporter()
    with session.alone(run, reporter):
        # Not opened before: another one may have gone on with it meanwhile.
        plan, folder = unfinished(run)
        _run(plan, folder, reporter, resumed=True)


def cleanup(
    gone: Annotated[
        str | None,
        typer.Option(
            "--forget",
            metavar="ROUTER",
            help="If this router cannot be reached, forget what was left there.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Put back what sweeps that were killed left on hosts, and give back their ports.

    The next sweep on the same hosts does it, too. Guests leave nothing that needs it.
    """
    count = hostmachines.put_back_all(Reporter(), gone)
    typer.echo(
        f"{count} testbeds of hosts are as they were" if count else "nothing was left anywhere"
    )


def _run(plan: Plan, folder: RunFolder, reporter: Reporter, *, resumed: bool) -> None:
    """Measure what the run in a folder lacks, and show what it has."""
    root = labroot.ensure(reporter)
    session.run(plan, folder, root, reporter, findings.best, resumed=resumed)
    page = build_report(folder.path, gnuplot(root))
    run, console = load(folder.path), printer()
    for table in terminal.of_run(folder.path):
        console.print(table)
        console.print()
    skipped = {row.setting: row.reason for row in run.trials if row.reason}
    for name, reason in skipped.items():
        console.print(f"[yellow]{escape(name)}: skipped: {escape(reason)}[/]", soft_wrap=True)
    for best in run.document.commands:
        command = best.command if "\n" not in best.command else "a script, in the report"
        console.print(escape(f"To set {best.setting}: {command}"), soft_wrap=True)
    console.print(f"Report: {page}", soft_wrap=True)
    if spoiled := [heard for heard in run.complaints() if heard.spoils]:
        first = spoiled[0]
        raise SkblabError(
            f"kernels complained in {len(spoiled)} trials, which are invalid: {first.where}: "
            f"{first.lines[0]}{' …' if len(spoiled) > 1 else ''}"
        )
    if all(row.state == "invalid" for row in run.trials):
        raise SkblabError("no trial was good: nothing can be said of any setting")
