# SPDX-License-Identifier: GPL-2.0-or-later
"""Every table loads in pandas, polars and DuckDB, with its units, by the lines of the README."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import textwrap
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import duckdb
import made_up_arrivals
import made_up_flows
import made_up_late
import made_up_tcp
import pandas
import polars
import pyarrow.parquet as pq
import pytest
import searches
import synthetic_run
from test_report import fake_gnuplot

from skblab_analysis.base.rows import BY_ROW, Table
from skblab_analysis.cpu.rows import Interval, Times, Worked
from skblab_analysis.events.rows import Collected, Event, Window
from skblab_analysis.formats.pktsink import ArrivalsDocument
from skblab_analysis.latency.rows import Arrivals
from skblab_analysis.report.page import build_report
from skblab_analysis.rfc2544.rows import Benchmarked
from skblab_analysis.runfolder import RunFolder
from skblab_analysis.samples.rows import Sampled, Stack
from skblab_analysis.settings.rows import ReadBack
from skblab_analysis.tables import TABLES
from skblab_analysis.work.rows import Counter

FOLDER = Path(__file__).parents[2] / "results-schema"
NAMED = "trials.parquet"
PACKETS = 2_000

Rows = Sequence[Mapping[Any, Any]]


def documented() -> dict[str, str]:
    """Return the README's lines, by the library that they import."""
    _, section = (FOLDER / "README.md").read_text().split("\n## In pandas, polars and DuckDB\n")
    blocks = re.findall(r"(?:^    .*\n)+", section.partition("\n## ")[0], re.MULTILINE)
    lines = [[line[4:] for line in block.splitlines()] for block in blocks]
    assert [len(block) for block in lines] == [3, 3, 3]
    return {block[0].split()[-1]: "\n".join(block) for block in lines}


def of_pandas(rows: pandas.DataFrame) -> Rows:
    plain = rows.astype(object)
    return plain.where(plain.notna(), None).to_dict("records")


def of_polars(rows: polars.DataFrame) -> Rows:
    return rows.to_dicts()


def of_duckdb(rows: duckdb.DuckDBPyRelation) -> Rows:
    return [dict(zip(rows.columns, row, strict=True)) for row in rows.fetchall()]


READERS: Mapping[str, Callable[[Any], Rows]] = {
    "pandas": of_pandas,
    "polars": of_polars,
    "duckdb": of_duckdb,
}


def finished_run(results: Path) -> Path:
    """Write a synthetic run that has rows in every table, and return its folder."""
    folder = begun_run(results)
    return folder.finish(synthetic_run.environment(), {"searching": 1.0})


def unfinished_run(results: Path) -> Path:
    """Write the same, with a trial in the tables and the others in parts."""
    folder = RunFolder.create(results, "cut", searches.plan(), synthetic=True)
    folder.record(searches.search("first", 0, 81_000.0))
    folder.fail("stopped by a signal")
    folder = RunFolder.open(folder.path)
    fill(folder)
    return folder.path


def begun_run(results: Path) -> RunFolder:
    """Return a run that has all its trials, and did not end."""
    folder = RunFolder.create(results, "all", searches.plan(), synthetic=True)
    fill(folder)
    return folder


