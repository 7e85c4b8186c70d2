# SPDX-License-Identifier: GPL-2.0-or-later
"""The `skblab kernel` commands."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from skblab.commands.documents import (
    BuiltKernel,
    BuiltKernels,
    CheckedPatch,
    CheckedPatches,
    ConfigDifferences,
    MadePackages,
)
from skblab.commands.options import (
    KERNEL_DEFAULT,
    AsJson,
    FlavourName,
    Jobs,
    KernelName,
    LineName,
    echo,
)
from skblab.lab import labroot
from skblab.lab.kernel import debian, lines, names, ownconfig, patchcheck, registry
from skblab.lab.kernel import package as packages
from skblab.lab.kernel.build import ensure
from skblab.lab.kernel.model import flavour as to_flavour
from skblab.lab.reporter import Reporter, printer
from skblab_analysis.base.errors import UsageError

kernel = typer.Typer(
    help="Build, package, check and list kernels.\n\nExample: `skblab kernel list`",
    no_args_is_help=True,
    rich_markup_mode="markdown",
)

# Options that Linux set otherwise than the user's file: this many are named on the terminal.
SHOWN = 5


@kernel.command()
def build(
    flavour: FlavourName = "stock",
    name: KernelName = KERNEL_DEFAULT,
    jobs: Jobs = None,
    as_json: AsJson = False,
) -> None:
    """Build a kernel, or find it in the cache, and print where it is.

    The source is Debian's, of Debian 13 or of its backports, your own tree, or a revision in a git
    repository (`--kernel`). skblab applies the series in patches/ if the name ends with `+skblab`,
    as the default does, and configures it by kconfig/. A finished kernel is only unpacked.

    Example: `skblab kernel build --flavour rt`
    """
    reporter = Reporter()
    request = names.parse(name).request(flavour, jobs=jobs)
    built = ensure(request, labroot.ensure(reporter), reporter)
    if as_json:
        echo(BuiltKernel.of(built))
    else:
        typer.echo(f"{built.release}  {built.path}")


@kernel.command()
def package(
    config: Annotated[
        Path | None,
        typer.Option(
            help="Your own configuration, such as /boot/config-$(uname -r). Default: ours."
        ),
    ] = None,
    flavour: FlavourName = "stock",
    name: KernelName = KERNEL_DEFAULT,
    output: Annotated[Path, typer.Option(help="Put the packages into this folder.")] = Path(
        "packages"
    ),
    debug_symbols: Annotated[
        bool, typer.Option("--debug-symbols", help="Make the large -dbg package, too.")
    ] = False,
    jobs: Jobs = None,
    as_json: AsJson = False,
) -> None:
    """Make Debian packages of the patched kernel for a real machine.

    skblab prints what it had to change in your configuration, and the packages:
    docs/howto/install-the-kernel.md.

    Example: `skblab kernel package --output /tmp/packages`
    """
    reporter = Reporter()
    request = packages.PackageRequest(
        kernel=names.parse(name).request(flavour, jobs=jobs),
        config=ownconfig.read(config) if config else None,
        debug_symbols=debug_symbols,
    )
    made = packages.ensure(request, labroot.ensure(reporter), reporter)
    files = made.export(output)
    if as_json:
        echo(MadePackages(output=str(output.resolve()), **made.record.model_dump()))
        return
    _tell(made.record, reporter)
    for file in files:
        typer.echo(file)


def _tell(record: packages.Record, reporter: Reporter) -> None:
    """Say what did not stay as in the user's configuration."""
    for change in (*record.cleared, *record.changed):
        reporter.say(str(change))
    if record.otherwise:
        some = ", ".join(
            f"{option.option} {option.before} -> {option.after}"
            for option in record.otherwise[:SHOWN]
        )
        more = len(record.otherwise) - SHOWN
        reporter.say(
            f"Linux {record.source_version} itself sets {len(record.otherwise)} other options "
            f"than {record.config}: {some}"
            + (f" and {more} more, all in {packages.RECORD}" if more > 0 else "")
        )


@kernel.command("list")
def list_kernels(as_json: AsJson = False) -> None:
    """List the kernels in the cache, the newest first.

    Example: `skblab kernel list --json`
    """
    found = registry.kernels()
    if as_json:
        echo(BuiltKernels(tuple(map(BuiltKernel.of, found))))
        return
    if not found:
        typer.echo("no kernel yet; `skblab kernel build` makes one")
        return
    table = Table(box=None, pad_edge=False)
    for title in ("release", "flavour", "patches", "made (UTC)", "took", "key"):
        table.add_column(title, no_wrap=True)
    table.add_column("source", overflow="fold")
    for built in found:
        record = built.record
        table.add_row(
            escape(record.release),
            record.flavour,
            f"{len(record.patches)} of {record.series}" if record.series else "none",
            record.made[:16].replace("T", " "),
            f"{record.seconds:.0f} s",
            built.key,
            escape(Path(record.source).name),
        )
    _print(table)


