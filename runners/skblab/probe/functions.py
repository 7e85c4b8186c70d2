# SPDX-License-Identifier: GPL-2.0-or-later
"""A run of the function probe: attached to a target, attended until it is over, and recorded."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import get_args

from skblab.lab import kernel, paths, tools
from skblab.lab.labroot import LabRoot
from skblab.lab.reporter import Reporter
from skblab.machine.environment import keep_changes
from skblab.machine.reading import until_asked
from skblab.machine.recording import begins, recording
from skblab.machine.watch import Watch
from skblab.probe import environment, loads, targets
from skblab.probe.attached import attached
from skblab.probe.attending import attend, saying
from skblab.probe.guests import guest_of_ours
from skblab.probe.loads import Traffic
from skblab.probe.request import check_seconds
from skblab.probe.targets import Target
from skblab_analysis.base import disk
from skblab_analysis.base.checked import RefusedError, parse
from skblab_analysis.base.errors import UsageError
from skblab_analysis.formats.bylayer import BEGIN
from skblab_analysis.formats.functimes import FILE, By, FunctimesDocument
from skblab_analysis.formats.heard import reason
from skblab_analysis.formats.pathlat import COUNTING
from skblab_analysis.formats.run import Plan
from skblab_analysis.runfolder import RunFolder

PROGRAM = "funclat"
# As funclat has it.
MOST = 64
# Fentry where the kernel takes it, else function graph.
AUTO = "auto"
# What was counted so far is written as often.
EVERY = 1.0
WHAT = "the document of functions"


@dataclass(frozen=True)
class Tracing:
    """What is asked of the probe: functions that must be there, and those that may be.

    `every`: a document each so many seconds, besides the last one. `by` is what times them; None:
    fentry where the kernel takes it, else function graph.
    """

    names: tuple[str, ...]
    optional: tuple[str, ...] = ()
    seconds: float | None = None
    every: float | None = None
    verbose: bool = False
    by: By | None = None

    @classmethod
    def of(
        cls,
        names: Sequence[str],
        layers: Sequence[str],
        seconds: float | None,
        by: str = AUTO,
        *,
        verbose: bool,
    ) -> Tracing:
        """Return it for names and those that begin layers; UsageError if it cannot be."""
        chosen = next((one for one in get_args(By) if one == by), None)
        if chosen is None and by != AUTO:
            raise UsageError(f"--by {by}: expected {', '.join(get_args(By))} or {AUTO}")
        for layer in layers:
            if layer not in BEGIN:
                raise UsageError(f"--layer {layer}: expected one of {', '.join(BEGIN)}")
        for name in names:
            if name.startswith("-") or not name.strip():
                raise UsageError(f"{name!r}: expected the name of a kernel function")
            if names.count(name) > 1:
                raise UsageError(f"{name}: given twice")
        of_layers = dict.fromkeys(name for layer in layers for name in BEGIN[layer])
        optional = tuple(name for name in of_layers if name not in names)
        if not names and not optional:
            raise UsageError("which functions? Expected names, such as udp_rcv, or --layer socket")
        if len(names) + len(optional) > MOST:
            raise UsageError(
                f"{len(names) + len(optional)} functions: expected no more than {MOST} at a time"
            )
        check_seconds(seconds)
        return cls(tuple(names), optional, seconds, verbose=verbose, by=chosen)

    def options(self) -> list[str]:
        """Return it as the probe's command line."""
        found = [*self.names]
        for name in self.optional:
            found += ["--optional", name]
        for option, value in (("--seconds", self.seconds), ("--interval", self.every)):
            if value is not None:
                found += [option, f"{value:.15g}"]
        if self.by is not None:
            found += ["--by", self.by]
        return [*found, "--verbose"] if self.verbose else found


@dataclass(frozen=True)
class Traced:
    """A run that came to its end."""

    folder: RunFolder
    document: FunctimesDocument


