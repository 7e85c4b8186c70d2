# SPDX-License-Identifier: GPL-2.0-or-later
"""The `skblab report` command."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from skblab.lab.drawing import Gnuplot, NoGnuplotError, find_gnuplot
from skblab.lab.reporter import Reporter
from skblab_analysis.report.page import build_report


def report(
    runs: Annotated[list[Path], typer.Argument(help="Run folders, such as results/demo-….")],
) -> None:
    """Make the report of a run anew from its stored results, and print its path.

    Needs no root rights. The pictures are drawn by this machine's gnuplot, else by the lab root's;
    without either the page has none.
    """
    gnuplot: Gnuplot | None = None
    try:
        gnuplot = find_gnuplot()
    except NoGnuplotError as error:
        Reporter().say(f"the page has no pictures: {error}")
    for run in runs:
        typer.echo(build_report(run, gnuplot))
