# SPDX-License-Identifier: GPL-2.0-or-later
"""Layers by setting in words: the rows of their tables, and sentences about them.

A difference in brackets is not significant.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from skblab_analysis.base.certainty import AGAIN, Difference
from skblab_analysis.base.offered import behind
from skblab_analysis.base.words import Scale, at_rate, joined, quantity, scale
from skblab_analysis.layers.summary import DELAY, WHOLE, LayeringSummary, Setting

# Layers that a sentence names; the table has all.
MOST_NAMED = 3


@dataclass(frozen=True)
class SettingCells:
    """The row of a setting: the mean of each layer, and below it what it differs."""

    setting: str
    means: tuple[str, ...]
    differences: tuple[str, ...]


def names(summary: LayeringSummary) -> list[str]:
    """Return the columns: the whole path, the delay before it, then the layers in their order."""
    first = [name for name in (WHOLE, DELAY) if name in summary.names]
    return [*first, *(name for name in summary.names if name not in first)]


def scale_of(summary: LayeringSummary) -> Scale:
    """Return the one scale in which all means are written."""
    means = [setting.mean(WHOLE) or 0.0 for setting in summary.settings]
    return scale("ns", round(max(means, default=0.0)))


def rows(summary: LayeringSummary, space: str = " ") -> list[SettingCells]:
    """Return a row for every setting."""
    return [_cells(one, summary, space) for one in summary.settings]


def sentences(found: Sequence[LayeringSummary]) -> list[str]:
    """Return the findings."""
    return [one for summary in found for one in _of(summary)]


def unseen(found: Sequence[LayeringSummary]) -> list[str]:
    """Return what these trials could not tell."""
    said = []
    for summary in found:
        slow = [one.name for one in summary.settings if behind(one.trials)]
        if slow:
            said.append(
                f"{at_rate(summary)}: the generator did not keep that rate in some block of "
                f"{joined(slow)}: its layers there are of a lower one, and in no comparison."
            )
        single = [one.name for one in summary.settings if len(one.trials) == 1]
        if single:
            said.append(
                f"{at_rate(summary)}: layers of {joined(single)} are of one block only: whether "
                "they differ is not known."
            )
    if found:
        said.append("The probe's own work is in every layer; in differences it cancels.")
    return said


def _cells(one: Setting, summary: LayeringSummary, space: str) -> SettingCells:
    scaled = scale_of(summary)
    columns = names(summary)
    means = [one.mean(name) for name in columns]
    return SettingCells(
        setting=one.name,
        means=tuple(scaled.text(mean, space) for mean in means),
        differences=tuple(
            _difference(summary.change(one.name, name), scaled, space) for name in columns
        ),
    )


def _difference(one: Difference | None, scaled: Scale, space: str) -> str:
    if one is None:
        return ""
    text = f"{'+' if one.effect > 0 else ''}{scaled.text(one.effect, space)}"
    if one.margin is not None:
        text += f" ±{scaled.text(one.margin, space)}"
    return text if one.significant else f"({text})"


def _of(summary: LayeringSummary) -> Iterator[str]:
    for setting in summary.settings[1:]:
        whole = summary.change(setting.name, WHOLE)
        if whole is None or not whole.significant or setting.name == AGAIN:
            continue
        moved = [
            f"{name} {'+' if one.effect > 0 else ''}{quantity(one.effect, 'ns')}"
            for name, one in summary.moved(setting.name)[:MOST_NAMED]
        ]
        text = f"{'+' if whole.effect > 0 else ''}{quantity(whole.effect, 'ns')}"
        yield (
            f"{at_rate(summary)}: with {setting.name} a packet's way through the router differs by "
            f"{text}{f': most of it in {joined(moved)}' if moved else ''}."
        )
