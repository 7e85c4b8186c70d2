# SPDX-License-Identifier: GPL-2.0-or-later
"""A sweep in `exact` mode: instructions per packet of every setting, in guests that count them.

Each block of the plan is a boot of its own. In it the tester is calibrated first, then setting by
setting is turned, read back, counted and looked at again: a trial whose setting was not there from
beginning to end is void. A guest that dies is booted again, and goes on behind what killed it once
that was tried twice.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass

from pydantic import JsonValue

from skblab import kernel
from skblab.boot import make_spec
from skblab.environment import describe_guest
from skblab.errors import GuestError, SkblabError, one_line
from skblab.guest import Guest
from skblab.labroot import LabRoot
from skblab.reporter import Reporter
from skblab.sweep.experiment import Value
from skblab.sweep.knobs.base import Unable
from skblab.sweep.knobs.turning import Turned, Turner, turning
from skblab.sweep.plan import TESTER, Boot, Change, Plan, Trial
from skblab.sweep.progress import ATTEMPTS, Key, Progress
from skblab.sweep.testbeds.netns import Netns
from skblab.transport import TransportError
from skblab_analysis.errors import RefusedError
from skblab_analysis.exact import ExactTrial
from skblab_analysis.records import RunFolder
from skblab_analysis.run import Guest as GuestRecord

PACKETS = 20_000
# They fill the caches of memory, routes and neighbours.
WARM_UP = 2_000
# pktgen reports elapsed microseconds; the guest's clock ticks once per instruction (1 ns).
INSTRUCTIONS_PER_US = 1000
# A guest that dies before anything was attempted in it will not come up the next time either.
BOOTS = 3


@dataclass
class Counting:
    """A run in exact mode: where it is recorded, how far it has come, and how its guests ran."""

    plan: Plan
    packets: int
    folder: RunFolder
    reporter: Reporter
    progress: Progress
    guest: GuestRecord | None = None

    def run(self, built: kernel.Kernel, labroot: LabRoot) -> None:
        """Count all trials that are still to do; GuestError if no guest comes up."""
        total = sum(1 for _ in self.plan.trials())
        with self.reporter.bar("counting", total) as done:
            for boot in self.plan.boots:
                failures = 0
                while changes := self.progress.left(boot):
                    before = len(self.progress)
                    try:
                        with self._guest(built, labroot) as guest:
                            for change in changes:
                                self._change(boot, change, *guest)
                                done(len(self.progress))
                    except GuestError as death:
                        failures = failures + 1 if len(self.progress) == before else 0
                        if not self._blamed(death) and failures >= BOOTS:
                            raise
                        self.reporter.say(f"{one_line(str(death))}; another one goes on")

    @contextlib.contextmanager
    def _guest(self, built: kernel.Kernel, labroot: LabRoot) -> Iterator[tuple[Netns, Turner]]:
        # Those of guests before, of a run that is resumed, stay.
        number = len(list(self.folder.logs.glob("console-exact-*.log")))
        log = self.folder.logs / f"console-exact-{number}.log"
        spec = make_spec(exact=True, flavour=built.record.flavour)
        undo = self.folder.path / "undo.jsonl"
        # Settings die with their guest.
        undo.unlink(missing_ok=True)
        with Guest.boot(spec, built, labroot, log=log) as guest:
            self.guest = self.guest or describe_guest(guest)
            testbed = Netns(guest.transport, guest.spec.cpus)
            testbed.prepare()
            with turning(guest.transport, testbed.machine, undo) as turner:
                yield testbed, turner

    def _blamed(self, death: GuestError) -> bool:
        """Have a trial that killed its guest for the last time recorded as such."""
        key = self.progress.current
        if key is None or not self.progress.spent(key):
            return False
        self._void(key, f"the guest died {ATTEMPTS} times: {one_line(str(death))}")
        return True

    def _change(self, boot: Boot, change: Change, testbed: Netns, turner: Turner) -> None:
        waiting = [
            (key, trial)
            for trial in change.trials
            if self.progress.todo(key := Key.of(boot, change, trial))
        ]
        self._begin(waiting[0][0], change)
        try:
            turned = turner.turn(change.knobs)
        except TransportError:
            raise
        except SkblabError as refusal:
            why = "not possible here: " if isinstance(refusal, Unable) else ""
            for key, _ in waiting:
                self._void(key, f"{why}{refusal}")
            return
        for number, (key, trial) in enumerate(waiting):
            if number:
                self._begin(key, change)
            self._count(key, trial, testbed, turner, turned)

    def _begin(self, key: Key, change: Change) -> None:
        self.folder.journal(
            "attempt",
            setting=key.setting,
            block=key.block,
            traffic=key.traffic,
            knobs={name: _plain(value) for name, value in change.knobs.items()},
        )
        self.progress.attempt(key)

    def _count(
        self, key: Key, trial: Trial, testbed: Netns, turner: Turner, turned: list[Turned]
    ) -> None:
        tester = key.setting == TESTER
        try:
            testbed.offer(trial.stream, WARM_UP, tester=tester)
            offered = testbed.offer(trial.stream, self.packets, tester=tester)
            after = turner.look(turned)
        except TransportError:
            raise
        except SkblabError as failure:
            self._void(key, str(failure))
            return
        self.folder.journal(
            "settings",
            setting=key.setting,
            block=key.block,
            traffic=key.traffic,
            settings=[_words(one) for one in after],
        )
        if wrong := [one for one in after if one.void]:
            said = (f"{one.knob}: is {one.after}, expected {one.wanted}" for one in wrong)
            self._void(key, "; ".join(said))
            return
        with contextlib.suppress(RefusedError):
            # That is recorded as void, with what was refused.
            self.folder.record_counted(
                ExactTrial(
                    setting=key.setting,
                    part="tester" if tester else "whole",
                    boot=key.block,
                    packets=offered.tried,
                    delivered=offered.received,
                    instructions=offered.microseconds * INSTRUCTIONS_PER_US,
                    traffic=key.traffic,
                )
            )
        self.progress.end(key)

    def _void(self, key: Key, reason: str) -> None:
        self.folder.record_void("exact", key.setting, reason, boot=key.block, traffic=key.traffic)
        self.progress.end(key)


def _plain(value: Value) -> JsonValue:
    return list(value) if isinstance(value, tuple) else value


def _words(one: Turned) -> JsonValue:
    return {
        "knob": one.knob,
        "value": str(one.value),
        "before": one.before,
        "wanted": one.wanted,
        "after": one.after,
    }
