# SPDX-License-Identifier: GPL-2.0-or-later
"""Files that are written whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path


def write_whole(path: Path, data: str | bytes) -> None:
    """Write `path` by a temporary file and rename, flushed to disk."""
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    raw = data.encode() if isinstance(data, str) else data
    try:
        with part.open("wb") as handle:
            handle.write(raw)
            handle.flush()
            os.fsync(handle.fileno())
        part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
