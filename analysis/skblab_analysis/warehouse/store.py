# SPDX-License-Identifier: GPL-2.0-or-later
"""A store: the figures of many runs in a few parquet files.

    STORE/current -> pack-7           replaced by a rename, so it is the old or the new one
    STORE/pack-7/store.json           what is in it, with a version
    STORE/pack-7/runs.parquet
    STORE/pack-7/figures/exact-0.parquet, figures/wall-0.parquet, blocks/…, functions/…

Each pack writes all files anew beside the old ones, flushes them, and then moves `current`. A kill
leaves what was current, and files that nobody reads, which the next pack removes. One pack at a
time has the store's lock. Who reads holds the folder that it reads: it is not removed meanwhile.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import AwareDatetime, Field

from skblab_analysis.base import disk
from skblab_analysis.base.arrow import pa, pc, pq
from skblab_analysis.base.checked import Closed, RecordError, read
from skblab_analysis.base.errors import SkblabError, UsageError, one_line, os_trouble
from skblab_analysis.base.rows import Row, Stored
from skblab_analysis.base.whole import Whole
from skblab_analysis.trials.rows import Clock
from skblab_analysis.warehouse import reading
from skblab_analysis.warehouse.listing import Found, Looked, Unreadable, best, rank
from skblab_analysis.warehouse.printed import StoredFile
from skblab_analysis.warehouse.reading import Gathered
from skblab_analysis.warehouse.rows import (
    BLOCKS,
    FIGURES,
    FUNCTIONS,
    OF_A_CLOCK,
    RUNS,
    STORE,
    RunRow,
)

CURRENT = "current"
LOCK = ".lock"
MANIFEST = "store.json"
_PACK = "pack-"
_PART = ".part"
# A file has at most so many rows, and a group of them, which a query reads or leaves out, so many.
MOST_ROWS = 4_000_000
GROUP_ROWS = 122_880
CLOCKS: tuple[Clock, ...] = ("wall", "exact")
# Rows that a question of one figure, or one function, asks for stand together.
_ORDER = {
    RUNS: ("started", "run"),
    FIGURES: ("measure", "figure", "part", "setting", "started"),
    BLOCKS: ("measure", "figure", "part", "setting", "started", "block"),
    FUNCTIONS: ("function", "setting", "started", "block"),
}
Tables = Mapping[Stored, "pa.Table"]


class StoreDocument(Closed):
    """The whole of `store.json`: what a store holds."""

    schema_: Literal["skblab.store/1"] = Field(default="skblab.store/1", alias="schema")
    made: AwareDatetime = Field(description="UTC")
    runs: Whole
    files: tuple[StoredFile, ...]


@dataclass(frozen=True)
class Packed:
    """What a pack did: runs by their folder; `kept` have more in the store than in the folder."""

    store: Path
    document: StoreDocument
    added: tuple[Path, ...]
    replaced: tuple[Path, ...]
    unchanged: tuple[Path, ...]
    kept: tuple[Path, ...]
    unreadable: tuple[Unreadable, ...]


@dataclass(frozen=True)
class Pack:
    """What is read of a store while its folder is held."""

    folder: Path
    document: StoreDocument

    def files(self, table: Stored) -> list[Path]:
        """Return the files of a table."""
        return [self.folder / one.file for one in self.document.files if one.table == table.file]

    def table(self, table: Stored) -> pa.Table:
        """Return all rows of a table; RecordError if a file is broken."""
        return pa.concat_tables([table.schema.empty_table(), *map(_read(table), self.files(table))])

    def runs(self) -> list[RunRow]:
        """Return its runs, the earliest first."""
        return [RunRow.model_validate(row) for row in self.table(RUNS).to_pylist()]


@contextlib.contextmanager
def opened(store: Path) -> Iterator[Pack]:
    """Hold what is current in a store; UsageError if it is no store, RecordError if broken."""
    while True:
        folder = _current(store)
        if folder is None:
            raise UsageError(
                f"{store} is no store; expected what `skblab runs pack --into {store}` makes"
            )
        try:
            held = disk.hold(folder)
        except FileNotFoundError:
            if _current(store) != folder:
                continue
            raise RecordError(f"{store}: {folder.name} is missing; pack the runs again") from None
        try:
            # Else it was replaced before it was held, and may be on its way out.
            if _current(store) == folder:
                yield Pack(folder, read(StoreDocument, folder / MANIFEST, "the store's document"))
                return
        finally:
            os.close(held)


def pack(
    store: Path,
    found: Found,
    waiting: Callable[[], None] = lambda: None,
    progress: Callable[[int], None] = lambda done: None,
) -> Packed:
    """Put the figures of runs into a store, which is made if it is not there.

    A run that the store has as it is changes nothing; one that has grown replaces what it was.
    A broken run is left out and named. `waiting` is called while another pack has the lock,
    `progress` with the number of runs that are done.
    """
    _prepare(store)
    with _locked(store, waiting):
        before, old = _before(store)
        known = {run.run_id: run for run in before}
        made: dict[str, Tables] = {}
        said: dict[str, list[Path]] = {"added": [], "replaced": [], "unchanged": [], "kept": []}
        bad = list(found.unreadable)
        for done, looked in enumerate(best(found.runs), 1):
            try:
                what, gathered = _taken(looked, known.get(looked.row.run_id))
            except SkblabError as error:
                bad.append(Unreadable(looked.folder, str(error)))
            except OSError as error:
                bad.append(Unreadable(looked.folder, os_trouble(error)))
            else:
                said[what].append(looked.folder)
                if gathered is not None:
                    # A million rows are less as columns.
                    made[looked.row.run_id] = arrow([gathered])
            progress(done)
        document = old
        if made or document is None:
            document = _write(store, _joined(store, made))
        _remove_old(store, _current(store))
        return Packed(
            store,
            document,
            unreadable=tuple(bad),
            **{name: tuple(folders) for name, folders in said.items()},
        )


def write(store: Path, tables: Tables) -> StoreDocument:
    """Put tables into a store in the place of all that is there: for what makes up rows."""
    _prepare(store)
    with _locked(store, lambda: None):
        document = _write(store, tables)
        _remove_old(store, _current(store))
        return document


def arrow(found: Iterable[Gathered]) -> Tables:
    """Return rows of runs as tables."""
    rows: dict[Stored, list[Row]] = {table: [] for table in STORE}
    for one in found:
        rows[RUNS].append(one.run)
        rows[FIGURES] += one.figures
        rows[BLOCKS] += one.blocks
        rows[FUNCTIONS] += one.functions
    return {table: table.arrow_of(of) for table, of in rows.items()}


def _taken(
    looked: Looked, known: RunRow | None
) -> tuple[Literal["added", "replaced", "unchanged", "kept"], Gathered | None]:
    digest = reading.content(looked.folder)
    if known is None:
        return "added", reading.gather(looked, digest)
    if known.content == digest and known.state == looked.row.state:
        return "unchanged", None
    if rank(looked.row) < rank(known):
        return "kept", None
    return "replaced", reading.gather(looked, digest)


def _prepare(store: Path) -> None:
    """Make the folder of a store; UsageError if something else is there."""
    if store.exists() and not store.is_dir():
        raise UsageError(f"{store} is a file; expected a folder for a store, or a new name")
    if store.is_dir() and not (store / LOCK).exists() and any(store.iterdir()):
        raise UsageError(
            f"{store} has files and is no store; expected a store, an empty folder, or a new name"
        )
    with disk.explained(store):
        store.mkdir(parents=True, exist_ok=True)
        (store / LOCK).touch()


@contextlib.contextmanager
def _locked(store: Path, waiting: Callable[[], None]) -> Iterator[None]:
    with disk.explained(store), (store / LOCK).open("a") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            waiting()
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def _before(store: Path) -> tuple[list[RunRow], StoreDocument | None]:
    if _current(store) is None:
        return [], None
    with opened(store) as pack:
        return pack.runs(), pack.document


def _joined(store: Path, made: Mapping[str, Tables]) -> Tables:
    """Return what a store has of other runs, and the rows of new ones."""
    joined = {
        table: pa.concat_tables(
            [table.schema.empty_table(), *(one[table] for one in made.values())]
        )
        for table in STORE
    }
    if _current(store) is None:
        return joined
    new = pa.array(sorted(made), pa.string())
    with opened(store) as pack:
        for table, rows in joined.items():
            old = pack.table(table)
            others = old.filter(pc.invert(pc.is_in(old.column("run_id"), new)))
            joined[table] = pa.concat_tables([others, rows])
    return joined


def _write(store: Path, tables: Tables) -> StoreDocument:
    """Write all files beside those of now, and have them be current."""
    old = _current(store)
    numbers = [_number(path) for path in store.glob(f"{_PACK}*")]
    folder = store / f"{_PACK}{max(numbers, default=0) + 1}"
    part = folder.with_name(f"{folder.name}{_PART}")
    _remove_old(store, old)
    with disk.explained(store):
        files = tuple(_files(part, tables))
        document = StoreDocument(made=disk.now(), runs=tables[RUNS].num_rows, files=files)
        disk.write_whole(part / MANIFEST, document.model_dump_json(by_alias=True, indent=1) + "\n")
        _flush(part)
        part.rename(folder)
        link = store / f".{CURRENT}{_PART}"
        link.unlink(missing_ok=True)
        link.symlink_to(folder.name)
        link.replace(store / CURRENT)
        _flush(store)
    return document


def _files(folder: Path, tables: Tables) -> Iterator[StoredFile]:
    (folder).mkdir()
    for table in STORE:
        rows = tables[table].sort_by([(name, "ascending") for name in _ORDER[table]])
        if table in OF_A_CLOCK:
            (folder / table.file).mkdir()
            for clock in CLOCKS:
                of_clock = rows.filter(pc.equal(rows.column("clock"), clock))
                # Without rows as well: readers find the columns.
                yield from _of_table(folder, table, of_clock, clock)
        else:
            yield from _of_table(folder, table, rows, None)


def _of_table(
    folder: Path, table: Stored, rows: pa.Table, clock: Clock | None
) -> Iterator[StoredFile]:
    for number in range(max(1, -(-rows.num_rows // MOST_ROWS))):
        some = rows.slice(number * MOST_ROWS, MOST_ROWS)
        name = f"{table.file}/{clock}-{number}" if clock else table.file
        path = folder / f"{name}.parquet"
        with path.open("wb") as file:
            pq.write_table(
                some.cast(table.schema), file, compression="zstd", row_group_size=GROUP_ROWS
            )
            file.flush()
            os.fsync(file.fileno())
        yield StoredFile(
            file=f"{name}.parquet",
            table=table.file,
            clock=clock,
            rows=some.num_rows,
            bytes=path.stat().st_size,
        )


def _flush(folder: Path) -> None:
    for place in (folder, *(path for path in folder.iterdir() if path.is_dir())):
        descriptor = os.open(place, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _remove_old(store: Path, current: Path | None) -> None:
    """Remove what is not current and nobody reads: what a kill left, and what was replaced."""
    for folder in store.glob(f"{_PACK}*"):
        if folder != current and not disk.is_held(folder):
            # What cannot be removed now is when the next pack comes.
            shutil.rmtree(folder, ignore_errors=True)


def _current(store: Path) -> Path | None:
    """Return the folder that is current; None if the store has none."""
    try:
        name = (store / CURRENT).readlink().name
    except FileNotFoundError:
        return None
    except OSError as error:
        raise UsageError(
            f"cannot read {os_trouble(error)}; expected what `skblab runs pack` makes"
        ) from error
    return store / name


def _number(path: Path) -> int:
    digits = path.name.removeprefix(_PACK).removesuffix(_PART)
    return int(digits) if digits.isdecimal() else 0


def _read(table: Stored) -> Callable[[Path], pa.Table]:
    def one(path: Path) -> pa.Table:
        try:
            # Not the dataset API, which would take folders' names for columns.
            found = pq.ParquetFile(path).read()
            return found.select(table.schema.names).cast(table.schema)
        except (pa.ArrowException, OSError, ValueError, KeyError) as error:
            why = one_line(str(error), 200)
            raise RecordError(f"{path} is no readable file of a store: {why}") from error

    return one
