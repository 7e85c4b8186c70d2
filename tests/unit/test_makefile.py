# SPDX-License-Identifier: GPL-2.0-or-later
"""What make's targets run, and what they take from whom."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping

import pytest

from conftest import TREE


def runs(*words: str, env: Mapping[str, str]) -> str:
    """Return the last command of a target, which is not run."""
    kept = {
        name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "KERNEL")
    }
    call = ["make", "--no-print-directory", "-n", *words]
    told = subprocess.run(
        call, cwd=TREE, env={**kept, **env}, check=True, capture_output=True, text=True
    )
    return told.stdout.splitlines()[-1].strip()


@pytest.mark.parametrize(
    ("words", "env", "chosen"),
    [
        ((), {}, ""),
        (("KERNEL=7.3",), {}, " --kernel 7.3+skblab"),
        (("KERNEL=7.3+skblab",), {}, " --kernel 7.3+skblab"),
        # As who builds kernels for a Raspberry Pi has it.
        ((), {"KERNEL": "kernel8"}, ""),
        (("KERNEL=7.3",), {"KERNEL": "kernel8"}, " --kernel 7.3+skblab"),
    ],
)
def test_the_kernel_is_that_of_the_command_line(
    words: tuple[str, ...], env: Mapping[str, str], chosen: str
) -> None:
    assert runs("kernel", *words, env=env) == f"./skblab kernel build{chosen}"
