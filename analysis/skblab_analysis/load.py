# SPDX-License-Identifier: GPL-2.0-or-later
"""Reading a run folder: everything a report needs, checked.

What is computed of it is each measure's: `summary.of(run)` of exact, throughput, rfc2544, latency,
layers, cpu and work.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, wraps
from pathlib import Path
from typing import Any, Protocol, TypeVar, cast

from skblab_analysis import tables
from skblab_analysis.base.certainty import AGAIN
from skblab_analysis.base.checked import RecordError, read
from skblab_analysis.base.rows import Numbered
from skblab_analysis.formats import heard
from skblab_analysis.formats.heard import Complaint
from skblab_analysis.formats.journal import JOURNAL, Event, Journal
from skblab_analysis.formats.ledger import Exchange, Ledger
from skblab_analysis.formats.pathlat import PathName
from skblab_analysis.formats.run import DOCUMENT, RunDocument
from skblab_analysis.layers import series
from skblab_analysis.layers.rows import BUCKETS, SeriesRow, Unit
from skblab_analysis.layers.series import Series
from skblab_analysis.settings.identical import identical
from skblab_analysis.settings.rows import SettingRow
from skblab_analysis.trials.rows import Clock, OfRow, OfTrial, TrialRow

Model = TypeVar("Model", bound=Numbered)
Made = TypeVar("Made")
UNIT_OF_CLOCK: dict[Clock, Unit] = {"wall": "ns", "exact": "instructions"}


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
    tables: Mapping[type[Numbered], tuple[Numbered, ...]]
    series: tuple[Series, ...]
    journal: tuple[Event, ...]
    # Whether others are compared with the baseline that the run was made with: see `against`.
    as_planned: bool = True

    @property
    def booted(self) -> bool:
        """Whether each block had fresh boots: hosts are not booted."""
        return self.document.plan.parameters.get("testbed") != "hosts"

    def rows(self, model: type[Model]) -> tuple[Model, ...]:
        """Return the rows of the table that has this model; those of histograms are in `series`."""
        return cast(tuple[Model, ...], self.tables[model])

    @property
    def trials(self) -> tuple[TrialRow, ...]:
        """Every trial, by its number."""
        return self.rows(TrialRow)

    @property
    def settings(self) -> tuple[SettingRow, ...]:
        """What knobs were found to be in each trial; none in runs of older versions."""
        return self.rows(SettingRow)

    @cached_property
    def alike(self) -> Mapping[str, bool | None]:
        """By setting, whether it is the baseline's own state; None, or not there: not known."""
        if not self.as_planned:
            # A setting has readings of what it sets, and none of what the new baseline sets more.
            return {}
        return identical(self.settings, self.trials, self.document.plan.baseline)

    @property
    def identical(self) -> frozenset[str]:
        """The settings that are known to be the baseline's own state."""
        return frozenset(setting for setting, same in self.alike.items() if same)

    @property
    def only_here(self) -> Mapping[str, str]:
        """The settings whose effect is one of this testbed, each with the reason."""
        return {said.setting: said.reason for said in self.document.only_here}

    def against(self, baseline: str) -> Run:
        """Return the run with another of its settings as the one that others are compared with.

        What was the baseline is a setting like others then, and so is what it was measured as a
        second time: of the new one it is not known by how much it differs from itself, nor which
        settings are its own state.
        """
        plan = self.document.plan
        settings = (baseline, *(name for name in plan.settings if name not in (baseline, AGAIN)))
        tables = {
            model: tuple(_renamed(row) for row in rows) for model, rows in self.tables.items()
        }
        changed = plan.model_copy(update={"baseline": baseline, "settings": settings})
        return replace(
            self,
            document=self.document.model_copy(update={"plan": changed}),
            tables=tables,
            as_planned=False,
        )

    def ledgers(self, clock: Clock = "wall") -> list[Ledger]:
        """Return the ledgers of a clock, one for each trial that has one and is of no sweep.

        If what was sent is known of any, only the last of these.
        """
        alone = {row.trial for row in self.trials if row.measure is None}
        found = [
            ledger
            for ledger in self.document.ledgers
            if ledger.unit == UNIT_OF_CLOCK[clock] and ledger.trial in alone
        ]
        return [ledger for ledger in found if ledger.exchange is not None][-1:] or found

    def exchange(self, clock: Clock = "wall") -> Exchange | None:
        """Return what was sent and received in the last trial of a clock of which that is known."""
        return next((ledger.exchange for ledger in self.ledgers(clock)), None)

    def trial(self, clock: Clock, path: PathName | None = None) -> int | None:
        """Return the last good timed trial of a clock; with `path`, that saw packets of it."""
        seen = {histogram.trial for histogram in self.series if path in (None, histogram.path)}
        found = [ledger.trial for ledger in self.ledgers(clock) if ledger.trial in seen]
        return found[-1] if found else None

    def of_trial(self, trial: int) -> list[Series]:
        """Return the histograms of one trial, in the order of the path."""
        return self._series_of.get(trial, [])

    @cached_property
    def computed(self) -> dict[Callable[..., object], object]:
        """What was computed of it, by what computes it: see `once`."""
        return {}

    @cached_property
    def _series_of(self) -> Mapping[int, list[Series]]:
        # A sweep asks for every trial, of thousands.
        found: dict[int, list[Series]] = {}
        for histogram in self.series:
            found.setdefault(histogram.trial, []).append(histogram)
        return found

    def complaints(self) -> list[Complaint]:
        """Return what kernels complained of, trial by trial and outside of trials."""
        told = [event for event in self.journal if event.event == heard.EVENT]
        return heard.complaints(event.model_extra or {} for event in told)

    def in_order(self, found: Iterable[OfSetting]) -> list[OfSetting]:
        """Return them in the order of the plan; what it does not name is last, as first run."""
        plan = self.document.plan
        settings, traffic = _places(plan.settings), _places(plan.traffic)
        return sorted(found, key=lambda row: (traffic(row.traffic), settings(row.setting)))

    def setting_order(self, names: Iterable[str]) -> list[str]:
        """Return settings in the order of the plan; what it does not name is last."""
        return sorted(names, key=_places(self.document.plan.settings))