def fill(folder: RunFolder) -> None:
    """Have rows in every table."""
    folder.record_probe(
        synthetic_run.pathlat(PACKETS),
        said=(synthetic_run.sender(PACKETS), synthetic_run.receiver(PACKETS)),
    )
    figures = tuple(searches.tested(80_000.0, 200_000.0))
    folder.record(Benchmarked(searches.search("baseline", 0, 80_000.0), figures))
    late = made_up_arrivals.document([50_000, 300_000, 800_000, 900_000, 60_000] * 20)
    folder.record(
        Arrivals(
            setting="baseline",
            block=0,
            traffic=searches.TRAFFIC,
            rate=50,
            tried=100,
            seconds=2.0,
            took=2.0,
            document=ArrivalsDocument.model_validate_json(json.dumps(late)),
        )
    )
    made, what = made_up_late.probed("baseline", 0, made_up_late.packet(3))
    folder.record_probe(made, of=what)
    folder.record(made_up_tcp.asked("baseline", 0, made_up_tcp.exchange()))
    folder.known([ReadBack(knob="rp_filter", value="1", before="0\n2", wanted="1", after="1")])
    folder.known([Counter(kind="thread", name="napi/r0-8193", cpu=None, value=2**60 + 1)])
    times = Times(cpu=0, user=0, system=1, interrupt=0, softirq=2, idle=3, steal=0)
    worked = Worked(rate=50, tried=100, forwarded=100, offered_rate=50.0, times=(times,))
    parts = (Interval(begin=0, end=6, **dict(times)),)
    folder.record(worked.model_copy(update={"intervals": parts}))
    event = Event(collector="pcm", name="READ", scope="system", unit="bytes", value=6.4e6)
    gap = Event(collector="perf: llc", name="LLC-loads", why="not supported")
    windows = (Window(100, 100, (event,)), Window(0, 0, (gap,)))
    folder.record(Collected(rate=50, offered_rate=50.0, windows=windows))
    stack = Stack(cpu=0, stack="do_softirq;ip_rcv", samples=2, weight=2_006_018, spread=1_418_469)
    folder.record(
        Sampled(
            rate=50,
            tried=100,
            forwarded=100,
            offered_rate=50.0,
            event="cpu-clock",
            stacks=(stack,),
        )
    )
    folder.record(made_up_flows.exchanged("baseline", 0, 5_000))
    folder.record(searches.search("other", 0, 81_000.0))


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return finished_run(tmp_path_factory.mktemp("results"))


def check(reader: str, folder: Path, table: Table) -> int:
    """Have the lines of the README load a table; return its number of rows."""
    file = f"{table.file}.parquet"
    code = documented()[reader]
    assert NAMED in code
    made: dict[str, Any] = {}
    exec(code.replace(NAMED, file), made)
    arrow = pq.read_table(folder / file)
    found, expected = READERS[reader](made["rows"]), arrow.to_pylist()
    assert list(made["rows"].columns) == arrow.column_names
    assert found == expected
    # 1 is 1.0, and True too.
    kinds = [[type(value) for value in row.values()] for row in expected]
    assert [[type(value) for value in row.values()] for row in found] == kinds
    assert made["units"] == {column.name: column.unit for column in table.columns}
    for field in arrow.schema:
        assert field.metadata[b"unit"].decode() == made["units"][field.name]
    return len(found)


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.file)
@pytest.mark.parametrize("reader", READERS)
def test_the_example_loads(reader: str, table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(FOLDER / "example")
    # Nothing was searched, and nothing was late.
    assert bool(check(reader, Path(), table)) != table.later


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.file)
@pytest.mark.parametrize("reader", READERS)
def test_a_run_loads(
    reader: str, table: Table, ours: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ours)
    assert check(reader, ours, table)


def pasted(folder: Path) -> list[str]:
    """Return what the worked example of the README prints of a run's folder, line by line."""
    found = re.search(
        r"^    \.venv/bin/python - results-schema/example <<'END'\n(.*?)^    END\n",
        (FOLDER / "README.md").read_text(),
        re.DOTALL | re.MULTILINE,
    )
    assert found is not None
    done = subprocess.run(
        [sys.executable, "-", str(folder)],
        input=textwrap.dedent(found[1]),
        capture_output=True,
        text=True,
        check=True,
    )
    return [line.rstrip() for line in done.stdout.splitlines()]


@pytest.mark.process
def test_the_worked_example_prints_what_the_readme_says() -> None:
    _, _, rest = (FOLDER / "README.md").read_text().partition("\nIt prints\n\n")
    said = rest.partition("\n\n`share`")[0]
    assert pasted(FOLDER / "example") == [line[4:].rstrip() for line in said.splitlines()]


@pytest.mark.process
def test_the_worked_example_takes_a_sweep(ours: Path) -> None:
    build_report(ours, fake_gnuplot)
    printed = pasted(ours)
    # Of one block nothing is significant; what was set has its reading.
    assert printed[0] == "Empty DataFrame"
    assert printed[-1].split() == ["default", "rp_filter", "1", "1"]


def test_units_are_those_of_the_tables() -> None:
    units = duckdb.execute(
        f"SELECT decode(value)->>'rate', decode(value)->>'late_max' "
        f"FROM parquet_kv_metadata('{FOLDER}/example/trials.parquet') WHERE key = 'units'"
    ).fetchall()
    assert units == [("packets/s", "ns")]
    layers = pandas.read_parquet(FOLDER / "example" / "layers_summary.parquet")
    assert layers.attrs["units"]["p99"] == BY_ROW
    assert set(layers["unit"]) == {"ns"}