@kernel.command("config-diff")
def config_diff(
    flavour: FlavourName = "stock", line: LineName = lines.DEFAULT.name, as_json: AsJson = False
) -> None:
    """Compare our kernel configuration with Debian's, option by option.

    Exit status 1: an option that a packet's path may depend on differs and has no reason in
    kconfig/debian-differences.toml, or a reason there is stale.

    Example: `skblab kernel config-diff`
    """
    reporter, chosen, kind = Reporter(), lines.line(line), to_flavour(flavour)
    debian.require_compared(kind)
    root = labroot.ensure(reporter)
    comparison = debian.compare(kind, root, reporter, chosen)
    if as_json:
        echo(ConfigDifferences(**comparison.model_dump()))
    else:
        table = Table(box=None, pad_edge=False)
        for title in ("option", "Debian", "ours", "reason"):
            table.add_column(title, overflow="fold")
        for row in comparison.differences:
            reason = escape(row.reason) if row.reason else "[red]not explained[/]"
            table.add_row(row.option, escape(row.debian), escape(row.ours), reason)
        _print(table)
        typer.echo(comparison.summary())
    if not comparison.clean:
        raise typer.Exit(1)


@kernel.command("patches-check")
def patches_check(
    patch: Annotated[
        list[int] | None,
        typer.Option(help="Check only the patch of this number, from 1; may be repeated."),
    ] = None,
    first: Annotated[int, typer.Option("--from", help="Check from this patch to the last.")] = 1,
    quick: Annotated[
        bool, typer.Option("--quick", help="Build only the folders that a patch changes.")
    ] = False,
    text: Annotated[
        bool, typer.Option("--text", help="Build nothing: apply, checkpatch and kernel-doc only.")
    ] = False,
    part: Annotated[
        str | None,
        typer.Option(
            "--series",
            metavar="PART",
            help="Where a kernel has several series, such as patches/v7.3/napi: check only this "
            "one, on the unpatched kernel. Default: all, one after the other.",
        ),
    ] = None,
    name: KernelName = KERNEL_DEFAULT,
    jobs: Jobs = None,
    as_json: AsJson = False,
) -> None:
    """Check that each patch of the series is ready for review.

    Each patch applies without fuzz. `checkpatch --strict` reports nothing. The kernel builds
    with it, with our options on and off. W=1, sparse and kernel-doc report nothing new about
    the files that it changes. These files compile for UML, i386 and arm64, too. Exit status 1: a
    check failed.

    Example: `skblab kernel patches-check --text`
    """
    reporter, chosen = Reporter(), names.parse(name)
    if chosen.packaged is not None:
        raise UsageError(f"--kernel {name}: a package has no source that patches could apply to")
    if chosen.own is not None:
        raise UsageError(
            f"--kernel {name}: patches are checked with the configurations of kconfig/; leave "
            f"{names.CONFIG}FILE out"
        )
    request = patchcheck.CheckRequest(
        source=chosen.folder,
        revision=chosen.revision,
        line=chosen.line,
        part=part,
        only=tuple(patch or ()),
        first=first,
        depth="text" if text else "quick" if quick else "full",
        jobs=(os.cpu_count() or 1) if jobs is None else jobs,
    )
    results = patchcheck.check(request, labroot.ensure(reporter), reporter)
    if as_json:
        echo(CheckedPatches(tuple(CheckedPatch(**result.model_dump()) for result in results)))
    else:
        _show_checks(results)
    if not all(result.good for result in results):
        raise typer.Exit(1)


VERDICTS: dict[patchcheck.Verdict, str] = {
    "ok": "[green]ok[/]",
    "failed": "[red]FAILED[/]",
    "nothing to check": "-",
    "as off": "as off",
    "not reached": "[red]?[/]",
}


def _show_checks(results: list[patchcheck.PatchResult]) -> None:
    table = Table(box=None, pad_edge=False)
    shown = [
        name for name in patchcheck.CHECKS if any(name in result.outcomes for result in results)
    ]
    for title in ("patch", *shown, "took"):
        table.add_column(title, no_wrap=title in ("patch", "took"))
    for result in results:
        verdicts = [
            VERDICTS[result.outcomes[check].verdict] if check in result.outcomes else ""
            for check in shown
        ]
        table.add_row(escape(result.patch[:40]), *verdicts, f"{result.seconds:.0f} s")
    _print(table)
    for result in results:
        for name, outcome in result.outcomes.items():
            if outcome.verdict == "failed":
                log = f"; whole output: {outcome.log}" if outcome.log else ""
                typer.echo(f"{result.patch}: {name} found {len(outcome.found)}{log}")
            for text in outcome.found:
                typer.echo(f"  {text}")
            for text in outcome.notes:
                typer.echo(f"  note, {name} of {result.patch}: {text}")
    bad = sum(not result.good for result in results)
    typer.echo(f"{len(results)} patches checked, {bad} not fit")


def _print(table: Table) -> None:
    console = printer()
    console.print(table)
