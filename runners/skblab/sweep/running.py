# SPDX-License-Identifier: GPL-2.0-or-later
"""A sweep: what exact and timed ones have in common, in guests and on hosts.

Each boot of the plan has a testbed of its own (see machines.py). In it the tester comes first, then
setting by setting is applied, read back, measured and looked at again: what is measured while its
setting was not there from beginning to end is invalid. A guest that dies, or does not answer in
time, is thrown away and booted again (a host is waited for), and goes on behind what killed it once
that was tried twice. A way of booting that never comes up is invalid, and others go on. What is
measured while a kernel of the testbed complains is invalid, too. How it is measured is a Method's.
"""

from __future__ import annotations

import contextlib
import itertools
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

from pydantic import JsonValue

from skblab.knobs.applying import Applied, Applier, NotPutBackError, applying
from skblab.knobs.base import Unable
from skblab.knobs.boot import Start
from skblab.knobs.values import Value, text
from skblab.lab.guest import GuestSpec
from skblab.lab.guest.errors import GuestError
from skblab.lab.labroot import Bind
from skblab.lab.reporter import Reporter, Update
from skblab.machine import counters
from skblab.machine.transport import TransportError
from skblab.machine.watch import Watch, heard_of
from skblab.sweep.budget import fitting
from skblab.sweep.machines import Machines
from skblab.sweep.measure.base import DisturbedError
from skblab.sweep.parallel import side_by_side
from skblab.sweep.plan import Plan
from skblab.sweep.planned import Boot, Measurement, SettingMeasurements
from skblab.sweep.progress import DEATHS, Key, Progress, record_invalid
from skblab.testbeds import CableError, Testbed
from skblab_analysis.base.checked import RecordError, RefusedError
from skblab_analysis.base.errors import SkblabError, one_line
from skblab_analysis.base.words import counted
from skblab_analysis.formats.heard import Heard, reason
from skblab_analysis.runfolder import RunFolder
from skblab_analysis.settings.rows import ReadBack
from skblab_analysis.trials.rows import NOT_POSSIBLE, Clock
from skblab_analysis.work import rows as work

# A guest that dies before anything was attempted in it will not come up the next time either.
BOOTS = 3
# Of a measurement, as long as something else disturbs it.
ATTEMPTS = 3


class Method(Protocol):
    """What is measured of a trial, and how."""

    @property
    def clock(self) -> Clock:
        """What all its figures are taken by."""

    @property
    def title(self) -> str:
        """What it does, in one word for the user."""

    @property
    def gaps(self) -> Sequence[str]:
        """What it cannot see, in sentences."""

    @property
    def best(self) -> object:
        """The best setting so far, in words once printed."""

    @property
    def at_once(self) -> int:
        """How many testbeds may be up at once: more than one only if none disturbs another."""

    @property
    def shares(self) -> Sequence[Bind]:
        """Folders that it needs in its guests."""

    def spec(self, begins: Start) -> GuestSpec:
        """Return the guest that it needs, for a boot that begins so."""

    def warm_up(self, testbed: Testbed) -> None:
        """Do what a guest needs before its first trial."""

    def ready(self, measurement: Measurement, testbed: Testbed) -> None:
        """Fill the caches before a measurement; it is in no figure."""

    def measure(self, key: Key, measurement: Measurement, testbed: Testbed) -> Callable[[], None]:
        """Measure; what is returned records it, if its setting is still there."""

    def unable(self, knobs: Mapping[str, Value]) -> str | None:
        """Return why a setting with these knobs cannot be measured so, in words; None if it can."""

    def enough(self, blocks: int) -> str | None:
        """Return why these blocks, at least one, are enough; None if more are to be measured.

        An experiment has `least` blocks of its own accord, and fewer if its budget is spent.
        """


