# SPDX-License-Identifier: GPL-2.0-or-later
"""One generator for all: what sends by pktgen does it by generator.sh."""

from __future__ import annotations

import subprocess

from skblab.bench import measure, wall
from skblab.demo import forwarding
from skblab.lab import paths
from skblab.testbeds import base, netns

OWN = "/proc/net/pktgen/"


def test_no_other_script_sets_pktgen_up() -> None:
    runners = paths.tree() / "runners"
    files = [*runners.rglob("*.sh"), *runners.rglob("*.py")]
    assert [file.name for file in files if OWN in file.read_text()] == ["generator.sh"]


def test_all_that_send_have_it_once() -> None:
    for script in (
        forwarding.script(packets=1),
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
