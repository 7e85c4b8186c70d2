# SPDX-License-Identifier: GPL-2.0-or-later
"""`skblab analyze`: loss, reordering, latency, jitter and anomalies of records of packets."""

from __future__ import annotations

import os
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from skblab.commands.options import AsJson, echo
from skblab.lab import labroot, tools
from skblab.lab.drawing import Gnuplot, NoGnuplotError, find_gnuplot
from skblab.lab.reporter import Reporter, printer
from skblab_analysis.base.errors import EXIT_NO

# RFC 8578 names both, for networks of industry; two packets in a row are no single outlier.
LATE = ("2:250us", "2:750us")


class Format(StrEnum):
    """What it reads; other files become records by `skblab traffic import`."""

    RECORDS = "records"
    TIMESTAMPS = "timestamps"
    PAIRS = "pairs"


def analyze(
    files: Annotated[list[Path], typer.Argument(metavar="FILE", help="Files of packets.")],
    form: Annotated[
        Format | None,
        typer.Option(
            "--format",
            help=f"What each file is: {', '.join(Format)} [default: told from content or name].",
        ),
    ] = None,
    late: Annotated[
        list[str] | None,
        typer.Option(
            metavar="N:T",
            help="An anomaly: at least N packets in a row, each with a latency of T or more. T is "
            "250us, 1.5ms, or x5 for five times the median. Up to eight times [default: "
            f"{', '.join(LATE)}].",
        ),
    ] = None,
    anomalies: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Write all anomalies of one file to it, as CSV; not with --parquet.",
        ),
    ] = None,
    packets: Annotated[
        str | None,
        typer.Option(
            metavar="FROM:TO",
            help="Only packets FROM to TO - 1 of the file, counted from 0; either may be left out.",
        ),
    ] = None,
    seconds: Annotated[
        str | None,
        typer.Option(
            metavar="FROM:TO", help="Only packets that came in this time, seconds after the first."
        ),
    ] = None,
    flow: Annotated[
        int | None,
        typer.Option(min=0, max=65535, metavar="NUMBER", help="Only packets of this flow."),
    ] = None,
    by_flow: Annotated[
        bool,
        typer.Option(
            "--by-flow",
            help="Also figures of each flow; percentiles are of the 256 with the most packets.",
        ),
    ] = False,
    same_clock: Annotated[
        bool,
        typer.Option(
            "--same-clock",
            help="Sender and receiver have one clock. Latency needs it, unless the file says so.",
        ),
    ] = False,
    bins: Annotated[
        int,
        typer.Option(
            min=2, max=20_000, help="Bins of packets, and of anomalies, over time: at most so many."
        ),
    ] = 1000,
    threads: Annotated[
        int | None,
        typer.Option(
            min=1, max=8, help="Threads that read packets [default: one for each CPU, up to 8]."
        ),
    ] = None,
    parquet: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Write tables to this folder, all anomalies too."),
    ] = None,
    report: Annotated[
        bool,
        typer.Option(
            "--report",
            help="Also write the figures of all files as one run, `results/packets-<time>/`, with "
            "a page of tables and pictures. The packets are not copied.",
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Say what packets did: loss, reordering, latency, jitter, anomalies, rate over time.

    It reads records of `skblab traffic receive --record` and of `skblab traffic import -o`, files
    of the real-time study, and pairs of nanoseconds, of any size in little memory. Exit status 1
    says that a part of a file could not be read; all figures are of the rest.

    Example: `skblab analyze packets.rec --late 2:250us --late 5:x10`
    """
    from skblab.analyze import kept, running
    from skblab_analysis.formats.analyze import AnalyzeDocument
    from skblab_analysis.packets import tables
    from skblab_analysis.report.page import build_report

    reporter = Reporter(quiet=as_json)
    # Without root rights the program can be used that root has had made.
    root = (None if os.geteuid() == 0 else labroot.existing()) or labroot.ensure(reporter)
    program = tools.ensure_traffic(root, reporter) / tools.PKTSTAT
    asked = running.Asked(
        form=form.value if form else None,
        late=tuple(late or LATE),
        packets=packets,
        seconds=seconds,
        flow=flow,
        by_flow=by_flow,
        same_clock=same_clock,
        bins=bins,
        threads=threads,
    )
    if parquet is None:
        found = running.analyse(program, files, asked, anomalies)
    else:
        from skblab.analyze import parquet as written

        if anomalies is not None:
            raise typer.BadParameter("--parquet has all anomalies: leave one of both out")
        found = written.write(program, files, asked, parquet)
    document = AnalyzeDocument(files=found)
    if as_json:
        echo(document)
    else:
        console = printer()
        for file in found:
            for part in tables.of_file(file):
                console.print(part, soft_wrap=isinstance(part, str), markup=False)
    # Once all figures are printed: whatever becomes of pictures, these are there.
    if report:
        page = build_report(kept.keep(document, asked, reporter), drawing(reporter))
        typer.echo(f"Report: {page}", err=as_json)
    troubles = [(file.file, trouble) for file in found for trouble in file.troubles]
    for name, trouble in troubles:
        typer.echo(f"skblab: {name}: {trouble}", err=True)
    if troubles:
        raise typer.Exit(EXIT_NO)


def drawing(reporter: Reporter) -> Gnuplot | None:
    """Return what draws pictures, which needs no root rights; None, and why, if nothing does."""
    try:
        return find_gnuplot()
    except NoGnuplotError as error:
        reporter.say(f"the page has no pictures: {error}")
        return None
