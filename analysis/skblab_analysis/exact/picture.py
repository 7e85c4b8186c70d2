# SPDX-License-Identifier: GPL-2.0-or-later
"""The picture of instructions per packet by setting.

A difference that is not significant, or of which that is not known, is muted and in brackets.
"""

from __future__ import annotations

from pathlib import Path

from skblab_analysis.base import labels
from skblab_analysis.base.certainty import Difference
from skblab_analysis.base.pictures import (
    COLOURS,
    MUTED,
    NARROW_PANEL,
    WIDE_PANEL,
    Picture,
    linear,
    quoted,
    ticks,
)
from skblab_analysis.base.words import number, share, signed
from skblab_analysis.exact.summary import ExactSummary

# What a setting costs.
MORE, LESS = COLOURS[1], COLOURS[2]
# Said of a difference of one block.
UNKNOWN = " (of one boot: not known whether it differs)"
# What is said of a difference that is significant, is not, or of which it is not known.
DOUBTS = {True: "", False: " (not significant)", None: UNKNOWN}


def picture(exact: ExactSummary, suffix: str = "") -> Picture:
    """Instructions per packet by setting, tester apart, with the difference from the first.

    `suffix` tells those of further traffic from the first.
    """
    differences = {change.setting: change.difference for change in exact.differences}
    beside = [
        (
            number(cost.mean, 1),
            _words(differences[cost.setting], exact) if cost.setting in differences else "baseline",
        )
        for cost in exact.costs
    ]
    settings = [cost.setting for cost in exact.costs]
    means = [texts[:1] for texts in beside]
    wide = labels.in_lines(settings, means, WIDE_PANEL, labels.PNG_SIZE)
    # Below each other, and the names in both.
    narrow = labels.in_lines(settings, beside, NARROW_PANEL, labels.SVG_SIZE)
    lines = []
    for cost, texts, *names in zip(exact.costs, beside, wide, narrow, strict=True):
        tester = exact.tester(cost)
        difference = differences.get(cost.setting)
        value = difference.effect if difference else 0.0
        lines.append(
            f"{quoted(names[0])} {tester.mean if tester else 0.0:.3f} {cost.mean:.3f} "
            f"{value:.3f} {_colour(difference)} "
            f"{' '.join(map(quoted, (*texts, names[1])))}\n"
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
            "share_of": "the path" if exact.of_path else "path + tester",
        },
        data="# setting tester whole difference colour text text setting\n" + "".join(lines),
    )


def _words(difference: Difference, exact: ExactSummary) -> str:
    effect, part = signed(difference.effect, 1), share(exact.share(difference), 1, sign=True)
    return f"{effect} ({part})" if difference.significant else f"({effect}, {part})"


def _colour(difference: Difference | None) -> int:
    if difference is None or not difference.significant:
        return MUTED
    return MORE if difference.effect > 0 else LESS


def _in_words(exact: ExactSummary) -> str:
    parts = [
        f"{cost.setting}: {number(cost.mean, 1)} instructions a packet" for cost in exact.costs
    ]
    parts += [
        f"{change.setting} differs from {exact.baseline.setting} by "
        f"{signed(change.difference.effect, 1)}{DOUBTS[change.difference.significant]}"
        for change in exact.differences
    ]
    return "; ".join(parts) + "."
