# SPDX-License-Identifier: GPL-2.0-or-later
"""The style of every table on a terminal."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from rich import box
from rich.markup import escape
from rich.table import Table

# Said of a setting that changes nothing.
IDENTICAL = "identical to the baseline"
# A column of halves of intervals. Of one block none is known, and the column is left out.
INTERVAL = "95 %"


def titled(title: str) -> Table:
    """Return a table without columns, in the style of all that have a title."""
    return Table(
        title=title,
        title_justify="left",
        title_style="bold",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        padding=(0, 1, 0, 0),
        show_edge=False,
        caption_justify="left",
    )


def as_markdown(
    columns: Sequence[str], rows: Sequence[Sequence[str]], words: Collection[str]
) -> list[str]:
    """Return the lines of a table in Markdown; columns in `words` stand to the left."""
    marks = ["---" if column in words else "---:" for column in columns]
    lines = ([cell.replace("|", "\\|") for cell in row] for row in (columns, marks, *rows))
    return [f"| {' | '.join(line)} |" for line in lines]


def known_columns(
    names: Sequence[str], rows: Sequence[Sequence[str]]
) -> tuple[list[str], list[tuple[str, ...]]]:
    """Return columns and rows without the intervals that no row has."""
    kept = [
        place
        for place, name in enumerate(names)
        if name != INTERVAL or any(row[place] for row in rows)
    ]
    return [names[place] for place in kept], [tuple(row[place] for place in kept) for row in rows]


def named(setting: str, identical: Collection[str]) -> str:
    """Return a setting's cell, marked if it is the baseline's own state."""
    return escape(f"{setting} ({IDENTICAL})" if setting in identical else setting)
