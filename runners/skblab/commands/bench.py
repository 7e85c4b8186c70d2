# SPDX-License-Identifier: GPL-2.0-or-later
"""The `skblab bench` commands."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Annotated

import typer

from skblab.bench import plan, senders
from skblab.bench.kernels import Others, already, alternatives, patches
from skblab.bench.run import Run
from skblab.commands.documents import SenderRate, Senders
from skblab.commands.options import AsJson, Jobs, LineName, echo
from skblab.lab import labroot
from skblab.lab.kernel import lines
from skblab.lab.reporter import Reporter, printer
from skblab_analysis.base.errors import EXIT_NO
from skblab_analysis.base.tables import titled
from skblab_analysis.base.words import number
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


@bench.command("senders")
def senders_(
    packets: Annotated[
        int, typer.Option(min=1000, max=10_000_000, help="Packets of each trial.")
    ] = 200_000,
    rounds: Annotated[
        int, typer.Option(min=1, max=1000, help="Measure each sender so often, in turn.")
    ] = 5,
    as_json: AsJson = False,
) -> None:
    """Compare the rate of our own senders with that of the kernel's pktgen, in one guest.

    Each sends 64-byte frames from one CPU as fast as it goes, on a kernel without our patches:
    frames onto a veth pair whose other end drops them, as pktgen, and UDP by loopback, as LUNA's
    study did. A ratio to pktgen is of the same round, and their median is shown.

    Example: `skblab bench senders --rounds 3`
    """
    reporter = Reporter()
    root = labroot.ensure(reporter)
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "console.log"
        release, found = senders.measure(packets, rounds, root, reporter, log)
    [peer] = [one for one in found if one.sender == senders.PEER]
    if as_json:
        echo(
            Senders(
                kernel=release,
                packets=packets,
                luna=senders.LUNA,
                senders=tuple(
                    SenderRate(
                        sender=one.sender,
                        rates=one.rates,
                        rate=one.rate,
                        of_pktgen=one.ratio(peer),
                        of_luna=one.rate / senders.LUNA,
                    )
                    for one in found
                ),
            )
        )
        return
    table = titled(f"Senders, one CPU, 64-byte frames (kernel {release})")
    table.add_column("sender")
    for name in ("packets/s", "of pktgen", "of LUNA's 43 000/s"):
        table.add_column(name, justify="right")
    for one in found:
        ratios = (one.ratio(peer), one.rate / senders.LUNA)
        table.add_row(one.sender, number(one.rate), *(f"{number(each, 2)}×" for each in ratios))
    printer().print(table)
