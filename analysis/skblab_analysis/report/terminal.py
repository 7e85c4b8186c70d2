# SPDX-License-Identifier: GPL-2.0-or-later
"""All tables of a run, for the terminal, and the summary before them."""

from __future__ import annotations

from pathlib import Path

from rich.markup import escape
from rich.table import Table
from rich.text import Text

from skblab_analysis.base.tables import titled
from skblab_analysis.base.words import number
from skblab_analysis.load import Run, load
from skblab_analysis.measures import VIEWS
from skblab_analysis.report import findings


def of_run(folder: Path) -> list[Text | Table]:
    """Return the summary and every table of the run folder; RecordError when it is broken."""
    run = load(folder)
    said = findings.summary(run)
    return [
        *([Text("\n".join(f"• {line}" for line in said))] if said else []),
        *(table for view in VIEWS for table in view.tables(run)),
        *complaint_tables(run),
    ]


def complaint_tables(run: Run) -> list[Table]:
    """Return the table of what kernels complained of, if any did: such a trial is invalid."""
    complaints = run.complaints()
    if not complaints:
        return []
    table = titled("What kernels complained of")
    table.add_column("when")
    table.add_column("line", overflow="fold")
    for complaint in complaints:
        for line in complaint.lines:
            table.add_row(complaint.where, escape(str(line)))
        if complaint.more:
            table.add_row(complaint.where, f"and {number(complaint.more)} further lines")
    return [table]
