# SPDX-License-Identifier: GPL-2.0-or-later
"""The tables of a run folder, and the parts that they grow by.

A table is a parquet file. While a run goes on, each record is a file of its own in `parts/`, named
by the number of its first trial, with its rows of all tables by column, and its ledgers.
It is there whole or not at all, so a record is, too. At the end the tables are written anew with
all parts in them, then run.json says how many trials they hold, then the parts go: parts of trials
that run.json counts are left over, and rows of trials that it does not count are in parts, too.
"""

from __future__ import annotations

import io
import pkgutil
import shutil
from collections.abc import Iterable, Iterator, Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, model_validator

import skblab_analysis
from skblab_analysis.base import disk
from skblab_analysis.base.arrow import pa, pc, pq
from skblab_analysis.base.checked import Closed, RecordError, read
from skblab_analysis.base.errors import one_line
from skblab_analysis.base.rows import Numbered, Table
from skblab_analysis.base.whole import Whole
from skblab_analysis.formats.ledger import Ledger
from skblab_analysis.formats.run import RunDocument, with_one_kind_of_ledgers

PARTS = "parts"


def _tables() -> Iterator[Table]:
    """Yield the tables of every package that has some, that of trials first."""
    packages = [
        package.name for package in pkgutil.iter_modules(skblab_analysis.__path__) if package.ispkg
    ]
    for package in sorted(packages, key=lambda name: (name != "trials", name)):
        rows = f"{skblab_analysis.__name__}.{package}.rows"
        if find_spec(rows) is not None:
            yield from getattr(import_module(rows), "TABLES", ())


TABLES = tuple(_tables())
TRIALS = TABLES[0]


class PartTable(Closed):
    """A record's rows of one table."""

    version: Whole = Field(description="version of the table")
    columns: dict[str, list[Any]] = Field(description="values by column: columns.json says which")


class Part(Closed):
    """The whole of a file in `parts/`: one record."""

    schema_: Literal["skblab.part/1", "skblab.part/2", "skblab.part/3"] = Field(
        default="skblab.part/3", alias="schema"
    )
    tables: dict[str, PartTable] = Field(description="rows by the name of their table")
    ledgers: tuple[Ledger, ...] = ()

    @model_validator(mode="before")
    @classmethod
    def _of_before(cls, found: object) -> object:
        return with_one_kind_of_ledgers(found)

    @property
    def trials(self) -> list[int]:
        """The numbers of its trials; none if it says nothing of them."""
        trials = self.tables.get(TRIALS.file)
        return trials.columns.get("trial", []) if trials else []


def part(rows: Iterable[Numbered], ledgers: Sequence[Ledger] = ()) -> Part:
    """Return the part that has rows of any tables."""
    by_model: dict[type[Numbered], list[Numbered]] = {}
    for row in rows:
        by_model.setdefault(type(row), []).append(row)
    tables = {
        table.file: PartTable(
            version=table.version, columns=table.columns_of(by_model[table.model])
        )
        for table in TABLES
        if table.model in by_model
    }
    return Part(tables=tables, ledgers=tuple(ledgers))


def rows_of(found: Part, model: type[Numbered]) -> list[Numbered]:
    """Return a record's rows of the table that has this model; RecordError if they are none."""
    [table] = (table for table in TABLES if table.model is model)
    more = found.tables.get(table.file)
    if more is None:
        return []
    where = f"{table.file} of a part"
    return table.rows(table.arrow(more.columns, more.version, where), where)


def moved(found: Part, first: int) -> Part:
    """Return the same record, whose trials are numbered from `first` on."""
    by = first - found.trials[0]
    return Part(
        tables={
            name: PartTable(
                version=more.version,
                columns={
                    **more.columns,
                    "trial": [number + by for number in more.columns["trial"]],
                },
            )
            for name, more in found.tables.items()
        },
        ledgers=tuple(
            ledger.model_copy(update={"trial": ledger.trial + by}) for ledger in found.ledgers
        ),
    )


def write_part(folder: Path, made: Part) -> None:
    """Write a record whole; SkblabError in one line when the disk says no."""
    path = folder / PARTS / f"{made.trials[0]:08}.json"
    with disk.explained(path.parent):
        path.parent.mkdir(exist_ok=True)
    disk.write(path, made.model_dump_json(by_alias=True) + "\n")


