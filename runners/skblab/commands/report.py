# SPDX-License-Identifier: GPL-2.0-or-later
"""The `skblab report` command."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from skblab.commands.documents import Summaries
from skblab.commands.options import AsJson, echo
from skblab.lab.drawing import Gnuplot, NoGnuplotError, find_gnuplot
from skblab.lab.reporter import Reporter
from skblab_analysis.base.errors import UsageError
from skblab_analysis.load import load
from skblab_analysis.report import page, summary, together


def report(
    runs: Annotated[list[Path], typer.Argument(help="Run folders, such as results/demo-….")],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FOLDER",
            help="Where the page of several runs is put. Default: a folder beside the first run.",
            show_default=False,
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Make the report of runs again from their stored results, and print its path.

    Several runs make one page: what each is, their figures beside each other where they can be
    compared, then each run's own part. A run's own page is in its folder. Beside each page is
    report.md, the same as Markdown, for a mail or a pull request.

    It needs no root rights. This machine's gnuplot draws the pictures, or else that of the lab
    root. Without either, the page has no pictures.

    Example: `skblab report results/demo-*`
    """
    found = list({run.resolve(): run for run in runs}.values())
    if output is not None and len(found) == 1:
        raise UsageError(
            "--output is where the page of several runs is put; that of one run is in its folder: "
            "name a second run, or leave --output out"
        )
    gnuplot: Gnuplot | None = None
    without = ""
    try:
        gnuplot = find_gnuplot()
    except NoGnuplotError as error:
        without = f"the page has no pictures: {error}"
    if len(found) == 1:
        made: tuple[page.Made, ...] = (page.write(load(found[0]), gnuplot),)
        shown = made[0].page
    else:
        folder = output or together.default_folder(found)
        of_all = together.build(found, folder, gnuplot)
        made, shown = of_all.made, of_all.page
    # Behind what may be wrong with a run, which is more.
    if without:
        Reporter().say(without)
    if as_json:
        if len(made) > 1:
            Reporter().say(f"one page of all: {shown}")
        echo(Summaries(tuple(summary.of(one.run, one.page) for one in made)))
        return
    typer.echo(shown)
