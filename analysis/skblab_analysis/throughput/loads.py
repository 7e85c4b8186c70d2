# SPDX-License-Identifier: GPL-2.0-or-later
"""The picture of each load that a search tried: what arrived of it, and what was lost."""

from __future__ import annotations

from collections.abc import Sequence

from skblab_analysis.base import lines
from skblab_analysis.base.certainty import AGAIN
from skblab_analysis.base.lines import Axis, Figure, Point
from skblab_analysis.base.pictures import Picture
from skblab_analysis.base.words import number, share, spaced
from skblab_analysis.throughput.rows import LoadRow
from skblab_analysis.throughput.summary import ThroughputSummary

# Bursts of back-to-back tests are no loads that last.
SHORT = "rfc2544"


def picture(
    summary: ThroughputSummary, rows: Sequence[LoadRow], suffix: str = ""
) -> Picture | None:
    """Return rate and loss by offered load, of some settings; None where no load is known."""
    by_setting: dict[str, list[LoadRow]] = {}
    for row in rows:
        if row.part == "whole" and row.traffic == summary.traffic and row.purpose != SHORT:
            by_setting.setdefault(row.setting, []).append(row)
    names = [name for name in shown(summary) if name in by_setting]
    if not names:
        return None
    found = [row for name in names for row in by_setting[name]]
    loss = lines.share_axis((row.loss_ratio for row in found), "Lost, of what was offered")
    offered = [row.offered_rate for row in found]
    return lines.lines(
        f"loads{suffix}",
        f"Rate and loss by offered load, {summary.traffic}",
        _in_words(names, by_setting),
        Axis.by_factors(offered, "offered, packets/s"),
        (
            Axis.by_factors(map(_arrived, found), "Packets per second that arrived", upright=True),
            loss,
        ),
        [(name, [_point(row, loss) for row in by_setting[name]]) for name in names],
        # What arrives if nothing is lost.
        [Point(rate, Figure(rate)) for rate in (min(offered), max(offered))],
        points=True,
    )


def shown(summary: ThroughputSummary) -> list[str]:
    """Return the settings that are drawn: the baseline, and those that differ most from it."""
    main = summary.main
    names = [rate.setting for rate in main.rates if rate.setting != AGAIN]

    def differs(name: str) -> float:
        change = main.change(name)
        return abs(change.difference.share) if change is not None else 0.0

    return lines.chosen(names, main.baseline, differs)


def _point(row: LoadRow, loss: Axis) -> Point:
    return Point(row.offered_rate, Figure(_arrived(row)), Figure(lines.drawn(row.loss_ratio, loss)))


def _arrived(row: LoadRow) -> float:
    return row.received / max(row.seconds, row.took)


def _in_words(names: Sequence[str], by_setting: dict[str, list[LoadRow]]) -> str:
    parts = []
    for name in names:
        rows = by_setting[name]
        good = [row.offered_rate for row in rows if not row.loss_ratio]
        worst = max(row.loss_ratio for row in rows)
        most = f"nothing lost up to {spaced(max(good))} packets/s" if good else "no load was whole"
        parts.append(f"{name}: {number(len(rows))} loads, {most}, at most {share(worst)} lost")
    return f"{'; '.join(parts)}."
