# SPDX-License-Identifier: GPL-2.0-or-later
"""How fast `skblab analyze` is, beside a plain loop in C on the same file: `make bench-analysis`.

python -m skblab.bench.analysis [--packets N] [--rounds N] [--plot N]

Whoever shares the machine takes time from all rows alike, so figures are millions of packets by
second of processor time (M/CPU-s), the best of some rounds in turn, and the ratio to the loop is
what counts; M/s is by the clock. The loop (analysis/pktstat/bench/loop.c, gcc -O2) finds least,
mean and largest latency, and anomalies. The study's tool is that of Dybvik 2023, by what it says.

Then it has gnuplot draw N latencies over time: the program reads them and prints bins.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
import numpy.typing as npt
import typer
from rich import box
from rich.table import Table

from skblab.lab import labroot, paths, tools
from skblab.lab.drawing import Gnuplot, find_gnuplot
from skblab.lab.labroot import Bind, LabRoot
from skblab.lab.reporter import Reporter, printer
from skblab_analysis.base.errors import SkblabError
from skblab_analysis.base.words import number
from skblab_analysis.formats.analyze import FileFigures
from skblab_analysis.formats.packets import MOST_RECORDS, RECORD, Header, block_bytes

# What the real-time study says of its own tool (Dybvik 2023).
STUDY_PER_S = 87e6
LOOP = "analysis/pktstat/bench/loop.c"
# Packets that are made up at once.
_AT_ONCE = 1 << 20
_STEP_NS = 1000
_BEGIN_NS = 1_000_000_000
_MEGA = 1e6
_PAIR = 16
_KIB_OF_MIB = 1024
# Runs a program, and says what it took; as a process of its own, which is small, since a child's
# largest memory is at least that of who started it.
_TAKES = """
import json, resource, subprocess, sys, time
begun = time.monotonic()
subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL)
took = resource.getrusage(resource.RUSAGE_CHILDREN)
print(json.dumps([took.ru_utime + took.ru_stime, time.monotonic() - begun, took.ru_maxrss]))
"""
# Least, mean and largest latency of each bin over time.
_DRAWING = """set terminal svg size 1000,500
set output 'plot.svg'
set logscale y
plot for [column = 2:4] 'plot.dat' using 1:column with lines notitle
"""
Times = npt.NDArray[np.uint64]


@dataclass(frozen=True, slots=True)
class Row:
    """A program on a file: its words, and what it took at best."""

    name: str
    words: tuple[str, ...]


@dataclass(slots=True)
class Took:
    """Seconds of processors, of the clock, and MiB at most."""

    processor: float = float("inf")
    wall: float = float("inf")
    mib: float = 0.0


def packets(count: int, late: str) -> Iterator[tuple[Times, Times]]:
    """Yield when packets were sent and came: one each µs, 10 to 11 µs later, as from a queue.

    `late`: "few" of a hundred thousand waits 2 ms, and those behind it wait for it; of "all" each
    takes 2 ms more; of "pairs" two of four do.
    """
    dice = np.random.default_rng(1)
    for begin in range(0, count, _AT_ONCE):
        place = np.arange(begin, min(count, begin + _AT_ONCE), dtype=np.uint64)
        sent = place * np.uint64(_STEP_NS) + np.uint64(_BEGIN_NS)
        took = dice.integers(10_000, 11_000, len(place), dtype=np.uint64)
        if late == "few":
            took[place % np.uint64(100_000) == 100] += np.uint64(2_000_000)
            came = np.maximum.accumulate(sent + took)
        else:
            chosen = place % np.uint64(4) < 2 if late == "pairs" else np.ones(len(place), np.bool_)
            came = sent + took + chosen * np.uint64(2_000_000)
        yield sent, came


def make_pairs(path: Path, count: int, late: str = "few", *, seconds: bool = False) -> None:
    """Write pairs of nanoseconds, or of seconds as the study has them."""
    with path.open("wb") as file:
        for times in packets(count, late):
            both = np.stack(times, axis=1)
            file.write((both / 1e9 if seconds else both).tobytes())


def make_records(path: Path, count: int) -> None:
    """Write records of ours."""
    header = Header(
        begun_ns=_BEGIN_NS,
        transmission=1,
        sender_clock="CLOCK_REALTIME",
        receiver_clock="CLOCK_REALTIME",
        stamps="kernel",
        one_clock=True,
    )
    with path.open("wb") as file:
        file.write(header.to_bytes())
        at = 0
        for sent, came in packets(count, "few"):
            records = np.zeros(len(sent), RECORD)
            records["sequence"] = np.arange(at, at + len(sent))
            records["sent_ns"], records["received_ns"] = sent, came
            records["payload_bytes"] = 64
            for begin in range(0, len(records), MOST_RECORDS):
                block = records[begin : begin + MOST_RECORDS]
                file.writelines(block_bytes(at, block))
                at += len(block)
        file.writelines(block_bytes(at, np.zeros(0, RECORD)))


def rows(loop: Path, program: Path, folder: Path) -> Iterator[Row]:
    """Yield what is measured; the first is what the others are compared with."""
    made = {name: str(folder / name) for name in ("pairs", "timestamps", "records", "all", "often")}
    late = ("--late=2:250us", "--late=2:750us")

    def ours(name: str, file: str, *more: str, threads: int = 1, form: str = "pairs") -> Row:
        words = (*late, f"--threads={threads}", f"--format={form}", *more)
        return Row(name, (str(program), *words, made[file]))

    yield Row("plain loop in C", (str(loop), made["pairs"], "2", "250000"))
    yield ours("pairs, 1 thread", "pairs")
    yield ours("pairs, 2 threads", "pairs", threads=2)
    yield ours("pairs, also 5 medians late", "pairs", "--late=2:x5")
    yield ours("pairs, all late", "all")
    yield ours("pairs, 10 million anomalies", "often")
    yield ours("timestamps, 1 thread", "timestamps", form="timestamps")
    yield ours("records, 1 thread", "records", form="records")
    yield ours("records, 2 threads", "records", form="records", threads=2)


def measure(row: Row, took: Took) -> None:
    """Run it once more."""
    call = [sys.executable, "-c", _TAKES, *row.words]
    done = subprocess.run(call, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SkblabError(f"{row.name}: {done.stderr.strip().splitlines()[-1]}")
    processor, wall, kib = json.loads(done.stdout)
    took.processor = min(took.processor, processor)
    took.wall = min(took.wall, wall)
    took.mib = max(took.mib, kib / _KIB_OF_MIB)


def table(found: dict[str, Took], count: int) -> Table:
    """Return what was found, beside the first row and the study's tool."""
    shown = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    shown.add_column("", no_wrap=True)
    for name in ("M/CPU-s", "of loop", "of study", "M/s", "MiB ≤"):
        shown.add_column(name, justify="right")
    first = next(iter(found.values()))
    for name, took in found.items():
        rate = count / took.processor
        shown.add_row(
            name,
            number(rate / _MEGA),
            number(first.processor / took.processor, 2),
            number(rate / STUDY_PER_S, 1),
            number(count / took.wall / _MEGA),
            number(took.mib, 1),
        )
    return shown


