# SPDX-License-Identifier: GPL-2.0-or-later
"""A mutator of run folders: tables, documents and the journal of true ones are changed and read.

    python tests/analysis/broken_runs.py SECONDS [SEED]

Whatever a folder holds, it is loaded and has a report, or says in one line what is wrong. Anything
else leaves the folder for a look, and its seed, and ends with exit code 1.
"""

from __future__ import annotations

import json
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import made_up_documents
import pyarrow as pa
import pyarrow.parquet as pq
import searches
import synthetic_run
import test_readers
from test_report import fake_gnuplot

import made_up_cost
from mutated import VALUES, Number, changed_bytes, changed_document, changed_text, one
from skblab.sweep.progress import Progress
from skblab_analysis.base.errors import SkblabError
from skblab_analysis.formats import cost
from skblab_analysis.load import load
from skblab_analysis.report.page import build_report
from skblab_analysis.report.terminal import of_run

EXAMPLE = Path(__file__).parents[2] / "results-schema" / "example"
OLD = Path(__file__).parent / "old_runs" / "sweep"
# Of CPU time and of memory, for one folder; a report of these takes a tenth of a second.
CPU_SECONDS = 20
MEMORY_MIB = 4096
Row = dict[str, Any]


def samples(folder: Path) -> list[Path]:
    """Return true run folders, made in a folder.

    Every table has rows in one of them, and every document is in one. One has parts, and one is of
    an older version.
    """
    tested = list(searches.tested(80_000.0, 200_000.0))
    few = dict(list(searches.RATES.items())[:3])
    example = shutil.copytree(EXAMPLE, folder / "example")
    known = made_up_cost.document(exact=made_up_cost.exact(), wall=made_up_cost.wall(0.9, 0.8))
    (example / cost.FILE).write_text(known.model_dump_json(by_alias=True))
    beside = synthetic_run.finished_run(folder, packets=200)
    for name, document in made_up_documents.FILES.items():
        (beside / name).write_text(json.dumps(document))
    # The report makes tables of what others have recorded.
    build_report(beside, fake_gnuplot)
    return [
        example,
        beside,
        test_readers.finished_run(folder),
        synthetic_run.finished_run(folder, packets=2000),
        searches.finished_run(folder, list(searches.searches(few)), tested),
        test_readers.unfinished_run(folder),
        shutil.copytree(OLD, folder / "old"),
    ]


def read(folder: Path) -> None:
    """Do with a run folder all that is done with one."""
    run = load(folder)
    of_run(folder)
    build_report(folder, fake_gnuplot)
    # Of a sweep: others name their trials otherwise.
    if "clock" in run.document.plan.parameters:
        Progress.read(folder)


def change(number: Number, folder: Path) -> None:
    """Change some files of a run folder."""
    files = sorted(
        entry for entry in [*folder.iterdir(), *folder.glob("parts/*")] if entry.is_file()
    )
    for _ in range(number(1, 2)):
        file = files.pop(number(0, len(files) - 1))
        how = number(0, 9)
        if how == 0:
            file.unlink()
        elif how == 1:
            file.write_bytes(changed_bytes(number, file.read_bytes()))
        else:
            _CHANGES[file.suffix](number, file)


def _change_json(number: Number, file: Path) -> None:
    file.write_text(json.dumps(changed_document(number, json.loads(file.read_bytes()))))


def _change_journal(number: Number, file: Path) -> None:
    lines = file.read_text().splitlines()
    if number(0, 1) and lines:
        at = number(0, len(lines) - 1)
        lines[at] = json.dumps(changed_document(number, json.loads(lines[at])))
        file.write_text("\n".join([*lines, ""]))
    else:
        file.write_text(changed_text(number, file.read_text()), errors="surrogatepass")


def _change_table(number: Number, file: Path) -> None:
    table = pq.read_table(file)
    # Whatever is in a column, and null where nothing may be.
    schema = pa.schema([field.with_nullable(True) for field in table.schema], table.schema.metadata)
    rows: list[Row] = table.to_pylist()
    for _ in range(number(1, 3)):
        _change_rows(number, rows, schema)
    made = _whole(number, rows, schema)
    pq.write_table(_other_columns(number, made) if number(0, 9) == 0 else made, file)