@dataclass
class Running:
    """A run: what is measured how, where it is recorded, how far it has come."""

    plan: Plan
    method: Method
    folder: RunFolder
    reporter: Reporter
    progress: Progress
    # Raises SkblabError if no further trial may begin, as the machines are not ours any more.
    may_begin: Callable[[], None] = lambda: None
    # What follows is of several threads: `_lock` is for all of it, and for what is above.
    _lock: threading.RLock = field(default_factory=threading.RLock, init=False)
    _stopping: threading.Event = field(default_factory=threading.Event, init=False)
    _enough: bool = field(default=False, init=False)
    _let_in: set[int] = field(default_factory=set, init=False)
    # Blocks that are measured as far as it is known now: those that the bar counts.
    _expected: set[int] = field(default_factory=set, init=False)
    # How many measurements each block has.
    _counts: Counter[int] = field(init=False)
    _logs: Iterator[int] = field(init=False)

    def __post_init__(self) -> None:
        # Those of guests before, of a run that is resumed, stay.
        there = self.folder.logs.glob(f"{self._log_name}-*.log")
        numbers = [int(log.stem.rpartition("-")[2]) for log in there]
        self._logs = itertools.count(max(numbers, default=-1) + 1)
        self._counts = Counter(boot.block for boot, _, _ in self.plan.measurements())

    def run(self, machines: Machines) -> None:
        """Measure all trials that are still to do; GuestError if no testbed comes up."""
        self.folder.journal("began")
        at_once = min(self.method.at_once, len(self.plan.boots))
        # The first block is measured whatever it takes.
        fit = max(1, fitting(self.plan, at_once))
        self._expected = {
            block for block in self._counts if block < fit or self.progress.begun(block)
        }
        with self.reporter.bar(self.method.title, self._total) as done:
            jobs = [partial(self._boot, boot, machines, done) for boot in self.plan.boots]

            def stop() -> None:
                self._stopping.set()
                machines.stop()

            side_by_side(jobs, at_once, stop)

    @property
    def _total(self) -> int:
        """How many measurements there are, of the blocks that are expected."""
        return sum(self._counts[block] for block in self._expected)

    def _boot(self, boot: Boot, machines: Machines, done: Update) -> None:
        """Measure what is still to do of a boot, in as many testbeds as that takes."""
        with self._lock:
            if self._over(boot.block):
                self._show(done)
                return
            self._spent(boot)
        failures = 0
        while not self._stopping.is_set() and (settings := self.progress.left(boot)):
            with self._lock:
                before = self.progress.attempted(boot)
            try:
                with self._testbed(machines, boot) as testbed:
                    for setting in settings:
                        if self._stopping.is_set():
                            return
                        self._setting(boot, setting, *testbed)
                        self._show(done)
            except GuestError as death:
                if self._stopping.is_set():
                    # It was not the trial's fault.
                    return
                with self._lock:
                    failures = failures + 1 if self.progress.attempted(boot) == before else 0
                    if not self._blamed(boot, death) and failures >= BOOTS:
                        if not boot.knobs:
                            raise
                        # This way of booting is at fault, and others are not.
                        self._give_up(boot, death)
                        self._show(done)
                    # Whatever a further testbed makes good has to be seen all the same.
                    why = one_line(str(death))
                    self.folder.journal("another", block=boot.block, boot=str(boot), reason=why)
                self.reporter.say(f"{one_line(str(death))}; a new testbed continues")

    def _show(self, done: Update) -> None:
        with self._lock:
            done(len(self.progress), str(self.method.best), self._total)

    def _over(self, block: int) -> bool:
        """Whether no block from this one on is needed. One that has begun comes to its end."""
        if self._enough:
            return True
        if block == 0 or block in self._let_in or self.progress.begun(block):
            return False
        why = self.method.enough(block)
        if why is None:
            # Its other boots ask while the first one still comes up.
            self._let_in.add(block)
            self._expected.add(block)
            return False
        self.folder.journal("enough", blocks=block, reason=why)
        most = self.plan.experiment.repeats.most
        self.reporter.say(f"the sweep ends after {block} of {counted(most, 'block')}: {why}")
        self._enough = True
        self._expected = {known for known in self._expected if known < block}
        return True

    @contextlib.contextmanager
    def _testbed(self, machines: Machines, boot: Boot) -> Iterator[tuple[Testbed, Applier]]:
        with self._lock:
            log = self.folder.logs / f"{self._log_name}-{next(self._logs)}.log"
        watch, when = Watch(), "before the first trial"
        try:
            with machines.up(boot, log) as testbed, _given_up(TransportError):
                watch = testbed.watch
                with _given_up(SkblabError):
                    testbed.prepare(self.plan.experiment.traffic)
                    machines.describe(boot, testbed)
                    self.method.warm_up(testbed)
                    self._heard_apart(boot, watch.look(), when)
                    when = "after the last trial"
                try:
                    undo = machines.undo_of(boot)
                    with applying(
                        testbed.transport,
                        testbed.machine,
                        undo,
                        self.plan.experiment.catalogue,
                    ) as applier:
                        yield testbed, applier
                except NotPutBackError as left:
                    if machines.keeps:
                        raise
                    self.reporter.say(str(left))
        except GuestError as death:
            if not watch.sources:
                # It never came up.
                self._heard_apart(boot, heard_of(death), when)
            raise
        finally:
            # Also of one that broke off, whose trial may get no row.
            self._heard_apart(boot, watch.look(), when)

    def _heard_apart(self, boot: Boot, found: Sequence[Heard], when: str) -> None:
        """Record what kernels complained of in a boot, and not in a trial that ended."""
        if not found:
            return
        with self._lock:
            of = f"block {boot.block + 1}{f', {boot}' if boot.knobs else ''}"
            where, setting = f"{when} of a boot ({of})", ""
            if key := self.progress.current(boot):
                setting = key.setting
                what = f"{setting}, {key.traffic}, {key.measure}"
                where = f"in an attempt that broke off ({what}, {of})"
            self.folder.heard_apart(found, where, setting)
        self.reporter.say(f"{where}: {reason(found)}")

    def _give_up(self, boot: Boot, death: GuestError) -> None:
        """Have what is left of a boot that never comes up recorded as such."""
        for key in self.progress.missing(boot):
            self._invalid(key, f"no testbed came up {BOOTS} times: {one_line(str(death))}")

    def _spent(self, boot: Boot) -> None:
        """Have what killed guests often enough recorded as such, where skblab died before that."""
        for key in self.progress.missing(boot):
            if self.progress.spent(key):
                self._invalid(key, f"its testbed was lost {DEATHS} times")

    @property
    def _log_name(self) -> str:
        return f"console-{self.method.clock}"

    def _blamed(self, boot: Boot, death: GuestError) -> bool:
        """Note a trial that killed its guest; if for the last time, have it recorded as such."""
        key = self.progress.current(boot)
        if key is None:
            return False
        why = one_line(str(death))
        self.folder.journal("death", **key.words(), reason=why)
        self.progress.die(key)
        if not self.progress.spent(key):
            return False
        self._invalid(key, f"its testbed was lost {DEATHS} times: {why}")
        return True

    def _setting(
        self, boot: Boot, setting: SettingMeasurements, testbed: Testbed, applier: Applier
    ) -> None:
        waiting = self.progress.waiting(boot, setting)
        self._begin(waiting[0][0], setting)
        applied: list[Applied] = []
        try:
            if why := self.method.unable(setting.knobs):
                raise Unable(why)
            applied = applier.apply(setting.knobs)
            if wrong := _wrong(applied):
                raise SkblabError(wrong)
        except TransportError:
            raise
        except SkblabError as refusal:
            for key, _ in waiting:
                self._invalid(key, _why(refusal), testbed.watch.look(), applied)
            return
        for number, (key, measurement) in enumerate(waiting):
            if number:
                self._begin(key, setting)
            self._measure(key, measurement, testbed, applier, applied)

    def _begin(self, key: Key, setting: SettingMeasurements) -> None:
        self.may_begin()
        knobs = {name: _plain(value) for name, value in setting.knobs.items()}
        with self._lock:
            self.folder.journal("attempt", **key.words(), knobs=knobs)
            self.progress.attempt(key)

    def _measure(
        self,
        key: Key,
        measurement: Measurement,
        testbed: Testbed,
        applier: Applier,
        applied: list[Applied],
    ) -> None:
        measured = False
        try:
            record, counted = self._undisturbed(key, measurement, testbed)
            measured = True
            after = applier.look(applied)
            heard = testbed.watch.look()
        except TransportError:
            raise
        except SkblabError as failure:
            applier.forget()
            # A knob that has gone since was possible.
            why = str(failure) if measured else _why(failure)
            self._invalid(key, why, testbed.watch.look())
            return
        with self._lock:
            if wrong := _wrong(after):
                self._invalid(key, wrong, heard, after)
                return
            self.folder.known(map(_read_back, after))
            self.folder.known(counted)
            self.folder.heard(heard)
            # What is refused is recorded as invalid, and says so.
            with contextlib.suppress(RefusedError, RecordError):
                record()
            self.progress.end(key)

    def _undisturbed(
        self, key: Key, measurement: Measurement, testbed: Testbed
    ) -> tuple[Callable[[], None], list[work.Counter]]:
        """Return what records a measurement, and what the kernel counted meanwhile."""

        def attempt() -> tuple[Callable[[], None], list[work.Counter]]:
            self.method.ready(measurement, testbed)
            before = testbed.counters()
            record = self.method.measure(key, measurement, testbed)
            return record, counters.difference(before, testbed.counters())

        for _ in range(ATTEMPTS - 1):
            try:
                return attempt()
            except DisturbedError as disturbed:
                with self._lock:
                    self.folder.journal("disturbed", **key.words(), reason=str(disturbed))
        return attempt()

    def _invalid(
        self, key: Key, why: str, heard: Sequence[Heard] = (), found: Sequence[Applied] = ()
    ) -> None:
        with self._lock:
            self.folder.heard(heard)
            self.folder.known(map(_read_back, found))
            record_invalid(self.folder, self.method.clock, key, why)
            self.progress.end(key)


@contextlib.contextmanager
def _given_up(kind: type[SkblabError]) -> Iterator[None]:
    """Turn such an error into a GuestError: the guest is of no more use, though it may live.

    No further testbed has its cables elsewhere.
    """
    try:
        yield
    except (GuestError, CableError):
        raise
    except kind as error:
        raise GuestError(str(error)) from error


def _why(error: SkblabError) -> str:
    """Return why a trial is left out: skipped, if it is not possible here, or invalid."""
    return f"{NOT_POSSIBLE if isinstance(error, Unable) else ''}{error}"


def _wrong(found: Sequence[Applied]) -> str:
    """Return which settings are not as they were to be, in words; empty if all are."""
    said = (
        f"{reading.knob}: is {reading.after}, expected {reading.wanted}"
        for reading in found
        if reading.invalid
    )
    return "; ".join(said)


def _plain(value: Value) -> JsonValue:
    return list(value) if isinstance(value, tuple) else value


def _read_back(reading: Applied) -> ReadBack:
    return ReadBack(
        knob=reading.knob,
        value=text(reading.value),
        before=reading.before,
        wanted=reading.wanted,
        after=reading.after,
    )
