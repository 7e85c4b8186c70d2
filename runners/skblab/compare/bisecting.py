# SPDX-License-Identifier: GPL-2.0-or-later
"""A search for the commit that made a workload slower, with kernels that are built for it.

The user's repository is read and never written to. What was measured is in the run's folder as soon
as it is known, and a run that was stopped goes on from there.
"""

from __future__ import annotations

import contextlib
import functools
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from skblab.bench import functions as counting
from skblab.bench import given, programs
from skblab.bench.asked import check_flavour, request_of
from skblab.compare import history
from skblab.compare.asked import PACKETS, require_thousands, unable_in
from skblab.compare.bisection import Bisection, CannotMeasureError, Found, NotFoundError
from skblab.compare.bisection import Step as Searched
from skblab.compare.counting import Counting, NoFigureError, Shot
from skblab.compare.instrument import instrument
from skblab.compare.running import GAPS
from skblab.compare.workload import Workload, choose, whole_word
from skblab.knobs.values import Knobs
from skblab.knobs.values import text as shown
from skblab.lab import kernel, labroot, paths
from skblab.lab.kernel import git
from skblab.lab.kernel.blame import SourceError
from skblab.lab.kernel.names import GIT, parse
from skblab.lab.labroot import LabRoot
from skblab.lab.reporter import Reporter
from skblab.machine.environment import counting_tools
from skblab.machine.guest import KILLED
from skblab.machine.recording import recording
from skblab.sweep.measure.exact import uncountable
from skblab.sweep.session import alone
from skblab_analysis.base.checked import read
from skblab_analysis.base.disk import write_whole
from skblab_analysis.base.errors import UsageError
from skblab_analysis.formats import bisect as records
from skblab_analysis.formats import compare
from skblab_analysis.formats.bisect import BisectDocument, Changed
from skblab_analysis.formats.compare import Figure
from skblab_analysis.formats.run import Environment, Plan, timings_of
from skblab_analysis.runfolder import RunFolder

NAME = "bisect"
# Guests for a kernel that says nothing before it is up.
TRIES = 2
# Functions that are kept of what a commit adds.
LEAST = 0.5


@dataclass(frozen=True)
class Repository:
    """The commits of a user's repository."""

    path: Path

    def between(self, goods: Sequence[str], bad: str) -> list[str]:
        """Return what `bad` has and no good one has, the best to try first."""
        return git.between(self.path, goods, bad)

    def parents(self, commit: str) -> list[str]:
        """Return the parents of a commit."""
        return git.parents(self.path, commit)


@dataclass(frozen=True)
class Asked:
    """What is searched, checked: commits in full."""

    repository: Path
    good: str
    bad: str
    workload: Workload
    # Its name, or where the user's file is.
    word: str
    packets: int = PACKETS
    flavour: str = "stock"
    knobs: Knobs = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        repository: Path,
        good: str,
        bad: str,
        word: str,
        *,
        packets: int = PACKETS,
        flavour: str = "stock",
        knobs: Knobs | None = None,
    ) -> Asked:
        """Check what was asked for; UsageError in one line for what cannot be."""
        [workload] = choose([word])
        folder = repository.expanduser().resolve()
        first, last = (git.commit(folder, revision) for revision in (good, bad))
        if first == last:
            raise UsageError(f"--bad {bad}: the same commit as --good {good}")
        if not git.is_ancestor(folder, first, last):
            raise UsageError(
                f"--good {good}: no ancestor of {bad}; expected a commit that {bad} is based on"
                f"{git.shallow(folder)}"
            )
        require_thousands(packets)
        check_flavour(flavour)
        if why := next(uncountable(knobs or {}), None):
            raise UsageError(f"--set: {why}")
        for knob in knobs or {}:
            if (why := unable_in(workload, knob)) is not None:
                raise UsageError(f"--workload {workload.name}: {why}")
        named = whole_word(word)
        return cls(folder, first, last, workload, named, packets, flavour, knobs or {})

    @property
    def again(self) -> str:
        """The command that asks for it."""
        ends = ("--good", self.good, "--bad", self.bad, "--workload", self.word)
        where = ("--repository", str(self.repository))
        more = [word for one in self.knobs.items() for word in ("--set", given.word(*one))]
        more += ["--packets", str(self.packets)] if self.packets != PACKETS else []
        more += ["--flavour", self.flavour] if self.flavour != "stock" else []
        return shlex.join(["./skblab", "bisect", *ends, *where, *more])


