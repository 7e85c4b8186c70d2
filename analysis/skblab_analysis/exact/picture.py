# SPDX-License-Identifier: GPL-2.0-or-later
"""The picture of instructions per packet by setting."""

from __future__ import annotations

from pathlib import Path

from skblab_analysis.base.pictures import Picture, linear, quoted, ticks
from skblab_analysis.base.words import number, share, signed
from skblab_analysis.exact.summary import ExactSummary


def picture(exact: ExactSummary, suffix: str = "") -> Picture:
    """Instructions per packet by setting, tester apart, with the difference from the first.

    `suffix` tells those of further traffic from the first.
    """
    differences = {change.setting: change.difference for change in exact.differences}
    lines = []
    for cost in exact.costs:
        tester = exact.tester(cost)
        difference = differences.get(cost.setting)
        value = difference.effect if difference else 0.0
        words = "baseline"
        if difference:
            words = f"{signed(value, 1)} ({share(difference.share, 1, sign=True)})"
        lines.append(
            f"{quoted(cost.setting)} {tester.mean if tester else 0.0:.3f} {cost.mean:.3f} "
            f"{value:.3f} "
            f"{quoted(number(cost.mean, 1))} {quoted(words)}\n"
        )
    values = [change.difference.effect for change in exact.differences]
    low, high = min([0.0, *values]), max([0.0, *values])
    if low == high:
        high = 1.0
    top = max(cost.mean for cost in exact.costs)
    return Picture(
        name=f"exact{suffix}",
        template=Path(__file__).with_suffix(".gp"),
        title=f"Instructions per packet{f', {exact.traffic}' if exact.traffic else ''}",
        description=_in_words(exact),
        variables={
            "rows": len(lines),
            "all_max": top * 1.02,
            "all_ticks": ticks(linear(0, top), ""),
            "diff_min": low * 1.05,
            "diff_max": high * 1.05,
            "diff_ticks": ticks(linear(low, high), ""),
        },
        data="# setting tester whole difference text text\n" + "".join(lines),
    )


def _in_words(exact: ExactSummary) -> str:
    parts = [
        f"{cost.setting}: {number(cost.mean, 1)} instructions a packet" for cost in exact.costs
    ]
    parts += [
        f"{change.setting} differs from {exact.baseline.setting} by "
        f"{signed(change.difference.effect, 1)}"
        for change in exact.differences
    ]
    return "; ".join(parts) + "."
