# SPDX-License-Identifier: GPL-2.0-or-later
"""A sweep from its plan to the end of its run: what it needs is built, and all of it measured."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from skblab.jobs.elsewhere import Elsewhere
from skblab.knobs.base import Knob
from skblab.knobs.onlyhere import why_only_here
from skblab.knobs.registry import KNOBS
from skblab.knobs.rules import is_file
from skblab.knobs.values import Value, words
from skblab.lab import portable, store, tools
from skblab.lab.labroot import Bind, LabRoot
from skblab.lab.reporter import Reporter
from skblab.machine.device import Machine
from skblab.machine.environment import keep_changes
from skblab.machine.recording import recording
from skblab.sweep import booting, inputs, kept, remote
from skblab.sweep.dryrun import setting
from skblab.sweep.experiment import NETFILTER, Experiment, Setting, differing, knobs_of
from skblab.sweep.hostmachines import HostMachines, our_sender, remembered, require_sink
from skblab.sweep.machines import Guests, Machines
from skblab.sweep.measure.base import Program
from skblab.sweep.measure.exact import Counting
from skblab.sweep.measure.timed import Timing
from skblab.sweep.measures import programs
from skblab.sweep.plan import Plan
from skblab.sweep.progress import Progress
from skblab.sweep.remote import Distributed, Nodes
from skblab.sweep.request import MACHINES, Parameters
from skblab.sweep.running import Method, Running
from skblab.testbeds import GUESTS, HOSTS, KINDS
from skblab_analysis.formats.run import Command, Environment, OnlyHere
from skblab_analysis.load import Run, load
from skblab_analysis.runfolder import RunFolder

# The lock of sweeps in guests: side by side they would share CPUs, and both look good.
CPUS = "sweep-in-guests"
_Guests = TypeVar("_Guests", bound=Guests)


def alone(run: Path, reporter: Reporter) -> AbstractContextManager[None]:
    """Hold the lock of a run's folder."""
    return store.locked(f"run-{run.resolve().name}", reporter)


def run(
    plan: Plan,
    folder: RunFolder,
    root: LabRoot,
    reporter: Reporter,
    better: Callable[[Run], Sequence[str]],
    *,
    resumed: bool,
    go_on: bool = True,
    elsewhere: Elsewhere | None = None,
) -> None:
    """Measure what the run in a folder lacks, and finish it.

    `go_on`: where it breaks off, say how to go on with it. `better` names its settings that are
    better than the baseline by something. `elsewhere` has the boots of one that counts measured.
    """
    sweep: Prepared | Distributed
    if elsewhere is None:
        sweep = prepared(plan, folder, root, reporter)
    else:
        sweep = distributed(plan, folder, root, reporter, elsewhere)
    if resumed:
        folder.resume()
    with recording(folder, sweep.machines.environment, reporter, resumes=True, go_on=go_on):
        sweep.measure()
    environment = sweep.machines.environment()
    assert environment is not None
    machine = sweep.machines.machine
    made = commands(plan.experiment, machine, better(load(folder.path)))
    # A guest that counts has fewer CPUs than one that is timed.
    counted = replace(machine, cpus=Parameters.of(folder).cpus) if plan.exact else machine
    # Nobody's own router is a testbed that others have not.
    guests = KINDS[Parameters.of(folder).testbed].boots
    only_here = _only_here(plan.experiment, counted) if guests else ()
    folder.finish(
        environment, reporter.timings, commands=made, only_here=only_here, gaps=sweep.gaps
    )


@dataclass(frozen=True)
class Prepared:
    """A sweep of which all is there: what it measures, in which machines; no other may run."""

    running: Running
    machines: Machines
    only_one: AbstractContextManager[None]
    gaps: Sequence[str]

    def measure(self) -> None:
        """Measure what its run lacks."""
        title = self.running.method.title
        with self.only_one, self.running.reporter.step(title):
            self.running.run(self.machines)


def prepared(plan: Plan, folder: RunFolder, root: LabRoot, reporter: Reporter) -> Prepared:
    """Build what a run needs, and see how far it is; UsageError if it began with something else."""
    asked = Parameters.of(folder)
    kind = KINDS[asked.testbed]
    progress = Progress.read(folder.path)
    method: Method
    if plan.exact:
        repeats = plan.experiment.repeats
        method = Counting(
            *(folder, reporter, asked.packets, repeats.budget_minutes),
            boots=len(plan.boots) // repeats.most,
            cpus=asked.cpus,
        )
    else:
        needed = programs(plan.experiment.measure)
        shares = (Bind(tools.ensure_probe(root, reporter), "tools"),) if needed else ()
        cpus = kind.cpus(plan.experiment)
        sendable = asked.minutes is not None
        method = Timing(
            *(plan.experiment, folder, reporter, cpus), shares=shares, sendable_only=sendable
        )
    # Before anything of the run is touched: one of another kernel stays as it was.
    machines, only_one = _machines(plan, asked, method, folder, root, reporter)
    running = Running(plan, method, folder, reporter, progress, machines.check)
    return Prepared(running, machines, only_one, (*kind.gaps, *method.gaps))


