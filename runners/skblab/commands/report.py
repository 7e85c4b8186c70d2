# SPDX-License-Identifier: GPL-2.0-or-later
"""The `skblab report` command, and gnuplot as the lab root has it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from skblab.lab import labroot
from skblab.lab.labroot import Bind, LabRoot
from skblab.lab.reporter import Reporter
from skblab_analysis.report.page import build_report
from skblab_analysis.report.pictures import GnuplotRunner


def gnuplot(root: LabRoot) -> GnuplotRunner:
    """Return a function that runs gnuplot with arguments in a folder."""

    def run(arguments: Sequence[str], folder: Path) -> None:
        out = Bind(folder.resolve(), "out", writable=True)
        root.run(["gnuplot", *arguments], binds=[out], workdir=out.inside, what="gnuplot")

    return run


def report(
    runs: Annotated[list[Path], typer.Argument(help="Run folders, such as results/demo-….")],
) -> None:
    """Make the report of a run anew from its stored results, and print its path."""
    root = labroot.ensure(Reporter())
    for run in runs:
        typer.echo(build_report(run, gnuplot(root)))
