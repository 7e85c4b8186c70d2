# SPDX-License-Identifier: GPL-2.0-or-later
"""Where a run's trials are: a testbed for each boot of its plan, in guests or on hosts."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from pydantic import BaseModel

from skblab.knobs.boot import Start
from skblab.lab import store
from skblab.lab.guest import GuestSpec
from skblab.lab.guest.errors import GuestError
from skblab.lab.labroot import Bind, LabRoot
from skblab.lab.reporter import Reporter
from skblab.machine.device import Machine
from skblab.machine.environment import describe, describe_guest
from skblab.machine.guest import Guest
from skblab.sweep import booting
from skblab.sweep.booting import Booting
from skblab.sweep.experiment import Experiment
from skblab.sweep.planned import Boot
from skblab.testbeds import GuestKind, Testbed, inventory
from skblab_analysis.base.errors import SkblabError
from skblab_analysis.formats.run import Environment
from skblab_analysis.formats.run import Guest as GuestRecord
from skblab_analysis.runfolder import RunFolder
from skblab_analysis.trials.rows import Clock

# The journal's event that says what a boot is.
MACHINE = "machine"


class _Described(BaseModel):
    """What it says."""

    boot: str
    guest: GuestRecord
    router: dict[str, str]


class Machines(Protocol):
    """What a testbed comes up in, boot by boot."""

    def undo_of(self, boot: Boot) -> Path:
        """Return the file with what puts settings back: as long as they may be there, so is it."""

    @property
    def keeps(self) -> bool:
        """Whether its machines stay as they are when a testbed goes down."""

    def up(self, boot: Boot, log: Path) -> AbstractContextManager[Testbed]:
        """Have a testbed for a boot of the plan; GuestError if its machines do not come up."""

    def describe(self, boot: Boot, testbed: Testbed) -> None:
        """Have it on record what a boot is, whose testbed is prepared."""

    @property
    def machine(self) -> Machine:
        """The device under test, as it was last up."""

    def environment(self) -> Environment | None:
        """Return what the figures depend on, as far as it is known by now."""

    def check(self) -> None:
        """Raise SkblabError if the machines are not ours any more: no further trial may begin."""

    def stop(self) -> None:
        """Have all testbeds that are up, in any thread, be lost at once."""


class Boots(Protocol):
    """The guest that a method needs."""

    @property
    def clock(self) -> Clock:
        """What all its figures are taken by."""

    @property
    def shares(self) -> Sequence[Bind]:
        """Folders that it needs in its guests."""

    def spec(self, begins: Start) -> GuestSpec:
        """Return the guest that it needs, for a boot that begins so."""


@dataclass
class Guests:
    """Guests of ours: each boot is of new ones, and what was set in them goes with them."""

    kind: GuestKind
    experiment: Experiment
    method: Boots
    boots: Booting
    labroot: LabRoot
    folder: RunFolder
    reporter: Reporter
    keeps: bool = False
    # What each way of booting was, by its knobs, and those that are in the journal.
    _booted: dict[str, GuestRecord] = field(default_factory=dict)
    _described: set[str] = field(default_factory=set)

    def undo_of(self, boot: Boot) -> Path:
        """Return the file with what puts settings back, in the run's folder."""
        knobs = [store.digest([str(boot)])] if boot.knobs else []
        return self.folder.path / f"{'-'.join(['undo', str(boot.block + 1), *knobs])}.jsonl"

    @property
    def machine(self) -> Machine:
        """The device under test."""
        return self.kind.machine(self.kind.cpus(self.experiment))

    @contextlib.contextmanager
    def up(self, boot: Boot, log: Path) -> Iterator[Testbed]:
        """Have guests booted with a boot's knobs."""
        # Settings die with their guest.
        self.undo_of(boot).unlink(missing_ok=True)
        begins = self.boots.start(boot)
        up = self.kind.up(
            self.experiment,
            self.method.spec(begins).model_copy(update={"sample": boot.block}),
            self.boots.kernel_of(boot),
            self.boots.first,
            self.labroot,
            self.method.shares,
            log,
        )
        with up as (guest, testbed):
            try:
                if str(boot) not in self._booted:
                    self._booted[str(boot)] = describe_guest(guest)
                if wrong := booting.begin(guest.transport, begins):
                    self.reporter.say(f"{begins}: {wrong}")
            except SkblabError as error:
                # It is of no more use, though it may live.
                raise GuestError(str(error)) from error
            yield testbed

    def describe(self, boot: Boot, testbed: Testbed) -> None:
        """Have it in the journal what a boot is, the first time: a kill takes nothing of it."""
        name = str(boot)
        if name not in self._described:
            router = inventory.read(testbed.transport, testbed.machine)
            record = self._booted[name].model_dump(mode="json")
            self.folder.journal(MACHINE, boot=name, guest=record, router=dict(router))
            # Side by side it may be there twice.
            self._described.add(name)

    def environment(self) -> Environment:
        """Return what the figures depend on; of boots with knobs what is not as without them."""
        seen: dict[str, _Described] = {}
        for event in self.folder.events(MACHINE):
            described = event.told(_Described)
            seen.setdefault(described.boot, described)
        if not seen:
            return describe(self.boots.first, {})
        first = seen.get("") or next(iter(seen.values()))
        more = self.boots.others()
        for boot, described in seen.items():
            more |= {
                f"router {name}{f', with {boot}' if boot else ''}": value
                for name, value in described.router.items()
                if described is first or value != first.router.get(name)
            }
        guests = {self.method.clock: first.guest}
        known = describe(self.boots.first, guests)
        return known.model_copy(update={"more": {**known.more, **more}})

    def check(self) -> None:
        """Nothing: guests are ours."""

    def stop(self) -> None:
        """Have all guests end."""
        Guest.end_all()
