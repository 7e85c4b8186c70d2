# SPDX-License-Identifier: GPL-2.0-or-later
"""A store asked in SQL, by DuckDB: views of its tables, only read, and no other file.

A view has the name of its table: `runs`, `figures`, `blocks`, `functions`. The database is in
memory. One statement, a SELECT, is run; DuckDB itself opens no file outside of what is current in
the store, loads no extension, and takes no other configuration.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from skblab_analysis.base.checked import RecordError
from skblab_analysis.base.errors import UsageError, one_line
from skblab_analysis.warehouse.rows import STORE
from skblab_analysis.warehouse.store import Pack, opened

if TYPE_CHECKING:
    import duckdb

_SHOWN = 400


@dataclass(frozen=True)
class Answer:
    """Names and types of columns, and the rows."""

    columns: tuple[str, ...]
    types: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]


@contextlib.contextmanager
def connected(store: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    """Open a store for queries of ours; errors as of `opened`."""
    with opened(store) as pack, _connection(pack) as connection:
        yield connection


def query(store: Path, statement: str) -> Answer:
    """Return what one SELECT says of a store; UsageError in a line if it cannot be run."""
    import duckdb

    with connected(store) as connection:
        try:
            statements = connection.extract_statements(statement)
        except duckdb.Error as error:
            raise UsageError(f"the query: {_why(error)}") from error
        if len(statements) != 1:
            raise UsageError(f"the query has {len(statements)} statements; expected one SELECT")
        if statements[0].type != duckdb.StatementType.SELECT:
            raise UsageError(
                f"the query is a statement of the kind {statements[0].type.name}; expected one "
                "SELECT: a store is only read"
            )
        try:
            return answer(connection.execute(statements[0]))
        except duckdb.Error as error:
            raise UsageError(f"the query: {_why(error)}") from error


def rows(
    connection: duckdb.DuckDBPyConnection, statement: str, values: Sequence[object] = ()
) -> list[dict[str, Any]]:
    """Return the rows of a query of ours by the names of its columns; RecordError: broken files."""
    import duckdb

    try:
        found = answer(connection.execute(statement, list(values)))
    except duckdb.Error as error:
        raise RecordError(f"the store cannot be read: {_why(error)}") from error
    return [dict(zip(found.columns, row, strict=True)) for row in found.rows]


def answer(found: duckdb.DuckDBPyConnection) -> Answer:
    """Return all rows of a result."""
    described = found.description or []
    return Answer(
        tuple(str(column[0]) for column in described),
        tuple(str(column[1]) for column in described),
        tuple(found.fetchall()),
    )


@contextlib.contextmanager
def _connection(pack: Pack) -> Iterator[duckdb.DuckDBPyConnection]:
    import duckdb

    with duckdb.connect(
        ":memory:", config={"autoinstall_known_extensions": False, "temp_directory": ""}
    ) as connection:
        try:
            for table in STORE:
                files = ", ".join(_quoted(str(path)) for path in pack.files(table))
                # A folder's name is no column.
                connection.execute(
                    f"CREATE VIEW {table.file} AS "
                    f"FROM read_parquet([{files}], hive_partitioning = false)"
                )
        except duckdb.Error as error:
            raise RecordError(f"{pack.folder}: {_why(error)}") from error
        for setting in (
            f"allowed_directories = [{_quoted(str(pack.folder.resolve()))}]",
            "enable_external_access = false",
            "python_enable_replacements = false",
            "lock_configuration = true",
        ):
            connection.execute(f"SET {setting}")
        yield connection


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _why(error: Exception) -> str:
    # Behind it DuckDB draws where it is, over several lines.
    return one_line(str(error).partition("\nLINE ")[0], _SHOWN)