def distributed(
    plan: Plan, folder: RunFolder, root: LabRoot, reporter: Reporter, elsewhere: Elsewhere
) -> Distributed:
    """Build the kernels of a run that counts, and see how far it is; UsageError as `prepared`."""
    remote.require(plan)
    asked = Parameters.of(folder)
    method = Counting(folder, reporter, asked.packets, cpus=asked.cpus)
    nodes = _guests(Nodes, plan, asked, method, folder, root, reporter)
    gaps = (*nodes.kind.gaps, *method.gaps)
    return Distributed(plan, Progress.read(folder.path), elsewhere, nodes, gaps)


def _guests(
    made: type[_Guests],
    plan: Plan,
    asked: Parameters,
    method: Method,
    folder: RunFolder,
    root: LabRoot,
    reporter: Reporter,
) -> _Guests:
    """Build the kernels of a run in guests; UsageError if it began with something else."""
    boots = booting.ensure(plan, asked.flavour, root, reporter, asked.name)
    inputs.check(folder, inputs.inputs(plan, boots, root, method.shares))
    for built in boots.kernels.values():
        keep_changes(folder, built)
    kind = GUESTS[asked.testbed]
    return made(kind, plan.experiment, method, boots, root, folder, reporter)


def _machines(
    plan: Plan,
    asked: Parameters,
    method: Method,
    folder: RunFolder,
    root: LabRoot,
    reporter: Reporter,
) -> tuple[Machines, AbstractContextManager[None]]:
    """Return what has a run's testbeds, and what keeps others from them; kernels are built now.

    UsageError if the run began with something else.
    """
    if KINDS[asked.testbed] is HOSTS:
        file = remembered(folder.path / MACHINES)
        require_sink(file, plan.experiment)
        inputs.check(folder, inputs.files(plan) | {"hosts": file.key})

        def same(found: Environment) -> None:
            inputs.check(folder, inputs.machines(found), inputs.MACHINES)

        bundles = _bundles(plan.experiment, root, reporter)
        sender = our_sender(root, reporter)
        job = folder.path.resolve().name
        hosts = HostMachines(file, plan.experiment, reporter, sender, bundles, same, job=job)
        return hosts, hosts.alone()
    guests = _guests(Guests, plan, asked, method, folder, root, reporter)
    return guests, store.locked(CPUS, reporter, "that has this machine's CPUs for a sweep")


def _bundles(experiment: Experiment, root: LabRoot, reporter: Reporter) -> dict[Program, Path]:
    """Return our programs as hosts need them, if any are to be there."""
    if not (needed := programs(experiment.measure)):
        return {}
    there = tools.ensure_probe(root, reporter)
    return {program: portable.ensure(root, there / program.name, reporter) for program in needed}


def commands(experiment: Experiment, machine: Machine, names: Sequence[str]) -> list[Command]:
    """Return the commands that make settings so on the router."""
    return [
        Command(where="the router", command=command, setting=chosen.name, by_hand=by_hand)
        for chosen in sorted(
            (one for one in experiment.settings() if one.name in names),
            key=lambda one: names.index(one.name),
        )
        for command, by_hand in _making(experiment, chosen, machine)
    ]


def _making(experiment: Experiment, chosen: Setting, machine: Machine) -> Iterator[tuple[str, str]]:
    """Yield what sets each knob of a setting, and how a person does it who has the baseline."""
    own, catalogue = differing(experiment, chosen), experiment.catalogue
    for name, value in knobs_of(experiment, chosen).items():
        knob = catalogue[name]
        by_hand = f"{'# boot ' if knob.boot else ''}{knob.by_hand(value)}" if name in own else ""
        if knob.boot:
            made = by_boot({name: value})
        elif of_file := _of_file(name, value, knob):
            made = [of_file]
        else:
            made = setting(machine, {name: value}, catalogue)
        for command in made:
            yield command, by_hand


def _of_file(name: str, value: Value, knob: Knob) -> str:
    """Return what makes a setting of a file, without the text of it; empty for other values.

    The text may be of megabytes, and would be there once for each setting that has it.
    """
    if name == NETFILTER and isinstance(value, str) and is_file(value):
        return shlex.join(["nft", "-f", kept.name(value)])
    if name in inputs.OF_FILES and isinstance(value, str):
        return f"# {knob.by_hand(value)}"
    return ""


def _only_here(experiment: Experiment, machine: Machine) -> list[OnlyHere]:
    """Return the settings whose effect is one of this machine."""
    return [
        OnlyHere(setting=setting.name, reason=why)
        for setting in experiment.settings()
        if (why := why_only_here(machine, differing(experiment, setting)))
    ]


def by_boot(knobs: Mapping[str, Value]) -> list[str]:
    """Return a comment that says which of these knobs a boot sets, if any."""
    chosen = words({name: value for name, value in knobs.items() if KNOBS[name].boot})
    return [f"# boot it with {chosen}"] if chosen else []
