# SPDX-License-Identifier: GPL-2.0-or-later
"""Where an import or an export is to be written: looked at before anything is read."""

from __future__ import annotations

import os
from pathlib import Path

from skblab_analysis.base.errors import UsageError


def check(output: Path, source: Path) -> None:
    """Raise UsageError, one line, if a file cannot be written there."""
    folder = output.parent
    if not folder.is_dir():
        raise UsageError(
            f"cannot write {output}: there is no folder {folder}: make it, or give -o another file"
        )
    if output.is_dir():
        raise UsageError(f"cannot write {output}: it is a folder: expected a file behind -o")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise UsageError(
            f"cannot write {output}: you may not write into {folder}: give -o another file"
        )
    if output.exists() and source.exists() and output.samefile(source):
        raise UsageError(f"{output} is the file that is read: give -o another one")
