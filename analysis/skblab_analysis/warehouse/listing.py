# SPDX-License-Identifier: GPL-2.0-or-later
"""Which runs there are: run folders looked at without reading their figures."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from skblab_analysis import tables
from skblab_analysis.base import disk
from skblab_analysis.base.checked import read
from skblab_analysis.base.errors import SkblabError, UsageError, os_trouble
from skblab_analysis.formats import analyze, bisect, compare, functimes, functions
from skblab_analysis.formats.bisect import BisectDocument, Step
from skblab_analysis.formats.compare import CompareDocument
from skblab_analysis.formats.run import DOCUMENT, RunDocument
from skblab_analysis.load import is_run
from skblab_analysis.trials.rows import TrialRow
from skblab_analysis.warehouse.rows import RunRow, State

BENCH = "bench.json"
OTHER = "other"
# Commands that make run folders; longer ones before those that they begin with.
KINDS = (
    *("demo", "sweep", "compare", "bisect", "profile"),
    *("probe layers", "probe functions", "probe study"),
    *("traffic run", "analyze", "bench patch", "bench functions"),
    OTHER,
)
# Of runs that do not say by which command they are made again: what only those of a kind have.
_FILES = {
    compare.FILE: "compare",
    bisect.FILE: "bisect",
    functimes.FILE: "probe functions",
    analyze.FILE: "analyze",
    BENCH: "bench patch",
    functions.FILE: "profile",
}
_ID_DIGITS = 16
_RANK = {"running": 0, "cut off": 1, "failed": 2, "finished": 3}


@dataclass(frozen=True)
class Looked:
    """A run, where it is, and the names of its settings or sides."""

    row: RunRow
    folder: Path
    settings: tuple[str, ...]


@dataclass(frozen=True)
class Unreadable:
    """A run folder that cannot be read, and why."""

    folder: Path
    why: str


@dataclass(frozen=True)
class Found:
    """Run folders, the earliest first, and those that cannot be read."""

    runs: tuple[Looked, ...]
    unreadable: tuple[Unreadable, ...]


def folders(given: Iterable[Path]) -> list[Path]:
    """Return the run folders among and directly in folders, each once.

    A folder that has no run is no error: results may be empty. UsageError if one is not there.
    """
    found: dict[Path, Path] = {}
    for folder in given:
        if not folder.is_dir():
            raise UsageError(
                f"{folder}: {'no folder' if folder.exists() else 'not there'}; expected a run "
                "folder, or a folder of run folders, such as results"
            )
        try:
            inside = [folder] if is_run(folder) else sorted(filter(is_run, folder.iterdir()))
        except OSError as error:
            raise UsageError(f"cannot read {os_trouble(error)}") from error
        found |= {run.resolve(): run for run in inside}
    return list(found.values())


def look(given: Sequence[Path]) -> Found:
    """Look at run folders and at those directly in folders; see `folders`."""
    found: list[Looked] = []
    bad: list[Unreadable] = []
    for folder in folders(given):
        try:
            found.append(look_at(folder))
        except SkblabError as error:
            bad.append(Unreadable(folder, str(error)))
        except OSError as error:
            bad.append(Unreadable(folder, os_trouble(error)))
    found.sort(key=lambda one: (one.row.started, one.row.run))
    return Found(tuple(found), tuple(bad))


def best(runs: Iterable[Looked]) -> list[Looked]:
    """Return of copies of one run the one that has most, in the order of the runs."""
    found: dict[str, Looked] = {}
    for looked in runs:
        other = found.get(looked.row.run_id)
        if other is None or rank(looked.row) > rank(other.row):
            found[looked.row.run_id] = looked
    return list(found.values())


def rank(run: RunRow) -> tuple[int, int]:
    """Return how much of a run there is: of two copies the greater one has more."""
    return _RANK[run.state], run.trials


def look_at(folder: Path) -> Looked:
    """Look at one run folder; RecordError says what is wrong with it where."""
    document = read(RunDocument, folder / DOCUMENT, "the run document")
    parts = tables.read_parts(folder, document.trials)
    where = f"{folder / tables.TRIALS.file}.parquet"
    whole = tables.read_table(folder, tables.TRIALS, document.trials)
    rows = tables.TRIALS.rows(tables.join(tables.TRIALS, whole, parts, where), where)
    trials = [row for row in rows if isinstance(row, TrialRow)]
    names = dict.fromkeys((*document.plan.settings, *(trial.setting for trial in trials)))
    count, invalid = len(trials), sum(trial.state == "invalid" for trial in trials)
    clocks: set[str] = {trial.clock for trial in trials}
    releases = [] if document.environment is None else [document.environment.kernel.release]
    compared = comparison(folder)
    if compared is not None:
        names = dict.fromkeys(side.name for side in compared.sides)
        releases = [side.kernel.release for side in compared.sides]
        clocks = {"exact"}
        count = len(compared.measured)
        invalid = sum(one.figure is None for one in compared.measured)
    elif (folder / bisect.FILE).exists():
        steps = searched(folder)
        clocks, count = {"exact"}, sum(max(1, len(step.figures)) for step in steps)
        invalid = sum(not step.figures for step in steps)
        names = dict.fromkeys(step.commit for step in steps)
    elif not trials:
        clocks = _clock_of_documents(folder)
    started = utc(document.started)
    return Looked(
        RunRow(
            run_id=identity(document),
            run=folder.resolve().name,
            started=started,
            name=document.name,
            kind=kind(folder, document),
            state=state(folder, document),
            finished=None if document.finished is None else utc(document.finished),
            kernels=", ".join(dict.fromkeys(releases)),
            testbed=str(document.plan.parameters.get("testbed", "")),
            clock=_clock(clocks),
            trials=count,
            invalid=invalid,
            synthetic=document.synthetic,
            bytes=_size(folder),
            question=document.plan.question,
        ),
        folder,
        tuple(names),
    )


def comparison(folder: Path) -> CompareDocument | None:
    """Return what a comparison found; None if the run is none, or has not ended."""
    path = folder / compare.FILE
    return read(CompareDocument, path, "the document of a comparison") if path.exists() else None


def searched(folder: Path) -> Sequence[Step]:
    """Return what a search for a commit measured; nothing if the run is none."""
    path = folder / bisect.FILE
    if not path.exists():
        return ()
    return read(BisectDocument, path, "the document of a search").steps


def identity(document: RunDocument) -> str:
    """Return what tells a run from others: a copy of its folder has the same, renamed or not."""
    parts = (document.name, utc(document.started).isoformat(), document.plan.experiment)
    text = "\0".join((*parts, str(document.plan.seed)))
    return hashlib.sha256(text.encode()).hexdigest()[:_ID_DIGITS]


def kind(folder: Path, document: RunDocument) -> str:
    """Return the command that made a run."""
    try:
        words = shlex.split(document.plan.again)[1:]
    except ValueError:
        words = []
    for one in KINDS:
        own = one.split()
        if words[: len(own)] == own:
            return one
    by_file = next((one for file, one in _FILES.items() if (folder / file).exists()), None)
    if by_file is not None:
        return by_file
    # Sweeps of older versions.
    return "sweep" if "clock" in document.plan.parameters else OTHER


def state(folder: Path, document: RunDocument) -> State:
    """Return how a run ended; one whose process is not there any more was cut off."""
    if document.state != "running":
        return document.state
    return "running" if disk.is_held(folder) else "cut off"


def utc(moment: datetime) -> datetime:
    """Return a time as tables have it: in UTC to the millisecond, without its zone."""
    plain = moment.astimezone(UTC).replace(tzinfo=None)
    return plain.replace(microsecond=plain.microsecond // 1000 * 1000)


def _clock(clocks: set[str]) -> Literal["wall", "exact", "both", ""]:
    if len(clocks) == 2:
        return "both"
    return "exact" if "exact" in clocks else "wall" if "wall" in clocks else ""


def _clock_of_documents(folder: Path) -> set[str]:
    """Return the clock of a run without trials, by its documents."""
    if any((folder / name).exists() for name in (functions.FILE, BENCH)):
        return {"exact"}
    if (folder / functimes.FILE).exists():
        document = read(functimes.FunctimesDocument, folder / functimes.FILE, "functimes.json")
        return {"exact" if document.unit == "instructions" else "wall"}
    return {"wall"} if (folder / analyze.FILE).exists() else set()


def _size(folder: Path) -> int:
    # A run that goes on removes parts meanwhile.
    total = 0
    for place, _, files in os.walk(folder):
        for file in files:
            with contextlib.suppress(FileNotFoundError):
                total += Path(place, file).lstat().st_size
    return total
