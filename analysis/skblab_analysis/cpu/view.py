# SPDX-License-Identifier: GPL-2.0-or-later
"""CPU time per packet by setting: its table, the page's section, and sentences about it.

A difference in brackets is not significant.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from rich.table import Table

from skblab_analysis.base import told
from skblab_analysis.base.bars import Bar, bars
from skblab_analysis.base.certainty import AGAIN
from skblab_analysis.base.comparison import Comparison, Wording
from skblab_analysis.base.differences import (
    alarms_text,
    brackets,
    change_text,
    difference_text,
    half_text,
    not_significant,
)
from skblab_analysis.base.offered import KEPT, behind
from skblab_analysis.base.pictures import Picture
from skblab_analysis.base.sampled import Sampled
from skblab_analysis.base.tables import INTERVAL, known_columns, named, titled
from skblab_analysis.base.words import (
    ABSENT,
    FIXED_SPACE,
    NARROW_SPACE,
    at_rate,
    joined,
    number,
    quantity,
    share,
)
from skblab_analysis.cpu import heat
from skblab_analysis.cpu.summary import CpuSummary, Usage, false_alarms, of, resolution_of
from skblab_analysis.formats.summary import Figure
from skblab_analysis.view import Cells, Section, View, suffix

# Of Times, those that have a column.
SHOWN = ("busy", "softirq", "system")


def tables(summary: CpuSummary, identical: Collection[str] = ()) -> list[Table]:
    """Return CPU time of a packet by setting at one rate."""
    table = titled(f"CPU time (ns per packet, {at_rate(summary)})")
    table.add_column("setting", overflow="fold")
    names, figures = known_columns(
        (*SHOWN, "differs", INTERVAL),
        [(*_times(usage), *_differs(usage, summary)) for usage in summary.usages],
    )
    for name in names:
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("CPUs busy", justify="right")
    for usage, cells in zip(summary.usages, figures, strict=True):
        table.add_row(named(usage.setting, identical), *cells, _by_cpu(usage))
    table.caption = "\n".join(brackets(change.difference for change in summary.changes)) or None
    return [table]


@dataclass(frozen=True)
class Shown:
    """What the section has of one traffic at one rate."""

    suffix: str
    title: str
    columns: list[str]
    rows: tuple[Cells, ...]
    by_setting: bool
    by_time: bool


def _section(summary: CpuSummary, place: int) -> Section:
    columns, figures = known_columns(
        ("differs", INTERVAL, *SHOWN, "CPUs busy", "blocks", "rate"),
        [
            (
                *_differs(usage, summary),
                *_times(usage, NARROW_SPACE),
                _by_cpu(usage),
                str(len(usage.trials)),
                "not kept" if behind(usage.trials) else "kept",
            )
            for usage in summary.usages
        ],
    )
    rows = tuple(
        Cells(name=usage.setting, figures=cells, strong=usage.setting == summary.baseline)
        for usage, cells in zip(summary.usages, figures, strict=True)
    )
    by_setting = heat.picture(summary, f"cpus{suffix(place)}")
    by_time = heat.over_time(summary, f"cpus-time{suffix(place)}")
    drawn = tuple(filter(None, (by_setting, by_time)))
    shown = Shown(
        *(suffix(place), at_rate(summary), columns, rows),
        by_setting=by_setting is not None,
        by_time=by_time is not None,
    )
    return Section("cpu/section.html.j2", shown, (_picture(summary, suffix(place)), *drawn))


def _picture(summary: CpuSummary, of_it: str) -> Picture:
    """CPU time of a packet by setting, with the difference from the baseline."""
    found = []
    for usage in summary.usages:
        time, differs = usage.per_packet(), _differs(usage, summary)[0]
        text = "" if differs in (ABSENT, "baseline") else f" {differs}"
        found.append(Bar(usage.setting, time, f"{number(time)}{text}"))
    title = f"CPU time of a packet, {at_rate(summary)}"
    return bars(f"cpu{of_it}", title, "ns per packet", found, compared=False)


def _times(usage: Usage, space: str = " ") -> tuple[str, ...]:
    return tuple(number(usage.per_packet(name), 0, space) for name in SHOWN)


def _differs(usage: Usage, summary: CpuSummary) -> tuple[str, str]:
    """Return what a setting differs from the baseline, and half of the interval."""
    if usage.setting == summary.baseline:
        return "baseline", ""
    change = summary.change(usage.setting)
    if change is None:
        return ABSENT, ""
    return difference_text(change.difference), half_text(change.difference)


def _by_cpu(usage: Usage) -> str:
    """Return how busy each CPU was: 0: 40, 1: 2 %."""
    parts = [f"{cpu}: {100 * busy:.0f}" for cpu, busy in usage.by_cpu.items()]
    return f"{', '.join(parts)}{FIXED_SPACE}%" if parts else ABSENT


def headline(found: Sequence[CpuSummary], apart: Collection[str] = ()) -> str | None:
    """Return the finding in one sentence; None if there is none.

    Gains of the settings in `apart` are none to tell.
    """
    return told.headline(compared(found), apart=apart) or next(_taken(found), None)


def _taken(found: Sequence[CpuSummary]) -> Iterator[str]:
    """Yield the CPU time of a packet with the first setting, of each traffic and rate."""
    for summary in found:
        first = summary.usages[0]
        time = quantity(first.per_packet(), "ns")
        yield f"a packet takes {time} of CPU time with {first.setting} ({at_rate(summary)})"


def compared(found: Sequence[CpuSummary]) -> list[Comparison]:
    """Return what CPU time differs from the baseline's, of each traffic and rate."""
    return [
        Comparison(
            measure="cpu",
            figure="busy",
            unit="ns/packet",
            baseline=summary.baseline,
            changes=summary.changes,
            wording=WORDING,
            traffic=summary.traffic,
            rate=summary.rate,
        )
        for summary in found
        if summary.baseline is not None
    ]


