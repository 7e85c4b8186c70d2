# SPDX-License-Identifier: GPL-2.0-or-later
"""The picture of what each CPU did with each setting: interrupts and softirqs, and other work."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from skblab_analysis.base import labels
from skblab_analysis.base.bars import WIDE
from skblab_analysis.base.pictures import COLOURS, NARROW_PANEL, Picture, quoted
from skblab_analysis.base.words import FIXED_SPACE, at_rate, share
from skblab_analysis.cpu.summary import CpuSummary, Share, Usage

TEMPLATE = Path(__file__).with_name("heat.gp")
PARTS = ("interrupts and softirqs", "other work")
# Numbers of CPUs that stand below the cells, at most.
MOST_TICKS = 8
# Of a row, how high its cells are; of a cell, what parts it from the next, unless there are many.
HEIGHT = 0.5
GAP = 0.04
NARROW = 40


def picture(summary: CpuSummary, name: str) -> Picture | None:
    """Return the share of its time that each CPU was busy, by setting; None of a single CPU."""
    cpus = sorted({cpu for usage in summary.usages for cpu in usage.shares})
    if len(cpus) < 2:
        return None
    places = {cpu: place for place, cpu in enumerate(cpus)}
    every = -(-len(cpus) // MOST_TICKS)
    texts = [busiest(usage) for usage in summary.usages]
    names = [usage.setting for usage in summary.usages]
    beside = [(text,) for text in texts]
    wide = labels.in_lines(names, beside, WIDE, labels.PNG_SIZE)
    narrow = labels.in_lines(names, beside, NARROW_PANEL, labels.SVG_SIZE)
    cells = [
        _cell(len(names) - row, places[cpu], 0.0 if len(cpus) > NARROW else GAP, found)
        for row, usage in enumerate(summary.usages)
        for cpu, found in sorted(usage.shares.items())
    ]
    lines = [
        f"{quoted(long)} {quoted(text)} {quoted(short)}"
        for long, text, short in zip(wide, texts, narrow, strict=True)
    ]
    said = "; ".join(f"{setting}: {text}" for setting, text in zip(names, texts, strict=True))
    shown = cpus[::every]
    return Picture(
        name=name,
        template=TEMPLATE,
        title=f"What each CPU did by setting, {at_rate(summary)}",
        description=f"The share of its time that each of {len(cpus)} CPUs was busy. {said}.",
        variables={
            "rows": len(summary.usages),
            "cpus": len(cpus),
            "cpu_ticks": _ticks(shown, places, all_named=every == 1),
            "what": "Share of its time that each CPU was busy",
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
