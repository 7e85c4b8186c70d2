# SPDX-License-Identifier: GPL-2.0-or-later
"""The newest kernel that Debian's archive has today: it boots, forwards, and what it takes."""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from skblab_analysis.base.errors import SkblabWarning

pytestmark = [pytest.mark.guest, pytest.mark.slow]

Skblab = Callable[..., CompletedProcess[str]]

# No version of Linux: the refusal names the newest of each that there is.
NONE = "debian:0.1"
KNOWN = "debian:6.12"


def newest(said: str) -> str:
    """Return the newest kernel in the refusal of one that there is not."""
    have = said.rpartition("that it has: ")[2].split(", ")
    return max(have, key=lambda name: [int(part) for part in re.findall(r"\d+", name)[:3]])


def test_the_newest_is_told() -> None:
    said = "skblab: …; of each version the newest that it has: 6.1.9-amd64, 6.12.8-amd64, 6.9.1-a"
    assert newest(said) == "6.12.8-amd64"


def test_the_newest_kernel_forwards_and_is_compared(skblab: Skblab, tmp_path: Path) -> None:
    asked = skblab("profile", "--kernel", NONE, timeout=600)
    assert asked.returncode == 2, asked.stderr
    name = f"debian:{newest(asked.stderr.strip())}"
    done = skblab(
        *("profile", "--kernel", name, "--against", KNOWN, "--packets", "2000", "--json"),
        env={"SKBLAB_RESULTS": str(tmp_path)},
        timeout=1800,
    )
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    clock = document["clock"]
    assert clock["a"] > 1000 < clock["b"]
    # It has every packet's layers by the names that we know its functions by.
    layers = {one["name"]: one["b"] for one in document["layers"]}
    assert min(layers[name] for name in ("ip", "route", "forward", "output", "xmit")) > 20
    warnings.warn(
        f"{name}: forwarding takes {clock['b']:.0f} instructions, {KNOWN} {clock['a']:.0f}",
        SkblabWarning,
        stacklevel=1,
    )
