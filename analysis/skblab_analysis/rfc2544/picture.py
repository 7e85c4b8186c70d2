# SPDX-License-Identifier: GPL-2.0-or-later
"""The picture of frame loss by offered load (RFC 2544, 26.3), and of what is forwarded."""

from __future__ import annotations

from skblab_analysis.base import lines
from skblab_analysis.base.lines import Axis, Figure, Point
from skblab_analysis.base.pictures import Picture
from skblab_analysis.base.words import joined, number, share
from skblab_analysis.rfc2544.summary import OfSetting, Rfc2544Summary


def tested(summary: Rfc2544Summary) -> list[OfSetting]:
    """Return the settings whose loss is known at two loads or more."""
    return [setting for setting in summary.settings if len(setting.loss) > 1]


def shown(summary: Rfc2544Summary, baseline: str | None) -> list[OfSetting]:
    """Return those that are drawn: the baseline, and those that differ most from it."""
    known = {setting.setting: setting for setting in tested(summary)}
    first = known.get(baseline or "")

    def differs(name: str) -> float:
        if first is None:
            return 0.0
        loss = known[name].loss
        return max((abs(loss[at] - first.loss[at]) for at in loss.keys() & first.loss), default=0)

    return [known[name] for name in lines.chosen(list(known), baseline, differs)]


def picture(summary: Rfc2544Summary, baseline: str | None, suffix: str = "") -> Picture | None:
    """Return loss and what is forwarded of each setting, by load; None if none has two loads."""
    found = shown(summary, baseline)
    if not found:
        return None
    most = max(load for setting in found for load in setting.loss)
    lost = max(max(setting.loss.values()) for setting in found)
    return lines.lines(
        f"frame-loss{suffix}",
        f"Frame loss by offered load, {summary.traffic}",
        _in_words(found),
        Axis.from_zero(100 * most, "offered load, of the tester’s maximum", "%"),
        (
            Axis.from_zero(lost, "Frame loss rate", "%"),
            Axis.from_zero(100 * most, "Forwarding rate, of the tester’s maximum", "%"),
        ),
        [(setting.setting, _points(setting)) for setting in found],
    )


def _points(setting: OfSetting) -> list[Point]:
    return [
        Point(100 * load, Figure(lost), Figure(load * (100 - lost)))
        for load, lost in sorted(setting.loss.items())
    ]


def _in_words(found: list[OfSetting]) -> str:
    parts = []
    for setting in found:
        said = [
            f"{number(lost, 1)} % lost at {share(load, 0)}"
            for load, lost in sorted(setting.loss.items(), reverse=True)
        ]
        parts.append(f"{setting.setting}: {joined(said)}")
    return f"{'; '.join(parts)}."
