# SPDX-License-Identifier: GPL-2.0-or-later
"""The benchmark on a small scale: rows of the patched kernel alone, every packet accounted for."""

from __future__ import annotations

from pathlib import Path

import pytest

from exact_figures import hold
from skblab.bench import measure, plan, programs
from skblab.lab.guest.chosen import make_spec
from skblab.lab.kernel import Kernel
from skblab.lab.labroot import Bind, LabRoot
from skblab.lab.reporter import Reporter
from skblab.machine.guest import Guest
from skblab_analysis.cost.bench import cells as cells_of
from skblab_analysis.formats import bench

pytestmark = [pytest.mark.guest, pytest.mark.slow]

PACKETS = 500
ROWS = ("off", "on", "late")


def test_stamps_off_and_histogrammed(lab: LabRoot, stock: Kernel, tmp_path: Path) -> None:
    rows = [row for row in plan.ROWS if row.name in ROWS]
    shares = [
        Bind(Path(__file__).resolve().parents[2], "tree"),
        Bind(programs.ensure(lab, Reporter(quiet=True)), "build"),
        Bind(tmp_path, "out", writable=True),
    ]
    with Guest.boot(make_spec(exact=True), stock, lab, shares=shares) as guest:
        found = measure.measure([guest], rows, PACKETS, 1, "stock", tmp_path)
        assert guest.console.warnings() == []
    assert len(found.trials) == len(rows) * len(bench.PARTS) * len(bench.FAMILIES)
    for row in rows:
        assert bench.faults(row.name, found.trials, found.proofs) == []
    # Where counts are written, there were packets to count.
    written = {proof.row for proof in found.proofs if proof.expected}
    assert written == {"on", "late"}
    cells = cells_of(found.trials)
    figures: dict[str, float] = {}
    for family in bench.FAMILIES:
        paths = {
            name: cells[name, "forward", family].mean - cells[name, "tester", family].mean
            for name in ROWS
        }
        assert list(paths.values()) == sorted(paths.values())
        figures |= {f"IPv{family}, {name}": path for name, path in paths.items()}
        # A tick of the clock that falls into the shorter part is more than a hundredth of it.
        received = (cells["off", part, family].mean for part in ("queue", "read"))
        figures[f"IPv{family}, off, receive"] = sum(received)
    hold("test_bench_rows", figures, stock, lab)
