# SPDX-License-Identifier: GPL-2.0-or-later
"""A sweep on the wall clock: each setting's highest rate, and latency at given ones, in guests.

Each boot begins with the tester: generator, links and sink, with no router in between, are searched
as each setting is after them. What the tester reaches is the ceiling: a setting that comes near it,
or whose search ended because the generator could not keep the rate, has the tester for its limit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from skblab.knobs.boot import Start
from skblab.knobs.values import Value
from skblab.lab.guest import GuestSpec
from skblab.lab.guest.chosen import make_spec
from skblab.lab.labroot import Bind
from skblab.lab.reporter import Reporter
from skblab.sweep.experiment import TESTER, Experiment, Throughput
from skblab.sweep.measure import layers as layering
from skblab.sweep.measure.latency import arrivals
from skblab.sweep.measure.rfc2544.tests import Tests
from skblab.sweep.measure.throughput import goals, limits
from skblab.sweep.measure.throughput.confirm import Confirmation, confirm
from skblab.sweep.measure.throughput.limits import MARGIN, Tolerances
from skblab.sweep.measure.throughput.result import GoalResult, SearchResult
from skblab.sweep.measure.throughput.search import search
from skblab.sweep.measure.throughput.trial import Recorder
from skblab.sweep.measure.throughput.trial import Trial as LoadTrial
from skblab.sweep.plan import Trial
from skblab.sweep.progress import Key
from skblab.sweep.standing import Standing
from skblab.testbeds import Offered, Sending, Testbed
from skblab.testbeds.asked import Stream
from skblab.testbeds.base import WARM_UP
from skblab.testbeds.sending import LEAST_PACKETS
from skblab_analysis.base.words import quantity
from skblab_analysis.files import Event
from skblab_analysis.latency import summary as latency
from skblab_analysis.latency import summary as latency_summary
from skblab_analysis.latency.rows import Arrivals
from skblab_analysis.layers.rows import Probed
from skblab_analysis.load import Run, load
from skblab_analysis.rfc2544.rows import Benchmarked, Figure
from skblab_analysis.runfolder import RunFolder
from skblab_analysis.throughput import summary as throughput
from skblab_analysis.throughput import summary as throughput_summary
from skblab_analysis.throughput.rows import Found, FoundRow, Load, Purpose, Search
from skblab_analysis.trials.rows import Clock

GOALS = {"strict": goals.STRICT, "ndr": goals.NDR, "pdr": goals.PDR}
# More than a veth pair has carried anywhere; the search goes on from what really comes.
MOST_PER_SECOND = 10_000_000.0
# The generator's gap between two packets has ten digits.
LEAST_PER_SECOND = 1.0
# Times that a trial is run before it is believed that its counts contradict each other.
TRIES = 3
# Of what a generator reached that was asked for more than it can, so much it keeps.
SAFE = 0.98


def asked(throughput: Throughput) -> goals.Plan:
    """Return what the search is asked for."""
    least = max(LEAST_PER_SECOND, LEAST_PACKETS / throughput.seconds)
    return goals.Plan(
        min_load=least,
        max_load=max(MOST_PER_SECOND, 10 * least),
        goals=tuple(replace(GOALS[name], width=throughput.width) for name in throughput.goals),
        seconds=throughput.seconds,
        trials=throughput.trials,
    )


@dataclass(frozen=True)
class Offering:
    """A Measurer: sends one kind of traffic in a testbed; `tester`: with no router in between."""

    testbed: Testbed
    stream: Stream
    tester: bool
    tolerances: Tolerances
    # Is told of each trial that is run again, for its counts contradict each other.
    again: Callable[[Offered], None] = lambda _: None

    def measure(self, load: float, seconds: float) -> LoadTrial:
        """Send `load` packets a second for `seconds`, and count once nothing more comes."""
        sending = Sending.timed(self.stream, load, seconds, tester=self.tester)
        offered = self.testbed.offer(sending)
        for _ in range(TRIES - 1):
            if offered.received <= self._forwarded(offered) <= offered.tried:
                break
            # A kernel now and then sends a packet of its own, which would hide a loss.
            self.again(offered)
            offered = self.testbed.offer(sending)
        return LoadTrial(
            load,
            seconds,
            offered.tried,
            self._forwarded(offered),
            offered.received,
            self.tolerances,
            took=offered.microseconds / 1e6,
        )

    def _forwarded(self, offered: Offered) -> int:
        # With nothing in between, all that is missing is the sink's.
        return offered.tried if self.tester else offered.forwarded


@dataclass
class Timing:
    """The Method that times: of which experiment, and where it records."""

    experiment: Experiment
    folder: RunFolder
    reporter: Reporter
    cpus: int
    clock: Clock = "wall"
    title: str = "searching"
    gaps: tuple[str, ...] = ()
    lanes: int = 1
    shares: tuple[Bind, ...] = ()
    standing: Standing = field(init=False)

    def __post_init__(self) -> None:
        searches = self.experiment.measure.throughput is not None
        self.standing = Standing(more=searches, unit="packets/s" if searches else "ns for half")

    def spec(self, begins: Start) -> GuestSpec:
        """Return the guest of the device under test."""
        arguments = list(begins.arguments)
        return make_spec(cpus=self.cpus, flavour=begins.flavour, arguments=arguments)

    def warm_up(self, testbed: Testbed) -> None:
        """Send as much as goes for a while: a guest that was just booted is slow at first."""
        seconds = self.experiment.repeats.warm_up_seconds
        if seconds:
            testbed.offer(warming(next(self.experiment.traffic.each()), seconds))

    def ready(self, trial: Trial, testbed: Testbed, *, tester: bool) -> None:
        """Send some packets that are not counted."""
        testbed.offer(Sending(trial.stream, WARM_UP, tester=tester))

    def measure(self, key: Key, trial: Trial, testbed: Testbed) -> Callable[[], None]:
        """Measure throughput or latency, of a setting or of the tester."""
        if trial.what == "layers":
            assert self.experiment.measure.layers is not None
            document, of = layering.look(key, trial, testbed, self.experiment.measure.layers)
            return lambda: self._layered(key, document, of)
        if trial.rate is not None:
            assert self.experiment.measure.latency is not None
            found = arrivals(key, trial, testbed, self.experiment.measure.latency)
            return lambda: self._arrived(key, found)
        return self._search(key, trial, testbed)

    def _search(self, key: Key, trial: Trial, testbed: Testbed) -> Callable[[], None]:
        throughput = self._throughput
        tester = key.setting == TESTER
        # A guest's CPU stands still for milliseconds when its host has other work: a trial that
        # ends a little late is no worse than the result is wide.
        late = Tolerances(generator=throughput.width / 2)
        measurer = Offering(testbed, trial.stream, tester, late, partial(self._again, key))
        recorder = Recorder(measurer, lambda one: self._keep(key, one))
        found = search(recorder, asked(throughput))
        confirmed = None
        if throughput.confirm_seconds is not None and not tester:
            confirmed = confirm(recorder, found["strict"], throughput.confirm_seconds)
        before = len(recorder.trials)
        tested = [] if tester else list(self._tested(key, trial, testbed, recorder, found))
        more = recorder.trials[before:]
        return lambda: self._record(key, found, confirmed, tested, more)

    def _tested(
        self, key: Key, trial: Trial, testbed: Testbed, measurer: Recorder, found: SearchResult
    ) -> Iterator[Figure]:
        """Yield what RFC 2544's other tests find, at the strict rate; nothing where is none."""
        asked = self.experiment.measure.rfc2544
        if asked is None or (rate := found["strict"].lower) is None:
            return
        ceiling = self._ceiling(key, goals.STRICT.name)
        most = max(rate, _most(measurer.trials) if ceiling is None else ceiling)
        alone = ceiling is not None and ceiling >= rate
        limit, width = found["strict"].limit, self._throughput.width
        yield from Tests(
            asked, testbed, trial.stream, measurer, rate, limit, most, alone, width
        ).run()

    def unable(self, knobs: Mapping[str, Value]) -> str | None:
        """Return None: whatever can be set can be timed."""
        return None

    def enough(self, blocks: int) -> str | None:
        """Return why no more blocks are needed: intervals are narrow, or the budget is spent."""
        repeats = self.experiment.repeats
        run = load(self.folder.path)
        reached = _widest(run)
        if repeats.width is not None and reached is not None and reached <= repeats.width:
            return f"every interval of rates and delays is within {repeats.width:.2%} of its mean"
        if repeats.budget_minutes is not None:
            minutes = spent(run.journal) / 60
            if minutes * (blocks + 1) / blocks > repeats.budget_minutes:
                return f"another block would go beyond {repeats.budget_minutes:g} minutes"
        return None

    @property
    def _throughput(self) -> Throughput:
        assert self.experiment.measure.throughput is not None
        return self.experiment.measure.throughput

    def _keep(self, key: Key, one: LoadTrial) -> None:
        counts = {"load": one.load, "sent": one.sent, "received": one.received, "took": one.took}
        self.folder.journal("load", **key.words(), **counts, limit=one.limit)

    def _again(self, key: Key, one: Offered) -> None:
        counts = {"sent": one.tried, "forwarded": one.forwarded, "received": one.received}
        self.folder.journal("again", **key.words(), **counts)

    def _layered(self, key: Key, document: str, of: Probed) -> None:
        self.folder.record_probe(document, layering.MAX_UNACCOUNTED, of=of)
        self.reporter.say(
            f"block {of.block + 1}, {key.setting}, {of.traffic}, {of.rate}/s: layers of "
            f"{of.forwarded} packets"
        )

    def _arrived(self, key: Key, one: Arrivals) -> None:
        self.folder.record(one)
        median = one.document.latency.histogram().quantile(0.5)
        if key.setting != TESTER and self.experiment.measure.throughput is None:
            self.standing.add(key, median)
        self.reporter.say(
            f"block {one.block + 1}, {one.setting}, {one.traffic}, {one.rate}/s: half within "
            f"{quantity(median, 'ns')}, {one.lost} of {one.tried} packets lost"
        )

    def _record(
        self,
        key: Key,
        found: SearchResult,
        confirmed: Confirmation | None,
        tested: Sequence[Figure],
        more: Sequence[LoadTrial],
    ) -> None:
        loads = [_load(one) for one in found.trials]
        if confirmed is not None:
            loads.append(_load(confirmed.trial, "confirmation"))
        loads += [_load(one, "rfc2544") for one in more]
        recorded = Search(
            setting=key.setting,
            part="tester" if key.setting == TESTER else "whole",
            block=key.block,
            boot_knobs=key.boot_knobs,
            traffic=key.traffic,
            loads=tuple(loads),
            goals=tuple(self._goal(key, one, confirmed) for one in found.goals),
        )
        self.folder.record(Benchmarked(recorded, tuple(tested)))
        if key.setting != TESTER:
            self.standing.add(key, recorded.goals[0].throughput)
        self.reporter.say(_said(recorded))

    def _goal(self, key: Key, one: GoalResult, confirmed: Confirmation | None) -> Found:
        made = Found(
            goal=one.goal.name,
            loss_ratio=one.goal.loss_ratio,
            exceed_ratio=one.goal.exceed_ratio,
            width=one.goal.width,
            lower=one.lower,
            upper=one.upper,
            throughput=one.throughput or None,
            trials=one.trials,
            limit=one.limit,
            outcome=one.outcome,
            reached=one.reached,
        )
        if key.setting == TESTER:
            return made
        # Four times the width, as MARGIN is of the usual one.
        margin = max(MARGIN, 4 * one.goal.width)
        ceiling = self._ceiling(key, one.goal.name)
        more: dict[str, object] = {
            "judgement": limits.judge(one.lower, one.upper, one.limit, ceiling, margin)
        }
        if confirmed is not None and one.goal.name == goals.STRICT.name:
            more |= {
                "confirmed": confirmed.confirmed,
                "confirm_seconds": confirmed.trial.seconds,
            }
        return made.model_copy(update=more)

    def _ceiling(self, key: Key, goal: str) -> float | None:
        """Return what the tester reached in this boot: also one that another guest had begun."""
        ours = ("tester", goal, key.block, key.boot_knobs, key.traffic)
        for one in self.folder.again(FoundRow):
            if (one.part, one.goal, one.block, one.boot_knobs, one.traffic) == ours:
                return one.lower
        return None


