# SPDX-License-Identifier: GPL-2.0-or-later
"""What the kernel counted by setting: the page's section."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from skblab_analysis.base.words import FIXED_SPACE, counted, quantity, spaced
from skblab_analysis.load import Run
from skblab_analysis.view import Cells, Section, View
from skblab_analysis.work.summary import ByCpu, of

# What the environment says of counters that not every kernel has, and of which boot (counters.sh).
COUNTABLE = re.compile("router (slab allocations|NUMA allocations)(, with .+)?")
NOT = "not counted: "
# Counters of drops and errors of one setting.
MOST_SHOWN = 8


@dataclass(frozen=True)
class Shown:
    """What the section has: which CPUs had the work, what was too much for them, what was lost.

    Several tables: one would be wider than a page. `lost` has settings that lost anything.
    """

    cpus: list[Cells]
    rest: list[Cells]
    lost: list[Cells]


def _sections(run: Run) -> list[Section]:
    works = of(run)
    shown = Shown(
        cpus=[
            Cells(
                name=work.setting,
                figures=tuple(map(_by_cpu, (work.interrupts, work.net_rx, work.processed))),
            )
            for work in works
        ],
        rest=[
            Cells(
                name=work.setting,
                figures=(
                    str(work.trials),
                    spaced(work.squeezed),
                    spaced(work.dropped),
                    *(quantity(ns, "ns") if ns else "" for ns in (work.napi_ns, work.ksoftirqd_ns)),
                ),
            )
            for work in works
        ],
        lost=[Cells(name=work.setting, figures=(_most(work.lost),)) for work in works if work.lost],
    )
    return [Section("work/section.html.j2", shown)] if works else []


def _most(lost: Mapping[str, int]) -> str:
    """Return the counters that rose most, as a list: a driver may have hundreds."""
    said = [f"{name}: {spaced(value)}" for name, value in list(lost.items())[:MOST_SHOWN]]
    if more := len(lost) - len(said):
        said.append(f"and {counted(more, 'other counter')}")
    return "; ".join(said)


def _by_cpu(counts: ByCpu) -> str:
    """Return a sum, and what part of it each CPU has: 12 000 (CPU 0: 60, 1: 40 %)."""
    whole = sum(counts.values())
    if not whole:
        return spaced(whole)
    if len(counts) == 1:
        return f"{spaced(whole)} (CPU {next(iter(counts))})"
    parts = ", ".join(f"{cpu}: {100 * part / whole:.0f}" for cpu, part in counts.items())
    return f"{spaced(whole)} (CPU {parts}{FIXED_SPACE}%)"


def _unseen(run: Run) -> list[str]:
    """Return what the router's kernel does not count at all: that it has no row is no zero."""
    environment = run.document.environment
    return [
        f"The router’s kernel did not count {found[1]}{found[2] or ''}: {value.removeprefix(NOT)}."
        for name, value in (environment.more if environment else {}).items()
        if (found := COUNTABLE.fullmatch(name)) and value.startswith(NOT)
    ]


VIEW = View(sections=_sections, unseen=_unseen)
