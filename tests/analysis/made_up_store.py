# SPDX-License-Identifier: GPL-2.0-or-later
"""Run folders that nobody measured, for a store of many: comparisons, and sweeps that count."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import made_up_comparison
import synthetic_run

from skblab_analysis.exact.rows import ExactTrial
from skblab_analysis.formats import compare
from skblab_analysis.formats.run import Plan
from skblab_analysis.runfolder import RunFolder

FIRST = datetime(2026, 11, 1, 6, tzinfo=UTC)


def begun(folder: Path, hours: int) -> Path:
    """Have a run begin so many hours after the first, and return it."""
    path = folder / "run.json"
    document = json.loads(path.read_text())
    document["started"] = (FIRST + timedelta(hours=hours)).isoformat()
    path.write_text(json.dumps(document))
    return folder


def comparison(results: Path, hours: int, *costs: float, functions: float = 10.0) -> Path:
    """A finished comparison of two kernels: A, B and A again, in instructions a packet."""
    again = "./skblab compare 6.12 7.3"
    plan = Plan(experiment="compare", seed=0, again=again, question="What differs?")
    folder = RunFolder.create(results, "compare", plan, synthetic=True)
    figures = [made_up_comparison.figure(cost, ip_rcv=functions) for cost in costs]
    document = made_up_comparison.document(*made_up_comparison.measured(*figures))
    (folder.path / compare.FILE).write_text(document.model_dump_json(by_alias=True))
    return begun(folder.finish(synthetic_run.environment(), {}), hours)


def sweep(
    results: Path, hours: int, costs: Mapping[str, Sequence[float]], name: str = "counts"
) -> Path:
    """A finished sweep that counts instructions: of each setting a figure for each block."""
    return begun(written(results, costs, name).finish(synthetic_run.environment(), {}), hours)


def written(results: Path, costs: Mapping[str, Sequence[float]], name: str = "counts") -> RunFolder:
    """The same, and it goes on."""
    plan = Plan(
        experiment=name,
        seed=1,
        baseline=next(iter(costs)),
        settings=tuple(costs),
        again=f"./skblab sweep {name}.toml --exact",
        parameters={"clock": "exact", "testbed": "netns"},
    )
    folder = RunFolder.create(results, name, plan, synthetic=True)
    for setting, of_blocks in costs.items():
        for block, cost in enumerate(of_blocks):
            folder.record(
                ExactTrial(
                    setting=setting,
                    block=block,
                    packets=1000,
                    delivered=1000,
                    instructions=round(1000 * cost),
                )
            )
    return folder
