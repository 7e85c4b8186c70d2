# SPDX-License-Identifier: GPL-2.0-or-later
"""`make bench-analysis`: its files are what their rows say, and a failure is said."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
import test_analyze

from skblab.bench import analysis
from skblab.bench.analysis import Row, Took
from skblab_analysis.base.errors import SkblabError
from skblab_analysis.formats.packets import load

COUNT = 250_000


def latencies(path: Path) -> npt.NDArray[np.int64]:
    """Return what each packet of a file of pairs took."""
    both = np.fromfile(path, "<u8").reshape(-1, 2)
    took: npt.NDArray[np.int64] = (both[:, 1] - both[:, 0]).astype(np.int64)
    return took


def test_files_are_what_their_rows_say(tmp_path: Path) -> None:
    for name in ("few", "all", "pairs"):
        analysis.make_pairs(tmp_path / name, COUNT, name)
    few = latencies(tmp_path / "few") >= 250_000
    # Packet 100 of each hundred thousand holds up those behind it.
    assert np.flatnonzero(np.diff(few.astype(int)) == 1).tolist() == [99, 100_099, 200_099]
    assert (latencies(tmp_path / "all") >= 250_000).all()
    late = latencies(tmp_path / "pairs") >= 250_000
    assert late[:8].tolist() == [True, True, False, False] * 2
    assert late.sum() == COUNT // 2


def test_records_and_seconds_are_of_the_same_packets(tmp_path: Path) -> None:
    analysis.make_pairs(tmp_path / "pairs", COUNT)
    analysis.make_pairs(tmp_path / "seconds", COUNT, seconds=True)
    analysis.make_records(tmp_path / "records", COUNT)
    packets = load(tmp_path / "records")
    assert (packets.received, packets.troubles) == (COUNT, ())
    took = packets.records["received_ns"] - packets.records["sent_ns"]
    assert (took == latencies(tmp_path / "pairs")).all()
    seconds = np.rint(np.fromfile(tmp_path / "seconds", "<f8") * 1e9)
    assert (seconds == np.fromfile(tmp_path / "pairs", "<u8")).all()
    assert packets.records["sequence"].tolist() == list(range(COUNT))


def test_the_first_row_is_the_loop_and_all_files_are_named(tmp_path: Path) -> None:
    first, *others = analysis.rows(Path("loop"), Path("program"), tmp_path)
    assert first.words[0] == "loop"
    assert {row.words[0] for row in others} == {"program"}
    read = {Path(row.words[-1]).name for row in others}
    assert read == {"pairs", "timestamps", "records", "all", "often"}


def test_the_best_of_rounds_is_kept_and_failures_are_said() -> None:
    took = Took(processor=0.0)
    analysis.measure(Row("true", ("true",)), took)
    assert took.processor == 0.0
    assert 0 < took.wall < float("inf")
    assert took.mib > 0
    with pytest.raises(SkblabError, match="non-zero exit status 1"):
        analysis.measure(Row("broken", ("false",)), Took())


def test_ratios_are_to_the_first_row() -> None:
    found = {"loop": Took(1.0, 1.0, 1.0), "ours": Took(4.0, 2.0, 3.0)}
    table = analysis.table(found, 348_000_000)
    cells = [[*column.cells] for column in table.columns]
    assert cells[0] == ["loop", "ours"]
    assert cells[1:5] == [["348", "87"], ["1.00", "0.25"], ["4.0", "1.0"], ["348", "174"]]


def test_a_plot_is_of_all_bins(tmp_path: Path) -> None:
    program, file = tmp_path / "program", tmp_path / "pairs"
    bins = [[0, 2, 10, 10.5, 11], [1024, 1, 12, 12.0, 12]]
    names = ("begin_ns", "packets", "min_ns", "mean_ns", "max_ns")
    rows = [dict(zip(names, row, strict=True)) for row in bins]
    over_time = {"width_ns": 1024, "origin_ns": 5, "rows": rows}
    figures = json.dumps(test_analyze.a_document(over_time=over_time))
    program.write_text(f"#!/bin/sh\necho '{figures}'\n")
    program.chmod(0o755)
    analysis.make_pairs(file, 3)
    drawn: list[tuple[object, ...]] = []

    def gnuplot(words: Sequence[str], folder: Path) -> None:
        drawn.append((*words, folder))

    said = analysis.plot(program, file, 2, gnuplot)
    assert drawn == [("plot.gp", tmp_path)] * 2
    assert (tmp_path / "plot.dat").read_text() == "0 10 10.5 11\n1024 12 12.0 12\n"
    assert said.startswith("A plot of 3 latencies takes ") and said.endswith("to draw 2 bins")
