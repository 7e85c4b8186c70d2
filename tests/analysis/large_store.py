# SPDX-License-Identifier: GPL-2.0-or-later
"""How large a store of many runs is, and how long it takes to answer: `make bench-store`.

    python tests/analysis/large_store.py [--runs N] [--rounds N] [--keep FOLDER]

It makes up the rows of N runs, 500 by default, each with 2000 rows: 200 figures, 400 blocks and
1399 functions. Then it asks what docs/howto/keep-many-runs.md asks, in turn with a plain scan by
pyarrow of all rows of the same table and the columns that the question names. Times are the medians
of the rounds, by the clock; whoever shares the machine slows both, so the ratio is what counts.
"""

from __future__ import annotations

import argparse
import hashlib
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset
from rich import box
from rich.console import Console
from rich.table import Table

from skblab_analysis.base.rows import Stored
from skblab_analysis.warehouse import history, sql, store
from skblab_analysis.warehouse.history import Wanted
from skblab_analysis.warehouse.rows import BLOCKS, FIGURES, FUNCTIONS, RUNS, STORE

FIRST = datetime(2024, 1, 1)
SETTINGS = ("baseline", "baseline again", *(f"rss={count} queues" for count in range(1, 19)))
FIGURES_OF = (
    ("instructions", "path", "", "instructions/packet"),
    ("throughput", "throughput", "NDR", "packets/s"),
    *(("latency", f"p{part}", "", "ns") for part in (50, 90, 99, "99.9")),
    *(("cpu", "busy", "", "ns/packet"), ("latency", "late", "250 us", "1")),
    *(("layers", "mean", f"layer {number}", "ns") for number in range(2)),
)
FUNCTION_COUNT = 1399
MEGA = 1e6


@dataclass(frozen=True)
class Question:
    """A question, by its name; what it is of, and the columns that a plain scan reads for it."""

    name: str
    table: Stored
    columns: tuple[str, ...]
    ask: Callable[[Path], int]


# As docs/howto/keep-many-runs.md has them, a test holds it.
STATEMENTS = {
    "runs by kind": "SELECT kind, count(*) AS runs, max(started) AS latest FROM runs GROUP BY kind",
    "throughput by kernel": (
        "SELECT kernel, setting, median(value) AS rate, count(*) AS runs FROM figures "
        "WHERE clock = 'wall' AND measure = 'throughput' GROUP BY kernel, setting ORDER BY ALL"
    ),
    "functions that grew": (
        "SELECT function, max_by(value, started) - min_by(value, started) AS grew FROM functions "
        "WHERE clock = 'exact' AND setting = 'baseline' GROUP BY function ORDER BY grew DESC "
        "LIMIT 10"
    ),
    "scatter of blocks": (
        "SELECT setting, avg(spread) AS spread FROM (SELECT setting, run_id, "
        "stddev(value) / avg(value) AS spread FROM blocks WHERE clock = 'exact' AND "
        "figure = 'path' GROUP BY setting, run_id) GROUP BY setting ORDER BY spread DESC"
    ),
}
TABLES = {
    "runs by kind": (RUNS, ("kind", "started")),
    "throughput by kernel": (FIGURES, ("kernel", "setting", "value", "clock", "measure")),
    "functions that grew": (FUNCTIONS, ("function", "value", "started", "clock", "setting")),
    "scatter of blocks": (BLOCKS, ("setting", "run_id", "value", "clock", "figure")),
}


def made_up(runs: int, seed: int = 1) -> dict[Stored, pa.Table]:
    """Return the rows of so many runs, two thousand each."""
    dice = random.Random(seed)
    rows: dict[Stored, list[dict[str, object]]] = {table: [] for table in STORE}
    for number in range(runs):
        for table, row in _of_run(number, dice):
            rows[table].append(row)
    # Columns that may be null, and that are not told, are.
    return {table: pa.Table.from_pylist(of, schema=table.schema) for table, of in rows.items()}