def _most(trials: Sequence[LoadTrial]) -> float:
    """Return the most that a tester was seen to send, which could not be tried alone."""
    rates = (
        one.load if one.limit != "generator" else SAFE * one.sent / one.lasted for one in trials
    )
    return max(rates, default=0.0)


def _widest(run: Run) -> float | None:
    """Return the widest interval's half of all that was measured; None if one is missing."""
    rates, delays = throughput_summary.of(run), latency_summary.of(run)
    shares = [throughput.widest(rates)] if rates else []
    shares += [latency.widest(delays)] if delays else []
    known = [one for one in shares if one is not None]
    return max(known) if known and len(known) == len(shares) else None


def warming(stream: Stream, seconds: float) -> Sending:
    """Return as much as goes for so long."""
    return Sending(stream, round(MOST_PER_SECOND * seconds), seconds=seconds)


def first_load(throughput: Throughput, stream: Stream, tester: bool) -> Sending:
    """Return what a search sends first."""
    plan = asked(throughput)
    return Sending.timed(stream, plan.max_load, plan.seconds, tester=tester)


def spent(journal: Iterable[Event]) -> float:
    """Return the seconds that a run has taken, from when its boots were ready, until a stop."""
    found, last = 0.0, None
    for event in journal:
        if event.event == "resumed":
            # Until boots are ready again, which may need a kernel to be built.
            last = None
        elif last is not None or event.event == "began":
            found += (event.at - (last or event.at)).total_seconds()
            last = event.at
    return found


def _load(one: LoadTrial, purpose: Purpose = "search") -> Load:
    return Load(
        purpose=purpose,
        load=one.load,
        seconds=one.seconds,
        took=one.took,
        tried=one.sent,
        forwarded=one.forwarded,
        received=one.received,
        loss_ratio=one.loss_ratio,
        limit=one.limit,
    )


def _said(one: Search) -> str:
    rates = ", ".join(
        f"{goal.goal} {'none' if goal.throughput is None else round(goal.throughput)}"
        for goal in one.goals
    )
    return f"block {one.block + 1}, {one.setting}, {one.traffic}: {rates} packets/s"
