# SPDX-License-Identifier: GPL-2.0-or-later
"""Writing a run folder `results/<name>-<time>/` while its run goes on; load.py reads it.

    folder = RunFolder.create(results_dir, "demo", Plan(experiment="demo", seed=1, …))
    folder.journal("attempt", trial=0)                  # flushed before the trial starts
    folder.record_probe(pathlat_json, said=(sender_json, receiver_json))
    folder.record(ExactTrial(setting="rp_filter=0", block=0, packets=…, …))
    folder.finish(environment, reporter.timings, versions=…, commands=…, gaps=…)

`record` takes whatever a measure's rows.py hands over. The documents are dicts, or the JSON text as
the tool printed it. All of them raise RefusedError (exit code 1) when the numbers contradict each
other, and RecordError (exit code 2) when a document is not as the contract says; the trial is then
kept as invalid with its reason, and the documents stay in logs/. `fail(reason)` ends a run that
broke.

What kernels complained of during a trial is told by `heard` before the trial is recorded: that is
refused then, whatever it is. Complaints outside of trials are for `heard_apart`.

Each record is a file of its own, there whole or not at all; the tables are made of them at the end
(tables.py). `RunFolder.open` goes on with a run that stopped.
"""

from __future__ import annotations

import contextlib
import json
import os
import weakref
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from pydantic import JsonValue, ValidationError

from skblab_analysis import tables
from skblab_analysis.base import disk
from skblab_analysis.base.checked import (
    RecordError,
    RefusedError,
    faults,
    measured_well,
    parse,
    read,
)
from skblab_analysis.base.errors import SkblabError
from skblab_analysis.base.rows import Numbered
from skblab_analysis.formats import heard, scripts
from skblab_analysis.formats.heard import Heard
from skblab_analysis.formats.journal import JOURNAL, Event, Journal
from skblab_analysis.formats.ledger import (
    MAX_UNACCOUNTED,
    Exchange,
    Ledger,
    of_probe,
    refuse,
)
from skblab_analysis.formats.pathlat import PathlatDocument, ReceiverDocument, SenderDocument
from skblab_analysis.formats.run import (
    Command,
    Environment,
    OnlyHere,
    Plan,
    RunDocument,
    timings_of,
)
from skblab_analysis.formats.scripts import ScriptDocument
from skblab_analysis.layers import series
from skblab_analysis.layers.rows import Probed
from skblab_analysis.layers.series import Series
from skblab_analysis.load import UNIT_OF_CLOCK, Model, load
from skblab_analysis.tables import Part
from skblab_analysis.trials.rows import Clock, Known, Measured, TrialRow

__all__ = ["Part", "RunFolder", "trial_of"]

Document = Mapping[str, Any] | str | bytes

FOLDERS = ("logs", "report")
# Whose documents a trial of known packets has.
_TOOLS = ("pathlat", "sender", "receiver")
# Tables whose rows are asked for again while a run goes on.
_AGAIN = {table.model for table in tables.TABLES if table.again}


