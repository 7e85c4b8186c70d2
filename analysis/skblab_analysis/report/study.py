# SPDX-License-Identifier: GPL-2.0-or-later
"""A published study's figures under those of our own run of it, in one table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.table import Table

from skblab_analysis.base.tables import titled
from skblab_analysis.base.words import ABSENT, number
from skblab_analysis.formats.study import Figures

RULES = (
    "Mode: of whole µs. Without outliers: the average within Tukey's fences, 1.5 interquartile "
    "ranges from the quartiles; the study does not say its own rule. Ratio: of medians."
)
COLUMNS = {
    "average": "average_us",
    "median": "median_us",
    "mode": "mode_us",
    "std dev": "stddev_us",
    "without\noutliers": "average_without_outliers_us",
}


def table(title: str, ours: Sequence[Figures], published: Mapping[str, Figures]) -> Table:
    """Return our figures, each row with the published one under it; no wider than 80 columns."""
    made = titled(title)
    made.add_column("experiment", no_wrap=True)
    for name in ("packets", *COLUMNS, "ratio"):
        made.add_column(name, justify="right", no_wrap=True)
    for figures in ours:
        theirs = published.get(figures.experiment)
        ratio = f"{number(figures.median_us / theirs.median_us, 1)}×" if theirs else ABSENT
        made.add_row(
            figures.experiment.removesuffix("_layer").replace("_", " "), *_cells(figures), ratio
        )
        made.add_row("  published", *_cells(theirs), "", style="dim", end_section=True)
    return made


def _cells(one: Figures | None) -> list[str]:
    names = ("samples", *COLUMNS.values())
    return [_text(getattr(one, name) if one else None) for name in names]


def _text(value: float | None) -> str:
    whole = value is None or value == int(value) or value >= 1000
    return number(value, 0 if whole else 1)