def _of_run(number: int, dice: random.Random) -> Iterator[tuple[Stored, dict[str, object]]]:
    started = FIRST + timedelta(hours=7 * number)
    name = f"nightly-{started:%Y%m%d-%H%M%S}"
    run_id = hashlib.sha256(name.encode()).hexdigest()[:16]
    kernel = f"6.12.{number // 10}-skblab"
    head: dict[str, object] = {"run_id": run_id, "run": name, "started": started}
    yield (
        RUNS,
        head
        | {
            **{"name": "nightly", "kind": "sweep", "state": "finished", "kernels": kernel},
            **{"testbed": "virtio", "clock": "both", "trials": 400, "invalid": 0, "bytes": 10**7},
            **{"synthetic": True, "question": "How fast is it?", "content": run_id * 2},
            "finished": started + timedelta(hours=2),
        },
    )
    of = head | {"kernel": kernel, "workload": ""}
    facts = {"place": '{"testbed": "virtio"}', "how": '{"width": "0.01"}', "sets": "{}"}
    for setting in SETTINGS:
        for measure, figure, part, unit in FIGURES_OF:
            clock = "exact" if unit.startswith("instructions") else "wall"
            key = of | {
                **{"clock": clock, "setting": setting, "measure": measure, "figure": figure},
                **{"part": part, "unit": unit, "traffic": "IPv4, 64 bytes, 1 flow", "rate": None},
            }
            values = [dice.gauss(4000 + number, 9) for _ in range(2)]
            mean = sum(values) / 2
            yield (
                FIGURES,
                key
                | {"value": mean, "low": mean - 9, "high": mean + 9, "count": 2, **facts}
                | {"resolution": 2.0, "relative": False, "partial": False},
            )
            for block, value in enumerate(values):
                yield BLOCKS, key | {"block": block, "value": value}
    for place in range(FUNCTION_COUNT):
        yield (
            FUNCTIONS,
            of
            | {"clock": "exact", "workload": "forward, IPv4", "setting": "baseline", "block": 0}
            | {"function": f"function_{place}", "unit": "instructions/packet", "again": 0.0}
            | {"value": dice.gauss(50, 1), "inclusive": 90.0, "calls": None},
        )


def questions() -> Iterator[Question]:
    """Yield what is asked: the figures of a setting over time, and each statement."""
    wanted = Wanted({"measure": "instructions", "figure": "path", "setting": "baseline"})

    def over_time(target: Path) -> int:
        found = history.of_store(target, wanted)
        assert isinstance(found, list)
        return sum(len(series.points) for series in found)

    yield Question("figures over time", FIGURES, tuple(FIGURES.schema.names), over_time)
    for name, statement in STATEMENTS.items():
        table, columns = TABLES[name]
        yield Question(name, table, columns, _asking(statement))


def _asking(statement: str) -> Callable[[Path], int]:
    return lambda target: len(sql.query(target, statement).rows)


def scan(target: Path, question: Question) -> int:
    """Read all rows of a question's table, and the columns that it names; return how many."""
    with store.opened(target) as pack:
        files = [str(path) for path in pack.files(question.table)]
        found = pyarrow.dataset.dataset(files, format="parquet")
        return int(found.to_table(columns=list(question.columns)).num_rows)


def timed(work: Callable[[], int]) -> tuple[float, int]:
    """Return seconds by the clock, and how many rows it was."""
    begun = time.monotonic()
    count = work()
    return time.monotonic() - begun, count


def measure(target: Path, rounds: int) -> Table:
    """Ask all questions in turn, and return a table of what they took."""
    shown = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    shown.add_column("question")
    for name in ("rows", "ms", "scan ms", "of the scan"):
        shown.add_column(name, justify="right")
    every = [*questions()]
    took: dict[str, tuple[list[float], list[float]]] = {one.name: ([], []) for one in every}
    counts: dict[str, int] = {}
    # The first round has the files read from the disk, and DuckDB loaded.
    for turn in range(rounds + 1):
        for one in every:
            asked, counts[one.name] = timed(lambda one=one: one.ask(target))  # type: ignore[misc]
            plain, _ = timed(lambda one=one: scan(target, one))  # type: ignore[misc]
            if turn:
                took[one.name][0].append(asked)
                took[one.name][1].append(plain)
    for name, (asked_all, plain_all) in took.items():
        asked, plain = statistics.median(asked_all), statistics.median(plain_all)
        shown.add_row(
            name,
            str(counts[name]),
            f"{1000 * asked:.0f}",
            f"{1000 * plain:.0f}",
            f"{asked / plain:.2f}",
        )
    return shown


def main(arguments: Sequence[str] | None = None) -> int:
    """Make a store, print how large it is, and what it takes to answer."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--runs", type=int, default=500)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--keep", type=Path, help="a folder that the store is left in")
    asked = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as place:
        target = (asked.keep or Path(place)) / "store"
        tables = made_up(asked.runs)
        seconds, _ = timed(lambda: store.write(target, tables).runs)
        with store.opened(target) as pack:
            files = pack.document.files
        rows, size = sum(one.rows for one in files), sum(one.bytes for one in files)
        print(  # noqa: T201
            f"{rows} rows of {asked.runs} runs: {len(files)} files, {size / MEGA:.1f} MB, "
            f"written in {seconds:.1f} s"
        )
        Console().print(measure(target, asked.rounds))
    return 0


if __name__ == "__main__":
    sys.exit(main())
