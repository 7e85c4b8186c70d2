# SPDX-License-Identifier: GPL-2.0-or-later
"""What `skblab probe verify` found, as tables for a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.markup import escape
from rich.table import Table

from skblab.probe.verify.counts import Verdict
from skblab.probe.verify.medians import Measured, agreements
from skblab_analysis.base.tables import titled
from skblab_analysis.base.words import number


def counts_table(found: Sequence[Verdict]) -> Table:
    """Return what became of each case."""
    table = titled("Known packets, counted")
    table.add_column("back end", no_wrap=True)
    table.add_column("case", no_wrap=True)
    table.add_column("packets", justify="right", no_wrap=True)
    table.add_column("verdict", overflow="fold")
    for result in found:
        said = "; ".join(result.complaints)
        verdict = f"[red]{escape(said)}[/red]" if said else _good(result)
        table.add_row(result.backend, str(result.case), number(result.packets), verdict)
    return table


def _good(verdict: Verdict) -> str:
    """Return how a case went that is good, if need be after tries that did not count."""
    tries = [f"{missed} missed, as it said" if missed else "slower" for missed in verdict.before]
    return "all counted" + (f" (again: {'; '.join(tries)})" if tries else "")


def medians_table(release: str, found: Sequence[Measured]) -> Table:
    """Return what each back end says of each layer, and what remains as true of it."""
    table = titled(f"Medians on {release}, in instructions (exact)")
    table.add_column("layer", no_wrap=True)
    for name in (*(measured.backend for measured in found), "so it is"):
        table.add_column(name, justify="right", overflow="fold")
    for agreed in agreements(found):
        said = (measured.medians[agreed.layer] for measured in found)
        ranges = [_range(low, high) for low, high in said]
        truth = "[red]nothing[/red]"
        if agreed.low <= agreed.high:
            truth = _range(round(agreed.low), agreed.high)
        table.add_row(str(agreed.layer), *ranges, truth)
    table.add_section()
    for path in found[0].cost:
        own = (number(round(measured.cost[path])) for measured in found)
        table.add_row(f"{path}: its own work, in all", *own, "")
    return table


def _range(low: int, high: int) -> str:
    return number(low) if low == high else f"{number(low)}…{number(high)}"
