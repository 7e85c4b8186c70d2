# SPDX-License-Identifier: GPL-2.0-or-later
"""The `skblab sweep`, `skblab resume` and `skblab cleanup` commands."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from skblab.commands.many import (
    MINUTES,
    ElementMinutes,
    Jobs,
    OnStoreOption,
    Sbatch,
    StoreOption,
    elsewhere,
    require_no_store,
)
from skblab.commands.options import KERNEL_DEFAULT, AsJson, FlavourName, KernelName, echo
from skblab.jobs.elsewhere import Elsewhere
from skblab.lab import labroot
from skblab.lab.drawing import gnuplot
from skblab.lab.guest.spec import MOST_EXACT_CPUS
from skblab.lab.kernel import names as kernels
from skblab.lab.reporter import Reporter, printer
from skblab.sweep import hostmachines, session
from skblab.sweep.measure.exact import AT_ONCE, PACKETS
from skblab.sweep.plan import Plan
from skblab.sweep.request import SHIPPED, Parameters, Request, require_exact, unfinished
from skblab.sweep.shipped import FIRST, shipped
from skblab.testbeds import KINDS, NETNS
from skblab.tune.state import FILE as TUNE
from skblab_analysis.base.errors import SkblabError, UsageError
from skblab_analysis.base.words import ABSENT, counted, rough_time
from skblab_analysis.formats import bisect
from skblab_analysis.load import Run, load
from skblab_analysis.report import advice, left_out, summary, terminal
from skblab_analysis.report.page import build_report
from skblab_analysis.runfolder import RunFolder

# Where its help has what is measured, and where.
MEASURE, TESTBED = "Measure", "Testbed"


def names() -> list[str]:
    """Return the names of experiments that come with skblab."""
    return sorted(file.stem for file in SHIPPED.glob("*.toml"))


def _is_testbed(name: str) -> str:
    if name not in KINDS:
        raise typer.BadParameter(f"{name!r} is not one of {', '.join(map(repr, KINDS))}.")
    return name


def sweep(
    file: Annotated[
        str | None,
        typer.Argument(
            help="An experiment file, or the name of one that comes with skblab. Without it: "
            "the list of these.",
            autocompletion=names,
            show_default=False,
        ),
    ] = None,
    exact: Annotated[
        bool,
        typer.Option(
            "--exact",
            help="Count instructions per packet of every setting, in a guest.",
            rich_help_panel=MEASURE,
        ),
    ] = False,
    packets: Annotated[
        int | None,
        typer.Option(
            min=1000,
            max=10_000_000,
            help=f"With --exact: packets of each trial. Default: {PACKETS}.",
            show_default=False,
            rich_help_panel=MEASURE,
        ),
    ] = None,
    cpus: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=MOST_EXACT_CPUS,
            help="With --exact: CPUs of the guest. With 2, RPS, XPS and NAPI threads have another "
            "one. Default: what the experiment needs, or 1.",
            show_default=False,
            rich_help_panel=MEASURE,
        ),
    ] = None,
    minutes: Annotated[
        float | None,
        typer.Option(
            min=0.1,
            max=100_000,
            help="End within so many minutes, by the estimate: fewer blocks, then shorter trials, "
            "than the experiment asks for. --dry-run says what that leaves.",
            show_default=False,
            rich_help_panel=MEASURE,
        ),
    ] = None,
    scale: Annotated[
        float | None,
        typer.Option(
            min=0.001,
            max=10_000,
            help="Make each trial so many times as long, but not below a second.",
            show_default=False,
            rich_help_panel=MEASURE,
        ),
    ] = None,
    testbed: Annotated[
        str,
        typer.Option(
            metavar="|".join(KINDS),
            callback=_is_testbed,
            autocompletion=lambda: list(KINDS),
            rich_help_panel=TESTBED,
            help=" ".join(f"{kind.name}: {kind.sentence}" for kind in KINDS.values()),
        ),
    ] = NETNS.name,
    hosts: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="With --testbed hosts: the file that names your machines and their ports, see "
            "docs/reference/hosts.md.",
            show_default=False,
            rich_help_panel=TESTBED,
        ),
    ] = None,
    flavour: FlavourName = "stock",
    name: KernelName = KERNEL_DEFAULT,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run", help="Only print the plan: how long it takes, and what sets each value."
        ),
    ] = False,
    scripts: Annotated[
        bool,
        typer.Option(
            "--scripts", help="With --dry-run: also the order, and every script that would run."
        ),
    ] = False,
    listed: Annotated[
        bool,
        typer.Option(
            "--list", help="List the experiments that come with skblab, with their times."
        ),
    ] = False,
    store: StoreOption = None,
    on: OnStoreOption = None,
    sbatch: Sbatch = None,
    jobs: Jobs = None,
    element_minutes: ElementMinutes = MINUTES,
    as_json: AsJson = False,
) -> None:
    """Compare settings: what each costs a packet.

    An experiment file says which settings, which traffic, what is measured and how often.
    Without one, the command lists the experiments that come with skblab. skblab reads every
    setting back before and after each trial. It runs the baseline twice under two names: the
    difference between these two is skblab's own error. It writes `results/<name>-<time>/` and
    prints the path of the report.

    Example: `skblab sweep first --exact`
    """
    if (dry_run or scripts or listed or file is None) and as_json:
        raise UsageError(
            "--json: expected an experiment to measure; a plan or a list has no figures"
        )
    if file is None or listed:
        _list()
        return
    chosen = kernels.parse(name)
    if store is None:
        require_no_store(on, sbatch, jobs)
    request = Request(
        *(file, exact, packets, testbed, hosts, flavour, chosen, cpus),
        minutes=minutes,
        scale=scale,
        store=store,
        on=on,
    )
    if dry_run or scripts:
        for line in request.dry_run(scripts=scripts):
            typer.echo(line)
        return
    # Not before: neither a plan nor what is refused makes a store.
    there = elsewhere(store, on, sbatch, jobs, element_minutes)
    if there is not None:
        request = dataclasses.replace(request, store=there.store.path)
    reporter = Reporter()
    if chosen.packaged is not None:
        request.plan()
        # The record names the kernel that is measured, whatever Debian has next month.
        named = chosen.settled(labroot.ensure(reporter), reporter)
        request = dataclasses.replace(request, kernel=named)
    plan, folder = request.begin()
    for sentence in request.told(plan):
        reporter.say(sentence)
    with session.alone(folder.path, reporter):
        _run(plan, folder, reporter, there, resumed=False, as_json=as_json)


def _list() -> None:
    """Print the experiments that come with skblab."""
    table = Table(box=None, pad_edge=False)
    for title in ("experiment", "question"):
        table.add_column(title, overflow="fold")
    for title in ("settings", "--exact", "wall clock"):
        table.add_column(title, justify="right", no_wrap=True)
    table.add_column("testbeds", overflow="fold")
    for experiment in shipped():
        table.add_row(
            experiment.name,
            experiment.question,
            str(experiment.settings),
            ABSENT if experiment.exact is None else rough_time(experiment.exact),
            rough_time(experiment.timed),
            " ".join(experiment.testbeds),
        )
    console = printer()
    console.print(table)
    console.print(
        f"\nTimes are estimates, those of --exact on {AT_ONCE} CPUs, without the kernel that the "
        f"first run builds. Start with: ./skblab sweep {FIRST} --exact",
        soft_wrap=True,
    )


def resume(
    run: Annotated[Path, typer.Argument(help="The run folder of a sweep that did not finish.")],
    store: StoreOption = None,
    on: OnStoreOption = None,
    sbatch: Sbatch = None,
    jobs: Jobs = None,
    element_minutes: ElementMinutes = MINUTES,
    as_json: AsJson = False,
) -> None:
    """Finish a sweep that was stopped: run the trials that are missing.

    A sweep that had --store has the same store and --on again, unless others are named.

    Example: `skblab resume results/demo-20260131-120000`
    """
    if (run / bisect.FILE).exists():
        raise UsageError(f"{run} is no sweep; go on with it: ./skblab bisect --resume {run}")
    if (run / TUNE).exists():
        raise UsageError(f"{run} is no sweep; go on with it: ./skblab tune --resume {run}")
    reporter = Reporter()
    with session.alone(run, reporter):
        # Not opened before: another one may have gone on with it meanwhile.
        plan, folder = unfinished(run)
        began = Parameters.of(folder)
        if store is not None or began.store is not None:
            require_exact(exact=plan.exact)
        place = store or (None if began.store is None else Path(began.store))
        there = elsewhere(place, on or began.on, sbatch, jobs, element_minutes)
        _run(plan, folder, reporter, there, resumed=True, as_json=as_json)


def cleanup(
    gone: Annotated[
        str | None,
        typer.Option(
            "--forget",
            metavar="ROUTER",
            help="Forget what was left on this router, which cannot be reached any more.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Undo what killed sweeps left on your hosts: restore settings, give ports back.

    The next sweep on the same hosts does this, too. Sweeps in guests leave nothing behind.

    Example: `skblab cleanup`
    """
    count = hostmachines.put_back_all(Reporter(), gone)
    typer.echo(
        f"restored {counted(count, 'testbed')}"
        if count
        else "nothing to restore: no killed sweep left anything on hosts"
    )


