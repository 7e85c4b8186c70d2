# SPDX-License-Identifier: GPL-2.0-or-later
"""Layers by setting, of a sweep: their tables, the page's section, and sentences about them.

A difference in brackets is not significant. What one trial of the probe saw is trial_view's.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from rich.table import Table

from skblab_analysis.base.certainty import AGAIN, Change, Difference
from skblab_analysis.base.comparison import Comparison
from skblab_analysis.base.offered import behind
from skblab_analysis.base.sampled import Sampled
from skblab_analysis.base.tables import named, titled
from skblab_analysis.base.words import NARROW_SPACE, Scale, at_rate, joined, quantity, scale, share
from skblab_analysis.formats.summary import Figure
from skblab_analysis.layers.summary import (
    DELAY,
    RESOLUTION,
    WHOLE,
    LayeringSummary,
    Setting,
    means_by_block,
    of,
)
from skblab_analysis.view import Cells, Section, View, suffix

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
    return [_cells(setting, summary, space) for setting in summary.settings]


def table(summary: LayeringSummary, identical: Collection[str] = ()) -> Table:
    """Return the mean of each layer by setting, a row below it with what it differs."""
    made = titled(f"Layers ({scale_of(summary).name}, mean, {at_rate(summary)})")
    made.add_column("setting", overflow="fold")
    for name in names(summary):
        made.add_column(name, justify="right", overflow="fold")
    for row in rows(summary):
        made.add_row(named(row.setting, identical), *row.means)
        if any(row.differences):
            made.add_row("", *row.differences, style="dim")
    made.caption = "below each mean: its difference from the baseline; in brackets: not significant"
    return made


def compared(found: Sequence[LayeringSummary]) -> list[Comparison]:
    """Return what each layer's mean differs from the baseline's, of each traffic and rate."""
    return [
        Comparison(
            measure="layers",
            figure="mean",
            part=name,
            unit="ns",
            baseline=summary.baseline,
            changes=tuple(
                Change(setting.name, change)
                for setting in summary.settings
                if (change := summary.change(setting.name, name)) is not None
            ),
            traffic=summary.traffic,
            rate=summary.rate,
        )
        for summary in found
        if summary.baseline is not None
        for name in names(summary)
    ]


@dataclass(frozen=True)
class Shown:
    """What the section has of one traffic at one rate."""

    suffix: str
    title: str
    unit: str
    names: list[str]
    rows: list[Cells]


def _section(summary: LayeringSummary, place: int) -> Section:
    shown = Shown(
        suffix=suffix(place),
        title=at_rate(summary),
        unit=scale_of(summary).name,
        names=names(summary),
        rows=[
            cells
            for row in rows(summary, NARROW_SPACE)
            for cells in (
                Cells(row.setting, row.means, strong=row.setting == summary.baseline),
                Cells("", row.differences, about=f"{row.setting}: difference"),
            )
            if any(cells.figures)
        ],
    )
    return Section("layers/section.html.j2", shown)


def sentences(found: Sequence[LayeringSummary]) -> list[str]:
    """Return the findings."""
    return [sentence for summary in found for sentence in _sentences(summary)]


def headline(found: Sequence[LayeringSummary]) -> str | None:
    """Return what a packet takes with the first setting, and in which layer most of it."""
    for summary in found:
        first = summary.settings[0]
        times = {
            name: mean
            for name in summary.names
            if name not in (WHOLE, DELAY) and (mean := first.mean(name)) is not None
        }
        whole = first.mean(WHOLE)
        if whole and times:
            longest = max(times, key=times.__getitem__)
            return (
                f"{at_rate(summary)}: with {first.name} a packet's way through the router takes "
                f"{quantity(whole, 'ns')}, the longest part of it {longest} "
                f"({share(times[longest] / whole)})"
            )
    return None


def unseen(found: Sequence[LayeringSummary]) -> list[str]:
    """Return what these trials could not tell."""
    said = []
    for summary in found:
        slow = [setting.name for setting in summary.settings if behind(setting.trials)]
        if slow:
            said.append(
                f"{at_rate(summary)}: the generator did not keep that rate in some block of "
                f"{joined(slow)}. Such a block is in no comparison."
            )
        single = [setting.name for setting in summary.settings if len(setting.trials) == 1]
        if single:
            said.append(
                f"{at_rate(summary)}: layers of {joined(single)} are of one block only: whether "
                "they differ is not known."
            )
    if found:
        said.append("Every layer includes the probe's own work, which cancels in differences.")
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


def _sentences(summary: LayeringSummary) -> Iterator[str]:
    for setting in summary.settings[1:]:
        whole = summary.change(setting.name, WHOLE)
        if whole is None or not whole.significant or setting.name == AGAIN:
            continue
        layers = summary.moved(setting.name)[:MOST_NAMED]
        moved = [
            f"{name} {'+' if layer.effect > 0 else ''}{quantity(layer.effect, 'ns')}"
            for name, layer in layers
        ]
        # Layers with more than the whole differs by, or the other way, are no part of it.
        part = sum(layer.effect for _, layer in layers) / whole.effect
        where = "most of it in" if part > 0.5 else "of it in"
        text = f"{'+' if whole.effect > 0 else ''}{quantity(whole.effect, 'ns')}"
        yield (
            f"{at_rate(summary)}: with {setting.name} a packet's way through the router differs by "
            f"{text}{f': {where} {joined(moved)}' if moved else ''}."
        )


def _figures(summary: LayeringSummary) -> Iterator[Figure]:
    """Yield what a packet spends in each layer, on average over all packets."""
    for setting in summary.settings:
        for name in names(summary):
            yield Figure(
                measure="layers",
                figure="mean",
                part=name,
                unit="ns",
                setting=setting.name,
                traffic=summary.traffic,
                rate=summary.rate,
                value=setting.mean(name),
                blocks=len(setting.trials),
            )


def _samples(summary: LayeringSummary) -> Iterator[Sampled]:
    """Yield what a packet spends in each layer by block.

    A probe that has other points has other layers, and none of them is the same by being absent.
    """
    points = {end for name in summary.names if "→" in name for end in name.split("→")}
    how = (("points", ", ".join(sorted(points))),)
    for setting in summary.settings:
        means = means_by_block(setting.trials)
        for name in names(summary):
            if blocks := means.get(name):
                yield Sampled(
                    measure="layers",
                    figure="mean",
                    part=name,
                    unit="ns",
                    setting=setting.name,
                    blocks=blocks,
                    traffic=summary.traffic,
                    rate=summary.rate,
                    resolution=RESOLUTION,
                    how=how if "→" in name else (),
                    row=name,
                    # The delay is of polls, and not of packets that skip it.
                    may_be_zero=name != DELAY,
                )


VIEW = View(
    samples=lambda run: [one for summary in of(run) for one in _samples(summary)],
    depends={"layers.late_us": None},
    lengths={"layers.seconds": 5.0},
    figures=lambda run: [figure for summary in of(run) for figure in _figures(summary)],
    tables=lambda run: [table(found, run.identical) for found in of(run)],
    sections=lambda run: [_section(found, place) for place, found in enumerate(of(run))],
    headline=lambda run: headline(of(run)),
    compared=lambda run: compared(of(run)),
    sentences=lambda run: sentences(of(run)),
    unseen=lambda run: unseen(of(run)),
)
