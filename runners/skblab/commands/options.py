# SPDX-License-Identifier: GPL-2.0-or-later
"""Options of commands that say which kernel."""

from __future__ import annotations

from typing import Annotated

import typer

from skblab.lab.kernel.model import FLAVOURS

FlavourName = Annotated[str, typer.Option(help=f"Kernel flavour: {', '.join(FLAVOURS)}.")]
Patches = Annotated[
    bool, typer.Option("--patches/--no-patches", help="With or without our kernel series.")
]
