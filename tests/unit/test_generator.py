# SPDX-License-Identifier: GPL-2.0-or-later
"""One generator and one topology for all: what sends by pktgen does it by generator.sh."""

from __future__ import annotations

import subprocess

import pytest

from skblab.bench import measure, wall
from skblab.lab import paths
from skblab.testbeds import base, netns

# Of traffic/tests, which is of the traffic tools alone.
APART = "tests"


@pytest.mark.parametrize(
    ("own", "script"),
    [
        ("/proc/net/pktgen/", "generator.sh"),
        ("ip netns add ", "net.sh"),
        (" type veth peer ", "net.sh"),
        (" clsact", "net.sh"),
    ],
)
def test_no_other_script_does_it(own: str, script: str) -> None:
    runners = paths.tree() / "runners"
    files = [file for file in runners.rglob("*.sh") if APART not in file.parts]
    files += (runners / "skblab").rglob("*.py")
    assert [file.name for file in files if own in file.read_text()] == [script]


def test_all_that_send_have_it_once() -> None:
    for script in (
        measure.script((), boot=0, packets=1, repeats=1),
        wall.script(pairs=1),
        netns.script("lay_out"),
    ):
        assert script.count("\ngenerate() {") == 1


def test_a_word_that_is_none_is_refused() -> None:
    here = 'nsenter() { shift; "$@"; }\n'
    call = "generate device=g0 cuont=1"
    argv = ["sh", "-euc", f"{here}{base.functions('generator')}\n{call}"]
    done = subprocess.run(argv, check=False, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (2, "generate: cuont=1: no such word\n")
