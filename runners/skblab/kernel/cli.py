# SPDX-License-Identifier: GPL-2.0-or-later
"""The `skblab kernel` commands."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from skblab import labroot
from skblab.kernel import debian, registry
from skblab.kernel.build import ensure
from skblab.kernel.model import FLAVOURS, Kernel, Request
from skblab.kernel.model import flavour as to_flavour
from skblab.reporter import Reporter

kernel = typer.Typer(
    help="Build kernels from source, our series and kconfig/; list those in the cache.",
    no_args_is_help=True,
)

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for scripts.")]
FlavourName = Annotated[str, typer.Option(help=f"Kernel flavour: {', '.join(FLAVOURS)}.")]


@kernel.command()
def build(
    flavour: FlavourName = "stock",
    source: Annotated[
        Path | None, typer.Option(help="Kernel tree of your own, instead of Debian's.")
    ] = None,
    patches: Annotated[
        bool, typer.Option("--patches/--no-patches", help="With or without our kernel series.")
    ] = True,
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


@kernel.command("list")
def list_kernels(as_json: AsJson = False) -> None:
    """List the kernels in the cache, the newest first."""
    found = registry.kernels()
    if as_json:
        typer.echo(json.dumps([_document(one) for one in found], indent=1))
        return
    if not found:
        typer.echo("no kernel yet; `skblab kernel build` makes one")
        return
    table = Table(box=None, pad_edge=False)
    for title in ("release", "flavour", "patches", "made (UTC)", "took", "key"):
        table.add_column(title, no_wrap=True)
    table.add_column("source", overflow="fold")
    for one in found:
        record = one.record
        table.add_row(
            escape(record.release),
            record.flavour,
            f"{len(record.patches)} of {record.series}" if record.series else "none",
            record.made[:16].replace("T", " "),
            f"{record.seconds:.0f} s",
            one.key,
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


def _print(table: Table) -> None:
    console = Console(highlight=False)
    if not console.is_terminal:
        # A file or a pipe has no width of its own; folded words would be hard to search.
        console.width = 200
    console.print(table)


def _document(built: Kernel) -> dict[str, Any]:
    return {
        "path": str(built.path),
        "image": str(built.image),
        "vmlinux": str(built.vmlinux),
        "build_dir": str(built.build_dir),
        **built.record.model_dump(mode="json"),
    }
