# SPDX-License-Identifier: GPL-2.0-or-later
"""`skblab probe functions`: how long calls of kernel functions take."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated, get_args

import typer
from rich.live import Live
from rich.markup import escape

from skblab.commands.options import (
    KERNEL_DEFAULT,
    AsJson,
    echo,
)
from skblab.commands.probe import OF_A_GUEST, again, probe, refuse
from skblab.commands.probing import (
    Exact,
    GuestFlavour,
    GuestKernel,
    LoadName,
    Packets,
    Rate,
    SshConfig,
    Where,
)
from skblab.lab import labroot
from skblab.lab.drawing import gnuplot
from skblab.lab.kernel import names
from skblab.lab.reporter import Reporter, printer
from skblab.probe import targets
from skblab.probe.functions import AUTO, Asked, Tracing
from skblab.probe.loads import Load, Traffic
from skblab_analysis.base.errors import UsageError
from skblab_analysis.formats.bylayer import BEGIN
from skblab_analysis.formats.functimes import By, FunctimesDocument
from skblab_analysis.functimes.view import notes, of_functions
from skblab_analysis.report.page import build_report


@probe.command("functions")
def functions(
    context: typer.Context,
    functions: Annotated[
        list[str] | None,
        typer.Argument(metavar="[NAME]...", help="Kernel functions, such as udp_rcv."),
    ] = None,
    layer: Annotated[
        list[str] | None,
        typer.Option(
            help="The functions that begin this layer of the path, as far as the kernel has them; "
            "may be repeated.",
            autocompletion=lambda: list(BEGIN),
        ),
    ] = None,
    on: Where = targets.HERE,
    ssh_config: SshConfig = None,
    seconds: Annotated[
        float | None,
        typer.Option(help="How long. Default: until Ctrl-C; a guest until its load is over."),
    ] = None,
    by: Annotated[
        str,
        typer.Option(
            metavar="WHAT",
            help="fentry: BPF programs. function-graph: a tracer of ftrace, which makes each call "
            "cost more. auto: fentry, or function-graph where the kernel does not take fentry.",
            autocompletion=lambda: [*get_args(By), AUTO],
        ),
    ] = AUTO,
    as_json: AsJson = False,
    verbose: Annotated[
        bool,
        typer.Option(
            "--verbose",
            help="If the probe does not attach: print all that libbpf and the kernel say of it.",
        ),
    ] = False,
    load: LoadName = "udp",
    packets: Packets = 100_000,
    rate: Rate = 10_000,
    exact: Exact = False,
    flavour: GuestFlavour = "stock",
    name: GuestKernel = KERNEL_DEFAULT,
) -> None:
    """Show how long calls of kernel functions take, with and without others that you name.

    It times every call of each named function from entry to return, by BPF programs (fentry and
    fexit), or by ftrace's function_graph where the kernel takes none. Self time is without the
    other functions that are traced. First it measures what the probe itself takes for a call. It
    writes `results/functions-<time>/`.

    Example: `skblab probe functions udp_rcv __udp_enqueue_schedule_skb --on guest`
    """
    targets.check(on, ssh_config)
    if on != targets.GUEST:
        refuse(context, OF_A_GUEST, f"is of a guest's own traffic; with --on {on} leave it out")
    tracing = Tracing.of(functions or [], layer or [], seconds, by, verbose=verbose)
    if exact and seconds is not None:
        raise UsageError("--seconds: with --exact a clock counts instructions; leave one out")
    sending = Traffic(Load.parse(load), packets, rate) if on == targets.GUEST else None
    chosen = names.parse(name).request(flavour)
    # What it says goes to standard error, and leaves the document alone.
    reporter = Reporter(quiet=as_json and not verbose)
    root = labroot.ensure(reporter)
    asked = Asked(
        on=on,
        ssh_config=ssh_config,
        tracing=tracing,
        sending=sending,
        chosen=chosen,
        again=again(context, "functions", *tracing.names),
        exact=exact,
    )
    with _shown(reporter, live=not as_json) as show:
        traced = asked.run(root, reporter, show)
    page = build_report(traced.folder.path, gnuplot(root))
    if as_json:
        echo(traced.document)
        return
    console = printer()
    console.print(of_functions(traced.document))
    for note in notes(traced.document):
        console.print(f"\n{escape(note)}")
    console.print(f"\nReport: {page}", soft_wrap=True)


@contextmanager
def _shown(reporter: Reporter, *, live: bool) -> Iterator[Callable[[FunctimesDocument], None]]:
    """Give what shows a document while it is counted: on a terminal."""
    console = reporter.console
    if not (live and console.is_terminal):
        yield lambda document: None
        return
    with Live(console=console, transient=True, auto_refresh=False) as shown:
        yield lambda document: shown.update(of_functions(document), refresh=True)
