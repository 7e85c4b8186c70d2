# SPDX-License-Identifier: GPL-2.0-or-later
"""Options that several commands have: which kernel, and figures as JSON."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from pydantic import BaseModel

from skblab.lab.kernel.model import FLAVOURS

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
Patches = Annotated[
    bool,
    typer.Option(
        "--patches/--no-patches", help="With or without the kernel series.", rich_help_panel=KERNEL
    ),
]
Source = Annotated[
    Path | None,
    typer.Option(
        metavar="TREE", help="Your own kernel tree instead of Debian's.", rich_help_panel=KERNEL
    ),
]
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
