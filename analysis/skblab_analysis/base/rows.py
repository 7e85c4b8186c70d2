# SPDX-License-Identifier: GPL-2.0-or-later
"""Tables of a run folder, each declared once: as a model of its rows.

    class LoadRow(Load, OfRow):
        number: Annotated[Whole, Column(NO_UNIT, "Number of the load in its search, from 0.")]

    TABLES = (Table(LoadRow, "loads", "one load that was tried in a search"),)

A field's annotation says what a value may be, null (`| None`) or one of a few (`Literal`) included;
its Column says the unit and what it is. From that come the arrow schema, what is written, what is
checked when it is read, the column tables of results-schema/, and the JSON Schema of a row that
`--json` prints. A package's TABLES are part of every run folder once they stand in its rows.py.

The unit and the sentence travel in the file, as the field metadata `unit` and `about`, and all
units as the file's metadata `units`, for readers that see no field's. A unit of "by column `unit`"
means that the row names it: "ns" on the wall clock, "instructions" in exact mode.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cache, cached_property
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, cast, get_args, get_origin

from pydantic import (
    BeforeValidator,
    GetJsonSchemaHandler,
    StringConstraints,
    TypeAdapter,
    ValidationError,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from skblab_analysis.base.arrow import pa
from skblab_analysis.base.checked import Finite, RecordError, faults
from skblab_analysis.base.errors import one_line
from skblab_analysis.base.whole import Whole

BY_ROW = "by column `unit`"
NO_UNIT = ""
# Characters of a text; an invalid trial's reason has a whole message.
LONGEST_TEXT = 10_000
# One line of what Python calls printable.
Text = Annotated[str, StringConstraints(pattern=r"^(?:[^\p{C}\p{Z}]| )*$", max_length=LONGEST_TEXT)]
# Of several lines; what is longer loses its end.
Lines = Annotated[
    str, BeforeValidator(lambda text: text[:LONGEST_TEXT] if isinstance(text, str) else text)
]

_SCHEMA = b"schema"


@dataclass(frozen=True)
class Column:
    """What a field says of its column; `name` and what follows it is read off the field."""

    unit: str
    about: str
    name: str = ""
    type: pa.DataType = None
    null: bool = False
    # What a value is checked by.
    values: Any = field(default=None, repr=False, compare=False)

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        """Have the JSON Schema of a field say what its column says."""
        said = {"description": self.about} | ({"unit": self.unit} if self.unit else {})
        return handler(schema) | said


class Row(Finite):
    """A row of a table, or what of one is known before it is stored."""


class Numbered(Row):
    """A row that is of a trial."""

    trial: Annotated[Whole, Column(NO_UNIT, "Number of the trial in the run, from 0.")]


NumberedT = TypeVar("NumberedT", bound=Numbered)


def by_trial(rows: Iterable[NumberedT]) -> dict[int, list[NumberedT]]:
    """Return the rows of each trial, by its number."""
    found: dict[int, list[NumberedT]] = {}
    for row in rows:
        found.setdefault(row.trial, []).append(row)
    return found


Plain = dict[str, Any]


@dataclass(frozen=True)
class Stored:
    """A parquet file of the run folder; what one row is."""

    model: type[Row]
    file: str
    row: str
    version: int = 1

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        """The columns, in the order of the fields."""
        found = []
        for name, declared in self.model.model_fields.items():
            [column] = [
                annotation for annotation in declared.metadata if isinstance(annotation, Column)
            ]
            kind, null = _kind(declared.annotation)
            limits = [annotation for annotation in declared.metadata if annotation is not column]
            # What pydantic has taken off the annotation is put on again.
            values: Any = declared.annotation
            for limit in limits:
                values = Annotated[values, limit]
            found.append(replace(column, name=name, type=kind, null=null, values=values))
        return tuple(found)

    @cached_property
    def schema(self) -> pa.Schema:
        """The arrow schema with unit and sentence as field metadata.

        polars and DuckDB see none of a field's, only the file's: `units` is a JSON object there.
        What pandas makes a frame's `attrs` is under a name of its own.
        """
        fields = [
            pa.field(
                column.name,
                column.type,
                nullable=column.null,
                metadata={"unit": column.unit, "about": column.about},
            )
            for column in self.columns
        ]
        units = {column.name: column.unit for column in self.columns}
        metadata = {
            _SCHEMA: f"skblab.{self.file}/{self.version}",
            "row": self.row,
            "units": json.dumps(units),
            "PANDAS_ATTRS": json.dumps({"units": units}),
        }
        return pa.schema(fields, metadata=metadata)

    def columns_of(self, rows: Sequence[Row]) -> dict[str, list[Any]]:
        """Return rows of the model by column."""
        return {name: [getattr(row, name) for row in rows] for name in self.schema.names}

    def arrow_of(self, rows: Sequence[Row]) -> pa.Table:
        """Return rows of the model as they are written."""
        return pa.Table.from_pydict(self.columns_of(rows), schema=self.schema)


@dataclass(frozen=True)
class Table(Stored):
    """A parquet file of what was recorded, trial by trial.

    `later`: it was not there from the beginning, and is not there without rows. `older` makes a row
    of another version one of this; `again`: rows are asked for again while a run goes on.
    """

    model: type[Numbered]
    later: bool = False
    older: Callable[[Plain], Plain] | None = None
    again: bool = False

    def arrow(self, values: Mapping[str, Sequence[Any]], version: int, where: str) -> pa.Table:
        """Return what was written as columns in a version; RecordError as of `now`."""
        if version > self.version:
            raise RecordError(self._newer(version, where))
        try:
            if version < self.version and self.older is not None:
                rows = [
                    dict(zip(values, row, strict=True))
                    for row in zip(*values.values(), strict=True)
                ]
                return self._of_older(rows)
            absent = [column for column in self.columns if column.name not in values]
            if missing := [column.name for column in absent if not column.null]:
                raise RecordError(f"{where} lacks the column {missing[0]}")
            count = len(next(iter(values.values())))
            known = {
                column.name: values.get(column.name) or [None] * count for column in self.columns
            }
            return pa.Table.from_pydict(known, schema=self.schema)
        except _unlike() as error:
            why = one_line(f"{type(error).__name__}: {error}", 200)
            raise RecordError(f"{where} is not as version {version} is ({why})") from error

    def now(self, found: pa.Table, where: str) -> pa.Table:
        """Return what was read in the columns of this version.

        A column that may be null and is not there is null. RecordError begins with `where` if
        another column is absent, there twice or of another type, or the version is a newer one.
        """
        version = self._version(found, where)
        if version < self.version and self.older is not None:
            try:
                return self._of_older(found.to_pylist())
            except _unlike() as error:
                why = one_line(f"{type(error).__name__}: {error}", 200)
                raise RecordError(f"{where} is not as version {version} was ({why})") from error
        columns = []
        for column in self.columns:
            count = found.schema.names.count(column.name)
            if count > 1:
                raise RecordError(f"{where} has several columns {column.name}")
            if not count and not column.null:
                raise RecordError(f"{where} lacks the column {column.name}")
            if not count:
                columns.append(pa.nulls(found.num_rows, column.type))
                continue
            values = found.column(column.name)
            if values.type != column.type:
                raise RecordError(
                    f"{where}: column {column.name} is {values.type}, expected {column.type}"
                )
            columns.append(values)
        return pa.Table.from_arrays(columns, schema=self.schema)

    def is_current(self, found: pa.Table, where: str) -> bool:
        """Whether what was read is of this version; RecordError if of a newer or of another."""
        return self._version(found, where) == self.version

    def _of_older(self, rows: Iterable[Plain]) -> pa.Table:
        assert self.older is not None
        made = [self.older(row) for row in rows]
        known = [{name: row.get(name) for name in self.schema.names} for row in made]
        return pa.Table.from_pylist(known, schema=self.schema)

    def _version(self, found: pa.Table, where: str) -> int:
        name = (found.schema.metadata or {}).get(_SCHEMA, self.schema.metadata[_SCHEMA])
        kind, _, version = name.decode(errors="replace").rpartition("/")
        if kind != f"skblab.{self.file}" or not version.isdecimal() or len(version) > 4:
            raise RecordError(f"{where} does not hold {self.file}")
        if int(version) > self.version:
            raise RecordError(self._newer(int(version), where))
        return int(version)

    def _newer(self, version: int, where: str) -> str:
        return (
            f"{where} is of version {version}, expected at most {self.version}: a newer skblab has "
            "written it"
        )

    def rows(self, found: pa.Table, where: str) -> list[Numbered]:
        """Return the rows of a table of this version; RecordError names row and column."""
        try:
            return self._models.validate_python(found.to_pylist())
        except ValidationError as error:
            raise RecordError(f"{where}, by row and column: {faults(error)}") from error

    @cached_property
    def _models(self) -> TypeAdapter[list[Numbered]]:
        return TypeAdapter(list[self.model])  # type: ignore[name-defined]

    def values(self, found: pa.Table, where: str) -> Mapping[str, list[Any]]:
        """Return a table of this version by column: for those of a million rows."""
        made = {}
        for column in self.columns:
            checked = TypeAdapter(list[column.values])  # type: ignore[name-defined]
            try:
                made[column.name] = checked.validate_python(found.column(column.name).to_pylist())
            except ValidationError as error:
                raise RecordError(f"{where}: {column.name}, by row: {faults(error)}") from error
        return made


@cache
def _types() -> dict[type, pa.DataType]:
    return {
        int: pa.int64(),
        float: pa.float64(),
        str: pa.string(),
        bool: pa.bool_(),
        # In UTC, as its column's unit says: not every reader knows time zones.
        datetime: pa.timestamp("ms"),
    }


def _unlike() -> tuple[type[Exception], ...]:
    """Return what is raised for values that are not those of a column."""
    return LookupError, TypeError, ValueError, OverflowError, pa.ArrowException


def _kind(annotation: object) -> tuple[pa.DataType, bool]:
    """Return the arrow type of a field, and whether it may be null."""
    origin, inside = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _kind(inside[0])
    if origin in (Union, UnionType):
        [(kind, _)] = [_kind(argument) for argument in inside if argument is not NoneType]
        return kind, NoneType in inside
    if origin is Literal:
        return _types()[type(inside[0])], False
    return _types()[cast(type, annotation)], False
