# SPDX-License-Identifier: GPL-2.0-or-later
"""`skblab bisect`: which commit made a workload slower."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from skblab.bench import given
from skblab.commands.compare import no_verdict
from skblab.commands.options import AsJson, FlavourName, echo
from skblab.compare.asked import PACKETS
from skblab.compare.bisecting import Asked, Bisecting, resumed
from skblab.lab.drawing import gnuplot
from skblab.lab.reporter import Reporter, printer
from skblab.sweep.session import alone
from skblab_analysis.base.errors import UsageError
from skblab_analysis.bisect import view
from skblab_analysis.report.page import build_report
from skblab_analysis.runfolder import RunFolder


def bisect(
    good: Annotated[
        str | None,
        typer.Option(
            metavar="REVISION",
            help="A commit that is as it should be, an ancestor of --bad. Needed without --resume.",
        ),
    ] = None,
    bad: Annotated[
        str | None,
        typer.Option(
            metavar="REVISION", help="A later commit that costs more, or less. Default: HEAD."
        ),
    ] = None,
    wanted: Annotated[
        str | None,
        typer.Option(
            "--workload",
            metavar="NAME",
            help="The workload to measure, a name that skblab compare --list prints or a file of "
            "your own. Needed without --resume.",
        ),
    ] = None,
    repository: Annotated[
        Path, typer.Option(metavar="DIR", help="The git repository of a Linux source.")
    ] = Path(),
    resume: Annotated[
        Path | None,
        typer.Option(
            metavar="RUN",
            help="Go on with a search that was stopped: its run folder. The run has all other "
            "options.",
        ),
    ] = None,
    flavour: FlavourName = "stock",
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KNOB=VALUE", help="Set a knob; may be repeated."),
    ] = None,
    packets: Annotated[
        int,
        typer.Option(
            min=1000, max=1_000_000, help="Send so many packets, whole thousands, in a long load."
        ),
    ] = PACKETS,
    as_json: AsJson = False,
) -> None:
    """Find the commit that changed what a workload costs.

    It builds and measures both ends first, and refuses to search if they differ too little. Then
    it builds commits between them. A commit that does not build or boot, crashes or loses packets
    is left out. At the end it compares the commit with its parent, and names the functions that
    changed. It never writes to your repository. The exit status is 3 if no commit can be named.

    Example: `skblab bisect --good v7.3 --bad HEAD --workload forward4`
    """
    reporter = Reporter()
    if resume is not None:
        others = (good, bad, wanted, set_, packets != PACKETS, flavour != "stock")
        if any(others) or repository != Path():
            raise UsageError("--resume: the run has all other options; leave them out")
        with no_verdict(), alone(resume, reporter):
            # Not read before: another one may have gone on with it meanwhile.
            _search(*resumed(resume), reporter, as_json=as_json)
    else:
        if good is None or wanted is None:
            option = "--workload" if good else "--good"
            raise UsageError(f"{option} is missing; or name a run that was stopped: --resume RUN")
        knobs = given.parse(set_ or [], "--set")
        asked = Asked.of(
            repository, good, bad or "HEAD", wanted, packets=packets, flavour=flavour, knobs=knobs
        )
        _search(asked, None, reporter, as_json=as_json)


def _search(asked: Asked, before: RunFolder | None, reporter: Reporter, *, as_json: bool) -> None:
    """Search, make the report, and print what was found."""
    with no_verdict():
        search = Bisecting(asked, reporter)
        folder, document = search.recorded(before)
        page = build_report(folder.path, gnuplot(search.root))
    if as_json:
        echo(document)
        return
    console = printer()
    console.print(view.table(document))
    console.print()
    console.print(escape(view.sentence(document)), soft_wrap=True)
    console.print(f"\nReport: {page}", soft_wrap=True)
