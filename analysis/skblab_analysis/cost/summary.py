# SPDX-License-Identifier: GPL-2.0-or-later
"""What a probe itself costs, as a run folder has it, in one sentence."""

from __future__ import annotations

from pathlib import Path

from skblab_analysis.base.checked import read
from skblab_analysis.base.words import number, signed
from skblab_analysis.formats.cost import FILE, CostDocument, WallCost

METHOD = "docs/explain/probe-cost.md has the method."


def load(folder: Path) -> CostDocument | None:
    """Return the cost that a run folder has; None without one, RecordError for a broken one."""
    path = folder / FILE
    return read(CostDocument, path, "the cost document") if path.exists() else None


def sentence(cost: CostDocument) -> str:
    """Return the cost in a sentence, or how to get it."""
    head = f"What the probe itself costs ({cost.probe})"
    parts = []
    if cost.exact is not None:
        where = "on this kernel" if cost.own else f"on {cost.exact.kernel} in a guest"
        stamps = ", the kernel's stamps included" if cost.exact.stamps else ""
        parts.append(
            f"{_instructions(cost.exact.forward)} per forwarded packet, "
            f"{_more(cost.exact.receive)} per received one (exact, IPv4, {where}{stamps})"
        )
    if cost.refused:
        parts.append(cost.refused)
    if cost.wall is not None:
        parts.append(_throughput(cost.wall, cost.own))
    if not parts:
        return (
            f"{head} is not known: nothing is counted on this kernel, and it has not been on one "
            f"of ours. To have it measured there: {cost.again}"
        )
    return f"{head}: {'; '.join(parts)}. {METHOD}"


def _more(value: float) -> str:
    # Half an instruction is none.
    return signed(round(value))


def _instructions(value: float) -> str:
    return f"{_more(value)} instruction{'' if abs(round(value)) == 1 else 's'}"


def _throughput(wall: WallCost, own: bool) -> str:
    found = wall.difference
    count = "1 pair"
    if found.low is not None and found.high is not None:
        low, high = number(1 + found.low, 2), number(1 + found.high, 2)
        count = f"95 % interval {low} to {high}, {found.blocks} pairs"
    where = "under emulation" if wall.accel == "tcg" else "in a guest with KVM"
    kernel = "" if own else f", on {wall.kernel}"
    return (
        f"throughput of {wall.load} with it {number(1 + found.effect, 2)} of without "
        f"(wall, {count}{kernel}, {where})"
    )
