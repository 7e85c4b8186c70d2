# SPDX-License-Identifier: GPL-2.0-or-later
"""The `skblab bench` commands."""

from __future__ import annotations

from typing import Annotated

import typer

from skblab.bench import plan
from skblab.bench.kernels import Others, already, alternatives, patches
from skblab.bench.run import Run
from skblab.commands.options import AsJson, Jobs, LineName, echo
from skblab.lab import labroot
from skblab.lab.kernel import lines
from skblab.lab.reporter import Reporter, printer
from skblab_analysis.base.errors import EXIT_NO
from skblab_analysis.cost.view import of_bench

bench = typer.Typer(
    help="Measure what the patches and other tools cost per packet.\n\n"
    "Example: `skblab bench functions --row on --against off`",
    no_args_is_help=True,
    rich_markup_mode="markdown",
)


@bench.command("patch")
def patch(
    rows: Annotated[
        str,
        typer.Option(
            help="Run only these rows, with commas between them: see docs/reference/bench.md."
        ),
    ] = "",
    packets: Annotated[
        int,
        typer.Option(min=500, max=100_000, help="Packets of each trial that counts instructions."),
    ] = 20_000,
    repeats: Annotated[int, typer.Option(min=1, max=100, help="Trials of each row in a boot.")] = 1,
    boots: Annotated[
        int, typer.Option(min=1, max=16, help="Boot so many guests of each kernel, at once.")
    ] = 2,
    pairs: Annotated[
        int,
        typer.Option(
            min=0, max=1000, help="Measure throughput off and on so many times; 0: not at all."
        ),
    ] = 8,
    alternative: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=FOLDER", help="Add rows: a finished kernel with a patch of your own."
        ),
    ] = None,
    line: LineName = lines.DEFAULT.name,
    jobs: Jobs = None,
    as_json: AsJson = False,
) -> None:
    """Count the instructions that the patches and other tools cost per packet.

    It counts forwarding and UDP receive, IPv4 and IPv6, in exact mode: on the patched kernel
    switched off and on, with readers, and with bpftrace, SystemTap and BPF on an unpatched
    kernel. It refuses a row whose reader missed a packet at any point; the exit status is 1
    then. It writes `results/bench-patch-<time>/`.

    Example: `skblab bench patch --rows off,on --pairs 0`
    """
    reporter, chosen = Reporter(), lines.line(line)
    others: Others = {**patches(chosen), **alternatives(alternative or [])}
    wanted = plan.choose([name.strip() for name in rows.split(",") if name.strip()], others)
    plan.require_stamps(wanted, chosen, already(others))
    root = labroot.ensure(reporter)
    run = Run(root, reporter, wanted, packets, repeats, boots, pairs, others, jobs, chosen)
    folder, document = run.recorded(rows)
    if as_json:
        echo(document)
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