@dataclass
class Written:
    """Where documents go as they come: nowhere before there is a run folder."""

    exact: bool
    show: Callable[[FunctimesDocument], None]
    folder: RunFolder | None = field(default=None)

    def __call__(self, text: str) -> None:
        """Take what was counted so far: what is shown is of no one moment."""
        document = self.read(text, counting=True)
        self.write(document)
        self.show(document)

    def read(self, text: str, *, counting: bool = False) -> FunctimesDocument:
        """Return the document that a text is."""
        document = parse(FunctimesDocument, text, WHAT, context=COUNTING if counting else None)
        return document.model_copy(update={"unit": "instructions"}) if self.exact else document

    def write(self, document: FunctimesDocument) -> None:
        """Have it in the run folder in the place of an earlier one."""
        if self.folder is not None:
            text = document.model_dump_json(by_alias=True, indent=1)
            disk.write(self.folder.path / FILE, text + "\n")


@dataclass(frozen=True)
class Asked:
    """What is timed: `tracing`, with `sending` in a guest with the kernel `chosen`, or `on`.

    `again` is the command that asks for it. `exact`: the guest's clock counts instructions.
    """

    on: str
    ssh_config: Path | None
    tracing: Tracing
    sending: Traffic | None
    chosen: kernel.Request
    again: str
    exact: bool = False

    def run(
        self, root: LabRoot, reporter: Reporter, show: Callable[[FunctimesDocument], None]
    ) -> Traced:
        """Time functions until it is over, and have it recorded in a run folder of its own.

        `show` is called with what was counted so far.
        """
        watch = Watch()
        written = Written(self.exact, show)
        # Writing takes instructions of the guest, which has one CPU then.
        every = None if self.exact else EVERY
        tracing = replace(self.tracing, every=every)
        with contextlib.ExitStack() as stack:
            target = stack.enter_context(self._target(root, reporter))
            # Before the way to it is closed.
            stack.callback(watch.end)
            known = environment.describe(target)
            asked = stack.enter_context(until_asked())
            probing = stack.enter_context(attached(target, tracing, written, reporter.say))
            # Not before: what the probe refuses is no run.
            written.folder = folder = RunFolder.create(paths.results(), "functions", self.plan())
            if target.built is not None:
                keep_changes(folder, target.built)
            begins(folder, watch, **{target.name: target.kernel_log(reporter)})
            with recording(folder, lambda: known, reporter):
                names = len(tracing.names) + len(tracing.optional)
                what = f"timing {names} functions"
                reporter.say(saying(what, target, self.sending, tracing.seconds))
                text, _ = attend(probing, target, self.sending, reporter, asked)
                if said := watch.look():
                    folder.heard_apart(said, "while functions were timed")
                    raise RefusedError(f"a kernel complained meanwhile: {reason(said)}")
                document = written.read(text)
                written.write(document)
            folder.finish(known, reporter.timings)
        if said := watch.look():
            folder.heard_apart(said, "after the run")
            reporter.say(f"after the run: {reason(said)}")
        return Traced(folder, document)

    def _target(self, root: LabRoot, reporter: Reporter) -> AbstractContextManager[Target]:
        if self.sending is not None:
            return guest_of_ours(
                *(self.chosen, root, reporter, lambda target: loads.prepare(target.transport)),
                exact=self.exact,
                program=PROGRAM,
            )
        program = tools.ensure_probe(root, reporter) / PROGRAM
        return targets.machine(self.on, root, program, reporter, self.ssh_config)

    def plan(self) -> Plan:
        """Return what is asked as a run folder has it."""
        sending = self.sending
        return Plan(
            experiment="functions",
            question="How long do calls of these kernel functions take?",
            seed=0,
            packets=sending.packets if sending else None,
            again=self.again,
            parameters={
                "on": self.on,
                "functions": " ".join((*self.tracing.names, *self.tracing.optional)),
                **({"load": str(sending.load)} if sending else {}),
            },
        )
