# SPDX-License-Identifier: GPL-2.0-or-later
"""The run folder `results/<name>-<time>/`: made while a run goes on, read by every report.

    folder = RunFolder.create(results_dir, "demo", Plan(experiment="demo", seed=1, …))
    folder.journal("attempt", trial=0)                  # flushed before the trial starts
    folder.record_wall(pathlat_json, sender_json, receiver_json)
    folder.record_exact([ExactTrial(setting="rp_filter=0", boot=0, packets=…, …), …])
    folder.finish(environment, reporter.timings, versions=…, commands=…, gaps=…)

The documents are dicts, or the JSON text as the tool printed it. `record_wall` and
`record_exact` raise RefusedError (exit code 1) when the numbers contradict each other, and
RecordError (exit code 2) when a document is not as the contract says; the trial is then kept as
void with its reason, and the documents stay in logs/. `fail(reason)` ends a run that broke.

What kernels complained of during a trial is told by `heard` before the trial is recorded: that is
refused then, whatever it is. Complaints outside of trials are for `heard_apart`.

`run.json` is written last: its `trials` says how many trials are complete, and rows of a later
trial, left by a kill between two files, are left out by `load`. `RunFolder.open` goes on with a
run that stopped; `load` gives everything a report needs.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import JsonValue

from skblab_analysis import columns, files, tablerows
from skblab_analysis.base.checked import RefusedError, parse, read
from skblab_analysis.base.errors import SkblabError
from skblab_analysis.exact.rows import ExactTrial, check
from skblab_analysis.exact.summary import ExactSummary, summarise
from skblab_analysis.formats import heard, scripts
from skblab_analysis.formats.heard import Heard
from skblab_analysis.formats.pathlat import (
    PathlatDocument,
    ReceiverDocument,
    SenderDocument,
)
from skblab_analysis.formats.run import Clock, Command, Environment, Plan, RunDocument, Timing
from skblab_analysis.formats.scripts import ScriptDocument
from skblab_analysis.latency.rows import Arrivals
from skblab_analysis.layers import series
from skblab_analysis.layers.account import Account, account, refuse
from skblab_analysis.layers.ledger import Ledger, build_ledger
from skblab_analysis.layers.rows import Probed
from skblab_analysis.layers.series import Row, Series
from skblab_analysis.load import OF_TRIAL, UNIT_OF_CLOCK, load
from skblab_analysis.rfc2544.rows import Figure
from skblab_analysis.throughput.rows import Result, Search
from skblab_analysis.work.rows import Counter

Document = Mapping[str, Any] | str | bytes

FOLDERS = ("logs", "report")


class RunFolder:
    """A run folder being written. Make one by `create` or `open`."""

    def __init__(self, path: Path, document: RunDocument) -> None:
        self.path = path
        self._document = document
        self._journal = files.Journal(path / "journal.jsonl")
        self._tables = {table.file: files.GrowingTable(path, table) for table in columns.TABLES}
        # What is read again while the run goes on.
        self._trials: list[Row] = []
        self._found: list[Row] = []
        self._counted: list[Counter] = []
        self._heard: list[Heard] = []

    @classmethod
    def create(cls, results: Path, name: str, plan: Plan, *, synthetic: bool = False) -> RunFolder:
        """Make `results/<name>-<UTC time>/` with a run.json in state `running`.

        Raises RecordError for a name that is no plain lower-case word.
        """
        started = files.now()
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
        folder._write_tables()
        folder._write_document()
        folder.journal("created", name=name, seed=plan.seed)
        return folder

    @classmethod
    def open(cls, path: Path) -> RunFolder:
        """Go on with the run at `path`, dropping what an interrupted write left over."""
        folder = cls(path, read(RunDocument, path / "run.json", "the run document"))
        folder._journal.mend()
        run = load(path)
        folder._add(
            run.trials,
            run.series,
            loads=run.loads,
            throughput=run.found,
            rfc2544=run.tested,
            late=run.late,
            anomalies=run.anomalies,
            counters=run.counters,
        )
        return folder

    def resume(self) -> None:
        """Have a run that broke off be one that goes on."""
        self._document = self._document.model_copy(
            update={"state": "running", "reason": "", "finished": None}
        )
        self._write_document()
        self.journal("resumed")

    @property
    def document(self) -> RunDocument:
        """What run.json says now."""
        return self._document

    @property
    def logs(self) -> Path:
        """Folder for raw output and console logs."""
        return self.path / "logs"

    def journal(self, event: str, **data: JsonValue) -> None:
        """Add an event to the journal, flushed to disk before this returns."""
        self._journal.append(event, data)

    def events(self, name: str) -> list[files.Event]:
        """Return all events of a name, in their order."""
        return [one for one in self._journal.read() if one.event == name]

    def record_wall(
        self,
        pathlat: Document,
        sender: Document,
        receiver: Document,
        *,
        setting: str = "default",
        boot: int = 0,
        repeat: int = 0,
    ) -> Ledger:
        """Record one trial timed on the wall clock; returns its ledger. Unit: ns."""
        return self._record_layers("wall", pathlat, sender, receiver, setting, boot, repeat)

    def record_exact_layers(
        self,
        pathlat: Document,
        sender: Document,
        receiver: Document,
        *,
        setting: str = "default",
        boot: int = 0,
        repeat: int = 0,
    ) -> Ledger:
        """Record one trial timed by the instruction counter. Unit: instructions."""
        return self._record_layers("exact", pathlat, sender, receiver, setting, boot, repeat)

    def record_probe(
        self,
        pathlat: Document,
        max_unaccounted: float,
        *,
        clock: Clock = "wall",
        setting: str = "default",
        of: Probed | None = None,
    ) -> Account:
        """Record what the probe saw; returns its account. `of` says what of, in a sweep.

        RefusedError if more than `max_unaccounted` per cent of the packets are unaccounted for.
        """
        trial, unit = len(self._trials), UNIT_OF_CLOCK[clock]
        row = tablerows.of_trial(trial, clock, setting, of.boot if of else 0, 0)
        if of is not None:
            row |= {
                "measure": "layers",
                "boot_knobs": of.boot_knobs or None,
                "traffic": of.traffic,
                "rate": of.rate,
                "sent": of.sent,
                "received": of.forwarded,
                "lost": max(of.sent - of.forwarded, 0),
                "send_rate": of.offered_rate,
            }
        files.write(self.logs / f"pathlat-{trial}.json", _text(pathlat))
        try:
            document = parse(PathlatDocument, _plain(pathlat), "the pathlat document")
            found = account(trial, unit, document)
            refuse(found, max_unaccounted)
            if of is not None:
                of.check(document, max_unaccounted)
        except SkblabError as refusal:
            self._refused([row], refusal)
            raise
        self._append(
            [row | {"packets": found.ended}],
            series.from_document(trial, unit, document),
            accounts=[found],
        )
        self.journal("recorded", trials=[trial], clock=clock)
        return found

    def record_scripts(
        self, documents: Sequence[ScriptDocument], max_unaccounted: float
    ) -> list[Account]:
        """Record what scripts saw at the same time, a trial each path; returns their accounts.

        NAPI's figures are the first trial's. RefusedError if more than `max_unaccounted` per cent
        of the packets of any are unaccounted for.
        """
        first = len(self._trials)
        # All of them, before one is refused.
        for number, document in enumerate(documents, first):
            name = f"{document.backend}-{document.script}-{number}.json"
            files.write(self.logs / name, document.model_dump_json(by_alias=True, indent=1) + "\n")
        polls = [one for document in documents for one in document.napi]
        accounts: list[Account] = []
        for document, found in scripts.accounts(first, "ns", documents):
            trial = found.trial
            row = tablerows.of_trial(trial, "wall", document.backend, 0, 0)
            try:
                refuse(found, max_unaccounted)
            except SkblabError as refusal:
                self._refused([row], refusal)
                raise
            napi = [] if accounts else [series.of_napi(trial, "ns", one) for one in polls]
            layers = scripts.series(trial, "ns", document)
            self._append([row | {"packets": found.ended}], [*napi, *layers], accounts=[found])
            self.journal("recorded", trials=[trial], clock="wall")
            accounts.append(found)
        return accounts

    def record_account(self, setting: str, found: Account, max_unaccounted: float) -> None:
        """Record a trial whose values are kept elsewhere, by its account: the next trial's.

        RefusedError if more than `max_unaccounted` per cent of the packets are unaccounted for.
        """
        row = tablerows.of_trial(found.trial, "wall", setting, 0, 0)
        try:
            refuse(found, max_unaccounted)
        except SkblabError as refusal:
            self._refused([row], refusal)
            raise
        self._append([row | {"packets": found.ended}], [], accounts=[found])
        self.journal("recorded", trials=[found.trial], clock="wall")

    def record_exact(self, trials: Sequence[ExactTrial]) -> ExactSummary:
        """Record counted trials; returns the summary over all exact trials of the run."""
        first = len(self._trials)
        rows = [tablerows.of_exact(number, trial) for number, trial in enumerate(trials, first)]
        try:
            summary = summarise(
                [*tablerows.exact_trials(self._trials), *trials], self._document.plan.baseline
            )
        except RefusedError as refusal:
            self._refused(rows, refusal)
            raise
        self._append(rows, [])
        self.journal("recorded", trials=[row["trial"] for row in rows], clock="exact")
        return summary

    def record_counted(self, trial: ExactTrial) -> None:
        """Record one counted trial of many; RefusedError if its packets did not all come."""
        number = len(self._trials)
        row = tablerows.of_exact(number, trial)
        try:
            check(trial)
        except RefusedError as refusal:
            self._refused([row], refusal)
            raise
        self._append([row], [])
        self.journal("recorded", trials=[number], clock="exact")

    def record_search(self, search: Search, tested: Sequence[Figure] = ()) -> None:
        """Record a search for throughput: a trial, with every load that was tried in it.

        `tested` is what RFC 2544's other tests found in it.
        """
        number = len(self._trials)
        sent = sum(one.sent for one in search.loads)
        received = sum(one.received for one in search.loads)
        row = tablerows.of_trial(number, "wall", search.setting, search.boot, 0) | {
            "part": search.part,
            "boot_knobs": search.boot_knobs or None,
            "traffic": search.traffic,
            "measure": "tester" if search.part == "tester" else "throughput",
            "sent": sent,
            "received": received,
            "lost": sent - received,
            "packets": sent,
        }
        head = {"trial": number} | {name: row[name] for name in OF_TRIAL}
        loads = [
            head | {"number": place, "offered_rate": one.offered_rate} | one.model_dump()
            for place, one in enumerate(search.loads)
        ]
        found = [head | one.model_dump() for one in search.goals]
        more = [head | one.model_dump() for one in tested]
        self._append([row], [], loads=loads, throughput=found, rfc2544=more)
        self.journal("recorded", trials=[number], clock="wall")

    def record_arrivals(self, arrivals: Arrivals) -> None:
        """Record a latency trial; RefusedError if its times are not to be trusted."""
        number = len(self._trials)
        document = arrivals.document
        packets = document.packets
        row = tablerows.of_trial(number, "wall", arrivals.setting, arrivals.boot, 0) | {
            "part": arrivals.part,
            "boot_knobs": arrivals.boot_knobs or None,
            "traffic": arrivals.traffic,
            "measure": "tester" if arrivals.part == "tester" else "latency",
            "rate": arrivals.rate,
            "sent": arrivals.sent,
            "received": packets.distinct,
            "lost": arrivals.lost,
            "duplicates": packets.duplicates,
            "reordered": packets.reordered,
            "send_rate": arrivals.offered_rate,
        }
        doubts = list(document.doubts())
        if not packets.distinct:
            doubts.append(f"of {arrivals.sent} packets none came")
        if doubts:
            refusal = RefusedError(f"the times are not to be trusted: {'; '.join(doubts)}")
            self._refused([row], refusal)
            raise refusal
        head = {"trial": number} | {name: row[name] for name in OF_TRIAL}
        self._append(
            [row | {"packets": packets.distinct}],
            series.from_arrivals(number, document),
            late=[
                head | {"rate": arrivals.rate} | tablerows.of_late(one, document.latency.count)
                for one in document.late
            ],
            anomalies=list(tablerows.of_anomalies(number, document)),
        )
        self.journal("recorded", trials=[number], clock="wall")

    def record_counters(self, counters: Sequence[Counter]) -> None:
        """Keep what the kernel counted of the trial that is recorded next."""
        self._counted = list(counters)

    def heard(self, found: Sequence[Heard]) -> None:
        """Keep what kernels complained of during the trial that is recorded next.

        It makes that trial invalid: RefusedError once it is recorded, unless it is void anyway.
        """
        self._heard += found

    def heard_apart(self, found: Sequence[Heard], when: str, setting: str = "") -> None:
        """Record what kernels complained of outside of all trials that have rows, `when` in words.

        It makes none of them invalid. `setting` is that of an attempt that broke off.
        """
        if found:
            self.journal(heard.EVENT, **heard.data(found, when=when, setting=setting))

    def results(self) -> list[Result]:
        """Return what searches for throughput have found until now."""
        return tablerows.results(self._found)

    def record_void(
        self,
        clock: Clock,
        setting: str,
        reason: str,
        *,
        boot: int = 0,
        boot_knobs: str = "",
        traffic: str = "",
        measure: str | None = None,
        rate: int | None = None,
    ) -> None:
        """Record a trial that was not run, or that did not have its setting."""
        number = len(self._trials)
        row = tablerows.of_trial(number, clock, setting, boot, 0)
        row |= {"boot_knobs": boot_knobs or None, "traffic": traffic or None}
        row |= {"measure": measure, "rate": rate}
        row |= {"part": "tester"} if measure == "tester" else {}
        self._append([row | {"state": "void", "reason": reason}], [])
        self.journal("void", trials=[number], reason=reason)

    def finish(
        self,
        environment: Environment,
        timings: Mapping[str, float],
        *,
        versions: Mapping[str, str] | None = None,
        commands: Sequence[Command] = (),
        gaps: Sequence[str] = (),
    ) -> Path:
        """End a good run. `timings` maps step to seconds; returns the folder."""
        self._end("finished", "", environment, timings, versions, commands, gaps)
        return self.path

    def fail(
        self,
        reason: str,
        environment: Environment | None = None,
        timings: Mapping[str, float] | None = None,
    ) -> None:
        """End a run that broke; what was recorded stays readable."""
        self._end("failed", reason, environment, timings or {}, None, (), ())

    def _end(
        self,
        state: str,
        reason: str,
        environment: Environment | None,
        timings: Mapping[str, float],
        versions: Mapping[str, str] | None,
        commands: Sequence[Command],
        gaps: Sequence[str],
    ) -> None:
        self._document = self._document.model_copy(
            update={
                "state": state,
                "reason": reason,
                "finished": files.now(),
                "environment": environment,
                "versions": dict(versions or {}),
                "commands": tuple(commands),
                "timings": tuple(
                    Timing(step=step, seconds=seconds) for step, seconds in timings.items()
                ),
                "gaps": tuple(gaps),
            }
        )
        self._write_document()
        self.journal(state, **({"reason": reason} if reason else {}))

    def _record_layers(
        self,
        clock: Clock,
        pathlat: Document,
        sender: Document,
        receiver: Document,
        setting: str,
        boot: int,
        repeat: int,
    ) -> Ledger:
        trial = len(self._trials)
        row = tablerows.of_trial(trial, clock, setting, boot, repeat)
        documents = {"pathlat": pathlat, "sender": sender, "receiver": receiver}
        for name, document in documents.items():
            files.write(self.logs / f"{name}-{trial}.json", _text(document))
        try:
            layers = parse(PathlatDocument, _plain(pathlat), "the pathlat document")
            sent = parse(SenderDocument, _plain(sender), "the sender's document")
            got = parse(ReceiverDocument, _plain(receiver), "the receiver's document")
            ledger = build_ledger(trial, UNIT_OF_CLOCK[clock], layers, sent, got)
        except SkblabError as refusal:
            self._refused([row], refusal)
            raise
        figures: Row = {
            name: getattr(ledger, name)
            for name in ("sent", "received", "lost", "duplicates", "reordered")
        }
        figures |= {"send_rate": sent.rate_reached, "receive_rate": got.rate}
        if sent.late is not None:
            figures |= {
                "late": sent.late.count,
                "late_threshold": sent.late.threshold_ns,
                "late_mean": sent.late.mean_ns,
                "late_max": sent.late.max_ns,
            }
        found = series.from_document(trial, UNIT_OF_CLOCK[clock], layers)
        self._append([row | figures | {"packets": ledger.delivered}], found, ledgers=[ledger])
        self.journal("recorded", trials=[trial], clock=clock)
        return ledger

    def _refused(self, rows: Sequence[Row], refusal: Exception) -> None:
        """Keep trials as void, with what was refused."""
        self._append([row | _void(refusal) for row in rows], [])
        self.journal("refused", trials=[row["trial"] for row in rows], reason=str(refusal))

    def _append(
        self,
        trials: Sequence[Row],
        layers: Sequence[Series],
        *,
        ledgers: Sequence[Ledger] = (),
        accounts: Sequence[Account] = (),
        **more: Sequence[Row],
    ) -> None:
        """Write the tables, then run.json, which makes the new trials count.

        RefusedError once they are written, as void ones, if kernels complained during them.
        """
        complaints, self._heard = self._heard, []
        reason = heard.reason(complaints) if complaints else ""
        good = any(row["state"] == "good" for row in trials)
        if complaints:
            trials = [_spoiled(row, reason) for row in trials]
            layers, ledgers, accounts, more = (), (), (), {}
        counters = [
            one.model_dump() | {"trial": trials[0]["trial"], "unit": one.unit}
            for one in self._counted
        ]
        self._counted = []
        self._add(trials, layers, counters=counters, **more)
        self._write_tables()
        self._document = self._document.model_copy(
            update={
                "trials": len(self._trials),
                "ledgers": (*self._document.ledgers, *ledgers),
                "accounts": (*self._document.accounts, *accounts),
            }
        )
        self._write_document()
        if complaints:
            numbers = [row["trial"] for row in trials]
            self.journal(heard.EVENT, **heard.data(complaints, numbers))
            if good:
                raise RefusedError(f"invalid, for a kernel complained during the trial: {reason}")

    def _add(self, trials: Sequence[Row], layers: Sequence[Series], **more: Sequence[Row]) -> None:
        """Have new rows in the tables; `more` are those of tables by their names."""
        self._trials += trials
        self._found += more.get(columns.THROUGHPUT.file, ())
        found = {
            columns.TRIALS.file: trials,
            columns.LAYERS.file: [row for one in layers for row in one.bucket_rows()],
            columns.SUMMARY.file: [one.summary_row() for one in layers],
        }
        for name, rows in (found | more).items():
            self._tables[name].add(rows)

    def _write_tables(self) -> None:
        # The one that says how many there are comes last.
        for name in sorted(self._tables, key=lambda name: name == columns.TRIALS.file):
            self._tables[name].write()

    def _write_document(self) -> None:
        text = self._document.model_dump_json(by_alias=True, indent=2)
        files.write(self.path / "run.json", text + "\n")


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


def _void(refusal: Exception) -> Row:
    return {"state": "void", "reason": str(refusal)}


def _spoiled(row: Row, reason: str) -> Row:
    """Return a trial during which kernels complained, with what else is said against it."""
    if row["state"] == "good":
        return row | {"state": "void", "reason": reason}
    return row | {"reason": f"{row['reason']}; {reason}"}


def _plain(document: Document) -> object:
    return document if isinstance(document, str | bytes) else dict(document)


def _text(document: Document) -> str | bytes:
    if isinstance(document, str | bytes):
        return document
    return json.dumps(dict(document), indent=1) + "\n"
