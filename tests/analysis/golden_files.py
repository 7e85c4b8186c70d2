# SPDX-License-Identifier: GPL-2.0-or-later
"""Golden files: compare with what is stored, or store anew when SKBLAB_GOLDEN=write is set."""

from __future__ import annotations

import os
from pathlib import Path

FOLDER = Path(__file__).parent / "golden"


def check(name: str, text: str) -> None:
    """Fail with a readable difference when `text` is not what golden/`name` holds."""
    path = FOLDER / name
    if os.environ.get("SKBLAB_GOLDEN") == "write":
        path.write_text(text)
    assert text == path.read_text(), f"if {path} should change: SKBLAB_GOLDEN=write pytest …"
