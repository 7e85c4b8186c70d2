# SPDX-License-Identifier: GPL-2.0-or-later
"""Writes docs/reference/columns.md from the tables' models, so that they cannot drift apart.

python -m skblab_analysis.columns_page            write
"""

from __future__ import annotations

from pathlib import Path

from skblab_analysis.base.disk import write_whole
from skblab_analysis.tables import TABLES

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "columns.md"

HEAD = """<!-- SPDX-License-Identifier: GPL-2.0-or-later -->
<!-- Made by `make schemas` from analysis/skblab_analysis/: change it there. -->
# Tables and columns of a run

A run's folder has these tables. Each column has a unit and a sentence in
[columns.md](../../results-schema/columns.md), in
[columns.json](../../results-schema/columns.json), and in the file itself. Nanoseconds and
instructions are never mixed.

    cd results-schema/example
    ../../.venv/bin/python -c "import pandas; print(pandas.read_parquet('trials.parquet').T)"

[Files of a run](../../results-schema/README.md) has the other files, and how to load a table with
its units in pandas, polars and DuckDB.

| table | one row is | columns |
| --- | --- | --- |
"""


def page() -> str:
    """Return the page's text."""
    rows = []
    for table in TABLES:
        name = f"{table.file}.parquet"
        anchor = name.replace(".", "")
        link = f"[`{name}`](../../results-schema/columns.md#{anchor})"
        names = ", ".join(f"`{column.name}`" for column in table.columns)
        rows.append(f"| {link} | {table.row} | {names} |\n")
    return HEAD + "".join(rows)


if __name__ == "__main__":
    write_whole(PAGE, page())
