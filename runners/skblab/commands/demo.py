# SPDX-License-Identifier: GPL-2.0-or-later
"""The `skblab demo` command (`make demo`): everything from source to report in one go."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from skblab.bench import functions, programs
from skblab.commands.options import KERNEL_DEFAULT, AsJson, KernelName, echo
from skblab.demo.run import RATE_PPS, Demo
from skblab.lab import kernel, labroot, tools
from skblab.lab.drawing import gnuplot
from skblab.lab.kernel import names
from skblab.lab.reporter import Reporter, printer
from skblab_analysis.base.errors import SkblabError
from skblab_analysis.report import summary, terminal
from skblab_analysis.report.page import build_report
from skblab_analysis.runfolder import RunFolder


def demo(
    packets: Annotated[
        int, typer.Option(min=1, max=10_000_000, help="Time so many UDP packets.")
    ] = 100_000,
    rate: Annotated[
        int,
        typer.Option(min=0, help="Send so many packets a second; 0: as fast as the sender can."),
    ] = RATE_PPS,
    exact_packets: Annotated[
        int,
        typer.Option(
            min=1000, max=10_000_000, help="Packets of each trial that counts instructions."
        ),
    ] = 50_000,
    jobs: Annotated[
        int | None,
        typer.Option(min=1, help="Run so many compilers at once. Default: one for each CPU."),
    ] = None,
    name: KernelName = KERNEL_DEFAULT,
    as_json: AsJson = False,
) -> None:
    """Show where a UDP packet's time goes: patch, build, boot, send, time, report.

    skblab times UDP packets layer by layer in the patched kernel; without patches, by hooks.
    Then it counts the instructions that forwarding a packet takes with rp_filter 0 and 1, in all
    and in each kernel function. It writes `results/demo-<time>/` and prints the path of the report.

    Example: `skblab demo --packets 20000 --exact-packets 5000`
    """
    begun = time.monotonic()
    reporter = Reporter()
    chosen = names.parse(name)
    request = chosen.request(jobs=jobs)
    root = labroot.ensure(reporter)
    built = kernel.ensure(request, root, reporter)
    # Before the run begins: what cannot be built is none.
    tools.ensure(root, built, reporter)
    programs.ensure(root, reporter)
    functions.ensure(root, reporter)
    asked = Demo(packets, rate, exact_packets, chosen)
    folder = asked.begin()

    def show(page: Path) -> None:
        if as_json:
            echo(summary.of_run(folder.path, page))
        else:
            _show(folder, reporter, time.monotonic() - begun, page)

    try:
        asked.run(folder, built, root, reporter)
    except SkblabError:
        # What is good of it is in the report, and why it ended.
        show(build_report(folder.path, gnuplot(root)))
        raise
    with reporter.step("report"):
        page = build_report(folder.path, gnuplot(root))
    show(page)


def _show(folder: RunFolder, reporter: Reporter, seconds: float, page: Path) -> None:
    console = printer()
    for table in terminal.of_run(folder.path):
        console.print(table)
        console.print()
    console.print(f"Where the time went: {seconds:.0f} s in all")
    for step, spent in reporter.timings.items():
        console.print(f"  {spent:7.1f} s  {step}")
    console.print()
    console.print(f"Report: {page}", soft_wrap=True)