class RunFolder:
    """A run folder being written. Make one by `create` or `open`."""

    def __init__(self, path: Path, document: RunDocument) -> None:
        self.path = path
        self._document = document
        self._journal = Journal(path / JOURNAL)
        # Whoever lists runs tells by it one that goes on from one that was killed.
        with disk.explained(path):
            self._held = weakref.finalize(self, os.close, disk.hold(path))
        self._trials = 0
        self._again: dict[type[Numbered], list[Numbered]] = {model: [] for model in _AGAIN}
        # What is known of the next trial before it is recorded.
        self._known: list[Known] = []
        self._heard: list[Heard] = []

    @classmethod
    def create(cls, results: Path, name: str, plan: Plan, *, synthetic: bool = False) -> RunFolder:
        """Make `results/<name>-<UTC time>/` with a run.json in state `running`.

        Raises RecordError for a name that is no plain lower-case word.
        """
        started = disk.now()
        document = parse(
            RunDocument,
            {
                "name": name,
                "state": "running",
                "synthetic": synthetic,
                "started": started.isoformat(),
                "plan": plan.model_dump(mode="json"),
            },
            "the new run",
        )
        path = _make(results, f"{name}-{started:%Y%m%d-%H%M%S}")
        folder = cls(path, document)
        for table in tables.TABLES:
            tables.write_table(path, table, table.schema.empty_table())
        folder._write_document()
        folder.journal("created", name=name, seed=plan.seed)
        return folder

    @classmethod
    def open(cls, path: Path) -> RunFolder:
        """Go on with the run at `path`, dropping what an interrupted write left over."""
        folder = cls(path, read(RunDocument, path / "run.json", "the run document"))
        folder._journal.mend()
        run = load(path)
        folder._trials = len(run.trials)
        for model, rows in folder._again.items():
            rows += run.rows(model)
        return folder

    def resume(self) -> None:
        """Have a run that broke off be one that goes on."""
        self._document = self._document.model_copy(
            update={"schema_": "skblab.run/5", "state": "running", "reason": "", "finished": None}
        )
        self._write_document()
        self.journal("resumed")

    @property
    def document(self) -> RunDocument:
        """What run.json says now."""
        return self._document

    @property
    def empty(self) -> bool:
        """Whether no trial was ever recorded, good or not."""
        return self._trials == 0

    @property
    def logs(self) -> Path:
        """Folder for raw output and console logs."""
        return self.path / "logs"

    def journal(self, event: str, **data: JsonValue) -> None:
        """Add an event to the journal, flushed to disk before this returns."""
        self._journal.append(event, data)

    def events(self, name: str) -> list[Event]:
        """Return all events of a name, in their order."""
        return [event for event in self._journal.read() if event.event == name]

    def record_probe(
        self,
        pathlat: Document,
        max_unaccounted: float = MAX_UNACCOUNTED,
        *,
        clock: Clock = "wall",
        of: Probed | None = None,
        said: tuple[Document, Document] | None = None,
    ) -> Ledger:
        """Record what the probe saw; returns its ledger. `of` says what of, in a sweep.

        `said` is what the sender and the receiver of known packets printed, if there are any.
        RefusedError if more than `max_unaccounted` per cent of the packets are unaccounted for.
        """
        trial, unit = self._trials, UNIT_OF_CLOCK[clock]
        with measured_well("what was measured"):
            row = of.row(trial) if of else _row(trial, clock)
        for name, text in zip(_TOOLS, (pathlat, *(said or ())), strict=False):
            disk.write(self.logs / f"{name}-{trial}.json", _text(text))
        if of is not None and of.arrivals is not None:
            text = of.arrivals.model_dump_json(by_alias=True)
            disk.write(self.logs / f"pktsink-{trial}.json", f"{text}\n")
        try:
            document = parse(PathlatDocument, _plain(pathlat), "the pathlat document")
            ends = _ends(*said) if said else None
            ledger = of_probe(trial, unit, document, ends)
            refuse(ledger, max_unaccounted)
            if of is not None:
                of.check(document, max_unaccounted)
        except SkblabError as refusal:
            self._refused(row, refusal)
            raise
        if ledger.exchange is not None and ends is not None:
            row = _over(row, ledger.exchange.delivered, **_sent(ledger.exchange, *ends))
        else:
            row = _over(row, ledger.ended)
        late = of.late(trial, document) if of else ()
        self._append(row, [*_rows(series.from_document(trial, unit, document)), *late], ledger)
        self.journal("recorded", trials=[trial], clock=clock)
        return ledger

    def record_scripts(
        self, documents: Sequence[ScriptDocument], max_unaccounted: float
    ) -> list[Ledger]:
        """Record what scripts saw at the same time, a trial each path; returns their ledgers.

        NAPI's figures are the first trial's. RefusedError if more than `max_unaccounted` per cent
        of the packets of any are unaccounted for.
        """
        first = self._trials
        # All of them, before one is refused.
        for number, document in enumerate(documents, first):
            name = f"{document.backend}-{document.script}-{number}.json"
            disk.write(self.logs / name, document.model_dump_json(by_alias=True, indent=1) + "\n")
        polls = [napi for document in documents for napi in document.napi]
        ledgers: list[Ledger] = []
        for document, found in scripts.ledgers(first, "ns", documents):
            trial = found.trial
            row = _row(trial, "wall", document.backend)
            try:
                refuse(found, max_unaccounted)
            except SkblabError as refusal:
                self._refused(row, refusal)
                raise
            napi = [] if ledgers else [series.of_napi(trial, "ns", poll) for poll in polls]
            layers = scripts.series(trial, "ns", document)
            self._append(_over(row, found.ended), _rows([*napi, *layers]), found)
            self.journal("recorded", trials=[trial], clock="wall")
            ledgers.append(found)
        return ledgers

    def record_ledger(self, setting: str, found: Ledger, max_unaccounted: float) -> None:
        """Record a trial whose values are kept elsewhere, by its ledger: the next trial's.

        RefusedError if more than `max_unaccounted` per cent of the packets are unaccounted for.
        """
        row = _row(found.trial, "wall", setting)
        try:
            refuse(found, max_unaccounted)
        except SkblabError as refusal:
            self._refused(row, refusal)
            raise
        self._append(_over(row, found.ended), ledger=found)
        self.journal("recorded", trials=[found.trial], clock="wall")

    def record(self, measured: Measured) -> None:
        """Record a trial; RefusedError or RecordError, and invalid, if its numbers cannot be.

        SkblabError, and not recorded, if it cannot even be told of which trial they are.
        """
        number = self._trials
        # Without a row there is nothing to keep as void.
        with measured_well("what was measured"):
            row = measured.row(number)
        try:
            rows = list(measured.rows(number))
        except ValidationError as error:
            refusal = RecordError(f"what was measured is not as expected: {faults(error)}")
            self._refused(row, refusal)
            raise refusal from error
        except RefusedError as refusal:
            self._refused(row, refusal)
            raise
        self._append(row, rows)
        self.journal("recorded", trials=[number], clock=row.clock)

    def parts(self) -> list[Part]:
        """Return the records of a run that goes on."""
        return tables.read_parts(self.path, self._document.trials)

    def adopt(self, part: Part) -> int:
        """Record a trial that another run folder has as a part; return its number here.

        RecordError if its rows cannot be.
        """
        number = self._trials
        moved = tables.moved(part, number)
        rows = {model: tables.rows_of(moved, model) for model in self._again}
        tables.write_part(self.path, moved)
        self._trials += len(moved.trials)
        for model, more in rows.items():
            self._again[model] += more
        return number

    def known(self, found: Iterable[Known]) -> None:
        """Keep what else is known of the trial that is recorded next, whatever becomes of it."""
        self._known += found

    def heard(self, found: Sequence[Heard]) -> None:
        """Keep what kernels complained of during the trial that is recorded next.

        It makes that trial invalid: RefusedError once it is recorded, unless it is invalid anyway.
        """
        self._heard += found

    def heard_apart(self, found: Sequence[Heard], when: str, setting: str = "") -> None:
        """Record what kernels complained of outside of all trials that have rows, `when` in words.

        It makes none of them invalid. `setting` is that of an attempt that broke off.
        """
        if found:
            self.journal(heard.EVENT, **heard.data(found, when=when, setting=setting))

    def again(self, model: type[Model]) -> Sequence[Model]:
        """Return the rows recorded until now of a table whose rows are asked for again."""
        return cast(list[Model], self._again[model])

    def record_invalid(
        self,
        clock: Clock,
        setting: str,
        reason: str,
        *,
        block: int = 0,
        boot_knobs: str = "",
        traffic: str = "",
        measure: str | None = None,
        rate: int | None = None,
    ) -> None:
        """Record a trial that was not run, or that did not have its setting."""
        row = {
            "trial": self._trials,
            "clock": clock,
            "setting": setting,
            "part": "tester" if measure == "tester" else "whole",
            "block": block,
            "boot_knobs": boot_knobs,
            "traffic": traffic,
            "measure": measure,
            "rate": rate,
        }
        invalid = parse(TrialRow, row, "an invalid trial").invalid(reason)
        self._append(invalid)
        self.journal("invalid", trials=[invalid.trial], reason=reason)

    def finish(
        self,
        environment: Environment | None,
        timings: Mapping[str, float],
        *,
        versions: Mapping[str, str] | None = None,
        commands: Sequence[Command] = (),
        only_here: Sequence[OnlyHere] = (),
        gaps: Sequence[str] = (),
    ) -> Path:
        """End a good run. `timings` maps step to seconds; returns the folder.

        Without `environment` nothing was measured here: the run is of files from elsewhere.
        """
        self._ended("finished", "", environment, timings, versions, commands, gaps, only_here)
        self._compact()
        self.journal("finished")
        self._held()
        return self.path

    def fail(
        self,
        reason: str,
        environment: Environment | None = None,
        timings: Mapping[str, float] | None = None,
    ) -> None:
        """End a run that broke; what was recorded stays readable.

        It says so first, and even if the disk has no room for tables: the parts are read as well.
        """
        self._ended("failed", reason, environment, timings or {})
        self._write_document()
        self.journal("failed", reason=reason)
        with contextlib.suppress(SkblabError, OSError):
            self._compact()
        self._held()

    def _ended(
        self,
        state: str,
        reason: str,
        environment: Environment | None,
        timings: Mapping[str, float],
        versions: Mapping[str, str] | None = None,
        commands: Sequence[Command] = (),
        gaps: Sequence[str] = (),
        only_here: Sequence[OnlyHere] = (),
    ) -> None:
        self._document = self._document.model_copy(
            update={
                "state": state,
                "reason": reason,
                "finished": disk.now(),
                "environment": environment,
                "versions": dict(versions or {}),
                "commands": tuple(commands),
                "only_here": tuple(only_here),
                "timings": timings_of(timings),
                "gaps": tuple(gaps),
            }
        )

    def _refused(self, row: TrialRow, refusal: Exception) -> None:
        """Keep a trial as invalid, with what was refused."""
        self._append(row.invalid(str(refusal)))
        self.journal("refused", trials=[row.trial], reason=str(refusal))

    def _append(
        self, trial: TrialRow, rows: Iterable[Numbered] = (), ledger: Ledger | None = None
    ) -> None:
        """Write a record, whole or not at all.

        RefusedError once it is written, as invalid, if kernels complained during it.
        """
        complaints, self._heard = self._heard, []
        known, self._known = self._known, []
        reason = heard.reason(complaints) if complaints else ""
        good = trial.state == "good"
        if complaints:
            trial, rows, ledger = trial.invalid(reason), (), None
        every = [trial, *rows, *(found.row(trial.trial) for found in known)]
        tables.write_part(self.path, tables.part(every, [ledger] if ledger else []))
        self._trials += 1
        for row in every:
            if type(row) in self._again:
                self._again[type(row)].append(row)
        if complaints:
            self.journal(heard.EVENT, **heard.data(complaints, [trial.trial]))
            if good:
                raise RefusedError(f"invalid, for a kernel complained during the trial: {reason}")

    def _compact(self) -> None:
        """Have all parts in the tables: then run.json counts their trials, then they go."""
        parts = tables.read_parts(self.path, self._document.trials)
        tables.refuse_unknown(self.path, parts)
        for table in tables.TABLES:
            whole = tables.read_table(self.path, table, self._document.trials)
            joined = tables.join(table, whole, parts, f"{self.path / table.file}.parquet")
            tables.write_table(self.path, table, joined)
        self._document = tables.add_up(self._document, parts)
        self._write_document()
        tables.drop_parts(self.path)

    def _write_document(self) -> None:
        text = self._document.model_dump_json(by_alias=True, indent=2)
        disk.write(self.path / "run.json", text + "\n")


