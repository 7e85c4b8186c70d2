# SPDX-License-Identifier: GPL-2.0-or-later
"""Sweeps on the wall clock: what is searched, judged and recorded, and when there is enough."""

from __future__ import annotations

import contextlib
import fcntl
import itertools
import json
import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import made_up_arrivals
import pytest
import synthetic_run
from test_report import fake_gnuplot
from typer.testing import CliRunner

from kills import killed_after
from retries import no_retries
from skblab.cli import app
from skblab.commands import sweep
from skblab.knobs.applying import Applied, Applier
from skblab.knobs.base import Unable
from skblab.knobs.values import Value
from skblab.lab import kernel, labroot, paths
from skblab.lab.guest.errors import GuestError
from skblab.lab.reporter import Reporter
from skblab.machine import counters
from skblab.machine.transport import TransportError
from skblab.machine.watch import Watch
from skblab.sweep import inputs, machines, plan
from skblab.sweep.experiment import BASELINE, Experiment, Setting
from skblab.sweep.machines import Machines
from skblab.sweep.measure import latency as arriving
from skblab.sweep.measure import timed
from skblab.sweep.measure.rfc2544 import tests as rfc2544
from skblab.sweep.measure.throughput.limits import USUAL
from skblab.sweep.measure.throughput.offering import Offering
from skblab.sweep.measure.throughput.section import Throughput
from skblab.sweep.measure.throughput.trial import Trial
from skblab.sweep.planned import TESTER, Boot
from skblab.sweep.progress import Progress
from skblab.sweep.running import Running
from skblab.sweep.session import CPUS
from skblab.sweep.spent import spent
from skblab.testbeds import NETNS, Offered, Sending
from skblab.testbeds.asked import Stream
from skblab.testbeds.netns import Netns
from skblab.testbeds.sending import LEAST_PACKETS, Step
from skblab.testbeds.sink import Sink
from skblab_analysis.base.certainty import AGAIN
from skblab_analysis.base.errors import SkblabError, SkblabWarning, UsageError
from skblab_analysis.base.words import FIXED_SPACE
from skblab_analysis.formats.journal import Event
from skblab_analysis.formats.pktsink import ArrivalsDocument, Gap
from skblab_analysis.formats.run import Plan as PlanRecord
from skblab_analysis.latency import summary as latency_summary
from skblab_analysis.load import Run, load
from skblab_analysis.report import findings
from skblab_analysis.rfc2544 import summary as rfc2544_summary
from skblab_analysis.rfc2544.rows import FigureRow
from skblab_analysis.runfolder import RunFolder
from skblab_analysis.throughput import summary as throughput_summary
from skblab_analysis.throughput.rows import FoundRow, LoadRow
from skblab_analysis.work.rows import CounterRow

STREAM = Stream(family=4, frame=64, flows=1)
UDP = "family=4 size=60 flows=1"
# Packets a second.
GENERATOR, ROUTER, SLOW = 200_000.0, 90_000.0, 60_000.0
# Until the generator is stopped, at most.
FOREVER = 1e9


@dataclass
class Guest:
    """A made-up guest: its testbed, and the knob rp_filter, which makes its router slower.

    `generator` is what one CPU does: where it also has the router's work (`shared`), a generator
    that is asked for more than the router forwards cannot keep the rate, and nothing is lost.
    """

    generator: float = GENERATOR
    transport: object = None
    tester: object = None
    rooms: bool = True
    watch: Watch = field(default_factory=Watch)
    shared: bool = False
    # What rp_filter is found to be after each trial; None: what it was set to.
    after: str | None = None
    # Packets that the router sends of its own, in the trials of these numbers.
    strays: frozenset[int] = frozenset()
    # Offers after which it dies.
    dies_after: float = FOREVER
    offers: int = 0
    interrupts: int = 0
    rp_filter: str = "0"

    def program(self, name: str) -> str:
        return f"/made-up/{name}"

    def offer(self, sending: Sending) -> Offered:
        self.offers += 1
        if self.offers > self.dies_after:
            raise TransportError("the connection went away")
        router = SLOW if self.rp_filter == "1" else ROUTER
        fastest = (
            min(self.generator, router) if self.shared and not sending.tester else self.generator
        )
        reached = min(sending.rate or fastest, fastest)
        sent = min(sending.packets, int(reached * (sending.seconds or FOREVER)))
        took = sent / reached
        passed = sent if sending.tester else min(sent, int(router * took))
        stray = int(self.offers in self.strays)
        return Offered(sent, passed + stray, passed + stray, round(took * 1e6))

    def counters(self) -> counters.Values:
        """Each trial interrupts once."""
        self.interrupts += 1
        return {("interrupt", "25 virtio0-input.0", 0): self.interrupts}

    def apply(self, settings: Mapping[str, Value]) -> list[Applied]:
        self.rp_filter = str(settings.get("rp_filter", 0))
        return [
            Applied(name, value, "0", self.rp_filter, self.rp_filter)
            for name, value in settings.items()
        ]

    def forget(self) -> None:
        """Nothing was read ahead."""

    def look(self, found: Sequence[Applied]) -> list[Applied]:
        return [replace(row, after=self.after or row.after) for row in found]


def experiment(**repeats: object) -> Experiment:
    return Experiment.model_validate(
        {
            "name": "few",
            "question": "Which?",
            "setting": [{"name": "strict", "knobs": {"rp_filter": 1}}],
            "measure": {"throughput": {"seconds": 1.0, "trials": 3, "width": 0.02}},
            "repeats": {"least": 1, "most": 1, "warm_up_seconds": 0.5} | repeats,
        }
    )


