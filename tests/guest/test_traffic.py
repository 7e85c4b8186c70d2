# SPDX-License-Identifier: GPL-2.0-or-later
"""The traffic tools between two namespaces (netns.sh), which are of the test alone.

Over loopback, and against packets that are forged: runners/traffic/tests/pair.rs. Over a link
that loses, repeats and reorders, which takes a kernel with netem: stock/test_traffic_faults.py.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from conftest import TREE, links
from skblab.lab import tools
from skblab.lab.labroot import Bind, LabRoot
from skblab.lab.reporter import Reporter

SCRIPT = "/skblab/tree/runners/traffic/tests/netns.sh"
# What it says of what it sent, changed; the rest is the real tool's.
LYING = """#!/bin/sh
[ "$1" = send ] || exec /skblab/tools/skblab-traffic "$@"
/skblab/tools/skblab-traffic "$@" | sed -E '{change}'
"""

pytestmark = pytest.mark.labroot


@pytest.fixture(scope="module")
def traffic(lab: LabRoot) -> Path:
    return tools.ensure_traffic(lab, Reporter())


def over_a_clean_link(
    lab: LabRoot, traffic: Path, binary: str, *binds: Bind
) -> subprocess.CompletedProcess[str]:
    before = links()
    call = lab.command(
        ["sh", SCRIPT, binary, "clean"],
        binds=[Bind(TREE, "tree"), Bind(traffic, "tools"), *binds],
    )
    done = subprocess.run(call, capture_output=True, text=True, timeout=120, check=False)
    assert links() == before
    return done


def test_every_packet_of_both_families(lab: LabRoot, traffic: Path) -> None:
    done = over_a_clean_link(lab, traffic, "/skblab/tools/skblab-traffic")
    assert (done.returncode, done.stderr) == (0, "")
    assert [line.split(":")[0] for line in done.stdout.splitlines()] == ["ok ipv4", "ok ipv6"]


@pytest.mark.parametrize(
    "change",
    ['s/"sent":[0-9]+/"sent":29999/', 's/"rate_reached":[0-9.]+/"rate_reached":29999/'],
    ids=["count", "rate"],
)
def test_what_does_not_agree_fails(
    lab: LabRoot, traffic: Path, tmp_path: Path, change: str
) -> None:
    liar = tmp_path / "liar"
    liar.write_text(LYING.format(change=change))
    liar.chmod(0o755)
    done = over_a_clean_link(lab, traffic, "/skblab/out/liar", Bind(tmp_path, "out"))
    assert (done.returncode, done.stdout) == (1, "")
    assert "netns.sh: ipv4: not true: " in done.stderr
