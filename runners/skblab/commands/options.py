# SPDX-License-Identifier: GPL-2.0-or-later
"""Options that several commands have: which kernel, and figures as JSON."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from pydantic import BaseModel

from skblab.lab.kernel import lines, source
from skblab.lab.kernel.lines import DEFAULT, NAMES, Line
from skblab.lab.kernel.model import FLAVOURS
from skblab_analysis.base.errors import UsageError

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
# Where a tree of the user's may say it.
LineOfSource = Annotated[
    str | None,
    typer.Option(
        "--kernel",
        metavar="LINE",
        help=f"{LINES_HELP} Default: {DEFAULT}, or that of --source.",
        autocompletion=lambda: list(NAMES),
        show_default=False,
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


def line_of(name: str | None, tree: Path | None) -> Line:
    """Return the line that --kernel names, or else that of the user's tree.

    A tree of no line of ours is configured as the named one, or as the default. UsageError if the
    two contradict each other.
    """
    named = None if name is None else lines.line(name)
    if tree is None or not tree.expanduser().is_dir():
        # What is wrong with the tree is said by whoever reads it.
        return named or DEFAULT
    version = source.read_version(tree.expanduser())
    own = lines.known(lines.of_version(version))
    if named and own and named != own:
        raise UsageError(f"--kernel {named}: {tree} is Linux {version}; leave --kernel out")
    return named or own or DEFAULT


def echo(document: BaseModel) -> None:
    """Print a document, the only thing on standard output."""
    typer.echo(document.model_dump_json(indent=1, by_alias=True))
