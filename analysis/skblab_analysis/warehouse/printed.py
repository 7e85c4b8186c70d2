# SPDX-License-Identifier: GPL-2.0-or-later
"""What `skblab runs` prints by `--json`."""

from __future__ import annotations

from typing import Literal

from pydantic import AwareDatetime, Field, JsonValue

from skblab_analysis.base.checked import Closed
from skblab_analysis.base.whole import Whole
from skblab_analysis.trials.rows import Clock
from skblab_analysis.warehouse.rows import State


class StoredFile(Closed):
    """A file of a store."""

    file: str = Field(description="its path beside store.json")
    table: str = Field(description="runs, figures, blocks or functions")
    clock: Clock | None = Field(description="of all its rows; null: the table of runs")
    rows: Whole
    bytes: Whole


class UnreadableRun(Closed):
    """A run folder that cannot be read."""

    folder: str
    why: str


class ListedRun(Closed):
    """A run: what it is, and how it ended."""

    folder: str
    name: str = Field(description="of the run, without its time")
    started: AwareDatetime = Field(description="UTC")
    finished: AwareDatetime | None = Field(description="UTC; null: it did not end")
    kind: str = Field(description="the command that made it; other: not known")
    state: State = Field(description="cut off: it was killed")
    kernels: tuple[str, ...] = Field(description="as `uname -r` says; none: not known")
    testbed: str = Field(description="empty: it has none")
    clock: Literal["wall", "exact", "both", ""] = Field(description="empty: it has no trials")
    trials: Whole
    invalid: Whole = Field(description="trials that have no figure")
    bytes: Whole
    synthetic: bool = Field(description="made-up numbers, for tests only")
    question: str
    settings: tuple[str, ...] = Field(description="or sides of a comparison")


class RunsListing(Closed):
    """Runs, the earliest first, and folders that cannot be read."""

    schema_name: Literal["skblab.runs/1"] = "skblab.runs/1"
    runs: tuple[ListedRun, ...]
    unreadable: tuple[UnreadableRun, ...]


class PackedRuns(Closed):
    """What a store holds after a pack, and what was done with each run folder."""

    schema_name: Literal["skblab.packed-runs/1"] = "skblab.packed-runs/1"
    store: str
    runs: Whole = Field(description="in the store")
    files: tuple[StoredFile, ...]
    added: tuple[str, ...]
    replaced: tuple[str, ...] = Field(description="the store had less of these")
    unchanged: tuple[str, ...]
    kept: tuple[str, ...] = Field(description="the store has more of these than their folders")
    unreadable: tuple[UnreadableRun, ...]


class Changed(Closed):
    """What a figure differs from another run's."""

    effect: float = Field(description="in the figure's unit")
    low: float | None = Field(description="lower end of its 95 % interval; null: of one block")
    high: float | None = Field(description="upper end of it")
    share: float | None = Field(description="as part of the other; null: that is 0")
    significant: bool | None = Field(description="null: not known")


class RunFigure(Closed):
    """A figure in one run."""

    run: str = Field(description="name of its folder")
    run_id: str
    started: AwareDatetime = Field(description="UTC")
    kernel: str = Field(description="empty: not known")
    value: float
    low: float | None = Field(description="lower end of its 95 % interval; null: it has none")
    high: float | None = Field(description="upper end of it")
    blocks: Whole | None = Field(description="blocks or boots; null: not known")
    previous: Changed | None = Field(description="from the run before; null of the first")
    first: Changed | None = Field(description="from the first run; null of the first")


class FigureSeries(Closed):
    """One figure of one setting over time: measured at one place, in one way, by one clock."""

    measure: str
    figure: str
    part: str
    unit: str
    clock: Clock
    workload: str
    setting: str
    traffic: str
    rate: Whole | None = Field(description="packets/s")
    place: dict[str, str] = Field(description="testbed and machine")
    how: dict[str, str] = Field(description="how it was measured")
    sets: dict[str, str] = Field(description="what the setting sets")
    apart: tuple[str, ...] = Field(
        description="in what it differs from the series before it, which has the same names"
    )
    runs: tuple[RunFigure, ...] = Field(description="the earliest first")


class FiguresOverTime(Closed):
    """Figures in run after run."""

    schema_name: Literal["skblab.run-figures/1"] = "skblab.run-figures/1"
    series: tuple[FigureSeries, ...]
    unreadable: tuple[UnreadableRun, ...] = Field(description="none of a store")


class QueryColumn(Closed):
    """A column of an answer, and its type in DuckDB."""

    name: str
    type: str


class QueryAnswer(Closed):
    """What a store answers; times are UTC, numbers that JSON does not have are null."""

    schema_name: Literal["skblab.query/1"] = "skblab.query/1"
    columns: tuple[QueryColumn, ...]
    rows: tuple[tuple[JsonValue, ...], ...]