@dataclass
class Sweep:
    """A run whose guests are made up; each boot takes the next of them, and then the last again."""

    path: Path
    wanted: Experiment
    guests: list[Guest] = field(default_factory=lambda: [Guest()])
    # Those of boots with these knobs, instead of the next one.
    of_boots: dict[str, Guest] = field(default_factory=dict)
    # Raises what no further trial begins after.
    may_begin: Callable[[], None] = lambda: None

    @classmethod
    def begin(cls, results: Path, wanted: Experiment, *guests: Guest) -> Sweep:
        record = PlanRecord(experiment="few", seed=1, baseline=BASELINE)
        path = RunFolder.create(results, "few", record).path
        return cls(path, wanted, list(guests) or [Guest()])

    def run(self, monkeypatch: pytest.MonkeyPatch, *, sendable_only: bool = False) -> Run:
        """Run what is left, as the next one to resume does."""
        folder, reporter = RunFolder.open(self.path), Reporter(quiet=True)
        method = timed.Timing(self.wanted, folder, reporter, 2, sendable_only=sendable_only)
        made = plan.make(self.wanted, ["kernel"])
        progress = Progress.read(self.path)
        running = Running(made, method, folder, reporter, progress, self.may_begin)

        @contextlib.contextmanager
        def guest(_: object, boot: Boot, *__: object) -> Iterator[tuple[Netns, Applier]]:
            if str(boot) in self.of_boots:
                one = self.of_boots[str(boot)]
            else:
                one = self.guests.pop(0) if len(self.guests) > 1 else self.guests[0]
            try:
                method.warm_up(cast(Netns, one))
                yield cast(Netns, one), cast(Applier, one)
            except TransportError as error:
                raise GuestError("guest panicked: Oops") from error

        monkeypatch.setattr(running, "_testbed", guest)
        running.run(cast(Machines, None))
        return load(self.path)


def killed(*_: object) -> bool:
    """In the place of what goes on behind a dead guest: skblab itself is killed with it."""
    raise KeyboardInterrupt


def keys(run: Run) -> Counter[tuple[str, int, str | None]]:
    return Counter((row.setting, row.block, row.measure) for row in run.trials)


def test_rates_are_found_and_the_device_is_the_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Sweep.begin(tmp_path, experiment()).run(monkeypatch)
    assert keys(run) == Counter(
        [
            (TESTER, 0, "tester"),
            *((name, 0, "throughput") for name in (BASELINE, AGAIN, "strict")),
        ]
    )
    assert run.trials[0].setting == TESTER
    [summary] = throughput_summary.of(run)
    assert summary.traffic == str(STREAM)
    assert [goal.goal for goal in summary.goals] == ["strict", "NDR", "PDR"]
    for goal in summary.goals:
        for name, truth in ((BASELINE, ROUTER), (AGAIN, ROUTER), ("strict", SLOW)):
            rate = goal.rate(name)
            assert rate is not None and rate.interval is not None
            assert rate.interval.mean == pytest.approx(truth, rel=0.03)
            assert rate.judgement == "device"
        [tester] = goal.testers
        assert tester.interval is not None
        assert tester.interval.mean == pytest.approx(GENERATOR, rel=0.03)
    # The first load is more than any generator can send: it was stopped.
    first = run.rows(LoadRow)[0]
    assert (first.load, first.number, first.limit) == (1e7, 0, "generator")
    assert first.took == pytest.approx(1.5)
    assert first.offered_rate == pytest.approx(GENERATOR)
    assert len(run.rows(LoadRow)) == sum(event.event == "load" for event in run.journal)


def test_packets_sent_late_may_be_half_of_the_width(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = set[float]()
    measure = Offering.measure

    def noted(one: Offering, load: float, seconds: float) -> Trial:
        seen.add(one.tolerances.generator)
        return measure(one, load, seconds)

    monkeypatch.setattr(Offering, "measure", noted)
    Sweep.begin(tmp_path, experiment(), Guest()).run(monkeypatch)
    assert seen == {0.01}


def test_a_generator_that_shares_the_routers_cpu_is_the_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Sweep.begin(tmp_path, experiment(), Guest(shared=True)).run(monkeypatch)
    [summary] = throughput_summary.of(run)
    rate = summary.main.rate(BASELINE)
    assert rate is not None and rate.interval is not None
    # It is no less found, but for whose sake is not known.
    assert rate.interval.mean == pytest.approx(ROUTER, rel=0.03)
    assert rate.judgement == "tester"
    assert {row.limit for row in run.rows(LoadRow) if row.part == "whole"} == {
        "none",
        "generator",
    }


def test_near_the_ceiling_the_tester_is_the_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Sweep.begin(tmp_path, experiment(), Guest(generator=92_000.0)).run(monkeypatch)
    [summary] = throughput_summary.of(run)
    judged = {rate.setting: rate.judgement for rate in summary.main.rates}
    assert judged == {BASELINE: "tester", AGAIN: "tester", "strict": "device"}


@pytest.mark.parametrize(("shared", "judgement"), [(False, "not known"), (True, "tester")])
def test_a_tester_without_a_loop_is_blamed_only_for_what_was_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shared: bool, judgement: str
) -> None:
    class NoLoop(Guest):
        def offer(self, sending: Sending) -> Offered:
            if sending.tester:
                raise Unable("the tester has no loop")
            return super().offer(sending)

    run = Sweep.begin(tmp_path, experiment(), NoLoop(shared=shared)).run(monkeypatch)
    [skipped] = [row for row in run.trials if row.skipped]
    assert skipped.setting == TESTER
    assert skipped.reason == "not possible here: the tester has no loop"
    assert {row.judgement for row in run.rows(FoundRow)} == {judgement}
    [summary] = throughput_summary.of(run)
    assert {rate.judgement for rate in summary.main.rates} == {judgement}


