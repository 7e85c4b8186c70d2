# SPDX-License-Identifier: GPL-2.0-or-later
"""The `skblab doctor` command: a table for people, `--json` for scripts."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from skblab.commands.documents import Doctor
from skblab.commands.options import AsJson, echo
from skblab.doctor import checks, hosts
from skblab.lab import kvm
from skblab.lab.reporter import Reporter
from skblab_analysis.base.errors import EXIT_NO
from skblab_analysis.base.words import joined

_MARK = {
    "good": "[green]good[/]",
    "limited": "[yellow]limited[/]",
    "missing": "[red]missing[/]",
}
# What a line below a check is: `limited` stops nothing.
_WHAT_TO_DO = {"missing": "to mend", "limited": "to improve"}


def doctor(
    as_json: AsJson = False,
    again: Annotated[
        bool, typer.Option("--again", help="Try KVM again; do not use the stored result.")
    ] = False,
    hosts_file: Annotated[
        Path | None,
        typer.Option(
            "--hosts",
            metavar="FILE",
            help="Check the two machines of a hosts file instead: reach both, take their ports, "
            "send packets for some seconds, give the ports back.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Check what this machine can do, and print what that means.

    With --hosts it checks a router and a tester of yours, as a sweep on them would have them:
    ports, drivers, NUMA, cables, tools, and the rates that the tester sends and the router
    forwards. Exit status 1: something is missing. Its line says how to mend it.

    Example: `skblab doctor`
    """
    if again:
        kvm.verdict(again=True)
    found = checks.run_all() if hosts_file is None else list(hosts.run_all(hosts_file, Reporter()))
    ready = all(check.status != "missing" for check in found)
    console = Console(highlight=False)
    if as_json:
        echo(Doctor(ready=ready, checks=tuple(found)))
    else:
        table = Table.grid(padding=(0, 2))
        for check in found:
            words = f"{check.found} — {check.means}"
            table.add_row(_MARK[check.status], check.name, escape(words))
            if check.mend:
                table.add_row("", "", f"[bold]{_WHAT_TO_DO[check.status]}:[/] {escape(check.mend)}")
        console.print(table)
        if hosts_file is None:
            then = "`make demo` will work here"
        else:
            then = f"`skblab sweep quick --testbed hosts --hosts {hosts_file}` will run"
            limited = {check.name for check in found if check.status == "limited"}
            if spoiling := [name for name in hosts.SPOILING if name in limited]:
                then += f"; its rates say little of the router until {joined(spoiling)} are mended"
        console.print(
            f"Ready: {then}."
            if ready
            else "Not ready: mend each line that says missing, then run this again.",
            soft_wrap=True,
        )
    if not ready:
        raise typer.Exit(EXIT_NO)