def plot(program: Path, file: Path, rounds: int, gnuplot: Gnuplot) -> str:
    """Have latencies over time drawn, beside the file; return what it took at best, in words."""
    words = (str(program), "--threads=2", "--format=pairs", str(file))
    row, took = Row("plot", words), Took()
    found = subprocess.run(words, capture_output=True, text=True, check=True)
    rows = FileFigures.model_validate_json(found.stdout).over_time.rows
    lines = (f"{row.begin_ns} {row.min_ns} {row.mean_ns} {row.max_ns}\n" for row in rows)
    (file.parent / "plot.dat").write_text("".join(lines))
    (file.parent / "plot.gp").write_text(_DRAWING)
    drawing = float("inf")
    for _ in range(rounds):
        measure(row, took)
        begun = time.monotonic()
        gnuplot(["plot.gp"], file.parent)
        drawing = min(drawing, time.monotonic() - begun)
    packets = number(file.stat().st_size // _PAIR)
    return (
        f"A plot of {packets} latencies takes {took.wall + drawing:.2f} s: {took.wall:.2f} s to "
        f"read them with 2 threads ({took.processor:.2f} CPU-s, {number(took.mib, 1)} MiB), "
        f"{drawing:.2f} s to draw {number(len(rows))} bins"
    )


def compiled(root: LabRoot, folder: Path) -> Path:
    """Return the loop, compiled by the lab root's compiler."""
    root.run(
        ["gcc", "-O2", "-static", "-o", "/skblab/out/loop", f"/skblab/tree/{LOOP}"],
        binds=[Bind(paths.tree(), "tree"), Bind(folder, "out", writable=True)],
        what="compiling the loop",
    )
    return folder / "loop"


def main(
    count: Annotated[int, typer.Option("--packets", min=1, help="In each file.")] = 40_000_000,
    rounds: Annotated[int, typer.Option(min=1, help="How often each is run.")] = 5,
    drawn: Annotated[
        int, typer.Option("--plot", min=0, help="In the file that is drawn; 0: none is.")
    ] = 120_000_000,
) -> None:
    """Measure, and print a table."""
    reporter = Reporter()
    root = labroot.ensure(reporter)
    program = tools.ensure_traffic(root, reporter) / tools.PKTSTAT
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        loop = compiled(root, folder)
        made: dict[str, Callable[[Path], None]] = {
            "pairs": lambda path: make_pairs(path, count),
            "timestamps": lambda path: make_pairs(path, count, seconds=True),
            "all": lambda path: make_pairs(path, count, "all"),
            "often": lambda path: make_pairs(path, count, "pairs"),
            "records": lambda path: make_records(path, count),
        }
        for name, make in made.items():
            reporter.say(f"making {number(count)} packets: {name}")
            make(folder / name)
        measured = [*rows(loop, program, folder)]
        found = {row.name: Took() for row in measured}
        for _ in range(rounds):
            for row in measured:
                measure(row, found[row.name])
        printer().print(table(found, count))
        if drawn:
            reporter.say(f"making {number(drawn)} packets: plot")
            make_pairs(folder / "plot", drawn)
            printer().print(plot(program, folder / "plot", rounds, find_gnuplot()), soft_wrap=True)


if __name__ == "__main__":
    typer.run(main)
