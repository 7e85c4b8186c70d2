# SPDX-License-Identifier: GPL-2.0-or-later
"""The `skblab bundle` command."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Annotated

import typer

from skblab.bundle import archive, words
from skblab.lab import paths
from skblab_analysis.base.words import counted
from skblab_analysis.load import load


def bundle(
    run: Annotated[Path, typer.Argument(help="A run folder, such as results/demo-….")],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help=f"The archive. Default: the folder's name with {archive.SUFFIX}, here.",
            show_default=False,
        ),
    ] = None,
    author: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME", help="Who is cited; may be given several times.", show_default=False
        ),
    ] = None,
) -> None:
    """Pack a run into one file that others can check, cite, and make the page of again.

    The archive has the whole run folder: tables, page, pictures with their scripts, logs, and
    what it was measured with. It adds checksums, a README and a CITATION.cff. The same run makes
    the same archive.

    Example: `skblab bundle results/demo-20260131-120000 --author "A. Researcher"`
    """
    found = load(run)
    name = run.resolve().name
    to = output or Path(f"{name}{archive.SUFFIX}")
    texts = words.texts(found.document, name, _commit(), author or [])
    when = found.document.finished or found.document.started
    count = archive.write(run, to, texts, when)
    typer.echo(f"{to}: {counted(count, 'file')}, {to.stat().st_size} bytes")


def _commit() -> str:
    """Return the commit of this skblab, with a word if files differ from it; empty if unknown."""
    call = ["git", "-C", str(paths.tree()), "describe", "--always", "--dirty", "--abbrev=12"]
    try:
        done = subprocess.run(call, capture_output=True, text=True, check=False, timeout=20)
    except (OSError, subprocess.TimeoutExpired):
        # No git on this machine: the README says nothing of it then.
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
