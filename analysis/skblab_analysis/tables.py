# SPDX-License-Identifier: GPL-2.0-or-later
"""The tables of a run folder, and the parts that they grow by.

A table is a parquet file. While a run goes on, each record is a file of its own, `parts/NUMBER
.parquet`, by the number of its first trial: one row, whose columns are lists of rows, one a table,
beside the record's ledgers and accounts as JSON. It is there whole or not at all, so a record is,
too. At the end the tables are written anew with all parts in them, then run.json says how many
trials they hold, then the parts go: parts of trials that run.json counts are left over, and rows of
trials that it does not count are in parts, too.
"""

from __future__ import annotations

import io
import pkgutil
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pydantic import BaseModel, ConfigDict

import skblab_analysis
from skblab_analysis import files
from skblab_analysis.base.checked import RecordError, parse
from skblab_analysis.base.errors import one_line
from skblab_analysis.base.rows import Table
from skblab_analysis.formats.run import RunDocument
from skblab_analysis.layers.account import Account
from skblab_analysis.layers.ledger import Ledger

PARTS = "parts"
_SUMS = "sums"
_SCHEMA = b"skblab.part/1"


def _tables() -> Iterator[Table]:
    """Yield the tables of every package that has some, that of trials first."""
    packages = [one.name for one in pkgutil.iter_modules(skblab_analysis.__path__) if one.ispkg]
    for package in sorted(packages, key=lambda name: (name != "trials", name)):
        rows = f"{skblab_analysis.__name__}.{package}.rows"
        if find_spec(rows) is not None:
            yield from getattr(import_module(rows), "TABLES", ())


TABLES = tuple(_tables())
TRIALS = TABLES[0]


class Sums(BaseModel):
    """What of a record is in run.json: how the packets of its trials add up."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    ledgers: tuple[Ledger, ...] = ()
    accounts: tuple[Account, ...] = ()


@dataclass(frozen=True)
class Part:
    """A record: rows by the table's file, in the columns of this version."""

    first: int
    rows: Mapping[str, pa.Table]
    sums: Sums


def write_part(folder: Path, part: Part) -> None:
    """Write a record whole; SkblabError in one line when the disk says no."""
    columns: dict[str, pa.Array] = {}
    fields = []
    for file, rows in part.rows.items():
        struct = pa.StructArray.from_arrays(
            [column.combine_chunks() for column in rows.columns], fields=list(rows.schema)
        )
        columns[file] = pa.ListArray.from_arrays([0, len(struct)], struct)
        schema = {b"schema": rows.schema.metadata[b"schema"]}
        fields.append(pa.field(file, columns[file].type, metadata=schema))
    columns[_SUMS] = pa.array([part.sums.model_dump_json()])
    fields.append(pa.field(_SUMS, pa.string()))
    arrow = pa.Table.from_arrays(
        list(columns.values()), schema=pa.schema(fields, metadata={b"schema": _SCHEMA})
    )
    (folder / PARTS).mkdir(exist_ok=True)
    _write(folder / PARTS / f"{part.first:08}.parquet", arrow)


def read_parts(folder: Path, first: int) -> Iterator[Part]:
    """Yield the records from trial `first` on; RecordError if one is missing or is not whole."""
    known = {table.file: table for table in TABLES}
    for path in sorted((folder / PARTS).glob("*.parquet")):
        if not path.stem.isdecimal():
            raise RecordError(f"{path} is no part of a run: expected a number for its name")
        if int(path.stem) < first:
            # It is in the tables, and was to go.
            continue
        arrow = _read(path)
        if (arrow.schema.metadata or {}).get(b"schema") != _SCHEMA or arrow.num_rows != 1:
            raise RecordError(f"{path} is no part of a run that this version can read")
        rows, sums = {}, Sums()
        for field in arrow.schema:
            column = arrow.column(field.name)
            if field.name == _SUMS and field.type == pa.string():
                sums = parse(Sums, column[0].as_py() or "", f"{path}: how packets add up")
            elif field.name in known and _of_rows(field.type):
                table = pa.Table.from_struct_array(pc.list_flatten(column).combine_chunks())
                where = f"{path}: {field.name}"
                found = table.replace_schema_metadata(field.metadata)
                rows[field.name] = known[field.name].now(found, where)
            else:
                raise RecordError(f"{path} has something else than rows: {field.name}")
        numbers = rows["trials"].column("trial").to_pylist() if "trials" in rows else []
        if numbers != list(range(first, first + len(numbers))) or not numbers:
            raise RecordError(f"{path} begins with another trial than {first}, or has none")
        yield Part(first, rows, sums)
        first += len(numbers)


def _of_rows(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) and pa.types.is_struct(kind.value_type))


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


def join(table: Table, whole: pa.Table, parts: Sequence[Part]) -> pa.Table:
    """Return a table's rows with those of parts behind them."""
    return pa.concat_tables(
        [whole, *(one.rows[table.file] for one in parts if table.file in one.rows)]
    )


def add_up(document: RunDocument, parts: Sequence[Part]) -> RunDocument:
    """Return run.json's document with what parts add to it."""
    return document.model_copy(
        update={
            "trials": document.trials + sum(part.rows[TRIALS.file].num_rows for part in parts),
            "ledgers": (*document.ledgers, *(one for part in parts for one in part.sums.ledgers)),
            "accounts": (
                *document.accounts,
                *(one for part in parts for one in part.sums.accounts),
            ),
        }
    )


def write_table(folder: Path, table: Table, rows: pa.Table) -> None:
    """Write a table whole; a later one without rows only in the place of one that is there."""
    path = folder / f"{table.file}.parquet"
    if rows.num_rows or not table.later or path.exists():
        _write(path, rows)


def drop_parts(folder: Path) -> None:
    """Remove the parts, once they are in the tables, and what a kill left of one."""
    if (folder / PARTS).is_dir():
        shutil.rmtree(folder / PARTS)


def _write(path: Path, rows: pa.Table) -> None:
    buffer = io.BytesIO()
    pq.write_table(rows, buffer, compression="zstd")
    files.write(path, buffer.getvalue())


def _read(path: Path) -> pa.Table:
    try:
        # As it is, whatever it says of itself for pandas: only columns that are known are taken.
        arrow = pq.ParquetFile(path).read()
        arrow.validate(full=True)
    except FileNotFoundError as error:
        raise RecordError(f"{path} is missing: not a whole run folder") from error
    except (pa.ArrowException, OSError, ValueError) as error:
        why = one_line(str(error), 200)
        raise RecordError(f"{path} is no readable parquet file: {why}") from error
    return arrow
