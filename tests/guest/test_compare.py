# SPDX-License-Identifier: GPL-2.0-or-later
"""Comparing on real guests: a setting is found with its function, and each workload counts."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest

from exact_figures import hold
from skblab.compare.workload import shipped
from skblab.lab.kernel import Kernel
from skblab.lab.labroot import LabRoot
from skblab_analysis.load import load

pytestmark = pytest.mark.guest

Skblab = Callable[..., CompletedProcess[str]]

# What the configuration of kconfig/ does not have.
LACKING = {"tunnel-wireguard"}
PANICS = """\
# SPDX-License-Identifier: GPL-2.0-or-later
# title: a panic
prepare() { lay_out; }

load() {
	echo 1 >/proc/sys/kernel/sysrq
	echo c >/proc/sysrq-trigger
}
"""


def compared(
    skblab: Skblab, tmp_path: Path, *words: str, status: int | None, timeout: int = 900
) -> dict[str, Any]:
    """Return the document that `skblab compare` prints; any verdict will do if it is None."""
    ran = skblab(
        *("compare", *words, "--json"), env={"SKBLAB_RESULTS": str(tmp_path)}, timeout=timeout
    )
    assert ran.returncode in ((0, 1, 3) if status is None else (status,)), ran.stderr
    found: dict[str, Any] = json.loads(ran.stdout)
    return found


def test_a_setting_costs_what_it_costs(
    skblab: Skblab, stock: Kernel, lab: LabRoot, tmp_path: Path
) -> None:
    """And nothing of the kernel's own work is taken for it: profile and sweeps say the same."""
    words = ("rp_filter=0", "rp_filter=1", "--kernel", "6.12+skblab", "--workload", "forward4")
    document = compared(skblab, tmp_path, *words, status=1)
    [verdict] = document["verdicts"]
    assert verdict["judged"] == "more" and verdict["over"]
    assert abs(verdict["again"] - verdict["a"]) < verdict["threshold"]
    by_boot = {one["boot"]: one["figure"]["functions"] for one in document["measured"]}
    before, after = by_boot[0], by_boot[1]
    added = {name: after.get(name, 0) - before.get(name, 0) for name in before | after}
    assert added["fib_table_lookup"] == pytest.approx(219)
    # What each packet executes, to the instruction. The scheduler's own work beside packets may
    # fall into two of the three turns: less than one instruction a packet in each function.
    assert sum(one for one in added.values() if abs(one) >= 1) == pytest.approx(449, abs=2)
    assert verdict["b"] - verdict["a"] == pytest.approx(449, abs=20)
    figures = {"forward4": verdict["a"], "forward4, rp_filter=1": verdict["b"]}
    hold("test_compare", figures, stock, lab)
    (folder,) = tmp_path.iterdir()
    assert json.loads((folder / "compare.json").read_text()) == document
    assert load(folder).document.state == "finished"
    page = (folder / "report" / "index.html").read_text()
    assert "fib_table_lookup" in page and "What each workload costs" in page


@pytest.mark.slow
def test_every_workload_counts(skblab: Skblab, tmp_path: Path, full: bool) -> None:
    """At a small scale one in eight of them, and one that this kernel cannot do."""
    names = [
        one.name
        for number, one in enumerate(shipped())
        if full or number % 8 == 0 or one.name in LACKING
    ]
    chosen = [word for name in names for word in ("--workload", name)]
    # So few that boots may be further apart than the threshold.
    words = ("6.12+skblab", *chosen, "--packets", "1000")
    document = compared(skblab, tmp_path, *words, status=None, timeout=3000)
    assert [one["name"] for one in document["workloads"]] == names
    why = {one["workload"]: one["why"] for one in document["measured"] if one["figure"] is None}
    assert why.keys() == LACKING and set(why.values()) == {"it has no WireGuard (CONFIG_WIREGUARD)"}
    for name in set(names) - LACKING:
        first, again = (one["figure"] for one in document["measured"] if one["workload"] == name)
        assert first["instructions"] > 500
        assert again["instructions"] == pytest.approx(first["instructions"], rel=0.02), name


@pytest.mark.slow
@pytest.mark.console("sysrq triggered crash")
def test_a_panic_is_no_verdict_on_b_if_a_panics_too(skblab: Skblab, tmp_path: Path) -> None:
    file = tmp_path / "panics.sh"
    file.write_text(PANICS)
    words = ("6.12+skblab", "6.12+skblab", "--workload", str(file), "--workload", "packet-send")
    document = compared(skblab, tmp_path / "results", *words, status=3)
    panics, sends = document["verdicts"]
    assert panics["judged"] == "failed" and "panic" in panics["why"] and not panics["fault"]
    assert sends["judged"] == "same"
