# SPDX-License-Identifier: GPL-2.0-or-later
"""`skblab profile`: where a packet's instructions go in a kernel, and how another differs."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.markup import escape

from skblab.bench import asked, given
from skblab.bench.comparison import Comparison
from skblab.bench.functions import named
from skblab.commands.bench_functions import (
    PACKETS,
    CaseName,
    FamilyNumber,
    Inclusive,
    Packets,
)
from skblab.commands.documents import FunctionsOfSettings
from skblab.commands.options import KERNEL_DEFAULT, AsJson, FlavourName, KernelName, echo
from skblab.lab.drawing import gnuplot
from skblab.lab.kernel import names
from skblab.lab.reporter import Reporter, printer
from skblab.sweep.byfunction import settings_of
from skblab.sweep.measure.exact import uncountable
from skblab_analysis.base.errors import UsageError
from skblab_analysis.functions.view import (
    of_functions,
    of_kernels,
    of_layers,
    of_memory,
    of_settings,
    without_settings,
)
from skblab_analysis.report.page import build_report

# What is shown by itself: so many instructions per packet of one kernel, or between two.
LEAST_ALONE, LEAST_BETWEEN = 20.0, 1.0


def profile(
    name: KernelName = KERNEL_DEFAULT,
    against: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="The kernel to compare with, named in the same way. A difference above zero: "
            "--kernel takes more.",
        ),
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KNOB=VALUE",
            help="Set a knob of the router, or with --case receive of the receiver, such as "
            "rp_filter=1; may be repeated. Without --against: what the setting costs on one "
            "kernel. With --against: what the two kernels differ by, both with the setting. "
            "docs/reference/knobs.md lists knobs.",
        ),
    ] = None,
    experiment: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Count every setting of an experiment, each against its baseline: a file, or the "
            "name of one that comes with skblab, such as router-settings.",
        ),
    ] = None,
    flavour: FlavourName = "stock",
    case: CaseName = "forward",
    family: FamilyNumber = 4,
    packets: Packets = PACKETS,
    repeats: Annotated[
        int,
        typer.Option(
            min=1,
            max=100,
            help="Count each kernel N times, and use the run with the fewest instructions.",
        ),
    ] = 1,
    least: Annotated[
        float | None,
        typer.Option(
            min=0,
            help="Show functions that take, or differ by, so many instructions per packet or more. "
            f"Default: {LEAST_ALONE:.0f}; {LEAST_BETWEEN:.0f} if you give --against or --set.",
            show_default=False,
        ),
    ] = None,
    inclusive: Inclusive = False,
    caches: Annotated[
        str | None,
        typer.Option(
            metavar="PROCESSOR",
            help="Simulate the caches of a processor, too, and count misses per packet by "
            "function: one of probes/functions/caches.toml, such as xeon-8380, or FILE:NAME of a "
            "file of yours.",
        ),
    ] = None,
    destinations: Annotated[
        str,
        typer.Option(
            metavar="fixed|random",
            help="Send all packets to one address, or each to a random one, as large tables of "
            "routes need it.",
        ),
    ] = "fixed",
    numa: Annotated[
        bool,
        typer.Option(
            "--numa",
            help="Give the guest two NUMA nodes, and compare packets in the memory "
            "of the CPU's own node with those in the other one's; with --case receive, reading on "
            "the same node with reading on the other one. With --set or --against, all packets "
            "come from the other node. It needs --caches.",
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Count a packet's instructions in each kernel function, of a kernel, a setting or a change.

    A plugin of the emulator counts every instruction of the kernel. What forwarding takes is
    counted without the generator and the receiver of the packets. skblab compares the sum over all
    functions with the guest's clock. If they differ by more than 0.1 %, it prints no figure, and
    the exit status is 1. A second table has the same by layer of the path, with no probe in it. It
    writes `results/profile-<time>/`, with stacks for flame graphs.

    With --caches it simulates the caches of a processor, too, and counts misses; those of
    generator and receiver are among them.

    With --set it counts what a setting of the router adds: `--set rp_filter=1`; with --case receive
    what one of the receiver adds. With --experiment it does so for each setting of an experiment.

    Example: `skblab profile --kernel 7.3 --against 6.12`
    """
    reporter = Reporter()
    left_out: tuple[str, ...] = ()
    chosen = None if caches is None else named(caches)
    if experiment is None:
        other = None if against is None else names.parse(against, "--against")
        knobs = given.parse(set_ or [], "--set")
        if why := next(uncountable(knobs), None):
            raise UsageError(f"--set: {why}")
        wanted = asked.profile(
            *(names.parse(name), other, case, family, packets, repeats, flavour, knobs)
        )
    else:
        refused = {"--set": set_, "--against": against, "--case": case != "forward"}
        for option in (option for option, value in refused.items() if value):
            raise UsageError(
                f"{option}: --experiment says what is compared, which is forwarding with the "
                "settings of its file; leave one of the two out"
            )
        shown_of_one = {"--least": least is not None, "--inclusive": inclusive}
        for option in (option for option, value in shown_of_one.items() if value):
            raise UsageError(
                f"{option}: --experiment prints a line for each setting; its report, and --json, "
                "have the functions; leave one of the two out"
            )
        settings, left_out = settings_of(experiment, family)
        wanted = asked.experiment(names.parse(name), settings, family, packets, repeats, flavour)
    wanted = asked.beside(wanted, chosen, destinations, numa=numa)
    counted = Comparison(wanted, {}, reporter, left_out)
    folder, documents = counted.recorded()
    page = build_report(folder.path, gnuplot(counted.root))
    document = documents[0]
    if as_json:
        echo(document if experiment is None else FunctionsOfSettings(settings=documents))
        counted.end()
        return
    console = printer()
    if experiment is None:
        shown = LEAST_ALONE if document.a is None else LEAST_BETWEEN
        console.print(of_kernels(document))
        console.print()
        console.print(
            of_functions(document, shown if least is None else least, inclusive=inclusive)
        )
        if document.layers:
            console.print()
            console.print(of_layers(document))
    else:
        console.print(of_kernels(without_settings(document)))
        console.print()
        console.print(of_settings(documents))
    for table in of_memory(documents):
        console.print()
        console.print(table)
    for note in document.notes:
        console.print(f"\n{escape(note)}")
    console.print(f"\nReport: {page}", soft_wrap=True)
    counted.end()
