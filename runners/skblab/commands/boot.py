# SPDX-License-Identifier: GPL-2.0-or-later
"""The `skblab boot` command: a shell, or one command, in a guest with our kernel."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from skblab.commands.options import KERNEL_DEFAULT, FlavourName, KernelName
from skblab.lab import kernel, labroot, paths, tools
from skblab.lab.guest.chosen import make_spec
from skblab.lab.kernel import names as kernels
from skblab.lab.kernel import source as sources
from skblab.lab.labroot import Bind, LabRoot
from skblab.lab.reporter import Reporter
from skblab.machine import byhand
from skblab.machine.byhand import ByHand
from skblab.machine.guest import Guest
from skblab.probe.scripts import systemtap
from skblab.selftests import tree
from skblab_analysis.base.errors import UsageError

# Where its help has what makes the guest.
GUEST = "Guest"


def boot(
    command: Annotated[
        list[str] | None,
        typer.Argument(help="What to run, after `--`. Default: a shell."),
    ] = None,
    flavour: FlavourName = "stock",
    name: KernelName = KERNEL_DEFAULT,
    cpus: Annotated[
        int | None, typer.Option(help="CPUs. Default: 2, with --exact 1.", rich_help_panel=GUEST)
    ] = None,
    memory: Annotated[int, typer.Option(help="Memory in MiB.", rich_help_panel=GUEST)] = 2048,
    exact: Annotated[
        bool,
        typer.Option(
            "--exact",
            help="Let the guest's clock count instructions (one or two CPUs, no KVM).",
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
    selftests: Annotated[
        bool | None,
        typer.Option(
            "--selftests/--no-selftests",
            help="Have the kernel's networking selftests at /skblab/src; a shell on the patched "
            "kernel has them. Compiled once, in a minute.",
            rich_help_panel=GUEST,
        ),
    ] = None,
    log: Annotated[
        Path | None, typer.Option(help="Keep the console log in this file.", rich_help_panel=GUEST)
    ] = None,
    tcg: Annotated[
        bool, typer.Option("--tcg", help="Do not use KVM even if it works.", rich_help_panel=GUEST)
    ] = False,
) -> None:
    """Boot a guest with a kernel, the patched one unless --kernel says another.

    `-- COMMAND` runs that command and ends with its exit status. Without it you get a shell.
    The guest's file system is the lab root. What you write there is lost when the guest ends;
    what you write to /skblab/out (`--share`) stays. A shell first says what is there. For a second
    shell in the same guest, run `skblab ssh` in another terminal.

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
    request = kernels.parse(name).request(flavour)
    root = labroot.ensure(reporter)
    built = kernel.ensure(request, root, reporter)
    shares = [Bind(built.path, "kernel"), Bind(paths.tree(), "tree")]
    shares.append(Bind(tools.programs(root, reporter), "tools"))
    asked = systemtap.cache(built)
    if asked.is_dir():
        shares.append(Bind(asked, "build"))
    out = None if share is None else share.resolve()
    if out is not None:
        shares.append(Bind(out, "out", writable=True))
    interactive = not command and sys.stdin.isatty()
    names: list[str] | None = None
    ours = request.patches and request.source is None
    if selftests or (selftests is None and interactive and ours):
        folder, names = _selftests(request, root, reporter)
        shares.append(Bind(folder, "src"))
    with Guest.boot(spec, built, root, shares=shares, log=log) as guest:
        guest.transport.script(byhand.PREPARE).check("preparing the guest")
        ByHand(spec, built.release, out, names).greet(guest.folder)
        words = command or byhand.shell(tty=interactive)
        status = guest.transport.attach(words, tty=interactive)
    # All of it, to the end of the guest.
    for warning in guest.console.findings:
        reporter.say(f"skblab: the guest's kernel warned: {warning.text}")
    raise typer.Exit(status)


def _selftests(
    request: kernel.Request, root: LabRoot, reporter: Reporter
) -> tuple[Path, list[str]]:
    """Return the folder of the selftests of a kernel's source, and the names of those we add."""
    origin = sources.asked_for(request, root, reporter)
    series = sources.series_for(origin) if request.patches else None
    folder = tree.ensure(origin, series, root, reporter)
    return folder.path, [] if series is None else tree.added(series)
