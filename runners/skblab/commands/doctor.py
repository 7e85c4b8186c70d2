# SPDX-License-Identifier: GPL-2.0-or-later
"""The `skblab doctor` command: a table for people, `--json` for scripts."""

from __future__ import annotations

import json
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from skblab.doctor import checks
from skblab.lab import kvm
from skblab_analysis.base.errors import EXIT_NO

_MARK = {
    "good": "[green]good[/]",
    "limited": "[yellow]limited[/]",
    "missing": "[red]missing[/]",
}


def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for scripts.")] = False,
    again: Annotated[bool, typer.Option("--again", help="Try KVM again, not from memory.")] = False,
) -> None:
    """Say what this machine can do and what that means. Exit status 1 if something is missing."""
    if again:
        kvm.verdict(again=True)
    found = checks.run_all()
    ready = all(check.status != "missing" for check in found)
    console = Console(highlight=False)
    if as_json:
        document = {"ready": ready, "checks": [check.model_dump() for check in found]}
        console.print(json.dumps(document, indent=1), soft_wrap=True, markup=False)
    else:
        table = Table.grid(padding=(0, 2))
        for check in found:
            words = f"{check.found} — {check.means}"
            table.add_row(_MARK[check.status], check.name, escape(words))
            if check.mend:
                table.add_row("", "", f"[bold]to mend:[/] {escape(check.mend)}")
        console.print(table)
        console.print(
            "Ready: `make demo` will work here."
            if ready
            else "Not ready: mend each line that says missing, then run this again."
        )
    if not ready:
        raise typer.Exit(EXIT_NO)
