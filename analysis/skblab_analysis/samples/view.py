# SPDX-License-Identifier: GPL-2.0-or-later
"""Which functions run, by samples: tables, pictures, flame graphs, what chance leaves unknown.

A difference in brackets is not significant.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.markup import escape
from rich.table import Table

from skblab_analysis.base import certainty
from skblab_analysis.base.bars import Bar, bars
from skblab_analysis.base.certainty import AGAIN, Change
from skblab_analysis.base.comparison import Comparison, Unit
from skblab_analysis.base.differences import brackets
from skblab_analysis.base.offered import KEPT
from skblab_analysis.base.pictures import Picture
from skblab_analysis.base.sampled import Sampled
from skblab_analysis.base.tables import INTERVAL, known_columns, titled
from skblab_analysis.base.words import (
    NARROW_SPACE,
    at_rate,
    count_decimals,
    joined,
    number,
    share,
    signed,
)
from skblab_analysis.formats import stacks
from skblab_analysis.formats.summary import Figure
from skblab_analysis.functions import flame
from skblab_analysis.functions.flame import Flame
from skblab_analysis.load import Run
from skblab_analysis.samples.rows import USER
from skblab_analysis.samples.summary import NOTABLE, Differs, SamplesSummary, Sampling, of
from skblab_analysis.view import Cells, Section, View, suffix

# Functions that a table names: those that take most, and those that a setting differs by most.
TOP, DIFFER = 12, 5
# Functions that a sentence names.
TOLD = 3
COLUMNS = ("own", "share", "inclusive", "samples")
COMPARED = ("setting", "before", "after", "differs", INTERVAL)
PER_FUNCTION = (
    f"Of the functions that take {share(NOTABLE)} or more, those that differ most; as these are "
    "chosen for that, their intervals are wider: of twenty settings that change nothing one has a "
    "significant function here (Bonferroni)"
)


def per_packet(summary: SamplesSummary) -> str:
    """Return what figures are of: "ns per packet", or an event's name."""
    return f"{summary.unit} per packet"


def _top(sampling: Sampling, space: str) -> Iterator[Cells]:
    """Yield the functions that take most of a setting's packets, the others, and all."""
    whole, found = sampling.whole, sampling.found
    names = list(sampling.own)

    def cells(name: str, own: float, inclusive: float | None, count: int) -> Cells:
        figures = (
            _figure(own, space),
            share(own / whole if whole else None),
            "" if inclusive is None else _figure(inclusive, space),
            number(count, 0, space),
        )
        return Cells(name, figures, strong=name == "all")

    for name in names[:TOP]:
        yield cells(name, sampling.own[name], sampling.inclusive[name], found[name])
    if rest := names[TOP:]:
        own = sum(sampling.own[name] for name in rest)
        yield cells(f"others ({len(rest)})", own, None, sum(found[name] for name in rest))
    yield cells("all", whole, None, found.total())


def _figure(value: float, space: str) -> str:
    return number(value, _digits(value), space)


def _digits(value: float) -> int:
    if not value:
        return 1
    return 0 if abs(value) >= 1000 else count_decimals(value)


def _differing(summary: SamplesSummary) -> list[Differs]:
    """Return the functions that settings differ by most, setting by setting."""
    return [
        differs for setting in summary.others for differs in summary.differences(setting, DIFFER)
    ]


