# SPDX-License-Identifier: GPL-2.0-or-later
"""What the kernel counted by setting: the page's section."""

from __future__ import annotations

import re
from dataclasses import dataclass

from skblab_analysis.base.words import FIXED_SPACE, quantity, spaced
from skblab_analysis.load import Run
from skblab_analysis.view import Cells, Section, View
from skblab_analysis.work.summary import ByCpu, of

# What the environment says of counters that not every kernel has, and of which boot (counters.sh).
COUNTABLE = re.compile("router (slab allocations|NUMA allocations)(, with .+)?")
NOT = "not counted: "


@dataclass(frozen=True)
class Shown:
    """What the section has: which CPUs had the work, and what was too much for them.

    Two tables: one would be wider than a page.
    """

    cpus: list[Cells]
    rest: list[Cells]


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
    )
    return [Section("work/section.html.j2", shown)] if works else []


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
