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


@pytest.mark.parametrize(
    ("output", "why"),
    [
        (
            "net/Kconfig:3: syntax error\nmake[2]: *** [x/Makefile:85: alldefconfig] Error 1\n"
            "make: *** [Makefile:251: __sub-make] Error 2\n",
            "net/Kconfig:3: syntax error",
        ),
        (
            "scripts/kconfig/conf  --alldefconfig Kconfig\n"
            'Kconfig:9: can\'t open file "net/Kconfig"\nmake: *** [x] Error 1\n',
            'Kconfig:9: can\'t open file "net/Kconfig"',
        ),
        ("make: *** No rule to make target 'alldefconfig'.  Stop.\n", "make: *** No rule to make"),
        ("one\nlast\n", "last"),
        ("", "it printed nothing"),
    ],
)
def test_what_failed_is_named_and_not_that_make_did(output: str, why: str) -> None:
    said = str(root.command_failed("configuring the kernel", output, 2, None))
    assert said.startswith(f"configuring the kernel failed (exit 2): {why}")