class Bisecting:
    """A search: its kernels, its guests, and what they gave."""

    def __init__(self, asked: Asked, reporter: Reporter) -> None:
        self.asked, self.reporter = asked, reporter
        self.root: LabRoot = labroot.ensure(reporter)
        self.instrument = instrument(self.root, reporter)
        self.past = history.read().of(asked.workload, asked.packets)
        self.steps: list[records.Step] = []
        self.figures: dict[str, list[Figure]] = {}
        self.environments: dict[str, Environment] = {}

    def recorded(self, before: RunFolder | None = None) -> tuple[RunFolder, BisectDocument]:
        """Search, and have each step in a run's folder; go on with that of `before`, if any.

        Who calls it with `before` is `alone` with it, and has been since it was read.
        """
        if before is None:
            folder = RunFolder.create(paths.results(), NAME, _plan(self.asked))
            with alone(folder.path, self.reporter):
                return self._recorded(folder, None)
        return self._recorded(before, before)

    def _recorded(
        self, folder: RunFolder, before: RunFolder | None
    ) -> tuple[RunFolder, BisectDocument]:
        if before is not None:
            self._take(before)
            before.resume()
        with self._goes_on(folder), recording(folder, self._environment, self.reporter):
            # One that is killed before its first kernel is there can be gone on with, too.
            self._write(folder, None)
            found = self._search(folder)
            document = self._write(folder, found)
            environment = self._environment()
            assert environment is not None
            timings, versions = self.reporter.timings, document.versions
            folder.finish(environment, timings, versions=versions, commands=[], gaps=GAPS)
        return folder, document

    @contextlib.contextmanager
    def _goes_on(self, folder: RunFolder) -> Iterator[None]:
        """Say how to go on with a search that was stopped."""
        try:
            yield
        except BaseException as error:
            if not isinstance(error, NotFoundError | UsageError):
                self.reporter.say(f"go on with: ./skblab bisect --resume {folder.path}")
            raise

    def _environment(self) -> Environment | None:
        return next(iter(self.environments.values()), None)

    def _take(self, folder: RunFolder) -> None:
        """Take in what a run that was stopped has measured."""
        document = read(BisectDocument, folder.path / records.FILE, "the document of a search")
        if document.instrument != self.instrument:
            raise UsageError(
                f"{folder.path}: what counts is not what it was; begin again: {document.again}"
            )
        self.steps = list(document.steps)
        self.environments = dict(document.environments)
        self.figures = {one.commit: list(one.figures) for one in document.steps}

    def _search(self, folder: RunFolder) -> Found:
        known = {
            one.commit: Searched(
                one.commit,
                tuple(figure.instructions for figure in one.figures),
                one.verdict,
                one.why,
            )
            for one in self.steps
        }

        def tell(step: Searched) -> None:
            subject = git.subject(self.asked.repository, step.commit)
            made = records.Step(
                commit=step.commit,
                subject=subject,
                verdict=step.verdict,
                figures=tuple(self.figures.get(step.commit, ())),
                why=step.why,
            )
            # With one more boot it is the same step.
            places = [place for place, one in enumerate(self.steps) if one.commit == step.commit]
            place = places[0] if places else len(self.steps)
            self.steps[place : place + 1] = [made]
            self._write(folder, None)
            told = step.why or f"{step.figure:.1f} instructions"
            self.reporter.say(f"{step.commit[:12]} {step.verdict}: {told} ({subject})")

        return Bisection(
            Repository(self.asked.repository),
            self.asked.good,
            self.asked.bad,
            functools.partial(self._measure, folder),
            lambda of: compare.threshold(of, self.past)[0],
            tell,
            known,
        ).run()

    def _measure(self, folder: RunFolder, commit: str, boot: int) -> float:
        """Build a commit and count the workload; CannotMeasureError if it is the commit's fault."""
        folder.journal("attempt", commit=commit, boot=boot)
        try:
            named = parse(f"{GIT}{self.asked.repository}@{commit}")
        except UsageError as error:
            raise CannotMeasureError(f"it is no kernel: {error}") from error
        try:
            built = kernel.ensure(request_of(named, self.asked.flavour), self.root, self.reporter)
        except SourceError as error:
            raise CannotMeasureError(f"it does not build: {error}") from error
        plugins = [counting.ensure(self.root, self.reporter)]
        # Each commit has its own: what is said of one names its console.
        logs = folder.logs / commit[:12]
        logs.mkdir(exist_ok=True)
        shot = Shot(self.asked.workload, built, boot, self.asked.packets, self.asked.knobs)
        with programs.shares(set(), built, self.root, self.reporter, logs, plugins) as shares:
            notes: dict[str, None] = {}
            figure, environment = self._count(Counting(self.root, shares, logs, notes), shot)
        for note in notes:
            self.reporter.say(note)
        self.environments[commit] = environment
        self.figures.setdefault(commit, []).append(figure)
        return figure.instructions

    def _count(self, guests: Counting, shot: Shot) -> tuple[Figure, Environment]:
        """Count in a guest; CannotMeasureError where the kernel is at fault that there is none.

        One that dies without a word before it is up is tried once more: the host may have ended it.
        """
        for left in reversed(range(TRIES)):
            try:
                return guests.count(shot)
            except NoFigureError as error:
                silent = error.cause == "other" and not error.up and KILLED not in str(error)
                if error.cause == "other" and not silent:
                    raise
                if silent and left:
                    continue
                what = "" if error.up else "it does not boot: "
                raise CannotMeasureError(f"{what}{error}") from error
        raise AssertionError(TRIES)

    def _write(self, folder: RunFolder, found: Found | None) -> BisectDocument:
        document = self._document(found)
        text = document.model_dump_json(indent=1, by_alias=True)
        write_whole(folder.path / records.FILE, text + "\n")
        return document

    def _document(self, found: Found | None) -> BisectDocument:
        parent = found.parent.commit if found is not None and found.parent is not None else ""
        return BisectDocument(
            again=self.asked.again,
            repository=str(self.asked.repository),
            good=self.asked.good,
            bad=self.asked.bad,
            workload=self.asked.workload.record(),
            packets=self.asked.packets,
            instrument=self.instrument,
            settings={knob: shown(value) for knob, value in self.asked.knobs.items()},
            steps=tuple(self.steps),
            found=found.commits if found is not None else (),
            parent=parent,
            step=found.step if found is not None else None,
            functions=self._functions(found.commits[0], parent) if found and parent else (),
            versions=counting_tools(self.root),
            environments=dict(self.environments),
            timings=timings_of(self.reporter.timings),
        )

    def _functions(self, culprit: str, parent: str) -> tuple[Changed, ...]:
        """Return what a commit adds in each function."""
        after, before = (
            [one.functions for one in self.figures[commit]] for commit in (culprit, parent)
        )
        found = (
            Changed(name=name, difference=round(difference, 2))
            for name, difference in compare.added(before, after)
        )
        return tuple(one for one in found if abs(one.difference) >= LEAST)


