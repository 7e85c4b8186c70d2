# SPDX-License-Identifier: GPL-2.0-or-later
"""`skblab compare`: what differs between kernels or settings, workload by workload."""

from __future__ import annotations

import contextlib
import math
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from skblab.bench import given
from skblab.bench.functions import named as named_caches
from skblab.commands.many import (
    MINUTES,
    ElementMinutes,
    Jobs,
    OnStoreOption,
    Sbatch,
    StoreOption,
    elsewhere,
)
from skblab.commands.many import words as typed
from skblab.commands.options import KERNEL, AsJson, FlavourName, complete_kernel, echo
from skblab.compare import git_bisect, sides, workload
from skblab.compare.asked import PACKETS, Asked, fitting, require_thousands
from skblab.compare.running import Comparing, NoKernelError
from skblab.lab.drawing import gnuplot
from skblab.lab.kernel.lines import DEFAULT
from skblab.lab.reporter import Reporter, printer
from skblab_analysis.base.errors import EXIT_NO_VERDICT, SkblabError, UsageError, os_trouble
from skblab_analysis.base.words import rough_time
from skblab_analysis.formats import compare as records
from skblab_analysis.formats.compare import (
    BUDGET_INSTRUCTIONS,
    BUDGET_SHARE,
    Budget,
    CompareDocument,
)
from skblab_analysis.report.page import build_report
from skblab_analysis.verdicts import view

# A kernel as it comes; a setting needs none of our patches.
UNPATCHED = DEFAULT.name
MOST_SIDES = 10
# Of a store many come at no cost, and a cluster is there for them.
MOST_STORED_SIDES = 200


@contextlib.contextmanager
def no_verdict(status: int = EXIT_NO_VERDICT, *, usage: bool = False) -> Iterator[None]:
    """Have what goes wrong end with the status of no verdict: 1 says that B is worse.

    `usage`: bad usage, too.
    """
    try:
        yield
    except typer.Exit:
        raise
    except SkblabError as error:
        if usage or not isinstance(error, UsageError):
            error.exit_code = status
        raise
    except OSError as error:
        failed = SkblabError(os_trouble(error))
        failed.exit_code = status
        raise failed from error
    except Exception as error:
        traceback.print_exc()
        raise typer.Exit(status) from error