def test_a_setting_that_was_not_there_to_the_end_is_void(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Sweep.begin(tmp_path, experiment(), Guest(after="0")).run(monkeypatch)
    [invalid] = [row for row in run.trials if row.state == "invalid"]
    assert (invalid.setting, invalid.measure) == ("strict", "throughput")
    assert invalid.reason == "rp_filter: is 0, expected 1"
    [summary] = throughput_summary.of(run)
    assert "strict" not in {rate.setting for rate in summary.main.rates}
    assert {row.trial for row in run.rows(LoadRow)} == {
        row.trial for row in run.trials if row.state == "good"
    }


def test_a_killed_run_is_resumed_with_the_same_trials(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = experiment(least=2, most=2)
    whole = keys(Sweep.begin(tmp_path / "whole", wanted).run(monkeypatch))
    for dies_after in (0, 2, 10, 40):
        sweep = Sweep.begin(tmp_path / str(dies_after), wanted, Guest(dies_after=dies_after))
        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr(Running, "_blamed", killed)
            sweep.run(patch)
        sweep.guests = [Guest()]
        run = sweep.run(monkeypatch)
        assert keys(run) == whole
        assert {row.state for row in run.trials} == {"good"}


@pytest.mark.parametrize("wanted_kills", [12, pytest.param(100, marks=pytest.mark.slow)])
def test_killed_at_many_moments_it_has_each_trial_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wanted_kills: int
) -> None:
    wanted = experiment(least=5, most=5)
    whole = Sweep.begin(tmp_path / "whole", wanted).run(monkeypatch)
    sweep = Sweep.begin(tmp_path / "killed", wanted)
    chosen = random.Random(4689)
    kills, moments = 0, set[int]()
    while kills < wanted_kills:
        # A run that came to its end is begun anew.
        go_on = partial(sweep.run, pytest.MonkeyPatch())
        if not killed_after(chosen.randrange(100), chosen.uniform(1e-6, 2e-3), go_on):
            sweep = Sweep.begin(tmp_path / "killed", wanted)
            continue
        kills += 1
        # Whenever it was, what was finished is there and can be read.
        moments.add(len(load(sweep.path).trials))
    assert len(moments) > 5
    run = sweep.run(monkeypatch)
    assert keys(run) == keys(whole)
    assert set(keys(run).values()) == {1}
    assert [summary_of.main.rates for summary_of in throughput_summary.of(run)] == [
        summary_of.main.rates for summary_of in throughput_summary.of(whole)
    ]


def test_a_guest_that_dies_is_followed_by_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sweep = Sweep.begin(tmp_path, experiment(), Guest(dies_after=30), Guest())
    run = sweep.run(monkeypatch)
    assert {row.state for row in run.trials} == {"good"}
    # The tester of before is the ceiling of what another guest goes on with.
    [summary] = throughput_summary.of(run)
    assert {rate.judgement for rate in summary.main.rates} == {"device"}


def test_what_killed_its_guest_twice_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The tester takes less than this, and what comes first after it does not.
    guests = [Guest(dies_after=25), Guest(dies_after=4), Guest()]
    run = Sweep.begin(tmp_path, experiment(), *guests).run(monkeypatch)
    [invalid] = [row for row in run.trials if row.state == "invalid"]
    assert invalid.reason == "its testbed was lost 2 times: guest panicked: Oops"
    assert sum(keys(run).values()) == 4


def two_boots() -> Experiment:
    found = experiment(least=2, most=2)
    rt = Setting(name="rt", knobs={"kernel": "rt"})
    return found.model_copy(update={"setting": (*found.setting, rt)})


def test_each_boot_of_a_block_has_a_tester_and_a_ceiling(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sweep = Sweep.begin(tmp_path, two_boots())
    # With the one kernel the tester is the limit, and with the other it is not.
    sweep.of_boots = {"kernel=rt": Guest(generator=92_000.0)}
    run = sweep.run(monkeypatch)
    testers = Counter((row.block, row.boot_knobs) for row in run.trials if row.part != "whole")
    assert testers == Counter([(0, ""), (0, "kernel=rt"), (1, ""), (1, "kernel=rt")])
    [summary] = throughput_summary.of(run)
    judged = {rate.setting: rate.judgement for rate in summary.main.rates}
    assert judged == {BASELINE: "device", AGAIN: "device", "strict": "device", "rt": "tester"}
    named = {tester.setting: tester for tester in summary.main.testers}
    assert set(named) == {"tester alone", "tester alone, kernel=rt"}
    for name, truth in (("tester alone", GENERATOR), ("tester alone, kernel=rt", 92_000.0)):
        interval = named[name].interval
        assert interval is not None and named[name].none == 0
        assert interval.count == 2
        assert interval.mean == pytest.approx(truth, rel=0.03)


def test_a_killed_run_of_several_boots_is_resumed_with_the_same_trials(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def named(run: Run) -> Counter[tuple[str, int, str | None]]:
        return Counter((row.setting, row.block, row.boot_knobs) for row in run.trials)

    whole = named(Sweep.begin(tmp_path / "whole", two_boots()).run(monkeypatch))
    assert sum(whole.values()) == 2 * (2 + 4)
    for knobs in ("", "kernel=rt"):
        for dies_after in (0, 10, 25):
            sweep = Sweep.begin(tmp_path / f"{knobs}{dies_after}", two_boots())
            sweep.of_boots = {knobs: Guest(dies_after=dies_after)}
            with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
                patch.setattr(Running, "_blamed", killed)
                sweep.run(patch)
            sweep.of_boots = {}
            run = sweep.run(monkeypatch)
            assert named(run) == whole
            assert {row.state for row in run.trials} == {"good"}


def test_a_boot_that_never_comes_up_takes_its_own_trials_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sweep = Sweep.begin(tmp_path, two_boots())
    sweep.of_boots = {"kernel=rt": Guest(dies_after=0)}
    run = sweep.run(monkeypatch)
    invalid = [row for row in run.trials if row.state == "invalid"]
    assert {(row.setting, row.boot_knobs) for row in invalid} == {
        (TESTER, "kernel=rt"),
        ("rt", "kernel=rt"),
    }
    assert {row.reason for row in invalid} == {
        "no testbed came up 3 times: guest panicked: Oops",
    }
    assert len(run.trials) - len(invalid) == 2 * 4
    # Nothing is left of it, either.
    assert keys(Sweep(run.folder, two_boots()).run(monkeypatch)) == keys(run)


def test_narrow_intervals_are_enough(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = experiment(least=2, most=9, width=0.05)
    run = Sweep.begin(tmp_path, wanted).run(monkeypatch)
    # Made-up guests are alike to the last packet.
    assert {row.block for row in run.trials} == {0, 1}
    [enough] = [event.model_dump() for event in run.journal if event.event == "enough"]
    assert enough["blocks"] == 2
    assert enough["reason"] == (
        "the scatter of rates and delays between blocks is within 5.00% of their means"
    )
    # Resumed, it has come to the same end.
    sweep = Sweep(run.folder, wanted)
    assert keys(sweep.run(monkeypatch)) == keys(run)


def test_a_block_that_has_begun_comes_to_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = experiment(least=2, most=3, width=0.05)
    sweep = Sweep.begin(tmp_path, wanted)
    with monkeypatch.context() as patch:
        # The first time, two blocks are not enough, and something breaks in the third.
        patch.setattr(timed.Timing, "enough", lambda self, blocks: None)
        sweep.guests = [Guest(), Guest(), Guest(dies_after=30)]
        patch.setattr(Running, "_blamed", killed)
        with pytest.raises(KeyboardInterrupt):
            sweep.run(patch)
    sweep.guests = [Guest()]
    run = sweep.run(monkeypatch)
    assert Counter(row.block for row in run.trials) == {0: 4, 1: 4, 2: 4}


@pytest.mark.parametrize(("minutes", "blocks"), [(0.0001, 1), (600.0, 3)])
def test_a_budget_ends_what_would_go_beyond_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, minutes: float, blocks: int
) -> None:
    # The budget comes before `least`.
    wanted = experiment(least=2, most=3, budget_minutes=minutes)
    run = Sweep.begin(tmp_path, wanted).run(monkeypatch)
    assert {row.block for row in run.trials} == set(range(blocks))
    said = [event.model_dump()["reason"] for event in run.journal if event.event == "enough"]
    assert said == ["another block would exceed the budget of 0.0001 min"][: 1 if blocks < 3 else 0]


def test_time_between_a_stop_and_its_resumption_is_not_spent() -> None:
    start = datetime(2025, 1, 1, tzinfo=UTC)
    times = [("began", 0), ("load", 60), ("failed", 61)]
    times += [("resumed", 9000), ("began", 9000), ("load", 9010)]
    events = [Event(at=start + timedelta(seconds=at), event=name) for name, at in times]
    assert spent(events) == 71
    assert spent([]) == 0


def test_time_until_boots_are_ready_is_not_spent() -> None:
    start = datetime(2025, 1, 1, tzinfo=UTC)
    times = [("created", 0), ("began", 1000), ("load", 1010)]
    # Killed, and resumed with kernels to build anew.
    times += [("resumed", 2000), ("began", 3000), ("load", 3005)]
    events = [Event(at=start + timedelta(seconds=at), event=name) for name, at in times]
    assert spent(events) == 15


def test_a_run_says_when_its_boots_were_ready(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Sweep.begin(tmp_path, experiment()).run(monkeypatch)
    assert [event.event for event in run.journal][:3] == ["created", "began", "attempt"]


@pytest.mark.parametrize("confirmed", [True, False])
def test_a_strict_rate_is_confirmed_by_a_long_trial(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, confirmed: bool
) -> None:
    measure = {"throughput": {"trials": 1, "confirm_seconds": 60}}
    wanted = Experiment.model_validate(
        {"name": "few", "question": "?", "measure": measure, "repeats": {"least": 1, "most": 1}}
    )

    class Tired(Guest):
        """Loses a packet of those of a long trial."""

        def offer(self, sending: Sending) -> Offered:
            offered = super().offer(sending)
            late = not confirmed and sending.seconds > 60
            return replace(offered, received=offered.received - late)

    run = Sweep.begin(tmp_path, wanted, Tired()).run(monkeypatch)
    for row in run.rows(FoundRow):
        strict = row.goal == "strict" and row.part == "whole"
        expected = (confirmed, 60.0) if strict else (None, None)
        assert (row.confirmed, row.confirm_seconds) == expected
    last = [row for row in run.rows(LoadRow) if row.purpose == "confirmation"]
    assert [row.seconds for row in last] == [60.0, 60.0]
    assert [row.setting for row in last if row.setting not in (BASELINE, AGAIN)] == []


def waiting(*_: object) -> Iterator[FakeSink]:
    yield FakeSink()


class FakeSink:
    """What pktsink would say of ten packets."""

    def end(self) -> ArrivalsDocument:
        text = json.dumps(made_up_arrivals.document([40_000] * 100))
        return ArrivalsDocument.model_validate_json(text)


RFC2544 = {
    "latency_seconds": 1,
    "latency_repeats": 2,
    "frame_loss_seconds": 1,
    "burst_seconds": 0.5,
    "burst_repeats": 2,
    "recovery_seconds": 2,
    "recovery_repeats": 3,
}


def rfc2544_experiment(**asked: object) -> Experiment:
    made = experiment().model_dump()
    throughput = {"seconds": 1.0, "trials": 1, "width": 0.02, "goals": ["strict"]}
    measure = {"throughput": throughput, "rfc2544": asked or RFC2544}
    return Experiment.model_validate(made | {"measure": measure})


@dataclass
class Buffered(Guest):
    """A guest whose router has a buffer, and loses packets for a second after each overload."""

    sendings: list[Sending] = field(default_factory=list)

    def offer(self, sending: Sending) -> Offered:
        self.sendings.append(sending)
        offered = super().offer(sending)
        missing = min(offered.sent - offered.received, 500)
        came = offered.received + (missing if offered.sent < 5_000 else 0)
        number = round(sending.rate * sending.after)
        step = Step(number, number, round(sending.after * 1e6)) if sending.then else None
        return replace(offered, received=came, forwarded=came, step=step)


def test_rfc2544s_other_tests_are_at_the_rate_that_was_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    guest = Buffered()
    losses = itertools.cycle([1.0, 0.0, None])

    @contextlib.contextmanager
    def counting(_: object, program: str, watched: Sink) -> Iterator[FakeSink]:
        assert program == "/made-up/pktsink"
        if watched.stamper is not None:
            # Frames from the middle of the stream on.
            assert watched.first is not None and watched.last is not None
            assert watched.last == round(watched.first * 1.04) - 1
            yield FakeSink()
            return
        last = next(losses)

        class Numbers(FakeSink):
            def end(self) -> ArrivalsDocument:
                found, sent = super().end(), guest.sendings[-1]
                lost = sent.rate * sent.after + (last or -1) * sent.then
                gap = Gap(begin_ns=0, end_ns=1, packets=1, sequence=round(lost) + 1)
                highest = sent.packets - (last is None)
                packets = found.packets.model_copy(update={"highest": highest})
                first = gap.model_copy(update={"sequence": 2})
                gaps = found.gaps.model_copy(update={"last": gap, "recorded": (first,)})
                return found.model_copy(update={"packets": packets, "gaps": gaps})

        yield Numbers()

    monkeypatch.setattr(rfc2544, "counting", counting)
    run = Sweep.begin(tmp_path, rfc2544_experiment(), guest).run(monkeypatch)
    assert {row.state for row in run.trials} == {"good"}
    [summary] = rfc2544_summary.of(run)
    assert {setting.setting for setting in summary.settings} == {BASELINE, AGAIN, "strict"}
    [throughput] = throughput_summary.of(run)
    for setting in summary.settings:
        truth = SLOW if setting.setting == "strict" else ROUTER
        rate = throughput.main.rate(setting.setting)
        assert rate is not None and rate.interval is not None
        assert setting.latency_ns is not None
        assert (setting.latency_ns.mean, setting.latency_ns.count) == (40_000, 2)
        assert setting.floor_ns is not None and setting.floor_ns.mean == 40_000
        # Down from what the tester carries, by tenths of it.
        most = GENERATOR * 0.99
        assert list(setting.loss)[:2] == [1.0, 0.9]
        assert setting.loss[1.0] == pytest.approx(100 * (1 - truth / most), abs=1)
        assert list(setting.loss.values())[-2:] == [0.0, 0.0]
        # Of a burst at that rate 500 packets wait, and the others were forwarded meanwhile.
        assert setting.burst is not None and setting.buffer_s is not None
        assert setting.burst.mean == pytest.approx(500 / (1 - truth / most), rel=0.05)
        assert setting.buffer_s.mean == pytest.approx(500 / most, rel=0.1)
        assert setting.recovery_s is not None
        # Of three repetitions one lost packets until the end.
        assert setting.recovery_s.mean == pytest.approx(0.5, rel=0.01)
        assert (setting.recovery_s.count, setting.lasting) == (2, 1)
    overloads = [row for row in run.rows(FigureRow) if row.test == "recovery"]
    assert {round(row.share or 0.0, 3) for row in overloads} == {1.1}
    assert Counter(row.purpose for row in run.rows(LoadRow)).keys() == {"search", "rfc2544"}
    assert all(row.part == "whole" for row in run.rows(FigureRow))
    assert any("packets were lost until the end" in said for said in findings.unseen(run))


def test_a_router_as_fast_as_the_tester_has_no_longest_burst(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = rfc2544_experiment(burst_seconds=0.5)
    run = Sweep.begin(tmp_path, wanted, Guest(generator=SLOW)).run(monkeypatch)
    [summary] = rfc2544_summary.of(run)
    assert [setting.missing("back-to-back") is None for setting in summary.settings] == [False] * 3
    assert any("is not faster than the router" in said for said in findings.unseen(run))


def lossy(**more: object) -> ArrivalsDocument:
    """What came of 3000 packets, of which 900 did not; the rate was changed after 2000."""
    found = FakeSink().end()
    gaps = {"last": gap_before(2501), "recorded": (gap_before(100),)}
    packets = {"distinct": 2100, "highest": 3000, "lost": 900, "last_lost": 2500} | more
    return found.model_copy(
        update={
            "packets": found.packets.model_copy(update=packets),
            "gaps": found.gaps.model_copy(update=gaps),
        }
    )


def gap_before(sequence: int) -> Gap:
    return Gap(begin_ns=0, end_ns=1, packets=1, sequence=sequence)


OFFERED = Offered(3000, 2100, 2100, 3_000_000)


@pytest.mark.parametrize(
    ("document", "offered", "last"),
    [
        (lossy(), OFFERED, 2500),
        # All but those before the change came in the end, if late.
        (lossy(last_lost=1500, reordered=500), OFFERED, 1500),
        (lossy(highest=2999), OFFERED, 3000),
        # What is not known of any more was lost, as nothing is reordered.
        (lossy(last_lost=0), OFFERED, 2500),
        (lossy(last_lost=0, reordered=1), OFFERED, 2000),
        (lossy(last_lost=0, reordered=1, highest=3_000_000), OFFERED, "which were lost"),
        (lossy(distinct=3000, lost=0), OFFERED, "it lost nothing$"),
        (lossy(merged=3), OFFERED, "3 packets stand for several"),
        (lossy(), replace(OFFERED, forwarded=2200), "the sink lost packets"),
        (lossy(), replace(OFFERED, refused=9), "before they had left the tester"),
    ],
)
def test_which_packet_was_lost_last_is_known_or_said_not_to_be(
    document: ArrivalsDocument, offered: Offered, last: int | str
) -> None:
    if isinstance(last, int):
        assert rfc2544._last_lost(document, offered, 2000) == last
    else:
        with pytest.raises(rfc2544.UntoldError, match=last):
            rfc2544._last_lost(document, replace(offered, sent=document.packets.highest), 2000)


def test_what_was_lost_only_after_the_change_is_no_overload() -> None:
    document = lossy()
    gaps = document.gaps.model_copy(update={"recorded": (gap_before(2400),)})
    with pytest.raises(rfc2544.UntoldError, match="until the change of rate"):
        rfc2544._last_lost(document.model_copy(update={"gaps": gaps}), OFFERED, 2000)


@pytest.mark.parametrize(
    ("counts", "percent"),
    [
        ((1000, 1000, 1000), 0.0),
        ((1000, 900, 900), 10.0),
        # What the sink lost the router did not.
        ((1000, 900, 800), 10.0),
        ((1000, 1000, 800), 0.0),
        ((700, 600, 600), None),
    ],
)
def test_frame_loss_is_the_routers(counts: tuple[int, int, int], percent: float | None) -> None:
    one = Trial(1000, 1.0, *counts)
    if percent is None:
        with pytest.raises(rfc2544.UntoldError, match="did not keep the load"):
            rfc2544._percent(one)
    else:
        assert rfc2544._percent(one) == percent


def test_what_goes_wrong_in_one_test_ends_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    @contextlib.contextmanager
    def counting(*_: object) -> Iterator[FakeSink]:
        raise UsageError("pktsink was not attached: it takes Linux 6.6")
        yield

    monkeypatch.setattr(rfc2544, "counting", counting)
    wanted = rfc2544_experiment(latency_seconds=1, frame_loss_seconds=1)
    run = Sweep.begin(tmp_path, wanted, Buffered()).run(monkeypatch)
    assert {row.state for row in run.trials} == {"good"}
    [summary] = rfc2544_summary.of(run)
    for setting in summary.settings:
        assert setting.loss
        missing = setting.missing("latency")
        assert missing is not None
        assert missing.reasons == ("pktsink was not attached: it takes Linux 6.6",)


def test_without_a_ceiling_the_most_is_what_the_tester_was_seen_to_send(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class NoLoop(Buffered):
        def offer(self, sending: Sending) -> Offered:
            if sending.tester:
                raise Unable("the tester has no loop")
            return super().offer(sending)

    wanted = rfc2544_experiment(frame_loss_seconds=1)
    run = Sweep.begin(tmp_path, wanted, NoLoop()).run(monkeypatch)
    [summary] = rfc2544_summary.of(run)
    for setting in summary.settings:
        assert setting.loss[1.0] > 10
        found = [row for row in run.rows(FigureRow) if row.setting == setting.setting]
        assert found[0].load > ROUTER * 1.05


def test_a_dry_run_has_one_of_each_of_rfc2544s_tests(tmp_path: Path) -> None:
    file = tmp_path / "few.toml"
    more = "".join(f"{name} = {value}\n" for name, value in RFC2544.items())
    file.write_text(f"{FILE.format(more='')}[measure.rfc2544]\n{more}")
    done = CliRunner().invoke(app, ["sweep", str(file), "--dry-run", "--scripts"])
    assert done.exit_code == 0, done.exception
    for words in (
        "pktsink --device s0 --netns sink --stamp g0 --stamp-netns generator --first 5000000 "
        "--last 5199999 --pass\n",
        "# RFC 2544, back-to-back, here as if 1e+07 packets/s were the throughput\n"
        f"offer whole {UDP} count=5000000 gap=100 limit=1 cpu=1\n",
        f"offer whole {UDP} count=33000000 gap=91 limit=4.5 cpu=1 'step=2 182'\n",
    ):
        assert words in done.stdout


def late_experiment(**measure: object) -> Experiment:
    made = experiment().model_dump()
    latency = {"rates": [50, 100], "seconds": 1.0}
    return Experiment.model_validate(made | {"measure": {"latency": latency} | measure})


def test_latency_is_measured_at_each_rate_of_each_setting_and_the_tester(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arriving, "counting", contextlib.contextmanager(waiting))
    sweep = Sweep.begin(tmp_path, late_experiment())
    run = sweep.run(monkeypatch)
    assert {row.state for row in run.trials} == {"good"}
    made = Counter((row.setting, row.measure, row.rate) for row in run.trials)
    assert made == Counter(
        (setting, "tester" if setting == TESTER else "latency", rate)
        for setting in (TESTER, BASELINE, AGAIN, "strict")
        for rate in (50, 100)
    )
    assert [
        (summary_of.rate, len(summary_of.delays), len(summary_of.testers))
        for summary_of in latency_summary.of(run)
    ] == [
        (50, 3, 1),
        (100, 3, 1),
    ]
    # 50 were sent in the second; what else came to the made-up sink does not make it less than 0.
    assert {row.lost for row in run.trials} == {0}
    assert {row.value for row in run.rows(CounterRow)} == {1}


@pytest.mark.parametrize("killed_first", [False, True])
def test_a_rate_that_the_tester_alone_does_not_send_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, killed_first: bool
) -> None:
    monkeypatch.setattr(arriving, "counting", contextlib.contextmanager(waiting))
    fast = round(2 * GENERATOR)
    wanted = late_experiment(latency={"rates": [50, fast], "seconds": 1.0})
    sweep = Sweep.begin(tmp_path, wanted)
    if killed_first:
        # Behind the tester: who resumes knows what it sent by the records alone.
        sweep.guests = [Guest(dies_after=5)]
        monkeypatch.setattr(Running, "_blamed", killed)
        with pytest.raises(KeyboardInterrupt):
            sweep.run(monkeypatch, sendable_only=True)
        sweep.guests = [Guest()]
    run = sweep.run(monkeypatch, sendable_only=True)
    states = {(row.setting, row.rate): row.state for row in run.trials}
    assert states == {
        (TESTER, 50): "good",
        (TESTER, fast): "good",
        **{(name, 50): "good" for name in (BASELINE, AGAIN, "strict")},
        **{(name, fast): "invalid" for name in (BASELINE, AGAIN, "strict")},
    }
    [why] = {row.reason for row in run.trials if row.state == "invalid"}
    assert why == "not possible here: the tester alone sends 200 000 of 400 000 packets/s"


def test_both_are_measured_where_both_are_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arriving, "counting", contextlib.contextmanager(waiting))
    wanted = late_experiment(throughput={"seconds": 1.0, "trials": 3, "width": 0.02})
    sweep = Sweep.begin(tmp_path, wanted)
    run = sweep.run(monkeypatch)
    measures = Counter(row.measure for row in run.trials)
    assert measures == Counter({"tester": 3, "latency": 6, "throughput": 3})
    assert len(throughput_summary.of(run)) == 1 and len(latency_summary.of(run)) == 2
    assert Progress.read(sweep.path).left(plan.make(wanted, ["kernel"]).boots[0]) == []


def measured(guest: Guest, rate: float, seconds: float = 1.0) -> Offered:
    trial = Offering(cast(Netns, guest), STREAM, False, USUAL).measure(rate, seconds)
    assert trial.forwarded is not None
    return Offered(trial.sent, trial.forwarded, trial.received, round(trial.took * 1e6))


def test_a_packet_of_the_kernels_own_makes_a_trial_anew() -> None:
    guest = Guest(strays=frozenset([1, 2]))
    assert measured(guest, 1000.0) == Offered(1000, 1000, 1000, 1_000_000)
    assert guest.offers == 3
    with pytest.raises(SkblabError, match="a trial's counts contradict each other"):
        measured(Guest(strays=frozenset([1, 2, 3])), 1000.0)


def test_a_trial_that_is_made_anew_is_in_the_journal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The fourth offer, after warming up, is the baseline's or the tester's first or second load.
    run = Sweep.begin(tmp_path, experiment(), Guest(strays=frozenset([4]))).run(monkeypatch)
    again = [event.model_dump() for event in run.journal if event.event == "again"]
    assert [event["received"] - event["sent"] for event in again] == [1]
    with pytest.warns(SkblabWarning, match="a load was offered again"):
        no_retries(run)


def test_the_search_is_asked_for_what_the_file_says() -> None:
    throughput = experiment().measure[Throughput]
    found = throughput.model_copy(update={"seconds": 0.25, "goals": ("pdr",)}).request()
    assert [(goal.name, goal.loss_ratio, goal.width) for goal in found.goals] == [
        ("PDR", 0.005, 0.02)
    ]
    assert (found.min_load, found.seconds, found.trials) == (8.0, 0.25, 3)
    assert round(found.min_load * found.seconds) == LEAST_PACKETS
    # pktgen reads a gap of ten digits.
    found = throughput.model_copy(update={"seconds": 3600.0}).request()
    call = NETNS.offering(Sending(STREAM, 3600, rate=found.min_load), 2)
    assert call.split()[6] == "gap=1000000000"


FILE = """
name = "few"
question = "Which?"
{more}
[[setting]]
name = "strict"
knobs = {{ rp_filter = 1 }}
[measure.throughput]
"""


def test_a_dry_run_has_the_first_load_of_each_search(tmp_path: Path) -> None:
    file = tmp_path / "few.toml"
    file.write_text(FILE.format(more=""))
    done = CliRunner().invoke(app, ["sweep", str(file), "--dry-run", "--scripts"])
    assert done.exit_code == 0
    for words in (
        "1 setting beside the baseline, 3 boots, 12 measurements, about ",
        "    0: tester, IPv4, 64 bytes, 1 flow",
        f"# warming up\noffer whole {UDP} count=20000000 limit=2 cpu=1\n",
        f"offer tester {UDP} count=2000 cpu=1  # fills the caches\n",
        f"  # fills the caches\noffer tester {UDP} count=10000000 gap=100 limit=1.5 cpu=1",
        f"offer whole {UDP} count=2000 cpu=1  # fills the caches\n",
        f"  # fills the caches\noffer whole {UDP} count=10000000 gap=100 limit=1.5 cpu=1",
        "ip netns exec router sh -ec 'echo 1 >/proc/sys/net/ipv4/conf/all/rp_filter; ",
    ):
        assert words in done.stdout


def test_a_dry_run_warms_up_only_if_a_run_does(tmp_path: Path) -> None:
    file = tmp_path / "few.toml"
    file.write_text(FILE.format(more="") + "[repeats]\nwarm_up_seconds = 0\n")
    done = CliRunner().invoke(app, ["sweep", str(file), "--dry-run", "--scripts"])
    assert done.exit_code == 0, done.exception
    assert "# warming up" not in done.stdout
    assert "count=2000 cpu=1  # fills the caches" in done.stdout


def test_a_dry_run_has_what_times_packets(tmp_path: Path) -> None:
    file = tmp_path / "few.toml"
    text = FILE.format(more="").replace("throughput", "latency")
    file.write_text(f"{text}rates = [100]\nseconds = 2\n")
    done = CliRunner().invoke(app, ["sweep", str(file), "--dry-run", "--scripts"])
    assert done.exit_code == 0, done.exception
    for words in (
        "    0: tester at 100/s, IPv4, 64 bytes, 1 flow",
        "pktsink --device s0 --netns sink --stamp g0 --stamp-netns generator --late 250us ",
        "--late 750us --run 2 --pass",
        f"offer whole {UDP} count=200 gap=10000000 limit=2.5 cpu=1 xmit=queue_xmit\n",
    ):
        assert words in done.stdout


def another_may_begin() -> bool:
    with (paths.cache() / "locks" / CPUS).open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True


SLOW_BASELINE = """
name = "few"
question = "Is the filter slow?"
[baseline]
rp_filter = 1
gro_flush_timeout = 20000
[[setting]]
name = "no filter"
knobs = { rp_filter = 0 }
[measure.throughput]
trials = 1
[repeats]
least = 2
most = 2
"""


def as_if_booted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, guest: object) -> Path:
    """Have nothing built or booted but a made-up guest; return an experiment file."""
    monkeypatch.setenv("SKBLAB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("SKBLAB_RESULTS", str(tmp_path / "results"))
    monkeypatch.setattr(Running, "_testbed", guest)
    monkeypatch.setattr(labroot, "ensure", lambda reporter: None)
    monkeypatch.setattr(kernel, "ensure", lambda *_: SimpleNamespace(changes=None))
    monkeypatch.setattr(inputs, "inputs", lambda *_: {})
    monkeypatch.setattr(machines, "describe", lambda *_: synthetic_run.environment())
    monkeypatch.setattr(sweep, "gnuplot", lambda root: fake_gnuplot)
    file = tmp_path / "few.toml"
    file.write_text(SLOW_BASELINE)
    return file


@pytest.mark.parametrize("how", [[], ["--exact"]], ids=["timed", "exact"])
def test_a_sweep_in_guests_has_this_machine_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: list[str]
) -> None:
    alone: list[bool] = []

    @contextlib.contextmanager
    def guest(*_: object) -> Iterator[tuple[Netns, Applier]]:
        alone.append(not another_may_begin())
        raise GuestError("it never came up")
        yield

    file = as_if_booted(tmp_path, monkeypatch, guest)
    CliRunner().invoke(app, ["sweep", str(file), *how])
    assert alone and all(alone)
    assert another_may_begin()


def test_a_user_sees_rates_the_best_and_how_to_set_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    guests = [Guest(dies_after=40)]

    @contextlib.contextmanager
    def guest(*_: object) -> Iterator[tuple[Netns, Applier]]:
        # Another one would wait, whether it is timed or not.
        assert not another_may_begin()
        yield cast(Netns, guests[0]), cast(Applier, guests[0])

    file = as_if_booted(tmp_path, monkeypatch, guest)
    # Its guest goes away, and nobody says that it died.
    broken = CliRunner().invoke(app, ["sweep", str(file)])
    assert isinstance(broken.exception, TransportError)
    [folder] = (tmp_path / "results").iterdir()
    assert load(folder).document.state == "failed"
    guests[0] = Guest()
    done = CliRunner().invoke(app, ["resume", str(folder)])
    assert done.exit_code == 0, done.exception
    shown = done.stdout.replace(FIXED_SPACE, " ")
    for words in (
        "Throughput, strict (packets/s, IPv4, 64 bytes, 1 flow)",
        "no filter",
        "tester alone",
        "Set this, the best first:\n  1. no filter: throughput +4",
        "     sysctl -w net.ipv4.conf.all.rp_filter=0 net.ipv4.conf.DEVICE.rp_filter=0",
        f"Report: {folder / 'report' / 'index.html'}",
    ):
        assert words in shown
    run = load(folder)
    assert {row.state for row in run.trials} == {"good"}
    assert run.document.plan.again == f"./skblab sweep {file} --flavour stock"
    assert run.document.plan.settings == ("baseline", "baseline again", "no filter")
    assert run.document.plan.traffic == ("IPv4, 64 bytes, 1 flow",)
    assert {command.setting for command in run.document.commands} == {"no filter"}
    # The baseline's knobs are of it, too.
    commands = [command.command for command in run.document.commands]
    assert ["rp_filter" in command for command in commands] == [True, False]
    assert "echo 20000 >/sys/class/net/r0/gro_flush_timeout" in commands[1]
    assert "forwards 49.7 % more packets" in findings.headline(run).replace(FIXED_SPACE, " ")
    again = CliRunner().invoke(app, ["resume", str(folder)])
    assert isinstance(again.exception, UsageError)