WORDING = Wording(
    what="CPU time",
    noun="of a packet’s CPU time",
    better=("save", "{} of a packet’s CPU time"),
    worse=("cost", "{} more CPU time a packet"),
    best="Biggest saving",
    worst="Biggest cost",
)


def _summary(found: Sequence[CpuSummary]) -> list[str]:
    """Return the CPU time of a packet, where no significance is known."""
    unknown = [
        summary
        for summary in found
        if all(change.difference.significant is None for change in summary.changes)
    ]
    return [f"{said}." for said in _taken(unknown)]


def sentences(found: Sequence[CpuSummary]) -> list[str]:
    """Return the findings."""
    said = [sentence for summary in found for sentence in _sentences(summary)]
    return [*said, *alarms_text("CPU time", false_alarms(found))]


def _sentences(summary: CpuSummary) -> Iterator[str]:
    first = summary.usages[0]
    whole, softirq = (quantity(first.per_packet(name), "ns") for name in ("busy", "softirq"))
    yield (
        f"{at_rate(summary)}: with {first.setting} a packet takes {whole} of CPU time, "
        f"{softirq} of it in softirqs."
    )
    compared = [change for change in summary.changes if change.setting != AGAIN]
    if significant := [change for change in compared if change.difference.significant]:
        order = sorted(significant, key=lambda change: change.difference.effect)
        said = joined([change_text(change) for change in order])
        yield f"Its CPU time against {summary.baseline}: {said}."
    yield from not_significant(compared)


def unseen(found: Sequence[CpuSummary]) -> list[str]:
    """Return what these trials could not tell."""
    said = []
    for summary in found:
        slow = [usage.setting for usage in summary.usages if behind(usage.trials)]
        if slow:
            said.append(
                f"{at_rate(summary)}: the generator sent over {share(KEPT, 0)} less than that in "
                f"some block of {joined(slow)}. Such a block is in no comparison."
            )
    if found:
        said.append(
            "CPU time includes whatever else ran on the device under test in a trial; in one guest "
            "also the generator."
        )
    return said


def _figures(summary: CpuSummary) -> Iterator[Figure]:
    """Yield CPU time of a packet."""
    for usage in summary.usages:
        for name in SHOWN:
            yield Figure(
                measure="cpu",
                figure=name,
                unit="ns/packet",
                setting=usage.setting,
                traffic=summary.traffic,
                rate=summary.rate,
                value=usage.per_packet(name),
                blocks=len(usage.trials),
            )


def _samples(found: CpuSummary) -> Iterator[Sampled]:
    for usage in found.usages:
        if usage.sample:
            yield Sampled(
                measure="cpu",
                figure="busy",
                unit="ns/packet",
                setting=usage.setting,
                blocks=usage.sample,
                traffic=found.traffic,
                rate=found.rate,
                resolution=resolution_of([usage]),
                relative=True,
            )


VIEW = View(
    samples=lambda run: [one for found in of(run) for one in _samples(found)],
    depends={"cpu.every_seconds": None},
    lengths={"cpu.seconds": 10.0},
    figures=lambda run: [figure for found in of(run) for figure in _figures(found)],
    tables=lambda run: [table for found in of(run) for table in tables(found, run.identical)],
    sections=lambda run: [_section(found, place) for place, found in enumerate(of(run))],
    headline=lambda run: headline(of(run), run.only_here),
    compared=lambda run: compared(of(run)),
    summary=lambda run: _summary(of(run)),
    sentences=lambda run: sentences(of(run)),
    unseen=lambda run: unseen(of(run)),
)
