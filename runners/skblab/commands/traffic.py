# SPDX-License-Identifier: GPL-2.0-or-later
"""`skblab traffic`: the sender and the receiver of runners/traffic, on this machine."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from skblab.lab import labroot, tools
from skblab.lab.reporter import Reporter

traffic = typer.Typer(
    no_args_is_help=True,
    help="Send and receive UDP packets, and account for every one.\n\n"
    "The program is skblab-traffic, in Rust. It is one file without libraries: copy it to any "
    "machine with the same kind of processor, it needs neither skblab nor root there.\n\n"
    "Example: `skblab traffic receive --bind 0.0.0.0:5000`",
)
# All of them are the program's own, and so is its help.
PASSED_ON = {"ignore_unknown_options": True}
Options = Annotated[
    list[str] | None,
    typer.Argument(metavar="ARGUMENT", help="Those of the program; --help lists them."),
]


@traffic.command(context_settings=PASSED_ON, add_help_option=False)
def send(options: Options = None) -> None:
    """Send numbered, stamped packets at a rate, or at times of a generator.

    It prints a JSON document: packets sent and refused, the rate that was asked for and the one
    that was reached, and how far packets were behind their times.

    Example: `skblab traffic send --to 198.18.0.2:5000 --rate 10000 --count 100000`
    """
    _run("send", options or ())


@traffic.command(context_settings=PASSED_ON, add_help_option=False)
def receive(options: Options = None) -> None:
    """Count received, lost, repeated and reordered packets.

    It prints `ready` once packets are taken in, and at its end a JSON document. It reads the
    packets of `skblab traffic send`, and those of pktgen.

    Example: `skblab traffic receive --bind 0.0.0.0:5000 --expect 100000`
    """
    _run("receive", options or ())


@traffic.command()
def program() -> None:
    """Print where the program is: one file, to be copied to other machines.

    Example: `skblab traffic program`
    """
    typer.echo(_program())


def _program() -> Path:
    reporter = Reporter()
    [name] = tools.RUST_PROGRAMS
    return tools.ensure_traffic(labroot.ensure(reporter), reporter) / name


def _run(what: str, options: Sequence[str]) -> None:
    file = _program()
    os.execv(file, [file.name, what, *options])
