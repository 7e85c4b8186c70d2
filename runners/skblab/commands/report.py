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
from skblab_analysis.report import summary
from skblab_analysis.report.page import build_report


def report(
    runs: Annotated[list[Path], typer.Argument(help="Run folders, such as results/demo-….")],
    as_json: AsJson = False,
) -> None:
    """Make the report of a run again from its stored results, and print its path.

    It needs no root rights. This machine's gnuplot draws the pictures, or else that of the lab
    root. Without either, the page has no pictures.

    Example: `skblab report results/demo-*`
    """
    gnuplot: Gnuplot | None = None
    without = ""
    try:
        gnuplot = find_gnuplot()
    except NoGnuplotError as error:
        without = f"the page has no pictures: {error}"
    made = {run: build_report(run, gnuplot) for run in runs}
    # Behind what may be wrong with a run, which is more.
    if without:
        Reporter().say(without)
    if as_json:
        echo(Summaries(tuple(summary.of_run(run, page) for run, page in made.items())))
        return
    for page in made.values():
        typer.echo(page)
