# SPDX-License-Identifier: GPL-2.0-or-later
"""Instructions by function on a small scale: they add up, and stamps show where they are."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from skblab.lab.kernel import Kernel

pytestmark = [pytest.mark.guest, pytest.mark.slow]

Skblab = Callable[..., CompletedProcess[str]]


def test_what_stamps_add_when_receiving(skblab: Skblab, stock: Kernel, tmp_path: Path) -> None:
    words = ["bench", "functions", "--row", "on", "--against", "off", "--case", "receive"]
    ran = skblab(
        *(*words, "--packets", "2000", "--built", f"patched={stock.path}", "--json"),
        env={"SKBLAB_RESULTS": str(tmp_path)},
        timeout=1500,
    )
    assert ran.returncode == 0, ran.stderr
    document = json.loads(ran.stdout)
    for side in "ab":
        counted = sum(function[side] for function in document["functions"])
        assert counted == pytest.approx(document["clock"][side], rel=0.001)
    by_name = {
        function["name"]: (function["a"], function["b"]) for function in document["functions"]
    }
    # Each packet's path ends once, and only where stamps are on.
    assert by_name["__net_path_deliver"][0] == 0
    assert by_name["__net_path_deliver"][1] > 5
    off, on = by_name["ip_rcv_core"]
    assert off == int(off)
    assert off < on < off + 30
    (folder,) = tmp_path.iterdir()
    assert json.loads((folder / "functions.json").read_text()) == document
    assert "ip_rcv_core+0x" in (folder / "instructions-on.tsv").read_text()


def test_a_profile_of_two_kernels_shows_what_the_series_adds(
    skblab: Skblab, tmp_path: Path
) -> None:
    """The points of forwarding are in these functions, and off each is an instruction or few."""
    ran = skblab(
        *("profile", "--kernel", "6.12+skblab", "--against", "6.12", "--packets", "2000", "--json"),
        env={"SKBLAB_RESULTS": str(tmp_path)},
        timeout=1500,
    )
    assert ran.returncode == 0, ran.stderr
    document = json.loads(ran.stdout)
    assert {side: one["name"] for side, one in document["kernels"].items()} == {
        "a": "6.12",
        "b": "6.12+skblab",
    }
    assert document["kernels"]["a"]["patches"] == [] != document["kernels"]["b"]["patches"]
    by_name = {function["name"]: function for function in document["functions"]}
    for name in ("ip_rcv_core", "__netif_receive_skb_core", "dev_hard_start_xmit"):
        assert by_name[name]["b"] - by_name[name]["a"] == pytest.approx(1, abs=0.01)
    for side in "ab":
        counted = sum(function[side] for function in document["functions"])
        assert counted == pytest.approx(document["clock"][side], rel=0.001)
