# SPDX-License-Identifier: GPL-2.0-or-later
"""A run of the layer probe: attached to a target, attended until it is over, and recorded."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from skblab.lab import kernel, paths, tools
from skblab.lab.labroot import LabRoot
from skblab.lab.reporter import Reporter
from skblab.machine.environment import keep_changes
from skblab.machine.reading import Reading, until_asked
from skblab.machine.recording import begins, recording, watched
from skblab.machine.watch import Watch
from skblab.probe import environment, loads, targets
from skblab.probe.attending import attend, saying
from skblab.probe.backends import Probing, attached
from skblab.probe.guests import guest_of_ours
from skblab.probe.loads import Sent, Traffic
from skblab.probe.request import BPF, Request, limits
from skblab.probe.targets import Target
from skblab_analysis.base import disk
from skblab_analysis.base.checked import parse
from skblab_analysis.base.errors import SkblabError
from skblab_analysis.formats.heard import reason
from skblab_analysis.formats.pathlat import PathlatDocument
from skblab_analysis.formats.run import Environment, Plan
from skblab_analysis.formats.scripts import ScriptsDocument
from skblab_analysis.runfolder import RunFolder
from skblab_analysis.trials.rows import Clock

Document = PathlatDocument | ScriptsDocument
# Has what shows a document of the probe, and the request with as many as are shown.
Showing = Callable[[Request], AbstractContextManager[tuple[Callable[[str], None], Request]]]


@dataclass(frozen=True)
class Timed:
    """A run that came to its end: its folder, the probe's document as text and read, its target.

    `roles`: who sent and who read, by process id, where a load of ours was sent.
    """

    folder: RunFolder
    text: str
    document: Document
    target: Target
    roles: Mapping[int, str]


@dataclass(frozen=True)
class Asked:
    """What is timed: `sending` in a guest of ours with the kernel `chosen`, or `on` a machine.

    `max_unaccounted` in per cent of the packets; `again` is the command that asks for it. `exact`:
    the guest's clock counts instructions.
    """

    on: str
    ssh_config: Path | None
    backend: str
    request: Request
    sending: Traffic | None
    chosen: kernel.Request
    max_unaccounted: float
    again: str
    exact: bool = False

    @property
    def clock(self) -> Clock:
        """What times are by."""
        return "exact" if self.exact else "wall"

    def run(self, root: LabRoot, reporter: Reporter, showing: Showing) -> Timed:
        """Time packets until it is over, and have it recorded in a run folder of its own."""
        watch = Watch()
        with contextlib.ExitStack() as stack:
            target = stack.enter_context(self._target(root, reporter))
            # Before the way to it is closed.
            stack.callback(watch.end)
            known = environment.describe(target)
            asked = stack.enter_context(until_asked())
            request = self._of_source(target)
            show, request = stack.enter_context(showing(request))
            probing = stack.enter_context(self._probing(target, request, root, reporter, show))
            # Not before: what the probe refuses is no run.
            folder = RunFolder.create(paths.results(), "layers", self._plan())
            if target.built is not None:
                keep_changes(folder, target.built)
            begins(folder, watch, **{target.name: target.kernel_log(reporter)})
            with recording(folder, lambda: known, reporter):
                with watched(folder, watch, self.clock):
                    document, sent = self._attend(probing, target, reporter, asked)
                found = self._record(folder, document)
            folder.finish(known, reporter.timings, gaps=list(limits(self.request)))
        if said := watch.look():
            folder.heard_apart(said, "after the trial")
            reporter.say(f"after the trial: {reason(said)}")
        return Timed(folder, document, found, target, sent.roles if sent else {})

    def run_in(self, folder: RunFolder, root: LabRoot, reporter: Reporter) -> Environment:
        """Time known packets in a guest as a trial of another run; return what it depends on.

        Its ledger has what sender and receiver say. logs/ has the console, and a script by hand.
        """
        assert self.sending is not None
        watch = Watch()
        with watched(folder, watch, self.clock), contextlib.ExitStack() as stack:
            log = folder.logs / f"console-{self.clock}.log"
            target = stack.enter_context(self._target(root, reporter, log))
            known = environment.describe(target)
            request = self._of_source(target)
            by_hand = self.sending.by_hand([target.program, *request.options()])
            disk.write(folder.logs / "layers.sh", by_hand)
            begins(folder, watch, **{target.name: target.kernel_log(reporter)})
            there = self._probing(target, request, root, reporter, lambda text: None)
            probing = stack.enter_context(there)
            document, sent = self._attend(probing, target, reporter, lambda: False)
        if sent is None or sent.documents is None:
            raise SkblabError("the probe ended before all packets were sent")
        said = sent.documents
        folder.record_probe(document, self.max_unaccounted, clock=self.clock, said=said)
        return known

    def _of_source(self, target: Target) -> Request:
        return targets.of_source(target, self.request) if self.backend == BPF else self.request

    def _target(
        self, root: LabRoot, reporter: Reporter, log: Path | None = None
    ) -> AbstractContextManager[Target]:
        if self.sending is not None:
            return guest_of_ours(
                *(self.chosen, root, reporter, lambda target: loads.prepare(target.transport), log),
                exact=self.exact,
            )
        program = tools.ensure_probe(root, reporter) / "pathlat"
        return targets.machine(self.on, root, program, reporter, self.ssh_config)

    @contextlib.contextmanager
    def _probing(
        self,
        target: Target,
        request: Request,
        root: LabRoot,
        reporter: Reporter,
        show: Callable[[str], None],
    ) -> Iterator[Probing]:
        with (
            targets.stamps_for(target, request.source),
            attached(self.backend, target, request, root, reporter, show) as probing,
        ):
            yield probing

    def _plan(self) -> Plan:
        sending = self.sending
        return Plan(
            experiment="layers",
            question="Where does the time of packets go, layer by layer?",
            seed=0,
            packets=sending.packets if sending else None,
            again=self.again,
            parameters={"on": self.on, **({"load": str(sending.load)} if sending else {})},
        )

    def _attend(
        self, probing: Probing, target: Target, reporter: Reporter, asked: Callable[[], bool]
    ) -> tuple[str, Sent | None]:
        """Return the last document, and what was sent, if all of it was."""
        # pathlat ends by itself, and knows better when its time began.
        seconds = self.request.seconds
        ends = isinstance(probing, Reading)
        reporter.say(saying("timing packets", target, self.sending, seconds))
        return attend(probing, target, self.sending, reporter, asked, None if ends else seconds)

    def _record(self, folder: RunFolder, document: str) -> Document:
        if self.backend != BPF:
            said = parse(ScriptsDocument, document, "the scripts' document")
            folder.record_scripts(said.scripts, self.max_unaccounted)
            return said
        folder.record_probe(document, self.max_unaccounted, clock=self.clock)
        return parse(PathlatDocument, document, "the probe's document")
