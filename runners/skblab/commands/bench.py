# SPDX-License-Identifier: GPL-2.0-or-later
"""The `skblab bench` commands."""

from __future__ import annotations

from typing import Annotated

import typer

from skblab.bench import plan
from skblab.bench.kernels import Others, alternatives, patches
from skblab.bench.run import Run
from skblab.lab import labroot
from skblab.lab.reporter import Reporter, printer
from skblab_analysis.base.errors import EXIT_NO
from skblab_analysis.cost.view import of_bench

bench = typer.Typer(
    help="What the patches cost, and the tools beside them.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
)


@bench.command("patch")
def patch(
    rows: Annotated[
        str, typer.Option(help="Only these rows, apart by commas; see docs/reference/bench.md.")
    ] = "",
    packets: Annotated[
        int, typer.Option(min=500, max=100_000, help="Packets per counted trial.")
    ] = 20_000,
    repeats: Annotated[int, typer.Option(min=1, max=100, help="Trials of each in a boot.")] = 1,
    boots: Annotated[int, typer.Option(min=1, max=16, help="Guests of each kernel, at once.")] = 2,
    pairs: Annotated[
        int, typer.Option(min=0, max=1000, help="Throughput pairs, wall clock; 0: none.")
    ] = 8,
    alternative: Annotated[
        list[str] | None,
        typer.Option(help="NAME=FOLDER: a finished kernel that keeps its stamps elsewhere."),
    ] = None,
    jobs: Annotated[int | None, typer.Option(min=1, help="Compile jobs (default: CPUs).")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for scripts.")] = False,
) -> None:
    """Count what the patches and other tools cost per packet, and print one table.

    Instructions per packet of forwarding and of UDP receive, IPv4 and IPv6, in exact mode: the
    patched kernel switched off and on, with readers, beside bpftrace, SystemTap and BPF on an
    unpatched one. A row whose reader did not see every packet at every point is refused, and
    the exit status is 1. Leaves `results/bench-patch-<time>/`.
    """
    reporter = Reporter()
    others: Others = {**patches(), **alternatives(alternative or [])}
    wanted = plan.choose([name.strip() for name in rows.split(",") if name.strip()], others)
    root = labroot.ensure(reporter)
    run = Run(root, reporter, wanted, packets, repeats, boots, pairs, others, jobs)
    folder, document = run.recorded(rows)
    if as_json:
        typer.echo(document.model_dump_json(indent=1, by_alias=True))
    else:
        console = printer()
        for table in of_bench(document):
            console.print(table)
            console.print()
        console.print(f"Records: {folder.path}", soft_wrap=True)
    refused = [row for row in document.rows if row.refused]
    for row in refused:
        reporter.say(f"skblab: row {row.name} is refused: {row.refused}")
    if run.no_pairs:
        reporter.say(f"skblab: the throughput pairs are refused: {run.no_pairs}")
    if refused or run.no_pairs:
        raise typer.Exit(EXIT_NO)
