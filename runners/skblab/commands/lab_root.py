# SPDX-License-Identifier: GPL-2.0-or-later
"""The `skblab lab-root` command."""

from __future__ import annotations

import typer

from skblab.lab import labroot
from skblab.lab.reporter import Reporter


def lab_root() -> None:
    """Make the lab root if it is not there, and print its path."""
    typer.echo(labroot.ensure(Reporter()).path)