def _change_rows(number: Number, rows: list[Row], schema: pa.Schema) -> None:
    if not rows:
        rows.append(dict.fromkeys(schema.names))
    at, other, how = number(0, len(rows) - 1), number(0, len(rows) - 1), number(0, 9)
    name = one(number, schema.names)
    if how == 0:
        del rows[at]
    elif how == 1:
        rows.insert(other, dict(rows[at]))
    elif how == 2:
        rows[at], rows[other] = rows[other], rows[at]
    elif how <= 4:
        rows[at][name] = rows[other][name]
    elif how == 5:
        for row in rows:
            row[name] = rows[at][name]
    else:
        rows[at][name] = one(number, _of_type(schema.field(name).type))


def _of_type(kind: pa.DataType) -> list[Any]:
    """Return values that a column can hold."""
    found: list[Any] = []
    for value in VALUES:
        try:
            pa.array([value], kind)
        except (pa.ArrowException, OverflowError, UnicodeError):
            continue
        found.append(value)
    return found


def _whole(number: Number, rows: list[Row], schema: pa.Schema) -> pa.Table:
    made = pa.Table.from_pylist(rows, schema=schema)
    texts = [at for at, field in enumerate(schema) if field.type == pa.string()]
    if rows and texts and number(0, 9) == 0:
        at = one(number, texts)
        words = [(row[schema.names[at]] or "").encode() + b"\xff" for row in rows]
        broken = pa.array(words, pa.binary()).view(pa.string())
        made = made.set_column(at, schema.field(at), broken)
    return made


def _other_columns(number: Number, made: pa.Table) -> pa.Table:
    at, how = number(0, made.num_columns - 1), number(0, 3)
    name = made.column_names[at]
    if how == 0:
        return made.remove_column(at)
    if how == 1:
        return made.append_column(name, made.column(at))
    if how == 2:
        return made.set_column(at, name, pa.array([[1]] * made.num_rows, pa.list_(pa.int64())))
    return made.set_column(at, name, made.column(at).cast(pa.string()))


_CHANGES: dict[str, Callable[[Number, Path], None]] = {
    ".json": _change_json,
    ".jsonl": _change_journal,
    ".parquet": _change_table,
}


class Hung(BaseException):
    """A folder took more CPU time than any may."""


def _hung(number: int, frame: FrameType | None) -> None:
    raise Hung


def check(seed: int, bases: list[Path], place: Path) -> str | None:
    """Break a run folder as the seed says, at `place`, and read it; return what went wrong."""
    rng = random.Random(seed)
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(rng.choice(bases), place)
    change(rng.randint, place)
    signal.signal(signal.SIGVTALRM, _hung)
    signal.setitimer(signal.ITIMER_VIRTUAL, CPU_SECONDS)
    try:
        read(place)
    except SkblabError as error:
        said = str(error)
        return None if said.strip() and "\n" not in said else f"no line: {said!r}"
    except (Exception, Hung):
        return traceback.format_exc()
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    return None


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def main(seconds: float, first: int, kept: Path) -> int:
    """Break and read folders for so long; return the exit code."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_MIB << 20, MEMORY_MIB << 20))
    _say(f"seed {first}")
    seed, end = first, time.monotonic() + seconds
    with tempfile.TemporaryDirectory() as made:
        bases = samples(Path(made))
        while time.monotonic() < end:
            if wrong := check(seed, bases, kept):
                _say(f"seed {seed}, left in {kept}:\n{wrong}")
                return 1
            seed += 1
    shutil.rmtree(kept, ignore_errors=True)
    _say(f"{seed - first} run folders broken and read")
    return 0


if __name__ == "__main__":
    given = sys.argv[1:]
    chosen = int(given[1]) if len(given) > 1 else random.randrange(1 << 32)
    sys.exit(main(float(given[0]), chosen, Path(tempfile.gettempdir()) / f"skblab-broken-{chosen}"))
