# SPDX-License-Identifier: GPL-2.0-or-later
"""Golden files: a test compares with what is committed; `make golden` alone writes them anew."""

from __future__ import annotations

import difflib
import os
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent / "golden"


def check(name: str, text: str) -> None:
    """Fail with a readable difference when `text` is not what golden/`name` holds.

    A run that writes compares nothing: its tests are skipped, and none of them has passed.
    """
    path = FOLDER / name
    if os.environ.get("SKBLAB_GOLDEN") == "write":
        path.write_text(text)
        pytest.skip(f"{path} is written anew: look at it, and run the test again")
    if not path.is_file():
        pytest.fail(f"{path} is not there: make it with `make golden`, and commit it")
    held = path.read_text()
    if text != held:
        lines = difflib.unified_diff(held.splitlines(), text.splitlines(), name, "now", lineterm="")
        told = "\n".join(lines)
        pytest.fail(f"{told}\nIf that is as it should be: `make golden`, and commit {path}")
