# SPDX-License-Identifier: GPL-2.0-or-later
"""The `skblab kselftest` command: the selftests of our series, or the kernel's own compared."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from skblab.commands.documents import (
    BothSides,
    Case,
    ComparedSelftests,
    Differing,
    Selftest,
    Selftests,
)
from skblab.commands.options import AsJson, FlavourName, LineName, echo
from skblab.lab import kernel, labroot, paths
from skblab.lab.kernel import lines
from skblab.lab.kernel import source as sources
from skblab.lab.kernel.series import Series
from skblab.lab.kernel.source import Source
from skblab.lab.reporter import Reporter, printer
from skblab.selftests import compare, tree
from skblab.selftests.guestrun import Outcome, booter, run_all
from skblab.selftests.ktap import Result
from skblab_analysis.base.errors import EXIT_NO, UsageError

# Far above what any test needs under emulation: for what hangs.
LIMITS: dict[str, float] = {
    "stock": 600,
    "rt": 900,
    "debug": 3600,
    "kcsan": 3600,
    "kmsan": 3600,
}
GUEST_NET = f"/skblab/src/{tree.NET}"


def kselftest(
    tests: Annotated[
        list[str] | None,
        typer.Argument(help="Run only these tests, named as `--list` prints them."),
    ] = None,
    flavour: FlavourName = "stock",
    line: LineName = lines.DEFAULT.name,
    own: Annotated[
        bool,
        typer.Option(
            "--compare",
            help="Run the kernel's own networking selftests, unpatched and patched, and compare.",
        ),
    ] = False,
    listed: Annotated[
        bool, typer.Option("--list", help="Print the names of the tests, and run none.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Run the selftests of the kernel series in a guest with the patched kernel.

    A test fails if a case fails, if it does not keep its plan, if the kernel warns, if it
    leaves something behind, if it takes too long, or if its guest dies. Exit status 1: a test
    failed.

    Example: `skblab kselftest --list`
    """
    if listed and as_json:
        raise UsageError("--json with --list: the list has no figures; leave one out")
    reporter = Reporter()
    chosen, of = kernel.flavour(flavour), lines.line(line)
    of.require_patches("this command tests")
    if listed:
        names = (
            compare.tests()
            if own
            else tree.added(_series(sources.find(None, labroot.ensure(reporter), of, reporter)))
        )
        typer.echo("\n".join(_pick(tests, names)))
        return
    if own:
        both = compare.run(_pick(tests, compare.tests()), chosen, of, reporter)
        if as_json:
            echo(compared(both))
        else:
            compare.show(both)
        raise typer.Exit(EXIT_NO if both.found else 0)
    root = labroot.ensure(reporter)
    origin = sources.find(None, root, of, reporter)
    series = _series(origin)
    names = _pick(tests, tree.added(series))
    built = kernel.ensure(kernel.Request(flavour=chosen, line=of), root, reporter)
    folder = tree.ensure(origin, series, root, reporter)
    logs = paths.cache() / "logs" / f"kselftest-{built.release}"
    outcomes: list[Outcome] = []
    with reporter.step("selftests in guests"):
        for outcome in run_all(
            names, booter(built, root, folder), logs, GUEST_NET, lambda _: LIMITS[chosen]
        ):
            reporter.say(f"{outcome.verdict:4}  {outcome.test}  {outcome.seconds:.0f} s")
            outcomes.append(outcome)
    if as_json:
        echo(document(built, outcomes))
    else:
        show(outcomes, built.release)
    if any(outcome.verdict == "fail" for outcome in outcomes):
        raise typer.Exit(1)


def _series(origin: Source) -> Series:
    return sources.series_for(origin)


def _pick(wanted: Sequence[str] | None, names: Sequence[str]) -> list[str]:
    """Return the wanted names, or all; UsageError for an unknown one."""
    if not names:
        raise UsageError(
            "the series adds no selftest: expected TEST_PROGS in a patch of net/Makefile"
        )
    for name in wanted or ():
        if name not in names:
            raise UsageError(f"unknown selftest {name!r}; known are: {', '.join(names)}")
    return list(wanted or names)


def show(outcomes: Sequence[Outcome], release: str) -> None:
    """Print a table, then what failed and what was skipped, each with its reason."""
    table = Table(box=None, pad_edge=False)
    for title in ("test", "result", "passed", "failed", "skipped", "expected", "seconds"):
        table.add_column(title, no_wrap=True, justify="left" if title[0] in "tr" else "right")
    colours = {"pass": "green", "fail": "red", "skip": "yellow"}
    for outcome in outcomes:
        counts = [
            str(outcome.count(result))
            for result in (Result.PASS, Result.FAIL, Result.SKIP, Result.XFAIL)
        ]
        verdict = f"[{colours[outcome.verdict]}]{outcome.verdict}[/]"
        table.add_row(escape(outcome.test), verdict, *counts, f"{outcome.seconds:.0f}")
    console = printer()
    console.print(f"selftests of the series on {release}")
    console.print(table)
    for outcome in outcomes:
        if outcome.verdict == "fail":
            console.print(f"[red]{escape(outcome.test)}[/]: {escape(outcome.why)}", soft_wrap=True)
            for case in outcome.cases:
                if case.result is Result.FAIL:
                    said = f": {escape(case.comment)}" if case.comment else ""
                    console.print(f"  not ok  {escape(case.name)}{said}", soft_wrap=True)
            console.print(f"  log: {outcome.log}", soft_wrap=True)
        elif outcome.verdict == "skip":
            console.print(f"{escape(outcome.test)} skipped: {escape(outcome.why)}", soft_wrap=True)
        for case in outcome.cases:
            if case.result is Result.SKIP and outcome.verdict != "skip":
                console.print(f"  skipped {escape(case.name)}: {escape(case.comment)}")
    passed, failed, skipped = (
        sum(outcome.count(result) for outcome in outcomes)
        for result in (Result.PASS, Result.FAIL, Result.SKIP)
    )
    console.print(f"{passed} cases passed, {failed} failed, {skipped} skipped")


def document(built: kernel.Kernel, outcomes: Sequence[Outcome]) -> Selftests:
    """Return a run as JSON has it."""
    return Selftests(
        kernel=built.release,
        flavour=built.record.flavour,
        passed=not any(outcome.verdict == "fail" for outcome in outcomes),
        tests=tuple(
            Selftest(
                test=outcome.test,
                verdict=outcome.verdict,
                why=outcome.why,
                seconds=round(outcome.seconds, 1),
                log=str(outcome.log),
                cases=tuple(
                    Case(name=case.name, result=case.result.value, comment=case.comment)
                    for case in outcome.cases
                ),
            )
            for outcome in outcomes
        ),
    )


def compared(both: compare.Compared) -> ComparedSelftests:
    """Return the comparison of two kernels as JSON has it."""
    return ComparedSelftests(
        same=not both.found,
        differences=tuple(Differing(**vars(difference)) for difference in both.found),
        unsteady=tuple(both.unsteady),
        tests={
            name: BothSides(unpatched=dict(unpatched), patched=dict(patched))
            for name, (unpatched, patched) in ((name, both.pairs[name][-1]) for name in both.names)
        },
    )
