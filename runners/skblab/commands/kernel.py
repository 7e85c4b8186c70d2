# SPDX-License-Identifier: GPL-2.0-or-later
"""The `skblab kernel` commands."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from skblab.commands.options import FlavourName, Patches
from skblab.lab import labroot
from skblab.lab.kernel import debian, ownconfig, patchcheck, registry
from skblab.lab.kernel import package as packages
from skblab.lab.kernel.build import ensure
from skblab.lab.kernel.model import Kernel, Request
from skblab.lab.kernel.model import flavour as to_flavour
from skblab.lab.reporter import Reporter, printer

kernel = typer.Typer(
    help="Build kernels from source, our series and kconfig/; package, check and list them.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
)

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for scripts.")]
# Options that Linux set otherwise than the user's file: this many are named on the terminal.
SHOWN = 5


@kernel.command()
def build(
    flavour: FlavourName = "stock",
    source: Annotated[
        Path | None, typer.Option(help="Kernel tree of your own, instead of Debian's.")
    ] = None,
    patches: Patches = True,
    jobs: Annotated[int | None, typer.Option(help="Compilers at once (default: CPUs).")] = None,
    as_json: AsJson = False,
) -> None:
    """Build a kernel, or find it in the cache, and print where it is."""
    reporter = Reporter()
    request = Request(
        flavour=to_flavour(flavour),
        source=source,
        patches=patches,
        jobs=(os.cpu_count() or 1) if jobs is None else jobs,
    )
    built = ensure(request, labroot.ensure(reporter), reporter)
    if as_json:
        typer.echo(json.dumps(_document(built), indent=1))
    else:
        typer.echo(f"{built.release}  {built.path}")


@kernel.command()
def package(
    config: Annotated[
        Path | None,
        typer.Option(help="Your own configuration, e.g. /boot/config-$(uname -r); default: ours."),
    ] = None,
    flavour: FlavourName = "stock",
    source: Annotated[
        Path | None, typer.Option(help="Kernel tree of your own, instead of Debian's.")
    ] = None,
    patches: Patches = True,
    output: Annotated[Path, typer.Option(help="Where the packages are put.")] = Path("packages"),
    debug_symbols: Annotated[
        bool, typer.Option("--debug-symbols", help="Make the large -dbg package, too.")
    ] = False,
    jobs: Annotated[int | None, typer.Option(help="Compilers at once (default: CPUs).")] = None,
    as_json: AsJson = False,
) -> None:
    """Make Debian packages of the patched kernel: docs/howto/install-the-kernel.md."""
    reporter = Reporter()
    request = packages.PackageRequest(
        kernel=Request(
            flavour=to_flavour(flavour),
            source=source,
            patches=patches,
            jobs=(os.cpu_count() or 1) if jobs is None else jobs,
        ),
        config=ownconfig.read(config) if config else None,
        debug_symbols=debug_symbols,
    )
    made = packages.ensure(request, labroot.ensure(reporter), reporter)
    files = made.export(output)
    if as_json:
        document = {"output": str(output.resolve()), **made.record.model_dump(mode="json")}
        typer.echo(json.dumps(document, indent=1))
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
    """List the kernels in the cache, the newest first."""
    found = registry.kernels()
    if as_json:
        typer.echo(json.dumps([_document(built) for built in found], indent=1))
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
def config_diff(flavour: FlavourName = "stock", as_json: AsJson = False) -> None:
    """Compare our configuration with Debian's, option by option, with each reason.

    Exit status 1 if an option that a packet's path may depend on differs without a reason in
    kconfig/debian-differences.toml, or a reason there has become stale.
    """
    reporter = Reporter()
    root = labroot.ensure(reporter)
    comparison = debian.compare(to_flavour(flavour), root, reporter)
    if as_json:
        typer.echo(comparison.model_dump_json(indent=1))
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
        list[int] | None, typer.Option(help="Only this patch (number from 1); may be repeated.")
    ] = None,
    first: Annotated[int, typer.Option("--from", help="From this patch to the last.")] = 1,
    quick: Annotated[
        bool, typer.Option("--quick", help="Build the touched folders only, not the kernel.")
    ] = False,
    text: Annotated[
        bool, typer.Option("--text", help="Build nothing: apply, checkpatch, kernel-doc.")
    ] = False,
    source: Annotated[
        Path | None, typer.Option(help="Kernel tree of your own, instead of Debian's.")
    ] = None,
    jobs: Annotated[int | None, typer.Option(help="Compilers at once (default: CPUs).")] = None,
    as_json: AsJson = False,
) -> None:
    """Check that each patch of the series is fit for review by itself.

    It applies without fuzz; checkpatch --strict has no error and no warning; the kernel builds
    with it, with our options on and off; W=1, sparse and kernel-doc say nothing of the touched
    files that they do not say of the unpatched ones. Exit status 1 if one is not so.
    """
    reporter = Reporter()
    request = patchcheck.CheckRequest(
        source=source,
        only=tuple(patch or ()),
        first=first,
        depth="text" if text else "quick" if quick else "full",
        jobs=(os.cpu_count() or 1) if jobs is None else jobs,
    )
    results = patchcheck.check(request, labroot.ensure(reporter), reporter)
    if as_json:
        typer.echo(json.dumps([result.model_dump(mode="json") for result in results], indent=1))
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


def _document(built: Kernel) -> dict[str, Any]:
    return {
        "path": str(built.path),
        "image": str(built.image),
        "vmlinux": str(built.vmlinux),
        "build_dir": str(built.build_dir),
        **built.record.model_dump(mode="json"),
    }