def _renamed(row: Numbered) -> Numbered:
    """Return a row under another name if it is of the baseline's second time."""
    if isinstance(row, OfRow) and row.setting == AGAIN:
        return row.model_copy(update={"setting": f"{AGAIN}, as it was"})
    return row


def once(compute: Callable[[Run], Made]) -> Callable[[Run], Made]:
    """Have what is computed of a run computed once for it: a report asks a measure eight times.

    What it returns is everybody's: nobody changes it.
    """

    @wraps(compute)
    def known(run: Run) -> Made:
        if compute not in run.computed:
            run.computed[compute] = compute(run)
        return cast(Made, run.computed[compute])

    return known


def _places(names: Sequence[str]) -> Callable[[str], int]:
    numbers = {name: number for number, name in enumerate(names)}
    return lambda name: numbers.get(name, len(numbers))


def is_run(folder: Path) -> bool:
    """Whether a folder is a run's: also one that has lost what says so."""
    return folder.is_dir() and any((folder / name).exists() for name in (DOCUMENT, JOURNAL))


def load(path: Path) -> Run:
    """Read and check the run folder at `path`; RecordError says what is wrong where."""
    document = read(RunDocument, path / DOCUMENT, "the run document")
    while True:
        try:
            run, wrong = _load(path, document), None
        except RecordError as error:
            run, wrong = None, error
        now = read(RunDocument, path / DOCUMENT, "the run document")
        # Else its parts have become rows of the tables meanwhile.
        if now.trials == document.trials:
            break
        document = now
    if run is None:
        assert wrong is not None
        raise wrong
    return run


def _load(path: Path, document: RunDocument) -> Run:
    parts = tables.read_parts(path, document.trials)
    found: dict[type[Numbered], tuple[Numbered, ...]] = {}
    buckets: Mapping[str, Sequence[Any]] = {}
    for table in tables.TABLES:
        where = f"{path / table.file}.parquet"
        whole = tables.read_table(path, table, document.trials)
        if table is tables.TRIALS and whole.num_rows != document.trials:
            raise RecordError(
                f"{where} holds {whole.num_rows} trials but run.json lists {document.trials}"
            )
        joined = tables.join(table, whole, parts, where)
        if table is BUCKETS:
            # A million of them are no rows in Python.
            buckets = table.values(joined, where)
        else:
            found[table.model] = tuple(table.rows(joined, where))
    trials = cast(tuple[TrialRow, ...], found[TrialRow])
    if [row.trial for row in trials] != list(range(len(trials))):
        raise RecordError(f"{path / 'trials.parquet'} has trials that are not numbered from 0 on")
    for table in tables.TABLES:
        _check_trials(path / f"{table.file}.parquet", found.get(table.model, ()), trials)
    try:
        summaries = cast(tuple[SeriesRow, ...], found[SeriesRow])
        histograms = series.from_rows(summaries, buckets)
    except ValueError as error:
        raise RecordError(f"{path / 'layers.parquet'}: {error}") from error
    return Run(
        folder=path,
        document=tables.add_up(document, parts),
        tables=found,
        series=tuple(histograms),
        journal=tuple(Journal(path / JOURNAL).read()),
    )


def _check_trials(file: Path, rows: Sequence[Numbered], trials: Sequence[TrialRow]) -> None:
    """Raise RecordError if rows say of their trial what the trial itself does not, or of none."""
    for number, row in enumerate(rows):
        if row.trial >= len(trials):
            raise RecordError(f"{file} row {number} is of trial {row.trial}, which is not there")
        trial = trials[row.trial]
        # A row of counters, or of a histogram, repeats none of it.
        if not isinstance(row, OfRow):
            continue
        for name in (*OfTrial.model_fields, "rate"):
            if (said := getattr(row, name, None)) != getattr(trial, name) and hasattr(row, name):
                raise RecordError(
                    f"{file} row {number}: {name} is {said!r}, but its trial {row.trial} has "
                    f"{getattr(trial, name)!r}"
                )
