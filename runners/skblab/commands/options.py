# SPDX-License-Identifier: GPL-2.0-or-later
"""Options that several commands have: which kernel, and figures as JSON."""

from __future__ import annotations

from typing import Annotated

import typer
from pydantic import BaseModel

from skblab.lab.kernel.lines import DEFAULT, NAMES, PATCHED
from skblab.lab.kernel.model import FLAVOURS
from skblab.lab.kernel.names import Name

# Where a command's help has them.
KERNEL = "Kernel"

FlavourName = Annotated[
    str,
    typer.Option(
        help=f"Kernel flavour: {', '.join(FLAVOURS)}.",
        autocompletion=lambda: list(FLAVOURS),
        rich_help_panel=KERNEL,
    ),
]
LINES_HELP = f"Linux {DEFAULT}, or {' or '.join(NAMES[1:])} of Debian's backports."
LineName = Annotated[
    str,
    typer.Option(
        "--kernel",
        metavar="LINE",
        help=LINES_HELP,
        autocompletion=lambda: list(NAMES),
        rich_help_panel=KERNEL,
    ),
]
KERNEL_HELP = (
    f"Linux {', '.join(NAMES)} from Debian's source, your own tree:DIR, or git:DIR@REVISION; with "
    f"{PATCHED} behind it: with our series; with +config:FILE: with options of your own. Or a "
    "finished kernel: debian:VERSION, deb:FILE."
)


def complete_kernel() -> list[str]:
    """Return the names of kernels that need no folder."""
    return [f"{name}{more}" for name in NAMES for more in ("", PATCHED)]


KernelName = Annotated[
    str,
    typer.Option(
        "--kernel",
        metavar="NAME",
        help=KERNEL_HELP,
        autocompletion=complete_kernel,
        rich_help_panel=KERNEL,
    ),
]
KERNEL_DEFAULT = str(Name())
Jobs = Annotated[
    int | None,
    typer.Option(
        min=1,
        help="Run so many compilers at once. Default: one for each CPU.",
        rich_help_panel=KERNEL,
    ),
]
AsJson = Annotated[
    bool,
    typer.Option("--json", help="Print one JSON document; messages go to standard error."),
]


def echo(document: BaseModel) -> None:
    """Print a document, the only thing on standard output."""
    typer.echo(document.model_dump_json(indent=1, by_alias=True))
