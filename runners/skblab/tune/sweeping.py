# SPDX-License-Identifier: GPL-2.0-or-later
"""One sweep of a tune: begun, or gone on with where it was stopped, or read where it has ended."""

from __future__ import annotations

from pathlib import Path

from skblab.lab import labroot
from skblab.lab.drawing import gnuplot
from skblab.lab.reporter import Reporter
from skblab.sweep import session
from skblab.sweep.experiment import Experiment
from skblab.sweep.request import unfinished
from skblab.tune import deriving, stages
from skblab.tune.asked import Asked
from skblab.tune.stages import StageName
from skblab.tune.state import Progress
from skblab_analysis.base.errors import SkblabError, UsageError
from skblab_analysis.load import Run, load
from skblab_analysis.report import advice
from skblab_analysis.report.page import build_report


class Sweeps:
    """The sweeps of a tune; each is in its progress as soon as it has a folder."""

    def __init__(self, asked: Asked, progress: Progress, reporter: Reporter) -> None:
        self._asked, self._progress, self._reporter = asked, progress, reporter

    def run(self, wanted: Experiment, stage: StageName, minutes: float) -> Run:
        """Return the run of an experiment: what is stored of it is not measured again."""
        there = self._stored(wanted, stage)
        path = self._new(wanted, stage, minutes) if there is None else there
        with session.alone(path, self._reporter):
            # Not read before: `skblab resume` may have gone on with it meanwhile.
            if load(path).document.state != "finished":
                self._measure(path, resumed=there is not None)
        build_report(path, gnuplot(labroot.ensure(self._reporter)))
        run = load(path)
        for heard in (heard for heard in run.complaints() if heard.spoils):
            self._reporter.say(f"a kernel complained {heard.where}: {heard.lines[0]}")
        if all(row.state == "invalid" for row in run.trials):
            raise SkblabError(f"every trial of {path} is invalid: its report says why")
        return run

    def _measure(self, path: Path, *, resumed: bool) -> None:
        """Measure what a run lacks; one that has just begun lacks all."""
        plan, folder = unfinished(path)
        root = labroot.ensure(self._reporter)
        session.run(
            *(plan, folder, root, self._reporter, advice.candidates), resumed=resumed, go_on=False
        )

    def _stored(self, wanted: Experiment, stage: StageName) -> Path | None:
        """Return the run of a stage that has begun; UsageError if it was of something else."""
        there, folder = self._progress.of(stage), self._progress.folder
        if there is None or not there.run:
            return None
        path = folder.parent / there.run
        if not path.is_dir():
            # It never began, and has gone.
            return None
        if stages.file(folder, stage).read_text() != deriving.text(wanted):
            raise UsageError(
                f"--resume {folder}: this skblab would go on with another experiment than "
                f"{stages.file(folder, stage)}; to start again: {self._progress.again}"
            )
        return path

    def _new(self, wanted: Experiment, stage: StageName, minutes: float) -> Path:
        folder = self._progress.folder
        request = stages.requested(self._asked, wanted, folder, stage, minutes)
        if why := stages.no_time(self._asked, request, request.plan()):
            raise UsageError(why)
        plan, made = request.begin()
        self._progress.began(stage, made.path)
        for sentence in request.told(plan):
            self._reporter.say(sentence)
        return made.path
