# SPDX-License-Identifier: GPL-2.0-or-later
"""What the report says of the kernel's counters: what was not counted."""

from __future__ import annotations

from pathlib import Path

import searches
import synthetic_run

from skblab_analysis.load import load
from skblab_analysis.report.findings import unseen
from skblab_analysis.runfolder import RunFolder
from skblab_analysis.work.rows import Counter, Kind

SLAB = "not counted: CONFIG_SLUB_STATS is off"


def recorded(results: Path, *rises: tuple[Kind, str, int], **facts: str) -> Path:
    """Return a finished run of two trials, in each of which these counters rose."""
    folder = RunFolder.create(results, "work", searches.plan(), synthetic=True)
    for block in range(2):
        folder.known(Counter(kind=kind, name=name, cpu=None, value=by) for kind, name, by in rises)
        folder.record(searches.search("baseline", block, 1000.0))
    known = synthetic_run.environment()
    more = {f"router {name.replace('_', ' ')}": value for name, value in facts.items()}
    folder.finish(known.model_copy(update={"more": more}), {"searching": 1.0})
    return folder.path


def test_what_was_not_counted_is_no_zero(tmp_path: Path) -> None:
    more = {"slab allocations, with kernel=rt": "not counted: there is no /sys/kernel/slab"}
    path = recorded(tmp_path, slab_allocations=SLAB, NUMA_allocations="counted", **more)
    said = [sentence for sentence in unseen(load(path)) if "did not count" in sentence]
    assert said == [
        "The router’s kernel did not count slab allocations: CONFIG_SLUB_STATS is off.",
        "The router’s kernel did not count slab allocations, with kernel=rt: there is no "
        "/sys/kernel/slab.",
    ]
    # Of a run before that nobody knows.
    older = recorded(tmp_path)
    assert not any("did not count" in sentence for sentence in unseen(load(older)))
