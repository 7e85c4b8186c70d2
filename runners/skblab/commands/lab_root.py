# SPDX-License-Identifier: GPL-2.0-or-later
"""The `skblab lab-root` command."""

from __future__ import annotations

import typer

from skblab.lab import labroot
from skblab.lab.reporter import Reporter


def lab_root() -> None:
    """Make the lab root, unless it is there, and print its path.

    The lab root is the Debian tree that has every compiler and that guests boot from. Making it
    needs root rights and some minutes.

    Example: `skblab lab-root`
    """
    typer.echo(labroot.ensure(Reporter()).path)
