# SPDX-License-Identifier: GPL-2.0-or-later
"""How long recording takes: each record a part of its own, against all tables anew each time.

    python tests/analysis/growing_tables.py [TRIALS]

Both ways record the same made-up trials (a search of 20 loads, three goals and 30 counters each)
in one process, on the disk of TMPDIR. Parts are all written; tables anew are, for the last few
trials of each tenth, or it would take an hour. It prints the CPU's milliseconds for a record, their
ratio, what all trials take (anew: as the samples say), what the end of the run and loading it take,
and the bytes that were written.
"""

from __future__ import annotations

import io
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import searches
import synthetic_run

from skblab_analysis.base.disk import write_whole
from skblab_analysis.load import load
from skblab_analysis.runfolder import RunFolder
from skblab_analysis.tables import TABLES, Part, join, part
from skblab_analysis.throughput.rows import Search
from skblab_analysis.work.rows import Counter

TURNS = 10
SAMPLES = 5
LOADS = 20
COUNTERS = [Counter(kind="softirq", name="NET_RX", cpu=cpu, value=9) for cpu in range(30)]


def search(number: int) -> Search:
    made = searches.search("baseline", number, 80_000.0)
    return made.model_copy(update={"loads": (made.loads * LOADS)[:LOADS]})


class Anew:
    """The way of before: every record writes all tables and run.json whole."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._tables = {table.file: table.schema.empty_table() for table in TABLES}
        self.bytes = 0

    def grow(self, numbers: range) -> None:
        """Have trials in the tables that were written before."""
        parts = [self._part(number) for number in numbers]
        for table in TABLES:
            self._tables[table.file] = join(table, self._tables[table.file], parts, "it")

    def record(self, number: int) -> None:
        """Write a trial, and all before it."""
        made = self._part(number)
        for table in TABLES:
            if table.file in made.tables:
                self._tables[table.file] = join(table, self._tables[table.file], [made], "it")
                buffer = io.BytesIO()
                pq.write_table(self._tables[table.file], buffer, compression="zstd")
                self._write(f"{table.file}.parquet", buffer.getvalue())
        self._write("run.json", b"{}")

    def _part(self, number: int) -> Part:
        measured = search(number)
        rows = [measured.row(number), *measured.rows(number)]
        return part([*rows, *(counter.row(number) for counter in COUNTERS)])

    def _write(self, name: str, content: bytes) -> None:
        write_whole(self._folder / name, content)
        self.bytes += len(content)


class Parts:
    """The way of now."""

    def __init__(self, folder: Path) -> None:
        self.folder = RunFolder.create(folder, "it", searches.plan(), synthetic=True)

    def record(self, number: int) -> None:
        """Write a trial."""
        self.folder.known(COUNTERS)
        self.folder.record(search(number))


def seconds(body: Callable[[], object]) -> float:
    """Return the CPU's: on a machine with other work those that pass say nothing."""
    begin = time.process_time()
    body()
    return time.process_time() - begin


def each(record: Callable[[int], None], numbers: range) -> float:
    """Return the seconds that one of these records takes, on average."""

    def body() -> None:
        for number in numbers:
            record(number)

    return seconds(body) / len(numbers)


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def main(trials: int) -> None:
    """Record so many trials both ways, and print what it took."""
    with tempfile.TemporaryDirectory() as made:
        before, after = Anew(Path(made)), Parts(Path(made))
        tenth = trials // TURNS
        few, all_before, all_after = min(SAMPLES, tenth), 0.0, 0.0
        say("trials until    anew, ms   parts, ms   ratio")
        for end in range(tenth, trials + 1, tenth):
            before.grow(range(end - tenth, end - few))
            anew = each(before.record, range(end - few, end))
            parts = each(after.record, range(end - tenth, end))
            all_before += tenth * anew
            all_after += tenth * parts
            say(f"{end:12} {1000 * anew:11.1f} {1000 * parts:11.1f} {anew / parts:7.0f}")
        say(f"all: {all_before:.0f} s anew, {all_after:.1f} s parts, {all_before / all_after:.0f}×")
        path = after.folder.path
        sizes = [file.stat().st_size for file in (path / "parts").iterdir()]
        written = before.bytes * tenth // few
        say(f"written: {written >> 20} MiB anew, {sum(sizes) >> 20} MiB in {len(sizes)} parts")
        say(f"loading it with its parts: {seconds(lambda: load(path)):.2f} s")
        took = seconds(lambda: after.folder.finish(synthetic_run.environment(), {}))
        say(f"the end of the run, which makes tables of them: {took:.2f} s")
        say(f"loading it then: {seconds(lambda: load(path)):.2f} s")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5_000)
