# SPDX-License-Identifier: GPL-2.0-or-later
"""`skblab bench functions`: where the instructions go that one row takes and another does not."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.markup import escape

from skblab.bench.asked import BATCH, benchmark, built
from skblab.bench.comparison import Comparison
from skblab.bench.kernels import Others, patches
from skblab.commands.bench import bench
from skblab.commands.options import AsJson, LineName, echo
from skblab.lab.drawing import gnuplot
from skblab.lab.kernel import lines
from skblab.lab.reporter import Reporter, printer
from skblab_analysis.formats import functions as figures
from skblab_analysis.functions.view import of_functions
from skblab_analysis.report.page import build_report

CaseName = Annotated[str, typer.Option(help=f"One of {', '.join(figures.CASES)}.")]
FamilyNumber = Annotated[int, typer.Option(help="4: IPv4, 6: IPv6.")]
Packets = Annotated[
    int, typer.Option(min=BATCH, max=100_000, help="Packets of each run, in whole thousands.")
]
Inclusive = Annotated[
    bool,
    typer.Option(
        "--inclusive",
        help="Order functions by what they take with all that they call, in a column of its own.",
    ),
]
PACKETS = 10_000


@bench.command("functions")
def functions(
    row: Annotated[str, typer.Option(help="The row to look into: see docs/reference/bench.md.")],
    against: Annotated[str, typer.Option(help="The row to compare it with, such as off.")],
    case: CaseName = "forward",
    family: FamilyNumber = 4,
    packets: Packets = PACKETS,
    repeats: Annotated[
        int, typer.Option(min=1, max=100, help="Runs of each row; the smallest counts.")
    ] = 1,
    least: Annotated[
        float,
        typer.Option(
            min=0, help="Show functions that differ by so many instructions per packet or more."
        ),
    ] = 1.0,
    given: Annotated[
        list[str] | None,
        typer.Option(
            "--built",
            metavar="NAME=FOLDER",
            help="Use this finished kernel as plain, off or patched; may be repeated.",
        ),
    ] = None,
    line: LineName = lines.DEFAULT.name,
    inclusive: Inclusive = False,
    as_json: AsJson = False,
) -> None:
    """Compare two rows of the benchmark, kernel function by kernel function.

    A plugin of the emulator counts every instruction between the places where the benchmark
    reads its clock. skblab compares the sum over all functions with that clock. If they differ
    by more than 0.1 %, it prints no figure, and the exit status is 1. It writes
    `results/bench-functions-<time>/`.

    Example: `skblab bench functions --row on --against off`
    """
    reporter, chosen = Reporter(), lines.line(line)
    others: Others = {**patches(chosen), **built(given or [])}
    wanted = benchmark(row, against, case, family, packets, repeats, others, chosen)
    counted = Comparison(wanted, others, reporter)
    folder, (document,) = counted.recorded()
    page = build_report(folder.path, gnuplot(counted.root))
    if as_json:
        echo(document)
        return
    console = printer()
    console.print(of_functions(document, least, inclusive=inclusive))
    for note in document.notes:
        console.print(f"\n{escape(note)}")
    console.print(f"\nReport: {page}", soft_wrap=True)
