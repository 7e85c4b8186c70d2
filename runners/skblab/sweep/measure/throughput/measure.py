# SPDX-License-Identifier: GPL-2.0-or-later
"""Throughput: the highest rate of each setting and kind of traffic, found by a search.

Each boot begins with the tester: generator, links and sink, with no router in between, are searched
as each setting is after them. What the tester reaches is the ceiling: a setting that comes near it,
or whose search ended because the generator could not keep the rate, has the tester for its limit.
RFC 2544's other tests are run at the rate that was found.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from skblab.sweep.measure.base import TRIAL_SECONDS, Attempt, Measure, Sections
from skblab.sweep.measure.rfc2544.section import Rfc2544
from skblab.sweep.measure.rfc2544.tests import Tests
from skblab.sweep.measure.throughput import goals, limits
from skblab.sweep.measure.throughput.limits import MARGIN, Tolerances
from skblab.sweep.measure.throughput.offering import Offering
from skblab.sweep.measure.throughput.result import GoalResult, SearchResult
from skblab.sweep.measure.throughput.section import Throughput
from skblab.sweep.measure.throughput.trial import Recorder, Trial
from skblab.sweep.planned import Measurement
from skblab.testbeds import Kind, Offered, Sending
from skblab_analysis.base.words import number
from skblab_analysis.load import Run
from skblab_analysis.rfc2544.rows import Benchmarked, Figure
from skblab_analysis.throughput.rows import Found, FoundRow, Load, Purpose, Search, by_setting

# For the estimate: trials of a search, about, where `trials` of them decide on a load: it looks at
# four loads near the result, and at some that need one trial only.
LOADS = 4
# Of what a generator reached that was asked for more than it can, so much it keeps.
SAFE = 0.98


class ThroughputMeasure(Measure):
    """The Measure."""

    name = "throughput"
    section = Throughput
    unit = "packets/s"
    least_is_best = False
    narrows = True

    def seconds(self, asked: Sections, measurement: Measurement) -> float:
        """Return about how long a search takes, and the trial that confirms it."""
        section = asked[Throughput]
        found = LOADS * (section.trials + 1) * (section.seconds + TRIAL_SECONDS)
        return found if measurement.tester else found + (section.confirm_seconds or 0.0)

    def commands(
        self, asked: Sections, measurement: Measurement, kind: Kind, cpus: int
    ) -> Iterator[str]:
        """Yield the first load: what comes after depends on what becomes of it."""
        request = asked[Throughput].request()
        sending = partial(Sending.timed, measurement.stream, tester=measurement.tester)
        yield kind.offering(sending(request.max_load, request.seconds), cpus)

    def measure(self, attempt: Attempt) -> Callable[[], None]:
        """Search, of a setting or of the tester."""
        return _Searching(attempt, attempt.asked[Throughput]).run()

    def by_block(self, run: Run) -> Iterable[Sequence[float]]:
        """Return the rates of each setting and goal."""
        return by_setting(run.rows(FoundRow))


THROUGHPUT = ThroughputMeasure()


@dataclass(frozen=True)
class _Searching:
    """A search in a testbed, what follows it, and how both are recorded."""

    attempt: Attempt
    asked: Throughput

    def run(self) -> Callable[[], None]:
        """Search, confirm and test; what is returned records it."""
        # Not above: the package, as it is imported, reads the source of all that imports it.
        from skblab.sweep.measure.throughput.search import confirm, search

        asked, measurement = self.asked, self.attempt.measurement
        # A guest's CPU stands still for milliseconds when its host has other work: a trial that
        # ends a little late is no worse than the result is wide.
        late = Tolerances(generator=asked.width / 2)
        how = (measurement.tester, late, self._again)
        measurer = Offering(self.attempt.testbed, measurement.stream, *how)
        recorder = Recorder(measurer, self._keep)
        found = search(recorder, asked.request())
        confirmed = None
        if asked.confirm_seconds is not None and not measurement.tester:
            confirmed = confirm(recorder, found["strict"], asked.confirm_seconds)
        before = len(recorder.trials)
        tested = [] if measurement.tester else list(self._tested(recorder, found))
        return partial(self._record, found, confirmed, tested, recorder.trials[before:])

    def _tested(self, measurer: Recorder, found: SearchResult) -> Iterator[Figure]:
        """Yield what RFC 2544's other tests find, at the strict rate; nothing where is none."""
        asked = self.attempt.asked.get(Rfc2544)
        if asked is None or (rate := found["strict"].lower) is None:
            return
        tester = self._tester(goals.STRICT.name)
        ceiling = None if tester is None else tester.lower
        most = max(rate, _most(measurer.trials) if ceiling is None else ceiling)
        alone = ceiling is not None and ceiling >= rate
        yield from Tests(
            asked,
            self.attempt.testbed,
            self.attempt.measurement.stream,
            measurer,
            rate,
            found["strict"].limit,
            most,
            alone,
            self.asked.width,
        ).run()

    def _keep(self, trial: Trial) -> None:
        counts = {
            "load": trial.load,
            "sent": trial.sent,
            "received": trial.received,
            "took": trial.took,
        }
        self.attempt.folder.journal("load", **self.attempt.key.words(), **counts, limit=trial.limit)

    def _again(self, offered: Offered) -> None:
        counts = {
            "sent": offered.tried,
            "forwarded": offered.forwarded,
            "received": offered.received,
        }
        self.attempt.folder.journal("again", **self.attempt.key.words(), **counts)

    def _record(
        self,
        found: SearchResult,
        confirmed: Trial | None,
        tested: Sequence[Figure],
        more: Sequence[Trial],
    ) -> None:
        loads = [_load(trial) for trial in found.trials]
        if confirmed is not None:
            loads.append(_load(confirmed, "confirmation"))
        loads += [_load(trial, "rfc2544") for trial in more]
        recorded = Search(
            setting=self.attempt.key.setting,
            part=self.attempt.part,
            block=self.attempt.key.block,
            boot_knobs=self.attempt.key.boot_knobs,
            traffic=self.attempt.key.traffic,
            loads=tuple(loads),
            goals=tuple(self._goal(result, confirmed) for result in found.goals),
        )
        self.attempt.folder.record(Benchmarked(recorded, tuple(tested)))
        self.attempt.best.add(self.attempt.key, recorded.goals[0].throughput)
        self.attempt.reporter.say(_said(recorded))

    def _goal(self, result: GoalResult, confirmed: Trial | None) -> Found:
        made = Found(
            goal=result.goal.name,
            loss_ratio=result.goal.loss_ratio,
            exceed_ratio=result.goal.exceed_ratio,
            width=result.goal.width,
            lower=result.lower,
            upper=result.upper,
            throughput=result.throughput or None,
            trials=result.trials,
            limit=result.limit,
            outcome=result.outcome,
            reached=result.reached,
        )
        if self.attempt.measurement.tester:
            return made
        # Four times the width, as MARGIN is of the usual one.
        margin = max(MARGIN, 4 * result.goal.width)
        tester = self._tester(result.goal.name)
        judgement = limits.judge(
            *(result.lower, result.upper, result.limit),
            None if tester is None else tester.lower,
            margin,
            alone=tester is not None,
        )
        more: dict[str, object] = {"judgement": judgement}
        if confirmed is not None and result.goal.name == goals.STRICT.name:
            more |= {
                "confirmed": confirmed.loss_ratio == 0,
                "confirm_seconds": confirmed.seconds,
            }
        return made.model_copy(update=more)

    def _tester(self, goal: str) -> FoundRow | None:
        """Return what was found of the tester alone in this boot; None if it was not measured.

        Also in a boot that another guest had begun.
        """
        key = self.attempt.key
        ours = ("tester", goal, key.block, key.boot_knobs, key.traffic)
        for row in self.attempt.folder.again(FoundRow):
            if (row.part, row.goal, row.block, row.boot_knobs, row.traffic) == ours:
                return row
        return None


def _most(trials: Sequence[Trial]) -> float:
    """Return the most that a tester was seen to send, which could not be tried alone."""
    rates = (
        trial.load if trial.limit != "generator" else SAFE * trial.sent / trial.lasted
        for trial in trials
    )
    return max(rates, default=0.0)


def _load(trial: Trial, purpose: Purpose = "search") -> Load:
    return Load(
        purpose=purpose,
        load=trial.load,
        seconds=trial.seconds,
        took=trial.took,
        tried=trial.sent,
        forwarded=trial.forwarded,
        received=trial.received,
        loss_ratio=trial.loss_ratio,
        limit=trial.limit,
    )


def _said(search: Search) -> str:
    rates = ", ".join(
        f"{goal.goal} {'none' if goal.throughput is None else number(goal.throughput)}"
        for goal in search.goals
    )
    return f"block {search.block + 1}, {search.setting}, {search.traffic}: {rates} packets/s"
