# SPDX-License-Identifier: GPL-2.0-or-later
"""The style of every table on a terminal."""

from __future__ import annotations

from rich import box
from rich.table import Table


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
