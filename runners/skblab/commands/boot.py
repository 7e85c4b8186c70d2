# SPDX-License-Identifier: GPL-2.0-or-later
"""The `skblab boot` command: a shell, or one command, in a guest with our kernel."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from skblab.commands.options import FlavourName, Patches
from skblab.lab import kernel, labroot, paths
from skblab.lab.guest.chosen import make_spec
from skblab.lab.labroot import Bind
from skblab.lab.reporter import Reporter
from skblab.machine.guest import Guest
from skblab_analysis.base.errors import UsageError


def boot(
    command: Annotated[
        list[str] | None,
        typer.Argument(help="What to run (after --); a shell if nothing is given."),
    ] = None,
    flavour: FlavourName = "stock",
    patches: Patches = True,
    source: Annotated[
        Path | None, typer.Option(help="Kernel tree of your own, instead of Debian's.")
    ] = None,
    cpus: Annotated[int | None, typer.Option(help="CPUs (default 2; 1 with --exact).")] = None,
    memory: Annotated[int, typer.Option(help="Memory in MiB.")] = 2048,
    exact: Annotated[
        bool, typer.Option("--exact", help="Guest clock counts instructions (one CPU, no KVM).")
    ] = False,
    numa: Annotated[int, typer.Option(help="NUMA nodes to split CPUs and memory into.")] = 1,
    append: Annotated[
        list[str] | None, typer.Option(help="A further kernel argument; may be repeated.")
    ] = None,
    share: Annotated[
        Path | None, typer.Option(help="A folder of yours to see in the guest as /skblab/out.")
    ] = None,
    log: Annotated[Path | None, typer.Option(help="Where to keep the console log.")] = None,
    tcg: Annotated[bool, typer.Option("--tcg", help="Do not use KVM even if it works.")] = False,
) -> None:
    """Boot a guest with the patched kernel: a shell, or `-- COMMAND` and its exit status.

    The guest's file system is the lab root. What it writes is gone when it ends;
    only /skblab/out (--share) stays.

    Exit status 125: the guest died, and its cause is said in one line.
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
