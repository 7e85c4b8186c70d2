# SPDX-License-Identifier: GPL-2.0-or-later
"""The picture of rates by setting."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from skblab_analysis.base import labels
from skblab_analysis.base.certainty import Interval
from skblab_analysis.base.differences import MOST
from skblab_analysis.base.pictures import (
    COLOURS,
    MISSING,
    MUTED,
    NARROW_PANEL,
    WIDE_PANEL,
    Picture,
    linear,
    quoted,
    ticks,
)
from skblab_analysis.base.words import ABSENT, decimals, number
from skblab_analysis.throughput import line
from skblab_analysis.throughput.cells import difference_words, rows
from skblab_analysis.throughput.summary import GoalSummary, Rate, ThroughputSummary

# Of what is forwarded with a setting.
MORE, LESS = COLOURS[2], COLOURS[1]
# A line that carries more than so many times what was forwarded would leave the rest no room.
NEAR = 2.5


def picture(summary: ThroughputSummary, suffix: str = "", bits: float | None = None) -> Picture:
    """Rates by setting and goal with their intervals, and the difference by the first goal.

    `suffix` tells those of further traffic from the first. The line carries `bits` a second.
    """
    main = summary.main
    lines, tops, ends = [], [0.0], [0.0]
    beside = [_beside(main, rate) for rate in main.rates]
    settings = [rate.setting for rate in main.rates]
    first = [texts[:1] for texts in beside]
    wide = labels.in_lines(settings, first, WIDE_PANEL, labels.PNG_SIZE)
    # Below each other, and the names in both.
    narrow = labels.in_lines(settings, beside, NARROW_PANEL, labels.SVG_SIZE)
    for rate, texts, *names in zip(main.rates, beside, wide, narrow, strict=True):
        marks = []
        for goal in summary.goals:
            by_goal = goal.rate(rate.setting)
            interval = by_goal.interval if by_goal else None
            marks += _whiskers(interval)
            tops += [] if interval is None else [interval.mean, interval.high or 0.0]
        change = main.change(rate.setting)
        if change is None:
            marks += [*_whiskers(None), MISSING]
        else:
            found = change.difference
            colour = (MORE if found.share > 0 else LESS) if found.significant else MUTED
            low, high = found.ends or (found.share, found.share)
            reach = (low, max(found.share, min(high, MOST)))
            marks += [*(f"{100 * value:.3f}" for value in (found.share, *reach)), str(colour)]
            ends += [100 * end for end in reach]
        said = [quoted(text) for text in (*texts, names[1])]
        lines.append(f"{' '.join([quoted(names[0]), *marks, *said])}\n")
    frame = line.frame_bytes(summary.traffic)
    full = line_rate(summary, bits)
    if full is not None and full <= NEAR * max(tops):
        tops.append(full)
    top, low, high = max(tops) or 1.0, min(ends), max(ends)
    steps = linear(0, top)
    unit, below = _bits(steps, frame)
    if low == high:
        high = 1.0
    return Picture(
        name=f"throughput{suffix}",
        template=Path(__file__).with_suffix(".gp"),
        title=f"Packets per second, {summary.traffic}",
        description=_in_words(summary),
        variables={
            "rows": len(lines),
            "goals": len(summary.goals),
            "titles": [goal.goal for goal in summary.goals],
            "colours": list(COLOURS[: len(summary.goals)]),
            "rate_max": top * 1.02,
            "rate_ticks": ticks(steps, "", below),
            "rates": "Packets per second" if frame is None else f"Packets/s, {unit}",
            "foot": 34 if frame is None else 48,
            "full": full if full is not None and full <= top else 0.0,
            "diff_min": low - 0.05 * (high - low),
            "diff_max": high + 0.05 * (high - low),
            "diff_ticks": ticks(linear(low, high), "%"),
        },
        data="# setting, mean low high of each goal and the difference, colour text text setting\n"
        + "".join(lines),
    )


def line_rate(summary: ThroughputSummary, bits: float | None) -> float | None:
    """Return how many packets a second fill the line; None if that is not known."""
    frame = line.frame_bytes(summary.traffic)
    return None if frame is None or bits is None else line.rate_of(bits, frame)


def _bits(rates: Sequence[float], frame: int | None) -> tuple[str, list[str]]:
    """Return a unit, and in it rates as bits on the line, with digits that tell them apart."""
    if frame is None:
        return "", []
    most = line.bits(rates[-1], frame)
    step, unit = line.unit_of(most)
    digits = decimals(most / step)
    return unit, [number(line.bits(rate, frame) / step, digits if rate else 0) for rate in rates]


def _beside(goal: GoalSummary, rate: Rate) -> tuple[str, str]:
    """Return what stands in a setting's line beside its name: its rate, and what it differs."""
    words = ABSENT if rate.interval is None else number(rate.interval.mean)
    words += f" ({rate.of_blocks} blocks)" if rate.none else ""
    return words, " ".join(difference_words(goal, rate.setting)).strip()


def _whiskers(interval: Interval | None) -> list[str]:
    """A mean and the ends of its interval; of one without any, the mean itself."""
    if interval is None:
        return [MISSING] * 3
    half = interval.half or 0.0
    return [f"{interval.mean + by:.3f}" for by in (0, -half, half)]


def _in_words(summary: ThroughputSummary) -> str:
    parts = []
    for goal in summary.goals:
        for row in rows(goal):
            figures = f"{row.rate} {row.half}".strip()
            packets = f"packets/s {row.in_blocks}".strip()
            against = f", {row.difference} {row.difference_half}".rstrip(", ")
            parts.append(f"{row.setting}, {goal.goal}: {figures} {packets}{against}")
    return "; ".join(parts) + "."
