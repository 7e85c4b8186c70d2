# SPDX-License-Identifier: GPL-2.0-or-later
"""Files that values of an experiment name, kept beside a copy of it: a run has all of its own."""

from __future__ import annotations

import filecmp
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote

from skblab_analysis.base import disk

# The folder beside the copy.
FOLDER = "files"
# What tells a folder that skblab made: that of a run, or of `skblab tune`, by its name.
RUN, TUNE = "run.json", "tune-"


def file(folder: Path, value: str) -> Path:
    """Return the file of a value in an experiment that is in `folder`: the kept one, if it is.

    ValueError if that may be another one, which the user happens to have where skblab keeps some.
    """
    there, own = _kept(folder, value), folder / value
    if not there.exists():
        return own
    if not _ours(folder) and own.exists() and not _same(there, own):
        raise ValueError(
            f"{there} and {own} differ, and skblab did not make this folder: expected one of them; "
            "delete or rename the other"
        )
    return there


def _ours(folder: Path) -> bool:
    return (folder / RUN).exists() or folder.resolve().name.startswith(TUNE)


def _same(one: Path, other: Path) -> bool:
    try:
        return filecmp.cmp(one, other, shallow=False)
    except OSError:
        # What cannot be read is not known to be the same.
        return False


def name(value: str) -> str:
    """Return the name that the file of a value has in the folder of a run."""
    # One name, whatever folders it is in.
    return f"{FOLDER}/{quote(value, safe='')}"


def keep(folder: Path, texts: Mapping[str, str]) -> None:
    """Keep the texts of values beside an experiment that is in `folder`."""
    for value, text in texts.items():
        there = _kept(folder, value)
        there.parent.mkdir(exist_ok=True)
        disk.write(there, text)


def _kept(folder: Path, value: str) -> Path:
    return folder / name(value)
