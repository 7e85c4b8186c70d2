# SPDX-License-Identifier: GPL-2.0-or-later
"""Where things are: the source tree, the cache, the results."""

from __future__ import annotations

import os
from pathlib import Path

from skblab_analysis.base.errors import UsageError


def tree() -> Path:
    """Return the top of the skblab source tree (the folder that holds `patches/`)."""
    here = Path(os.environ.get("SKBLAB_TREE") or Path(__file__).resolve().parents[3])
    if not (here / "kconfig").is_dir() or not (here / "patches").is_dir():
        raise UsageError(
            f"{here} is not an skblab tree: expected folders kconfig/ and patches/ there; "
            "start skblab by the wrapper at the top of a clone"
        )
    return here


def cache_place() -> Path:
    """Return where the cache folder is, or would be: `$SKBLAB_CACHE` or `~/.cache/skblab`."""
    return Path(os.environ.get("SKBLAB_CACHE") or Path.home() / ".cache" / "skblab")


def cache() -> Path:
    """Return the cache folder, made if absent."""
    home = cache_place()
    try:
        home.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(
            f"cannot make the cache folder {home}: {error.strerror}; "
            "set SKBLAB_CACHE to a folder you may write"
        ) from error
    return home


def results() -> Path:
    """Return the results folder, `$SKBLAB_RESULTS` or `results/` in the tree."""
    return Path(os.environ.get("SKBLAB_RESULTS") or tree() / "results")