def _make(results: Path, name: str) -> Path:
    """Make a new folder; a second run within the same second gets a number."""
    try:
        results.mkdir(parents=True, exist_ok=True)
        number, path = 1, results / name
        while True:
            try:
                path.mkdir()
                break
            except FileExistsError:
                number += 1
                path = results / f"{name}-{number}"
        for folder in FOLDERS:
            (path / folder).mkdir()
    except OSError as error:
        raise SkblabError(
            f"cannot make a run folder in {results}: {error.strerror}; "
            "set SKBLAB_RESULTS to a folder you may write"
        ) from error
    return path


def _ends(sender: Document, receiver: Document) -> tuple[SenderDocument, ReceiverDocument]:
    return (
        parse(SenderDocument, _plain(sender), "the sender's document"),
        parse(ReceiverDocument, _plain(receiver), "the receiver's document"),
    )


def _sent(
    exchange: Exchange, sender: SenderDocument, receiver: ReceiverDocument
) -> dict[str, object]:
    """Return what the row of a trial has of known packets."""
    names = ("sent", "received", "lost", "duplicates", "reordered")
    found: dict[str, object] = {name: getattr(exchange, name) for name in names}
    found |= {"send_rate": sender.rate_reached, "receive_rate": receiver.rate}
    if sender.late is not None:
        found |= {
            "late": sender.late.count,
            "late_threshold": sender.late.threshold_ns,
            "late_mean": sender.late.mean_ns,
            "late_max": sender.late.max_ns,
        }
    return found


def _row(trial: int, clock: Clock, setting: str = "default") -> TrialRow:
    return TrialRow(trial=trial, clock=clock, setting=setting)


def _over(row: TrialRow, packets: int, **figures: object) -> TrialRow:
    """Return the row of a trial whose figures are taken over so many packets."""
    return TrialRow.model_validate(row.model_dump() | {"packets": packets} | figures)


def _rows(found: Iterable[Series]) -> list[Numbered]:
    return [row for series in found for row in series.rows()]


def _plain(document: Document) -> object:
    return document if isinstance(document, str | bytes) else dict(document)


def _text(document: Document) -> str | bytes:
    if isinstance(document, str | bytes):
        return document
    return json.dumps(dict(document), indent=1) + "\n"


def trial_of(part: Part) -> TrialRow:
    """Return the trial of a record that has one; RecordError if it is not as expected."""
    [row] = tables.rows_of(part, TrialRow)
    assert isinstance(row, TrialRow)
    return row