def compare(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="A B…",
            help="What to compare, A first: kernels, named as in --kernel elsewhere (such as 6.12, "
            "debian:6.1, git:DIR@REVISION, tree:DIR); settings such as rp_filter=1; or folders of "
            "stored runs of this command. One alone is measured and stored.",
            autocompletion=complete_kernel,
            show_default=False,
        ),
    ] = None,
    workloads: Annotated[
        list[str] | None,
        typer.Option(
            "--workload",
            metavar="NAME",
            help="Measure this workload only, a name that --list prints or a file of your own; may "
            "be repeated.",
        ),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Measure only the workloads that --list marks quick.")
    ] = False,
    list_: Annotated[
        bool, typer.Option("--list", help="List the workloads, and measure nothing.")
    ] = False,
    kernel: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="Compare settings on this kernel.",
            autocompletion=complete_kernel,
            rich_help_panel=KERNEL,
        ),
    ] = UNPATCHED,
    flavour: FlavourName = "stock",
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KNOB=VALUE",
            help="Set a knob on every side; may be repeated. docs/reference/knobs.md lists knobs.",
        ),
    ] = None,
    budget: Annotated[
        float,
        typer.Option(
            metavar="PERCENT",
            min=0,
            help="Allow a workload to cost so much more than on A. Beyond this and "
            "--budget-instructions the exit status is 1.",
        ),
    ] = BUDGET_SHARE * 100,
    budget_instructions: Annotated[
        float,
        typer.Option(metavar="N", min=0, help="Allow so many more instructions per packet."),
    ] = BUDGET_INSTRUCTIONS,
    packets: Annotated[
        int,
        typer.Option(
            min=1000,
            max=1_000_000,
            help="Send so many packets, whole thousands, in each long load; a boot has three.",
        ),
    ] = PACKETS,
    caches: Annotated[
        str | None,
        typer.Option(
            metavar="PROCESSOR",
            help="Simulate the caches of a processor, too, and count misses, which do not change "
            "the verdict. One of probes/functions/caches.toml, or FILE:NAME.",
        ),
    ] = None,
    bisects: Annotated[
        bool,
        typer.Option(
            git_bisect.OPTION,
            help="Exit as git bisect run expects: 0 good; 1 bad; 125 if B's kernel does not build, "
            "boot or support a workload; 255 if skblab cannot tell.",
        ),
    ] = False,
    store: StoreOption = None,
    on: OnStoreOption = None,
    sbatch: Sbatch = None,
    jobs: Jobs = None,
    minutes: ElementMinutes = MINUTES,
    as_json: AsJson = False,
    as_markdown: Annotated[
        bool, typer.Option("--markdown", help="Print tables and sentences in Markdown.")
    ] = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print a line for each verdict.")] = False,
) -> None:
    """Compare kernels or settings, workload by workload: does B cost more than A?

    Each workload runs on A, then on B, then on A again, each time in another boot of a guest whose
    instructions are counted. If A and A again differ by more than the threshold, the
    verdict is "unstable". The exit status is 1 if a workload costs more than the budget on B, or
    if B's kernel fails at it; 3 if there is no verdict on some workload; else 0. It writes
    `results/compare-<time>/`, which a later comparison can name in place of A.

    Example: `skblab compare 6.12 7.3 --quick`
    """
    with no_verdict(git_bisect.ABORT, usage=True) if bisects else no_verdict():
        if list_:
            for one in workload.shipped():
                typer.echo(f"{one.name:22} {'quick ' if one.quick else '      '} {one.title}")
            return
        if not names:
            raise UsageError("compare: nothing to compare; name two kernels, such as 6.12 7.3")
        most = MOST_SIDES if store is None else MOST_STORED_SIDES
        if len(names) > most:
            raise UsageError(f"compare: {len(names)} sides; expected at most {most}")
        place = elsewhere(store, on, sbatch, jobs, minutes)
        printed = [
            name
            for name, of in (("--json", as_json), ("--markdown", as_markdown), ("--csv", as_csv))
            if of
        ]
        if len(printed) > 1:
            raise UsageError(f"{' and '.join(printed)}: name one form only")
        if quick and workloads:
            raise UsageError("--quick and --workload: name one of them; both say what is measured")
        require_thousands(packets)
        common = given.parse(set_ or [], "--set")
        named = sides.parse_all(names, kernel, common, flavour)
        chosen = fitting(named, workload.choose(workloads or [], quick=quick), bool(workloads))
        for option, value in (
            ("--budget", budget),
            ("--budget-instructions", budget_instructions),
        ):
            if not math.isfinite(value):
                raise UsageError(f"{option} {value}: expected a number")
        if bisects and (len(named) != 2 or named[git_bisect.COMMIT].stored is not None):
            raise UsageError(
                f"{git_bisect.OPTION}: expected two sides, a good one and a kernel that is "
                "measured, such as git:.@HEAD"
            )
        options = [word for one in workloads or [] for word in ("--workload", one)]
        options += ["--quick"] if quick else []
        options += [word for one in set_ or [] for word in ("--set", one)]
        options += ["--caches", caches] if caches is not None else []
        for option, text, default in (
            ("--kernel", kernel, UNPATCHED),
            ("--flavour", flavour, "stock"),
            ("--budget", f"{budget:g}", f"{BUDGET_SHARE * 100:g}"),
            ("--budget-instructions", f"{budget_instructions:g}", f"{BUDGET_INSTRUCTIONS:g}"),
            ("--packets", str(packets), str(PACKETS)),
        ):
            options += [option, text] if text != default else []
        options += typed(place, on, sbatch, jobs, minutes)
        wanted = Asked(
            named,
            chosen,
            packets,
            Budget(share=budget / 100, instructions=budget_instructions),
            flavour,
            common,
            caches=None if caches is None else named_caches(caches),
            options=tuple(options),
        )
        reporter = Reporter()
        reporter.say(
            f"{len(chosen)} workloads, {len(wanted.measured)} boots of each: about "
            f"{rough_time(wanted.seconds)} once the kernels are there"
        )
        compared = Comparing(wanted, reporter, place)
        try:
            folder, document = compared.recorded()
        except NoKernelError as error:
            if bisects and error.side == git_bisect.COMMIT:
                reporter.say(f"the commit does not build: {error}")
                raise typer.Exit(git_bisect.SKIP) from error
            raise
        page = build_report(folder.path, gnuplot(compared.root))
        if as_json:
            echo(document)
        elif as_markdown:
            typer.echo(view.markdown(document), nl=False)
        elif as_csv:
            typer.echo(view.as_csv(document), nl=False)
        else:
            _show(document, page)
        status = records.status(document, compared.differed)
        if bisects:
            status = git_bisect.status(document, compared.boots(git_bisect.COMMIT))
        if status:
            raise typer.Exit(status)


def _show(document: CompareDocument, page: Path) -> None:
    """Print tables, notes and sentences, for people."""
    console = printer()
    for table in view.tables(document):
        console.print(table)
        console.print()
    for note in document.notes:
        console.print(f"{escape(note)}\n")
    for side, differ in document.configurations.items():
        if differ:
            name = escape(document.sides[int(side)].name)
            console.print(
                f"The configurations of A and {name} differ in {len(differ)} options: see the "
                "report.\n"
            )
    for sentence in view.sentences(document):
        console.print(escape(sentence), soft_wrap=True)
    console.print(f"\nReport: {page}", soft_wrap=True)