def _plan(asked: Asked) -> Plan:
    return Plan(
        experiment=NAME,
        question=f"Which commit changed what {asked.workload.name} costs?",
        seed=0,
        packets=asked.packets,
        again=asked.again,
        parameters={
            "repository": str(asked.repository),
            "good": asked.good,
            "bad": asked.bad,
            "workload": asked.workload.name,
            "workload_word": asked.word,
            "flavour": asked.flavour,
            "set": shlex.join(given.word(*one) for one in asked.knobs.items()),
        },
    )


def resumed(run: Path) -> tuple[Asked, RunFolder]:
    """Return what a search that was stopped asked for, and its folder; UsageError if it is none."""
    if not (run / records.FILE).is_file():
        raise UsageError(f"--resume {run}: it has no {records.FILE}; expected a run of bisect")
    document = read(BisectDocument, run / records.FILE, "the document of a search")
    folder = RunFolder.open(run)
    if document.found and folder.document.state == "finished":
        raise UsageError(f"--resume {run}: it has ended, and found {document.found[0][:12]}")
    parameters = folder.document.plan.parameters
    asked = Asked.of(
        Path(document.repository),
        document.good,
        document.bad,
        str(parameters["workload_word"]),
        packets=document.packets,
        flavour=str(parameters["flavour"]),
        knobs=given.parse(shlex.split(str(parameters["set"])), "--set"),
    )
    if asked.workload.sha256 != document.workload.sha256:
        raise UsageError(
            f"--resume {run}: {asked.word} has changed since; begin again: {document.again}"
        )
    return asked, folder
