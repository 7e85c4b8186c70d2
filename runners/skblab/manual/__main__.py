# SPDX-License-Identifier: GPL-2.0-or-later
"""Writes what `make install` puts under PREFIX/share: man pages, completion for three shells.

python -m skblab.manual FOLDER      man/ and completions below it
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Annotated

import typer

from skblab.manual import pages
from skblab.manual.completion import scripts
from skblab.manual.walk import commands
from skblab_analysis.base.disk import write_whole


def made() -> dict[str, str]:
    """Return every file by its path below a folder share/."""
    everything = list(commands())
    # Whoever makes packages sets the time, so that two are alike.
    when = int(os.environ.get("SOURCE_DATE_EPOCH") or time.time())
    date = time.strftime("%Y-%m-%d", time.gmtime(when))
    found = {
        f"man/man1/{pages.file_name(command)}": pages.page(command, everything, date)
        for command in everything
    }
    return found | scripts()


def main(folder: Annotated[Path, typer.Argument(help="Such as /usr/local/share.")]) -> None:
    """Write man pages and completion scripts, and print the path of each below the folder."""
    for name, text in made().items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        write_whole(file, text)
        file.chmod(0o644)
        typer.echo(name)


if __name__ == "__main__":
    typer.run(main)
