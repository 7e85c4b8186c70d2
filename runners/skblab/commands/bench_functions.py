# SPDX-License-Identifier: GPL-2.0-or-later
"""`skblab bench functions`: where the instructions go that one row takes and another does not."""

from __future__ import annotations

from typing import Annotated

import typer

from skblab.bench.comparison import BATCH, Comparison, asked, kernels
from skblab.bench.kernels import Others, patches
from skblab.commands.bench import bench
from skblab.lab.reporter import Reporter, printer
from skblab_analysis.cost.view import of_functions
from skblab_analysis.formats import functions as figures


@bench.command("functions")
def functions(
    row: Annotated[str, typer.Option(help="The row to look into; see docs/reference/bench.md.")],
    against: Annotated[str, typer.Option(help="The row that it is compared with.")],
    case: Annotated[str, typer.Option(help=f"One of {', '.join(figures.CASES)}.")] = "forward",
    family: Annotated[int, typer.Option(help="4: IPv4, 6: IPv6.")] = 4,
    packets: Annotated[
        int, typer.Option(min=BATCH, max=100_000, help="Packets per run, whole thousands.")
    ] = 10_000,
    repeats: Annotated[
        int, typer.Option(min=1, max=100, help="Runs of each; the least counts.")
    ] = 1,
    least: Annotated[
        float, typer.Option(min=0, help="Show functions that differ by this or more.")
    ] = 1.0,
    given: Annotated[
        list[str] | None,
        typer.Option("--kernel", help="NAME=FOLDER: a finished kernel as plain, off or patched."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for scripts.")] = False,
) -> None:
    """Count instructions per packet of each kernel function in two rows, and print one table.

    A plugin of the emulator counts every instruction between the places where the benchmark reads
    its clock; the sum over all functions is compared with that clock, and where they are further
    apart than 0.1 % nothing is said (exit status 1). Leaves `results/bench-functions-<time>/`.
    """
    reporter = Reporter()
    others: Others = {**patches(), **kernels(given or [])}
    wanted = asked(row, against, case, family, packets, repeats, others)
    folder, document = Comparison(wanted, others, reporter).recorded()
    if as_json:
        typer.echo(document.model_dump_json(indent=1, by_alias=True))
        return
    console = printer()
    console.print(of_functions(document, least))
    console.print(f"\nRecords: {folder.path}", soft_wrap=True)
