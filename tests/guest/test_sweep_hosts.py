# SPDX-License-Identifier: GPL-2.0-or-later
"""The testbed of hosts, which are guests reached by real SSH: a sweep leaves them as they were."""

from __future__ import annotations

from pathlib import Path

import pytest
import schema_checks

from conftest import Skblab
from delivered import delivered
from retries import no_retries
from skblab_analysis.latency import summary as latency_summary
from skblab_analysis.load import load
from skblab_analysis.report import findings
from skblab_analysis.work import summary as work_summary
from two_hosts import Hosts

pytestmark = pytest.mark.guest


def test_a_sweep_on_hosts_leaves_them_as_they_were(
    skblab: Skblab, hosts: Hosts, experiment: Path, tmp_path: Path
) -> None:
    before = hosts.state()
    results = tmp_path / "results"
    done = skblab(*hosts.options(experiment), env={"SKBLAB_RESULTS": str(results)}, timeout=1800)
    assert done.returncode == 0, done.stdout + done.stderr
    assert hosts.state() == before
    [folder] = results.iterdir()
    run = load(folder)
    assert {row.state for row in run.trials} == {"good"}
    no_retries(run)
    schema_checks.folder_fits(folder)
    works = {work.setting: work for work in work_summary.of(run)}
    assert works["NAPI threads"].napi_ns > 0 == works["baseline"].napi_ns
    [latency] = latency_summary.of(run)
    assert len(latency.delays) == 3
    for delay in (*latency.delays, latency.testers[0]):
        delivered(delay, 200)
    environment = run.document.environment
    assert environment is not None
    assert environment.kernel.release == hosts.router.kernel.release
    assert environment.more["router"] == "router"
    assert "virtio_net" in environment.more["router r0 driver"]
    assert environment.more["tester CPUs"] == "2"
    # As it was laid out, not as it was found.
    assert environment.more["router net.ipv6"] == "conf/all/forwarding 1;"
    assert environment.more["router NUMA allocations"] == "counted"
    # Our kernels have no CONFIG_SLUB_STATS, and what is not counted is said.
    assert any("did not count slab allocations" in sentence for sentence in findings.unseen(run))
