# SPDX-License-Identifier: GPL-2.0-or-later
"""What is said when the lab root cannot be made."""

from __future__ import annotations

from pathlib import Path

import pytest

from skblab.lab.labroot import root
from skblab_analysis.base.errors import SkblabError


@pytest.mark.parametrize(
    ("output", "said"),
    [
        ("E: Failed to fetch http://x: Temporary failure resolving\n", "no network, or its mirror"),
        ("E: Failed to fetch http://x: write (28: No space left on device)\n", "^as it was$"),
        ("E: Unmet dependencies\n", "^as it was$"),
    ],
)
def test_no_network_and_a_full_disk_are_told_apart(output: str, said: str, tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text(output)
    with pytest.raises(SkblabError, match=said):
        raise root._explain(SkblabError("as it was"), log)