def _compared(summary: SamplesSummary, space: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield the function, and setting, before, after, difference and half of its interval."""
    for differs in _differing(summary):
        before = differs.difference.of
        margin = differs.difference.margin
        yield (
            differs.function,
            (
                differs.setting,
                _figure(before, space),
                _figure(before + differs.difference.effect, space),
                _difference(differs, space),
                "" if margin is None else f"±{_figure(margin, space)}",
            ),
        )


def _difference(differs: Differs, space: str) -> str:
    effect = differs.difference.effect
    text = signed(effect, _digits(effect), space)
    return text if differs.difference.significant else f"({text})"


def tables(summary: SamplesSummary) -> list[Table]:
    """Return what functions take with the first setting, and what others differ by."""
    first = summary.settings[0]
    what = f"{per_packet(summary)}, {at_rate(summary)}"
    table = titled(escape(f"Functions that run with {first.setting} ({what})"))
    table.add_column("function", overflow="fold")
    for name in COLUMNS:
        table.add_column(name, justify="right", no_wrap=True)
    for row in _top(first, " "):
        last = row.name.startswith("others (")
        table.add_row(escape(row.name), *row.figures, end_section=last)
    rows = list(_compared(summary, " "))
    if not rows:
        return [table]
    names, figures = known_columns(COMPARED, [cells for _, cells in rows])
    other = titled(escape(f"Functions that differ most ({what})"))
    other.add_column("function", overflow="fold")
    for name in names:
        other.add_column(name, justify="left" if name == "setting" else "right", overflow="fold")
    for (function, _), cells in zip(rows, figures, strict=True):
        other.add_row(escape(function), *map(escape, cells))
    other.caption = "\n".join(brackets(one.difference for one in _differing(summary))) or None
    return [table, other]


@dataclass(frozen=True)
class Shown:
    """What the section has of one traffic at one rate.

    `flames` are of the settings, by the names of the files that have their stacks.
    """

    suffix: str
    title: str
    event: str
    unit: str
    first: str
    columns: tuple[str, ...]
    top: tuple[Cells, ...]
    compared: list[str]
    rows: tuple[Cells, ...]
    note: str
    pictures: tuple[tuple[str, str], ...]
    flames: tuple[tuple[str, Flame], ...]


def _section(summary: SamplesSummary, place: int) -> Section:
    first = summary.settings[0]
    rows = list(_compared(summary, NARROW_SPACE))
    columns, figures = known_columns(COMPARED[1:], [cells[1:] for _, cells in rows])
    pictures = tuple(_pictures(summary, suffix(place)))
    shown = Shown(
        suffix=suffix(place),
        title=at_rate(summary),
        event=summary.event,
        unit=per_packet(summary),
        first=first.setting,
        columns=COLUMNS,
        top=tuple(_top(first, NARROW_SPACE)),
        compared=["function", *columns],
        rows=tuple(
            Cells(function, cells, about=f"with {setting}")
            for (function, (setting, *_)), cells in zip(rows, figures, strict=True)
        ),
        note=f"{PER_FUNCTION}.",
        pictures=tuple((picture.name, picture.title) for picture in pictures),
        flames=tuple(
            (
                name,
                flame.flame(setting.setting, setting.stacks, _widest(summary), unit=summary.unit),
            )
            for name, setting in _files(summary, place)
        ),
    )
    return Section("samples/section.html.j2", shown, pictures)


def _pictures(summary: SamplesSummary, of: str) -> Iterator[Picture]:
    first = summary.settings[0]
    top = [
        Bar(name, own, f"{_figure(own, ' ')} ({share(own / first.whole)})")
        for name, own in list(first.own.items())[:TOP]
        if own
    ]
    if top:
        title = f"Functions that run with {first.setting}"
        yield bars(f"samples{of}", title, f"Itself, {per_packet(summary)}", top, compared=False)
    for place, setting in enumerate(summary.others, 1):
        # Chance has a table, and no picture.
        if setting.setting == AGAIN:
            continue
        differing = [
            Bar(
                one.function,
                one.difference.effect,
                _difference(one, " "),
                muted=not one.difference.significant,
            )
            for one in summary.differences(setting, DIFFER)
        ]
        if differing:
            yield bars(
                f"samples-differ{of}-{place}",
                f"What {setting.setting} differs by from {first.setting}",
                f"More or less than with {first.setting}, {per_packet(summary)}",
                differing,
                compared=True,
            )


def _widest(summary: SamplesSummary) -> float:
    """Return what all flame graphs of a rate are drawn to the scale of."""
    return max(setting.whole for setting in summary.settings) or 1.0


def _files(summary: SamplesSummary, place: int) -> Iterator[tuple[str, Sampling]]:
    """Yield the file of each setting's stacks."""
    for number_, setting in enumerate(summary.settings, 1):
        yield f"samples{suffix(place)}-{number_}.folded", setting


def _texts(run: Run) -> list[tuple[str, str]]:
    return [
        (name, stacks.folded(setting.stacks))
        for place, summary in enumerate(of(run))
        for name, setting in _files(summary, place)
    ]


def headline(found: Sequence[SamplesSummary]) -> str | None:
    """Return which functions take most, in one sentence; None of no samples."""
    return next((said for summary in found for said in _most(summary)), None)


def sentences(found: Sequence[SamplesSummary]) -> list[str]:
    """Return which functions take most, and which a setting changes."""
    return [f"{said[0].upper()}{said[1:]}." for summary in found for said in _told(summary)]


def _called(function: str) -> str:
    """Return how a sentence names a function: [user] and [unknown] are none."""
    if function == USER:
        return "programs"
    return function if function.startswith("[") else f"{function}()"


def _most(summary: SamplesSummary) -> Iterator[str]:
    """Yield which functions take most of a packet with the first setting."""
    first = summary.settings[0]
    if first.whole:
        names = [
            f"{_called(name)} {share(own / first.whole)}"
            for name, own in list(first.own.items())[:TOLD]
        ]
        yield (
            f"with {first.setting} a packet takes {_figure(first.whole, NARROW_SPACE)} "
            f"{summary.unit} of CPUs that are not idle, most of it in {joined(names)} "
            f"({at_rate(summary)})"
        )


def _told(summary: SamplesSummary) -> Iterator[str]:
    first = summary.settings[0]
    yield from _most(summary)
    for setting in summary.others:
        if setting.setting == AGAIN:
            continue
        changed = [
            f"{_called(one.function)} {_difference(one, NARROW_SPACE)}"
            for one in summary.differences(setting, DIFFER)
            if one.difference.significant
        ]
        if changed:
            yield (
                f"With {setting.setting} instead of {first.setting}, in {per_packet(summary)}: "
                f"{joined(changed)}"
            )


def unseen(found: Sequence[SamplesSummary]) -> list[str]:
    """Return what samples cannot tell; which rate was not kept."""
    said = []
    for summary in found:
        slow = [setting.setting for setting in summary.settings if _slow(setting)]
        if slow:
            said.append(
                f"{at_rate(summary)}: while functions were sampled the generator sent over "
                f"{share(KEPT, 0)} less than that in some block of {joined(slow)}. Such a block "
                "is in no comparison."
            )
        lossy = [
            f"{share(setting.dropped)} with {setting.setting}"
            for setting in summary.settings
            if setting.dropped > KEPT
        ]
        if lossy:
            said.append(
                f"{at_rate(summary)}: packets were dropped while functions were sampled: "
                f"{joined(lossy)}. What these cost is in the figures of those that were forwarded."
            )
        waited = [
            f"{share(setting.idle, 0)} with {setting.setting}" for setting in summary.settings
        ]
        said.append(
            f"{at_rate(summary)}: of all that was sampled this was of idle CPUs, and is left out: "
            f"{joined(waited)}."
        )
    if any(summary.clock for summary in found):
        said.append(
            "A timer was sampled, not the processor's cycles: code that runs with interrupts off "
            "is counted for the function that lets them in again."
        )
    elif found:
        said.append(
            "Where a processor's counters raise ordinary interrupts, as on Arm without "
            "pseudo-NMIs, code that runs with interrupts off is counted for the function that lets "
            "them in again."
        )
    if found:
        said.append(
            "Samples are of all CPUs of the device under test and of all that ran there, perf "
            "itself and in one guest also the generator among it."
        )
    return said


def _slow(setting: Sampling) -> bool:
    return not all(block.kept for block in setting.blocks)


def _unit(summary: SamplesSummary) -> Unit:
    return "ns/packet" if summary.unit == "ns" else "count/packet"


def compared(found: Sequence[SamplesSummary]) -> list[Comparison]:
    """Return what functions differ from the baseline's, of those that tables name."""
    made = []
    for summary in found:
        changes: dict[str, list[Change]] = {}
        for one in _differing(summary):
            changes.setdefault(one.function, []).append(Change(one.setting, one.difference))
        assert summary.baseline is not None or not changes
        made += [
            Comparison(
                measure="samples",
                figure=summary.event,
                part=function,
                unit=_unit(summary),
                baseline=summary.baseline or "",
                changes=tuple(of_it),
                traffic=summary.traffic,
                rate=summary.rate,
            )
            for function, of_it in changes.items()
        ]
    return made


def _figures(summary: SamplesSummary) -> Iterator[Figure]:
    """Yield what each function takes that a table names."""
    first = list(summary.settings[0].own)[:TOP]
    named = dict.fromkeys((*first, *(one.function for one in _differing(summary))))
    for setting in summary.settings:
        for name in named:
            yield Figure(
                measure="samples",
                figure=summary.event,
                part=name,
                unit=_unit(summary),
                setting=setting.setting,
                traffic=summary.traffic,
                rate=summary.rate,
                value=setting.own.get(name, 0.0),
                blocks=len(setting.blocks),
            )


def _samples(summary: SamplesSummary) -> Iterator[Sampled]:
    """Yield what each function takes by block, of blocks that kept the rate."""
    for setting in summary.settings:
        kept = setting.kept
        if not kept.blocks:
            continue
        least = NOTABLE * kept.whole
        notable = sum(own >= least for own in kept.own.values())
        # As wide as chance alone makes a difference from another run.
        width = math.sqrt(2) * certainty.chance(max(notable, 1))
        for function, own in kept.own.items():
            yield Sampled(
                measure="samples",
                figure=summary.event,
                part=function,
                unit=_unit(summary),
                setting=setting.setting,
                blocks=kept.sample(function),
                traffic=summary.traffic,
                rate=summary.rate,
                resolution=width * kept.chance(function),
                row=function,
                may_be_zero=True,
                minor=own < least,
                among=max(notable, 1),
            )


VIEW = View(
    samples=lambda run: [one for found in of(run) for one in _samples(found)],
    depends={"samples.frequency": 997},
    lengths={"samples.seconds": 10.0},
    figures=lambda run: [figure for found in of(run) for figure in _figures(found)],
    tables=lambda run: [table for found in of(run) for table in tables(found)],
    sections=lambda run: [_section(found, place) for place, found in enumerate(of(run))],
    headline=lambda run: headline(of(run)),
    compared=lambda run: compared(of(run)),
    sentences=lambda run: sentences(of(run)),
    unseen=lambda run: unseen(of(run)),
    texts=_texts,
)
