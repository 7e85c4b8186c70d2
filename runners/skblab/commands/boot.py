# SPDX-License-Identifier: GPL-2.0-or-later
"""The `skblab boot` command: a shell, or one command, in a guest with our kernel."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from skblab.commands.options import FlavourName, Patches, Source
from skblab.lab import kernel, labroot, paths
from skblab.lab.guest.chosen import make_spec
from skblab.lab.labroot import Bind
from skblab.lab.reporter import Reporter
from skblab.machine.guest import Guest
from skblab_analysis.base.errors import UsageError

# Where its help has what makes the guest.
GUEST = "Guest"


def boot(
    command: Annotated[
        list[str] | None,
        typer.Argument(help="What to run, after `--`. Default: a shell."),
    ] = None,
    flavour: FlavourName = "stock",
    patches: Patches = True,
    source: Source = None,
    cpus: Annotated[
        int | None, typer.Option(help="CPUs. Default: 2, with --exact 1.", rich_help_panel=GUEST)
    ] = None,
    memory: Annotated[int, typer.Option(help="Memory in MiB.", rich_help_panel=GUEST)] = 2048,
    exact: Annotated[
        bool,
        typer.Option(
            "--exact",
            help="Let the guest's clock count instructions (one CPU, no KVM).",
            rich_help_panel=GUEST,
        ),
    ] = False,
    numa: Annotated[
        int,
        typer.Option(help="Split CPUs and memory into so many NUMA nodes.", rich_help_panel=GUEST),
    ] = 1,
    append: Annotated[
        list[str] | None,
        typer.Option(
            help="Add an argument to the kernel's command line; may be repeated.",
            rich_help_panel=GUEST,
        ),
    ] = None,
    share: Annotated[
        Path | None,
        typer.Option(
            help="Show this folder in the guest as /skblab/out, writable.", rich_help_panel=GUEST
        ),
    ] = None,
    log: Annotated[
        Path | None, typer.Option(help="Keep the console log in this file.", rich_help_panel=GUEST)
    ] = None,
    tcg: Annotated[
        bool, typer.Option("--tcg", help="Do not use KVM even if it works.", rich_help_panel=GUEST)
    ] = False,
) -> None:
    """Boot a guest with the patched kernel, for a shell or for one command.

    `-- COMMAND` runs that command and ends with its exit status. Without it you get a shell.
    The guest's file system is the lab root. What you write there is lost when the guest ends;
    what you write to /skblab/out (`--share`) stays.

    Exit status 125: the guest died. One line says why.

    Example: `skblab boot -- uname -r`
    """
    reporter = Reporter()
    spec = make_spec(
        cpus=cpus,
        memory=memory,
        exact=exact,
        numa=numa,
        tcg=tcg,
        arguments=append or [],
        flavour=flavour,
    )
    if share is not None and not share.is_dir():
        raise UsageError(f"--share {share}: no such folder; make it first")
    request = kernel.Request(flavour=kernel.flavour(flavour), patches=patches, source=source)
    root = labroot.ensure(reporter)
    built = kernel.ensure(request, root, reporter)
    shares = [Bind(paths.tree(), "tree")]
    if share is not None:
        shares.append(Bind(share.resolve(), "out", writable=True))
    interactive = not command and sys.stdin.isatty()
    with Guest.boot(spec, built, root, shares=shares, log=log) as guest:
        status = guest.transport.attach(command or [], tty=interactive)
    # All of it, to the end of the guest.
    for warning in guest.console.findings:
        reporter.say(f"skblab: the guest's kernel warned: {warning.text}")
    raise typer.Exit(status)
