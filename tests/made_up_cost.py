# SPDX-License-Identifier: GPL-2.0-or-later
"""Calibrations that nobody measured, for tests of what is said of them."""

from __future__ import annotations

from skblab_analysis.formats import cost
from skblab_analysis.formats.bench import BenchDocument, Part, Row, Trial
from skblab_analysis.formats.cost import CostDocument, ExactCost, Probe, WallCost

HOOKS = Probe(backend="bpf", source="hooks")
KERNEL = "6.12.0-plain"
AGAIN = "./skblab probe layers --on guest --kernel 6.12 --load udp"
PACKETS = 1000
# Instructions per packet of each part without the probe.
PARTS: dict[Part, int] = {"tester": 3000, "forward": 6000, "queue": 5000, "read": 2000}


def exact(forward: float = 2000, receive: float = 3000, *, stamps: bool = False) -> ExactCost:
    """A calibration with these differences; each part has a worse trial as well."""
    more = {"tester": 700.0, "forward": 700 + forward, "queue": receive / 2, "read": receive / 2}
    trials = []
    for row, added in ((cost.WITHOUT, dict.fromkeys(more, 0.0)), (cost.WITH, more)):
        for part, base in PARTS.items():
            for late in (0, 4_000_000):
                trials.append(
                    Trial(
                        row=row,
                        boot=0,
                        repeat=1,
                        part=part,
                        family=4,
                        packets=PACKETS,
                        delivered=PACKETS,
                        instructions=round((base + added[part]) * PACKETS) + late,
                    )
                )
    names = (cost.WITHOUT, cost.WITH)
    rows = tuple(Row(name=name, title=name, group="tool", kernel=KERNEL) for name in names)
    document = BenchDocument(
        again=AGAIN,
        baseline=cost.WITHOUT,
        packets=PACKETS,
        repeats=2,
        rows=rows,
        trials=tuple(trials),
    )
    return ExactCost(probe=HOOKS, kernel=KERNEL, stamps=stamps, bench=document)


def wall(*ratios: float, load: str = "udp", accel: str = "tcg") -> WallCost:
    pairs = [{"first": "without", "without_probe": 100, "with_probe": 100 * r} for r in ratios]
    return WallCost.model_validate(
        {
            "probe": HOOKS,
            "kernel": KERNEL,
            "load": load,
            "packets": 10,
            "accel": accel,
            "pairs": pairs,
        }
    )


def document(**parts: object) -> CostDocument:
    return CostDocument.model_validate(
        {"probe": HOOKS, "kernel": KERNEL, "own": True, "again": AGAIN, **parts}
    )
