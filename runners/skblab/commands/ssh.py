# SPDX-License-Identifier: GPL-2.0-or-later
"""The `skblab ssh` command: a second shell, or one command, in a guest that runs already."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from skblab.lab.guest.errors import GuestError
from skblab.lab.reporter import printer
from skblab.machine import byhand
from skblab.machine.running import Running, choose, running
from skblab.machine.transport import TransportError
from skblab_analysis.base.errors import UsageError


def ssh(
    command: Annotated[
        list[str] | None,
        typer.Argument(help="What to run (after --); a shell if nothing is given."),
    ] = None,
    guest: Annotated[
        str | None,
        typer.Option(help="Which guest, by its name or the beginning of that; see --list."),
    ] = None,
    listed: Annotated[bool, typer.Option("--list", help="Print the guests that run.")] = False,
) -> None:
    """Open a second shell in a guest that runs already, or run `-- COMMAND` there.

    The guest is one that another skblab command of yours has booted: `skblab boot`, in another
    terminal. If several run, --guest says which. The guest ends with the command that booted it,
    not with this shell.

    Exit status: that of the command; 125 if the guest is ending or has died.

    Example: `skblab ssh -- uname -r`
    """
    guests = running()
    if listed:
        if command:
            raise UsageError("--list prints the guests and runs nothing; leave the command out")
        show(
            [
                running_guest
                for running_guest in guests
                if guest is None or running_guest.name.startswith(guest)
            ]
        )
        return
    chosen = choose(guests, guest)
    transport = chosen.transport()
    if not transport.connected():
        raise chosen.why_not_connected()
    try:
        tty = not command and sys.stdin.isatty()
        status = transport.attach(command or byhand.shell(tty=tty), tty=tty)
    except TransportError as error:
        raise GuestError(str(error)) from error
    raise typer.Exit(status)


def show(guests: Sequence[Running]) -> None:
    """Print a table of guests: name, kernel, for how long it has run, and the command."""
    if not guests:
        typer.echo("no guest of yours runs")
        return
    table = Table(box=None, pad_edge=False)
    for title in ("guest", "kernel", "minutes"):
        table.add_column(title, no_wrap=True, justify="right" if title == "minutes" else "left")
    table.add_column("booted by", overflow="fold")
    for guest in guests:
        about = guest.about
        minutes = max(time.time() - about.started, 0) / 60
        table.add_row(guest.name, escape(about.release), f"{minutes:.0f}", escape(about.command))
    printer().print(table)