def read_parts(folder: Path, first: int) -> list[Part]:
    """Return the records from trial `first` on; RecordError if one is missing or is not whole."""
    found = []
    for path in sorted((folder / PARTS).glob("*.json")):
        if not path.stem.isdecimal():
            raise RecordError(f"{path} is no part of a run: expected a number for its name")
        if int(path.stem) < first:
            # It is in the tables, and was to go.
            continue
        one = read(Part, path, "a part of a run")
        if one.trials != list(range(first, first + len(one.trials))) or not one.trials:
            raise RecordError(f"{path} begins with another trial than {first}, or has none")
        found.append(one)
        first += len(one.trials)
    return found


def read_table(folder: Path, table: Table, trials: int) -> pa.Table:
    """Return a table's rows of the first `trials` trials, in the columns of this version.

    A later table that is not there has no rows: an older run stays readable. RecordError when the
    file is absent or torn, or its columns are not the table's.
    """
    path = folder / f"{table.file}.parquet"
    if table.later and not path.exists():
        return table.schema.empty_table()
    found = table.now(_read(path), str(path))
    return found.filter(pc.less(found.column("trial"), trials))


def join(table: Table, whole: pa.Table, parts: Sequence[Part], where: str) -> pa.Table:
    """Return a table's rows with those of parts behind them; RecordError begins with `where`."""
    # Thousands of parts are one table for each set of columns, as nothing else would be quick.
    by_kind: dict[tuple[int, tuple[str, ...]], dict[str, list[Any]]] = {}
    for part in parts:
        if more := part.tables.get(table.file):
            lengths = {len(values) for values in more.columns.values()}
            if len(lengths) != 1:
                raise RecordError(f"{where}: columns of a part are not of one length")
            kind = more.version, tuple(more.columns)
            columns = by_kind.setdefault(kind, {name: [] for name in more.columns})
            for name, values in more.columns.items():
                columns[name] += values
    added = [table.arrow(columns, kind[0], where) for kind, columns in by_kind.items()]
    return pa.concat_tables([whole, *added])


def add_up(document: RunDocument, parts: Sequence[Part]) -> RunDocument:
    """Return run.json's document with what parts add to it."""
    return document.model_copy(
        update={
            "trials": document.trials + sum(len(part.trials) for part in parts),
            "ledgers": (*document.ledgers, *(ledger for part in parts for ledger in part.ledgers)),
        }
    )


def refuse_unknown(folder: Path, parts: Sequence[Part]) -> None:
    """Refuse to write tables anew that hold what this skblab does not know, and would drop.

    Raises RecordError before anything is written.
    """
    known = {table.file: set(table.schema.names) for table in TABLES}
    for part in parts:
        for name, more in part.tables.items():
            unknown = sorted(set(more.columns) - known[name]) if name in known else [name]
            # Columns of an older version have other names, which it is read by.
            if name not in known or (more.version >= _version(name) and unknown):
                raise RecordError(_unknown(folder / PARTS, name, unknown))
    for table in TABLES:
        path = folder / f"{table.file}.parquet"
        if path.exists():
            found = _read(path)
            unknown = sorted(set(found.schema.names) - known[table.file])
            if unknown and table.is_current(found, str(path)):
                raise RecordError(_unknown(path, table.file, unknown))


def _version(name: str) -> int:
    return next(table.version for table in TABLES if table.file == name)


def _unknown(where: Path, table: str, names: Sequence[str]) -> str:
    return (
        f"{where}: {', '.join(names)} of {table} is not known here and would be lost: a newer "
        "skblab has written it, finish the run with that"
    )


def write_table(folder: Path, table: Table, rows: pa.Table) -> None:
    """Write a table whole; a later one without rows only in the place of one that is there."""
    path = folder / f"{table.file}.parquet"
    if rows.num_rows or not table.later or path.exists():
        write(path, rows)


def drop_parts(folder: Path) -> None:
    """Remove the parts, once they are in the tables, and what a kill left of one."""
    parts = folder / PARTS
    with disk.explained(parts):
        if parts.is_dir():
            shutil.rmtree(parts)


def write(path: Path, rows: pa.Table) -> None:
    """Write a parquet file whole; SkblabError in one line when the disk says no."""
    buffer = io.BytesIO()
    pq.write_table(rows, buffer, compression="zstd")
    disk.write(path, buffer.getvalue())


def _read(path: Path) -> pa.Table:
    try:
        # As it is, whatever it says of itself for pandas: only columns that are known are taken.
        # Few tables have enough rows that threads are worth waiting for.
        arrow = pq.ParquetFile(path).read(use_threads=False)
        arrow.validate(full=True)
    except FileNotFoundError as error:
        raise RecordError(f"{path} is missing: not a whole run folder") from error
    except (pa.ArrowException, OSError, ValueError) as error:
        why = one_line(str(error), 200)
        raise RecordError(f"{path} is no readable parquet file: {why}") from error
    return arrow
