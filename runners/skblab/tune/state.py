# SPDX-License-Identifier: GPL-2.0-or-later
"""How far a tune has come: `tune.json` in its folder, from which it is resumed."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Literal

from pydantic import Field

from skblab.knobs.boot import STOCK
from skblab.lab.kernel import names
from skblab.sweep import kept as keeping
from skblab.sweep.experiment import Experiment
from skblab.sweep.request import EXPERIMENT, MACHINES, Request
from skblab.sweep.request import read as read_experiment
from skblab.testbeds import hostsfile
from skblab.tune import deriving
from skblab.tune.asked import Asked
from skblab.tune.choosing import Goal
from skblab.tune.stages import STAGES, StageName
from skblab_analysis.base import disk
from skblab_analysis.base.checked import Closed, read
from skblab_analysis.base.errors import UsageError

FILE = "tune.json"


class Swept(Closed):
    """A stage that has begun: the folder of its run, beside that of the tune."""

    stage: StageName
    run: str = Field(default="", description="empty: it was refused before it had one")
    failed: str = Field(default="", description="why it came to no result; empty: it did not fail")


class TuneState(Closed):
    """The whole of `tune.json`."""

    schema_: Literal["skblab.tune-state/1"] = Field(default="skblab.tune-state/1", alias="schema")
    file: str = Field(description="as it was typed; the folder has a copy")
    goal: Goal
    minutes: float
    testbed: str
    hosts: str | None
    flavour: str
    kernel: str
    swept: tuple[Swept, ...] = ()
    finished: bool = False


class Progress:
    """The state of the tune in a folder, kept there whenever it changes."""

    def __init__(self, folder: Path, state: TuneState) -> None:
        self.folder, self.state = folder, state

    @classmethod
    def begin(cls, folder: Path, asked: Asked, found: Experiment) -> Progress:
        """Write down what was asked for, in the folder of a new tune."""
        request = asked.request
        disk.write(folder / EXPERIMENT, deriving.text(found))
        keeping.keep(folder, found.rules)
        if (machines := request.machines) is not None:
            text = machines.model_dump_json(by_alias=True, indent=2)
            disk.write(folder / MACHINES, text)
        state = TuneState(
            file=asked.file,
            goal=asked.goal,
            minutes=asked.minutes,
            testbed=request.testbed,
            hosts=None if request.hosts is None else str(request.hosts.resolve()),
            flavour=request.flavour,
            kernel=str(request.kernel),
        )
        made = cls(folder, state)
        made._write(state)
        return made

    @classmethod
    def open(cls, folder: Path) -> Progress:
        """Go on with the tune in a folder; UsageError if it has ended, or is none."""
        if not (folder / FILE).is_file():
            raise UsageError(
                f"--resume {folder}: it has no {FILE}; expected the folder of a tune, "
                "results/tune-NAME-TIME"
            )
        made = cls(folder, read(TuneState, folder / FILE, "the state of a tune"))
        if made.state.finished:
            raise UsageError(
                f"--resume {folder}: it has ended, and its advice is there; to tune again: "
                f"{made.again}"
            )
        return made

    @property
    def again(self) -> str:
        """The command that does the same again."""
        state = self.state
        words = ["./skblab tune", shlex.quote(state.file), f"--for {state.goal}"]
        words += [f"--minutes {state.minutes:g}", f"--testbed {state.testbed}"]
        words += [] if state.hosts is None else [f"--hosts {shlex.quote(state.hosts)}"]
        if state.hosts is None:
            words += [] if state.flavour == STOCK else [f"--flavour {state.flavour}"]
            words += names.parse(state.kernel).words
        return " ".join(words)

    def asked(self) -> tuple[Asked, Experiment]:
        """Return what was asked for; UsageError if it cannot be had as it was."""
        state = self.state
        hosts = None if state.hosts is None else Path(state.hosts)
        request = Request(
            state.file,
            state.goal == "instructions",
            None,
            state.testbed,
            hosts,
            state.flavour,
            names.parse(state.kernel),
        )
        if (now := request.machines) is not None:
            before = read(hostsfile.HostsFile, self.folder / MACHINES, "the machines of a tune")
            if now != before:
                raise UsageError(
                    f"--resume {self.folder}: {state.hosts} names other machines or ports than "
                    f"when it began ({self.folder / MACHINES}); to start again: {self.again}"
                )
        found = read_experiment(str(self.folder / EXPERIMENT))
        return Asked(state.file, state.goal, state.minutes, request), found

    @property
    def has_runs(self) -> bool:
        """Whether any sweep is there, with whatever it has measured."""
        runs = (one.run for one in self.state.swept if one.run)
        return any((self.folder.parent / run).is_dir() for run in runs)

    def of(self, stage: str) -> Swept | None:
        """Return what is known of a stage; None if it has not begun."""
        return next((one for one in self.state.swept if one.stage == stage), None)

    def began(self, stage: StageName, run: Path) -> None:
        """Note the run of a stage, which begins."""
        self._note(Swept(stage=stage, run=run.name))

    def failed(self, stage: StageName, why: str) -> None:
        """Note that a stage came to no result, and that the tune goes on without it."""
        there = self.of(stage) or Swept(stage=stage)
        self._note(there.model_copy(update={"failed": why}))

    def succeeded(self, stage: StageName) -> None:
        """Note that a stage has a result, which had none before."""
        if (there := self.of(stage)) and there.failed:
            self._note(there.model_copy(update={"failed": ""}))

    def why_not(self, stage: str) -> str:
        """Return why a stage came to no result, if a later one has begun without it."""
        there = self.of(stage)
        later = STAGES[STAGES.index(stage) + 1 :]
        return there.failed if there and any(map(self.of, later)) else ""

    def end(self) -> None:
        """Note that there is nothing to go on with."""
        self._write(self.state.model_copy(update={"finished": True}))

    def _note(self, swept: Swept) -> None:
        others = [one for one in self.state.swept if one.stage != swept.stage]
        every = sorted((*others, swept), key=lambda one: STAGES.index(one.stage))
        self._write(self.state.model_copy(update={"swept": tuple(every)}))

    def _write(self, state: TuneState) -> None:
        text = state.model_dump_json(by_alias=True, indent=1)
        disk.write(self.folder / FILE, f"{text}\n")
        self.state = state