def _run(
    plan: Plan,
    folder: RunFolder,
    reporter: Reporter,
    there: Elsewhere | None,
    *,
    resumed: bool,
    as_json: bool,
) -> None:
    """Measure what the run in a folder lacks, here or elsewhere, and show what it has."""
    root = labroot.ensure(reporter)
    better = advice.candidates
    session.run(plan, folder, root, reporter, better, resumed=resumed, elsewhere=there)
    page = build_report(folder.path, gnuplot(root))
    run = load(folder.path)
    if as_json:
        echo(summary.of_run(folder.path, page))
    else:
        _show(run, page)
    if spoiled := [heard for heard in run.complaints() if heard.spoils]:
        first = spoiled[0]
        raise SkblabError(
            f"kernels complained in {len(spoiled)} trials, which are invalid: {first.where}: "
            f"{first.lines[0]}{' …' if len(spoiled) > 1 else ''}"
        )
    if all(row.state == "invalid" for row in run.trials):
        raise SkblabError("every trial is invalid, so there is no result: the report says why")


def _show(run: Run, page: Path) -> None:
    """Print what a run found."""
    console = printer()
    for table in terminal.of_run(run.folder):
        console.print(table)
        console.print()
    for one in {(one.setting, one.state): one for one in left_out.of(run.trials)}.values():
        said = f"{one.setting}: {one.state}: {one.reason}"
        console.print(f"[yellow]{escape(said)}[/]", soft_wrap=True)
    if advice.asked(run):
        for line in advice.lines(advice.of(run)):
            console.print(escape(line), soft_wrap=True)
        console.print()
    console.print(f"Report: {page}", soft_wrap=True)
