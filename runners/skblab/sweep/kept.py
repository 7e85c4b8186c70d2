# SPDX-License-Identifier: GPL-2.0-or-later
"""Files that values of an experiment name, kept beside a copy of it: a run has all of its own."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote

from skblab_analysis.base import disk

# The folder beside the copy.
FOLDER = "files"


def file(folder: Path, value: str) -> Path:
    """Return the file of a value in an experiment that is in `folder`: the kept one, if it is."""
    there = _kept(folder, value)
    return there if there.exists() else folder / value


def keep(folder: Path, texts: Mapping[str, str]) -> None:
    """Keep the texts of values beside an experiment that is in `folder`."""
    for value, text in texts.items():
        there = _kept(folder, value)
        there.parent.mkdir(exist_ok=True)
        disk.write(there, text)


def _kept(folder: Path, value: str) -> Path:
    # One name, whatever folders it is in.
    return folder / FOLDER / quote(value, safe="")
