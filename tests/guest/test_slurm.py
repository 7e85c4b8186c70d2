# SPDX-License-Identifier: GPL-2.0-or-later
"""Comparison and sweep on a real cluster: guests on its nodes count what guests here count."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from conftest import Skblab
from skblab.compare import history
from skblab.compare.asked import PACKETS
from skblab.compare.workload import choose
from skblab.lab.kernel import Kernel
from skblab_analysis.formats.compare import threshold
from skblab_analysis.load import load
from slurm_cluster import cluster

pytestmark = [pytest.mark.guest, pytest.mark.slow]

# 20 tasks at full scale: five workloads in four boots.
FEW = ("forward4",)
MANY = (*FEW, "forward4-nft100", "forward4-conntrack", "forward4-nat", "forward4-vlan")


def document(skblab: Skblab, *words: str, env: dict[str, str]) -> dict[str, Any]:
    """Return what a comparison prints, whatever its verdict."""
    ran = skblab("compare", *words, "--json", env=env)
    assert ran.returncode in (0, 1, 3) and ran.stdout, ran.stderr
    found: dict[str, Any] = json.loads(ran.stdout)
    return found


def figures(of: dict[str, Any]) -> dict[tuple[str, int], float]:
    """Return instructions by workload and boot."""
    return {(one["workload"], one["boot"]): one["figure"]["instructions"] for one in of["measured"]}


def test_a_cluster_counts_what_this_machine_counts(
    skblab: Skblab, stock: Kernel, tmp_path: Path, full: bool
) -> None:
    """The same verdicts; figures are as far apart as two boots of one machine may be."""
    names = [word for name in (MANY if full else FEW) for word in ("--workload", name)]
    sides = ("rp_filter=0", "rp_filter=1", *(("rp_filter=2",) if full else ()))
    words = (*sides, "--kernel", "6.12+skblab", *names)
    here = document(skblab, *words, env={"SKBLAB_RESULTS": str(tmp_path / "here")})
    there = (*words, "--store", str(tmp_path / "store"), "--on", "slurm", "--element-minutes", "1")
    with cluster() as slurm:
        env = {**slurm.env, "SKBLAB_RESULTS": str(tmp_path / "there")}
        on_nodes = document(skblab, *there, env=env)
    assert [one["judged"] for one in on_nodes["verdicts"]] == [
        one["judged"] for one in here["verdicts"]
    ]
    assert figures(on_nodes).keys() == figures(here).keys()
    for name, instructions in figures(here).items():
        [one] = choose([name[0]])
        limit, _ = threshold(instructions, history.read().of(one, PACKETS))
        assert figures(on_nodes)[name] == pytest.approx(instructions, abs=limit), name
    # Once more nothing is counted: no cluster is there.
    again = document(skblab, *there[:-4], env={"SKBLAB_RESULTS": str(tmp_path / "again")})
    assert again["measured"] == on_nodes["measured"]


EXPERIMENT = """
name = "few-boots"
question = "Do nodes count the same?"
[traffic]
frame = [64]
flows = [1]
[[setting]]
name = "strict"
knobs = { rp_filter = 1 }
[[setting]]
name = "without mitigations"
knobs = { mitigations = "off" }
[repeats]
least = 2
most = 2
"""


def swept(skblab: Skblab, results: Path, *words: str, env: dict[str, str]) -> dict[Any, float]:
    """Return instructions per packet by setting, block and boot, of a sweep that went well."""
    done = skblab("sweep", *words, env={**env, "SKBLAB_RESULTS": str(results)}, timeout=1800)
    assert done.returncode == 0, done.stdout + done.stderr
    [folder] = results.iterdir()
    run = load(folder)
    assert run.document.state == "finished"
    assert {row.state for row in run.trials} == {"good"}
    found = {
        (row.setting, row.block, row.boot_knobs): row.instructions_per_packet or 0.0
        for row in run.trials
    }
    assert len(found) == len(run.trials)
    return found


def test_a_cluster_sweeps_what_this_machine_sweeps(skblab: Skblab, tmp_path: Path) -> None:
    file = tmp_path / "few-boots.toml"
    file.write_text(EXPERIMENT)
    words = (str(file), "--exact", "--packets", "5000")
    here = swept(skblab, tmp_path / "here", *words, env={})
    there = (*words, "--store", str(tmp_path / "store"))
    with cluster() as slurm:
        on_slurm = (*there, "--on", "slurm", "--element-minutes", "1")
        on_nodes = swept(skblab, tmp_path / "there", *on_slurm, env=slurm.env)
    assert on_nodes.keys() == here.keys()
    # Tester, baseline, baseline again and strict in one boot, tester and the other in another one.
    assert len(here) == 2 * (4 + 2)
    for name, instructions in here.items():
        # As two boots of one machine are, with what is seldom, such as timers.
        assert on_nodes[name] == pytest.approx(instructions, rel=0.002), name
    again = swept(skblab, tmp_path / "again", *there, env={})
    assert again == on_nodes
