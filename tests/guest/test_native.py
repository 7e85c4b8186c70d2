# SPDX-License-Identifier: GPL-2.0-or-later
"""The native tools' own tests: units and properties in the lab root, the probe in a guest."""

from __future__ import annotations

from pathlib import Path

import pytest

from conftest import TREE, Skblab
from skblab.lab.guest.chosen import make_spec
from skblab.lab.kernel import Kernel
from skblab.lab.labroot import Bind, LabRoot
from skblab.machine.guest import Guest
from waiting import SCRIPT_SECONDS


@pytest.mark.labroot
def test_unit_and_property_tests_of_the_native_code(lab: LabRoot, run_skblab: Skblab) -> None:
    done = run_skblab("native-tests")
    assert done.returncode == 0, done.stderr


def probe_passes(lab: LabRoot, kernel: Kernel, programs: Path, *options: str) -> None:
    shares = [Bind(programs, "tools"), Bind(TREE, "tree")]
    script = "/skblab/tree/probes/bpf/tests/guest.sh"
    bin_folder = "/skblab/tools/bin"
    call = ["sh", script, f"{bin_folder}/pathlat", f"{bin_folder}/skblab-traffic", "2003"]
    with Guest.boot(make_spec(), kernel, lab, shares=shares) as guest:
        done = guest.transport.run([*call, *options], seconds=SCRIPT_SECONDS)
        assert guest.console.warnings() == []
    assert done.status == 0, done.stdout + done.stderr


@pytest.mark.guest
# Some fifty programs are loaded and attached in every case: 20 s under emulation. Hooks that count
# are in test_probe_layers.py, hooks in trouble in test_probe_trouble.py.
@pytest.mark.slow
@pytest.mark.timeout(SCRIPT_SECONDS + 300)
@pytest.mark.parametrize("how", [[], ["--kprobes"]], ids=["fentry", "kprobe"])
def test_the_probe_with_hooks_on_an_unpatched_kernel(
    lab: LabRoot, unpatched: Kernel, programs: Path, how: list[str]
) -> None:
    probe_passes(lab, unpatched, programs, "--source", "hooks", *how)
