# SPDX-License-Identifier: GPL-2.0-or-later
"""Pictures of what each CPU did, interrupts and softirqs or other work: by setting, and by time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from skblab_analysis.base import labels
from skblab_analysis.base.bars import WIDE
from skblab_analysis.base.certainty import AGAIN
from skblab_analysis.base.pictures import COLOURS, NARROW_PANEL, Picture, quoted
from skblab_analysis.base.words import FIXED_SPACE, at_rate, number, share
from skblab_analysis.cpu.rows import Interval
from skblab_analysis.cpu.summary import CpuSummary, Share, Usage, share_of

TEMPLATE = Path(__file__).with_name("heat.gp")
PARTS = ("interrupts and softirqs", "other work")
# Numbers of CPUs that stand below the cells, at most.
MOST_TICKS = 8
# Of a row, how high its cells are; of a cell, what parts it from the next, unless there are many.
HEIGHT = 0.5
GAP = 0.04
NARROW = 40
# So many CPUs of a setting are drawn over time: those that are busiest.
MOST_CPUS = 8


def picture(summary: CpuSummary, name: str) -> Picture | None:
    """Return the share of its time that each CPU was busy, by setting; None of a single CPU."""
    cpus = sorted({cpu for usage in summary.usages for cpu in usage.shares})
    if len(cpus) < 2:
        return None
    places = {cpu: place for place, cpu in enumerate(cpus)}
    every = -(-len(cpus) // MOST_TICKS)
    rows = [(usage.setting, busiest(usage)) for usage in summary.usages]
    said = "; ".join(f"{setting}: {text}" for setting, text in rows)
    return _picture(
        name,
        f"What each CPU did by setting, {at_rate(summary)}",
        f"The share of its time that each of {len(cpus)} CPUs was busy. {said}.",
        "Share of its time that each CPU was busy",
        rows,
        [
            [(places[cpu], found) for cpu, found in sorted(usage.shares.items())]
            for usage in summary.usages
        ],
        _ticks(cpus[::every], places, all_named=every == 1),
    )


def over_time(summary: CpuSummary, name: str) -> Picture | None:
    """Return the same by time in a trial: of the baseline, and of the setting that differs most.

    None if CPUs were read only before and after packets were offered.
    """
    first, *others = summary.usages
    if first.over_time is None:
        return None
    known = (one for one in others if one.over_time is not None and one.setting != AGAIN)
    most = max(known, key=lambda usage: _differs(summary, usage), default=None)
    rows, cells = [], []
    for usage in (first, *([] if most is None else [most])):
        trial = usage.over_time
        assert trial is not None
        begins = sorted({part.begin for part in trial.intervals})
        for cpu in sorted(
            sorted(usage.shares, key=lambda cpu: -usage.shares[cpu].busy)[:MOST_CPUS]
        ):
            parts = {
                begins.index(part.begin): share_of([part])
                for part in trial.intervals
                if part.cpu == cpu
            }
            found = max(parts.values(), key=lambda one: one.interrupts)
            text = f"interrupts{FIXED_SPACE}up to {share(found.interrupts, 0)}"
            rows.append((f"CPU{FIXED_SPACE}{cpu}: {usage.setting}", text))
            cells.append(sorted(parts.items(), key=lambda one: one[0]))
    trial = first.over_time
    assert trial is not None
    return _picture(
        name,
        f"What each CPU did by time, {at_rate(summary)}",
        f"By time in a trial. {'; '.join(f'{row}: {text}' for row, text in rows)}.",
        "Share of time each CPU was busy, by time",
        rows,
        cells,
        _times(trial.intervals),
    )


def _differs(summary: CpuSummary, usage: Usage) -> float:
    change = summary.change(usage.setting)
    return 0.0 if change is None else abs(change.difference.share)


def _times(intervals: Sequence[Interval]) -> str:
    """Return ticks below cells of a trial's intervals: when they begin, in seconds."""
    begins = sorted({part.begin for part in intervals})
    every = -(-len(begins) // MOST_TICKS)
    return ", ".join(
        f'"{number(begin / 1e9, 1)} s" {place + 0.5:g}'
        for place, begin in enumerate(begins)
        if place % every == 0
    )


def _picture(
    name: str,
    title: str,
    description: str,
    what: str,
    rows: Sequence[tuple[str, str]],
    filled: Sequence[Sequence[tuple[int, Share]]],
    ticks: str,
) -> Picture:
    """Return rows of cells, each filled by parts of its time; of a row, its name and a text."""
    names, texts = [row for row, _ in rows], [text for _, text in rows]
    beside = [(text,) for text in texts]
    wide = labels.in_lines(names, beside, WIDE, labels.PNG_SIZE)
    narrow = labels.in_lines(names, beside, NARROW_PANEL, labels.SVG_SIZE)
    count = 1 + max(place for cells in filled for place, _ in cells)
    lines = [
        f"{quoted(long)} {quoted(text)} {quoted(short)}"
        for long, text, short in zip(wide, texts, narrow, strict=True)
    ]
    cells = [
        _cell(len(rows) - row, place, 0.0 if count > NARROW else GAP, found)
        for row, of_row in enumerate(filled)
        for place, found in of_row
    ]
    return Picture(
        name=name,
        template=TEMPLATE,
        title=title,
        description=description,
        variables={
            "rows": len(rows),
            "columns": count,
            "column_ticks": ticks,
            "what": what,
            "parts": PARTS,
            "colours": COLOURS[:2],
        },
        data="\n".join(
            [
                "# name text name",
                *lines,
                "",
                "",
                "# middle left right bottom top interrupts others",
                *cells,
            ]
        )
        + "\n",
    )


def _cell(upper: int, place: int, gap: float, found: Share) -> str:
    """Return the line of a cell in a row that ends at `upper`."""
    bottom = upper - 0.94
    filled = [bottom + HEIGHT * part for part in (1.0, found.interrupts)]
    filled.append(filled[-1] + HEIGHT * found.others)
    values = (place + 0.5, place + gap, place + 1 - gap, bottom, *filled)
    return " ".join(f"{value:.6g}" for value in values)


def _ticks(cpus: list[int], places: Mapping[int, int], *, all_named: bool) -> str:
    """Return a tick below the cells of each of these CPUs; else the first alone says what it is."""
    words = ["CPU " if all_named or cpu == cpus[0] else "" for cpu in cpus]
    return ", ".join(
        f'"{word}{cpu}" {places[cpu] + 0.5:g}' for word, cpu in zip(words, cpus, strict=True)
    )


def busiest(usage: Usage) -> str:
    """Return the busiest CPU, and the share of its time that it was, in words."""
    cpu, found = max(usage.shares.items(), key=lambda one: (one[1].busy, -one[0]))
    return f"busiest CPU{FIXED_SPACE}{cpu}: {share(found.busy, 0)}"
