# SPDX-License-Identifier: GPL-2.0-or-later
"""Files of a run folder: JSON, parquet and the journal, each whole or as it was before.

All but the journal are written beside their place, flushed and renamed, so a full disk or a
kill leaves what was there. The journal is appended to line by line, each line flushed.
"""

from __future__ import annotations

import contextlib
import errno
import io
import json
import os
import shutil
import threading
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, JsonValue

from skblab_analysis.base.checked import Model, RecordError, parse
from skblab_analysis.base.disk import write_whole
from skblab_analysis.base.errors import SkblabError, one_line
from skblab_analysis.columns import Table
from skblab_analysis.layers.series import Row


def now() -> datetime:
    """Return the time in UTC, to the millisecond."""
    moment = datetime.now(UTC)
    return moment.replace(microsecond=moment.microsecond // 1000 * 1000)


@contextlib.contextmanager
def _disk(path: Path) -> Iterator[None]:
    """Turn a full disk or another refusal of the file system into one line."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            free = shutil.disk_usage(path.parent).free / 2**20
            raise SkblabError(
                f"the disk is full: {free:.0f} MiB free, cannot write {path}; what the run "
                "folder already holds stays readable; free some space and run again (a sweep: "
                "skblab resume)"
            ) from error
        raise SkblabError(f"cannot write {path}: {error.strerror}") from error


def write(path: Path, data: str | bytes) -> None:
    """Write a file whole; SkblabError in one line when the disk says no."""
    with _disk(path):
        write_whole(path, data)


class GrowingTable:
    """A parquet file that rows are added to, with the units of its columns in the metadata."""

    def __init__(self, folder: Path, table: Table) -> None:
        self._path = folder / f"{table.file}.parquet"
        self._schema = table.schema()
        # One that older runs have not need not be there: without rows it would only be in the way.
        self._optional = table.later
        self._arrow = self._schema.empty_table()
        # What a run before left over is to go, too.
        self._changed = True

    def add(self, rows: Sequence[Row]) -> None:
        """Have rows in it once it is written."""
        if rows:
            # Rows are converted once: thousands of trials have a million of them.
            more = pa.Table.from_pylist(list(rows), schema=self._schema)
            self._arrow = pa.concat_tables([self._arrow, more])
            self._changed = True

    def write(self) -> None:
        """Write the file whole, if it is not as it was written last.

        A later table without rows is written only in the place of one that is there.
        """
        if self._optional and not self._arrow.num_rows and not self._path.exists():
            return
        if self._changed:
            buffer = io.BytesIO()
            pq.write_table(self._arrow, buffer, compression="zstd")
            write(self._path, buffer.getvalue())
            self._changed = False


def read_table(path: Path, table: Table) -> list[Row]:
    """Read the rows of a parquet file, in the columns that this version knows.

    A column that may be null and is not there is null, and a later table that is not there has no
    rows: an older run stays readable. RecordError when the file is absent or torn, lacks another
    column, has one of another type, or a value that the column does not have.
    """
    try:
        # As it is, whatever it says of itself for pandas: only columns that are known are taken.
        arrow = pq.ParquetFile(path).read()
        arrow.validate(full=True)
    except FileNotFoundError as error:
        if table.later:
            return []
        raise RecordError(f"{path} is missing: not a whole run folder") from error
    except (pa.ArrowException, OSError, ValueError) as error:
        why = one_line(str(error), 200)
        raise RecordError(f"{path} is no readable parquet file: {why}") from error
    rows: list[Row] = [{} for _ in range(arrow.num_rows)]
    for column in table.columns:
        if arrow.schema.names.count(column.name) > 1:
            raise RecordError(f"{path} has several columns {column.name}")
        if column.name not in arrow.schema.names:
            if not column.null:
                raise RecordError(f"{path} lacks the column {column.name}")
            values = [None] * arrow.num_rows
        else:
            found = arrow.column(column.name)
            if found.type != column.type:
                raise RecordError(
                    f"{path}: column {column.name} is {found.type}, expected {column.type}"
                )
            values = found.to_pylist()
        for number, (row, value) in enumerate(zip(rows, values, strict=True)):
            if fault := column.fault(value):
                raise RecordError(f"{path} row {number}: {column.name} {fault}")
            row[column.name] = value
    return rows


class Event(BaseModel):
    """One line of the journal; the event's own data stands beside `at` and `event`."""

    model_config = ConfigDict(frozen=True, extra="allow")

    at: AwareDatetime = Field(description="UTC")
    event: str = Field(description="what happened, in one word")

    def told(self, model: type[Model]) -> Model:
        """Return its data, as events of its name have it; RecordError if it has not."""
        what = f"the journal's event {self.event} of {self.at:%Y-%m-%d %H:%M:%S}"
        return parse(model, dict(self.model_extra or {}), what)


class Journal:
    """`journal.jsonl`: one JSON object a line, `at` (UTC), `event`, then the event's data."""

    def __init__(self, path: Path) -> None:
        self.path = path
        # A long line is several writes.
        self._whole = threading.Lock()

    def mend(self) -> None:
        """Cut off a last line that a kill left half written, so the next starts afresh."""
        with contextlib.suppress(FileNotFoundError), self.path.open("r+b") as handle:
            data = handle.read()
            handle.truncate(data.rfind(b"\n") + 1)

    def append(self, event: str, data: Mapping[str, JsonValue]) -> None:
        """Add a line and flush it to disk before returning."""
        reserved = {"at", "event"} & data.keys()
        if reserved:
            raise ValueError(f"journal data may not be named {sorted(reserved)}")
        line = json.dumps({"at": now().isoformat(), "event": event, **data}, ensure_ascii=False)
        with self._whole, _disk(self.path), self.path.open("ab") as handle:
            handle.write(line.encode() + b"\n")
            handle.flush()
            os.fsync(handle.fileno())

    def read(self) -> list[Event]:
        """Return all whole lines; a torn last line is left out, any other is a RecordError."""
        try:
            text = self.path.read_bytes()
        except FileNotFoundError as error:
            raise RecordError(f"{self.path} is missing: not a whole run folder") from error
        lines = text.split(b"\n")[:-1]
        events = []
        for number, line in enumerate(lines, 1):
            events.append(parse(Event, line, f"{self.path} line {number}, an event,"))
        return events
