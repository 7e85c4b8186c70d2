# SPDX-License-Identifier: GPL-2.0-or-later
"""Reading a run folder: everything a report needs, checked.

What is computed of it is each measure's: `summary.of(run)` of exact, throughput, rfc2544, latency,
layers and work.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Protocol, TypeVar

from skblab_analysis import columns, files, tablerows
from skblab_analysis.base.checked import RecordError, read
from skblab_analysis.formats import heard
from skblab_analysis.formats.heard import Complaint
from skblab_analysis.formats.pathlat import PathName
from skblab_analysis.formats.run import Clock, RunDocument
from skblab_analysis.layers import series
from skblab_analysis.layers.account import Account
from skblab_analysis.layers.ledger import Ledger, Unit
from skblab_analysis.layers.series import Row, Series

UNIT_OF_CLOCK: dict[Clock, Unit] = {"wall": "ns", "exact": "instructions"}
# Of a trial, what tables of a sweep repeat.
OF_TRIAL = ("setting", "part", "boot", "boot_knobs", "traffic")


class _OfSetting(Protocol):
    @property
    def setting(self) -> str: ...
    @property
    def traffic(self) -> str: ...


OfSetting = TypeVar("OfSetting", bound=_OfSetting)


@dataclass(frozen=True)
class Run:
    """All that a run folder holds, checked."""

    folder: Path
    document: RunDocument
    trials: tuple[Row, ...]
    series: tuple[Series, ...]
    loads: tuple[Row, ...]
    found: tuple[Row, ...]
    tested: tuple[Row, ...]
    late: tuple[Row, ...]
    anomalies: tuple[Row, ...]
    counters: tuple[Row, ...]
    journal: tuple[files.Event, ...]

    def ledger(self, clock: Clock = "wall") -> Ledger | None:
        """Return the last good ledger of a clock."""
        unit = UNIT_OF_CLOCK[clock]
        found = [ledger for ledger in self.document.ledgers if ledger.unit == unit]
        return found[-1] if found else None

    def accounts(self, clock: Clock = "wall") -> list[Account]:
        """Return the accounts of a clock, one for each trial that has one and is of no sweep."""
        alone = {row["trial"] for row in self.trials if row["measure"] is None}
        return [
            one
            for one in self.document.accounts
            if one.unit == UNIT_OF_CLOCK[clock] and one.trial in alone
        ]

    def trial(self, clock: Clock, path: PathName | None = None) -> int | None:
        """Return the last good timed trial of a clock; with `path`, that saw packets of it."""
        ledger = self.ledger(clock)
        if ledger is not None:
            return ledger.trial
        seen = {one.trial for one in self.series if path in (None, one.path)}
        found = [one.trial for one in self.accounts(clock) if one.trial in seen]
        return found[-1] if found else None

    def of_trial(self, trial: int) -> list[Series]:
        """Return the histograms of one trial, in the order of the path."""
        return self._series_of.get(trial, [])

    @cached_property
    def _series_of(self) -> Mapping[int, list[Series]]:
        # A sweep asks for every trial, of thousands.
        found: dict[int, list[Series]] = {}
        for one in self.series:
            found.setdefault(one.trial, []).append(one)
        return found

    def complaints(self) -> list[Complaint]:
        """Return what kernels complained of, trial by trial and outside of trials."""
        told = [one for one in self.journal if one.event == heard.EVENT]
        return heard.complaints(one.model_extra or {} for one in told)

    def in_order(self, found: Iterable[OfSetting]) -> list[OfSetting]:
        """Return them in the order of the plan; what it does not name is last, as first run."""
        plan = self.document.plan
        settings, traffic = _places(plan.settings), _places(plan.traffic)
        return sorted(found, key=lambda one: (traffic(one.traffic), settings(one.setting)))

    def setting_order(self, names: Iterable[str]) -> list[str]:
        """Return settings in the order of the plan; what it does not name is last."""
        return sorted(names, key=_places(self.document.plan.settings))


def _places(names: Sequence[str]) -> Callable[[str], int]:
    numbers = {name: number for number, name in enumerate(names)}
    return lambda name: numbers.get(name, len(numbers))


def load(path: Path) -> Run:
    """Read and check the run folder at `path`; RecordError says what is wrong where."""
    document = read(RunDocument, path / "run.json", "the run document")
    rows = {
        table.file: [
            row
            for row in files.read_table(path / f"{table.file}.parquet", table)
            if row["trial"] < document.trials
        ]
        for table in columns.TABLES
    }
    if [row["trial"] for row in rows["trials"]] != list(range(document.trials)):
        raise RecordError(
            f"{path / 'trials.parquet'} holds {len(rows['trials'])} trials "
            f"but run.json lists {document.trials}"
        )
    for name, some in rows.items():
        _check_trials(path / f"{name}.parquet", some, rows["trials"])
    try:
        found = series.from_rows(rows["layers_summary"], rows["layers"])
    except ValueError as error:
        raise RecordError(f"{path / 'layers.parquet'}: {error}") from error
    run = Run(
        folder=path,
        document=document,
        trials=tuple(rows["trials"]),
        series=tuple(found),
        loads=tuple(rows["loads"]),
        found=tuple(rows["throughput"]),
        tested=tuple(rows["rfc2544"]),
        late=tuple(rows["late"]),
        anomalies=tuple(rows["anomalies"]),
        counters=tuple(rows["counters"]),
        journal=tuple(files.Journal(path / "journal.jsonl").read()),
    )
    # What is made of rows of a sweep is checked with them, and not first in a report.
    tablerows.exact_trials(run.trials)
    tablerows.results(run.found)
    tablerows.tested(run.tested)
    return run


def _check_trials(file: Path, rows: Sequence[Row], trials: Sequence[Row]) -> None:
    """Raise RecordError if rows say of their trial what the trial itself does not."""
    for number, row in enumerate(rows):
        trial = trials[row["trial"]]
        for name in (*OF_TRIAL, "rate"):
            # A row of counters, or of a histogram, repeats none of it.
            if name in row and row[name] != trial[name]:
                raise RecordError(
                    f"{file} row {number}: {name} is {row[name]!r}, but its trial "
                    f"{row['trial']} has {trial[name]!r}"
                )
