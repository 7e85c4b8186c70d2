# SPDX-License-Identifier: GPL-2.0-or-later
"""The tables of a store of many runs: each row names its run, its unit and its clock."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from skblab_analysis.base.rows import BY_ROW, NO_UNIT, Column, Row, Stored
from skblab_analysis.base.whole import Signed, Whole
from skblab_analysis.trials.rows import Clock

UTC = "UTC"
State = Literal["finished", "failed", "cut off", "running"]


class OfRun(Row):
    """Which run a row is of."""

    run_id: Annotated[
        str, Column(NO_UNIT, "What tells the run from all others, wherever its folder is.")
    ]
    run: Annotated[str, Column(NO_UNIT, "Name of its folder.")]
    started: Annotated[datetime, Column(UTC, "When the run began.")]


class RunRow(OfRun):
    """A run: what it is, and how it ended."""

    name: Annotated[str, Column(NO_UNIT, "Name of the run, without its time.")]
    kind: Annotated[
        str, Column(NO_UNIT, "What made it, such as `sweep`, `compare` or `probe layers`.")
    ]
    state: Annotated[
        State,
        Column(
            NO_UNIT,
            "`finished`; `failed`: it ended with an error; `running`; `cut off`: it was killed.",
        ),
    ]
    finished: Annotated[datetime | None, Column(UTC, "When it ended; null: it did not.")] = None
    kernels: Annotated[
        str,
        Column(NO_UNIT, "Releases of its kernels, with commas between; empty: not known."),
    ] = ""
    testbed: Annotated[str, Column(NO_UNIT, "Its testbed; empty: it has none.")] = ""
    clock: Annotated[
        Literal["wall", "exact", "both", ""],
        Column(NO_UNIT, "Clock of its trials: `wall`, `exact` or `both`; empty: it has none."),
    ] = ""
    trials: Annotated[
        Whole,
        Column(NO_UNIT, "How many trials it has; of `compare`, a workload in a boot is one."),
    ] = 0
    invalid: Annotated[Whole, Column(NO_UNIT, "How many of these have no figure.")] = 0
    synthetic: Annotated[bool, Column(NO_UNIT, "Whether its numbers are made up, for tests.")] = (
        False
    )
    bytes: Annotated[Whole, Column("bytes", "Size of its files.")] = 0
    question: Annotated[str, Column(NO_UNIT, "Its question in one sentence.")] = ""
    content: Annotated[
        str, Column(NO_UNIT, "Digest of the files that its figures are from; empty: not read.")
    ] = ""


class _OfSetting(OfRun):
    """What a value is of: settings, kernels and clocks that differ are never one series."""

    clock: Annotated[Clock, Column(NO_UNIT, "`wall` or `exact`: these are never mixed.")]
    kernel: Annotated[
        str,
        Column(
            NO_UNIT,
            "Release of its kernel, as `uname -r` says; of a setting that boots another kernel, "
            "that kernel's name. Empty: not known.",
        ),
    ]
    workload: Annotated[
        str, Column(NO_UNIT, "Workload of `compare`, or case of a profile; empty: it has none.")
    ]
    setting: Annotated[str, Column(NO_UNIT, "Setting, or side of a comparison.")]


class _OfFigure(_OfSetting):
    measure: Annotated[str, Column(NO_UNIT, "What was measured, such as `throughput`.")]
    figure: Annotated[str, Column(NO_UNIT, "What it is, such as `p99`.")]
    part: Annotated[str, Column(NO_UNIT, "Of what: goal of a search, layer, load; empty: all.")]
    unit: Annotated[str, Column(NO_UNIT, "Unit of the value; 1: a share of packets.")]
    traffic: Annotated[str, Column(NO_UNIT, "What was sent; empty: the run has one traffic.")]
    rate: Annotated[Whole | None, Column("packets/s", "Rate it was measured at, if any.")]

    @property
    def key(self) -> tuple[object, ...]:
        """What names it among all figures of its run."""
        return tuple(getattr(self, name) for name in _OfFigure.model_fields)


class FigureRow(_OfFigure):
    """A figure of a setting in a run, over all of its blocks."""

    value: Annotated[float | None, Column(BY_ROW, "Mean of the blocks; null: it has none.")]
    low: Annotated[
        float | None, Column(BY_ROW, "Lower end of its 95 % interval; null: it has none.")
    ]
    high: Annotated[float | None, Column(BY_ROW, "Upper end of it.")]
    count: Annotated[
        Whole | None, Column(NO_UNIT, "Blocks or boots that it is of; null: not known.")
    ]
    resolution: Annotated[
        float,
        Column(BY_ROW, "Half of its interval at least; a part of the value if `relative`."),
    ]
    relative: Annotated[bool, Column(NO_UNIT, "Whether differences are taken as factors.")]
    partial: Annotated[bool, Column(NO_UNIT, "Whether some block has no value.")]
    place: Annotated[
        str, Column(NO_UNIT, "Testbed and machine it was measured on: a JSON object of texts.")
    ]
    how: Annotated[str, Column(NO_UNIT, "How it was measured: a JSON object of texts.")]
    sets: Annotated[str, Column(NO_UNIT, "What the setting sets: a JSON object of texts.")]


class BlockRow(_OfFigure):
    """A figure of a setting in one block, or boot."""

    block: Annotated[Whole, Column(NO_UNIT, "Number of the block or boot.")]
    value: Annotated[float, Column(BY_ROW, "The figure in this block.")]


class FunctionRow(_OfSetting):
    """What a kernel function takes in one setting."""

    block: Annotated[Whole, Column(NO_UNIT, "Number of the boot; 0 where several were merged.")]
    function: Annotated[str, Column(NO_UNIT, "Name of the function.")]
    unit: Annotated[str, Column(NO_UNIT, "Unit of the values, such as instructions/packet.")]
    value: Annotated[float, Column(BY_ROW, "What it takes itself.")]
    again: Annotated[
        float | None,
        Column(BY_ROW, "Further iterations of its string instructions; null: not known."),
    ]
    inclusive: Annotated[float | None, Column(BY_ROW, "With all that it calls; null: not known.")]
    calls: Annotated[
        Signed | None, Column(NO_UNIT, "Calls whose time was measured; null: not counted.")
    ]


RUNS = Stored(RunRow, "runs", "one run")
FIGURES = Stored(FigureRow, "figures", "one figure of one setting in one run")
BLOCKS = Stored(BlockRow, "blocks", "one figure of one setting in one block of one run")
FUNCTIONS = Stored(FunctionRow, "functions", "one kernel function in one setting of one run")
# Of which a file has one clock: all but the runs, of which one may have both.
OF_A_CLOCK = (FIGURES, BLOCKS, FUNCTIONS)
STORE = (RUNS, *OF_A_CLOCK)
