# SPDX-License-Identifier: GPL-2.0-or-later
"""A sweep as a user asks for it: what is checked of that, planned, and kept in its run folder."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from skblab.jobs.model import Engine
from skblab.knobs.boot import STOCK
from skblab.knobs.registry import KNOBS
from skblab.lab import paths
from skblab.lab.guest.spec import MOST_EXACT_CPUS
from skblab.lab.kernel import names
from skblab.lab.kernel.lines import DEFAULT, PATCHED
from skblab.lab.kernel.names import Name
from skblab.sweep import booting, kept, shorter
from skblab.sweep import experiment as experiments
from skblab.sweep import plan as plans
from skblab.sweep.budget import fitting, refusal, told
from skblab.sweep.dryrun import commands, order, overview
from skblab.sweep.experiment import BASELINE, Experiment, faults
from skblab.sweep.measure.exact import PACKETS, guests_at_once, uncountable
from skblab.sweep.measures import measures
from skblab.sweep.plan import Plan
from skblab.testbeds import HOSTS, KINDS, NETNS, Kind, hostsfile
from skblab.testbeds.hostsfile import HostsFile
from skblab_analysis.base import disk
from skblab_analysis.base.certainty import AGAIN
from skblab_analysis.base.checked import parse
from skblab_analysis.base.errors import UsageError
from skblab_analysis.base.tomlfile import complaint
from skblab_analysis.base.whole import Positive
from skblab_analysis.base.words import counted, rough_time
from skblab_analysis.formats import published_study
from skblab_analysis.formats.published_study import Published, PublishedStudy
from skblab_analysis.formats.run import Plan as PlanRecord
from skblab_analysis.runfolder import RunFolder

# In the folder of a run: its experiment file, and the machines of one on hosts.
EXPERIMENT, MACHINES = "experiment.toml", "hosts.json"
SHIPPED = paths.tree() / "runners" / "experiments"
NAMED = Name()


@dataclass(frozen=True)
class Request:
    """A sweep as it is asked for; `packets` are those of each exact trial, None for the usual.

    `cpus` are those of a guest that counts instructions, `minutes` a budget instead of the file's,
    `scale` how much longer or shorter trials are. With a `store` its boots are tasks, which run
    `on` something. UsageError if its options contradict each other.
    """

    file: str
    exact: bool = False
    packets: int | None = None
    testbed: str = NETNS.name
    hosts: Path | None = None
    flavour: str = STOCK
    kernel: Name = NAMED
    cpus: int | None = None
    minutes: float | None = None
    scale: float | None = None
    store: Path | None = None
    on: Engine | None = None

    def __post_init__(self) -> None:
        if self.store is not None:
            require_exact(exact=self.exact)
            if self.minutes is not None:
                raise UsageError(
                    f"--minutes {self.minutes:g} is of this machine's time; with --store all "
                    "blocks are counted: the experiment's repeats.most says how many"
                )
        if self.packets is not None and not self.exact:
            raise UsageError(
                f"--packets {self.packets} needs --exact; on the wall clock a trial lasts "
                "measure.throughput.seconds"
            )
        if self.cpus is not None and not self.exact:
            raise UsageError(
                f"--cpus {self.cpus} needs --exact; on the wall clock the experiment says "
                f"needs.cpus = {self.cpus}"
            )
        if self.scale is not None and self.exact:
            raise UsageError(
                f"--scale {self.scale:g} is for trials on the wall clock; with --exact, --packets "
                "says how long a trial is"
            )
        if self.exact and not self.kind.exact:
            raise UsageError(
                f"--exact counts the instructions of one guest, and {self.testbed} has several: "
                f"use --testbed {NETNS.name}"
            )
        if (self.kind is HOSTS) != (self.hosts is not None):
            raise UsageError(
                "--testbed hosts needs --hosts FILE, which names the machines"
                if self.hosts is None
                else f"--hosts {self.hosts} is for --testbed hosts, and the testbed is "
                f"{self.testbed}"
            )
        if not self.kind.boots and (self.flavour != STOCK or self.kernel != NAMED):
            raise UsageError(
                "--flavour and --kernel choose the kernel of guests; skblab never changes the "
                "kernel of your hosts"
            )

    @property
    def kind(self) -> Kind:
        """The kind of testbed."""
        return KINDS[self.testbed]

    @property
    def at_once(self) -> int:
        """How many boots run side by side, as far as this machine has room for now."""
        return guests_at_once() if self.exact else 1

    @property
    def machines(self) -> HostsFile | None:
        """The hosts file, read; None in guests."""
        return None if self.hosts is None else hostsfile.read(self.hosts)

    def plan(self) -> Plan:
        """Return the plan of its experiment file; UsageError if it does not say what to measure."""
        found = read(self.file)
        if not self.exact and not measures(found.measure):
            raise UsageError(
                f"{self.file}: it does not say what to measure on the wall clock: write "
                "[measure.throughput], which searches the highest rate; or count instructions "
                "with --exact"
            )
        asked = _in_time(found, self.times, self.minutes)
        return make_plan(asked, exact=self.exact, cpus=self.exact_cpus(found))

    @cached_property
    def times(self) -> float:
        """How many times as long as its file says its trials are: found by making many plans."""
        scale = self.scale or 1.0
        if self.exact or self.minutes is None:
            return scale
        asked = shorter.scaled(read(self.file), scale)
        fits = shorter.share(
            asked, self.minutes, lambda fewest: make_plan(fewest, exact=False).seconds()
        )
        return round(scale * fits, 4)

    @property
    def typed(self) -> str:
        """The command that asks for it."""
        words = ["./skblab sweep", shlex.quote(self.file)]
        words += ["--exact"] if self.exact else []
        words += [] if self.packets is None else [f"--packets {self.packets}"]
        words += [] if self.cpus is None else [f"--cpus {self.cpus}"]
        words += [] if self.scale is None else [f"--scale {self.scale:g}"]
        words += [] if self.minutes is None else [f"--minutes {self.minutes:g}"]
        words += [] if self.kind is NETNS else [f"--testbed {self.testbed}"]
        words += [] if self.hosts is None else [f"--hosts {shlex.quote(str(self.hosts))}"]
        words += [] if self.flavour == STOCK else [f"--flavour {self.flavour}"]
        words += self.kernel.words
        return " ".join([*words, *self._many])

    @property
    def _many(self) -> list[str]:
        """The options of one whose boots are tasks."""
        words = [] if self.store is None else [f"--store {shlex.quote(str(self.store))}"]
        return words + ([] if self.on is None else [f"--on {self.on}"])

    def dry_run(self, *, scripts: bool = False) -> Iterator[str]:
        """Yield the plan, how long it takes and what it sets, line by line.

        With `scripts`, the order of all measurements and every script that would be sent.
        """
        _, plan = self.machines, self.plan()
        experiment, measurements = plan.experiment, list(plan.measurements())
        at_once = self.at_once
        cut = fitting(plan, at_once) < experiment.repeats.most
        yield f"{experiment.name}: {experiment.question}"
        yield (
            f"plan {plan.digest}: {counted(len(experiment.settings()), 'setting')} beside the "
            f"baseline, {counted(len(plan.boots), 'boot')}, "
            f"{counted(len(measurements), 'measurement')}, "
            f"about {rough_time(plan.seconds(at_once=at_once))}{' for all blocks' if cut else ''}"
        )
        yield from self.told(plan)
        if self.kernel != NAMED:
            yield f"kernel: {self.kernel}"
        for why in (refusal(plan, at_once), self.unbuildable(plan)):
            if why:
                yield f"it cannot run: {why}"
        if self.exact and (cpus := self.exact_cpus(experiment)) != 1:
            yield f"CPUs of each guest: {cpus}"
        for wrong in self._unable(experiment):
            yield f"in {self.kind.where} it cannot run: {wrong}"
        if not scripts:
            yield from overview(plan)
            yield "\nThis was a dry run: nothing was measured, and no setting was changed."
            yield f"To run it: {self.typed}"
            yield f"Order and scripts: {self.typed} --dry-run --scripts"
            return
        yield from order(plan)
        yield "\nScripts:"
        packets = self.packets or PACKETS
        patches = self.kernel.patches
        yield from commands(
            *(plan, self.kind, packets, self.flavour),
            patches=patches,
            exact_cpus=self.exact_cpus(plan.experiment),
        )

    def told(self, plan: Plan) -> Iterator[str]:
        """Yield what of its file the plan does not measure, or not as long, in sentences."""
        if self.store is None:
            yield from told(plan, self.at_once)
        elif (budget := plan.experiment.repeats.budget_minutes) is not None:
            yield (
                f"With --store all {counted(plan.experiment.repeats.most, 'block')} are counted: "
                f"repeats.budget_minutes = {budget:g} is of one machine's time."
            )
        yield from self.shortened(plan)

    def shortened(self, plan: Plan) -> Iterator[str]:
        """Yield what of its file is measured for a shorter time, or at fewer rates."""
        if not self.exact:
            yield from shorter.told(read(self.file), self.times)
        if self.minutes is not None and not self.exact and calibrated(plan):
            yield (
                "With --minutes, rates that the tester alone does not send are left out: it is "
                "measured first."
            )

    def exact_cpus(self, found: Experiment) -> int:
        """Return the CPUs of a guest that counts: those asked for, or what the experiment needs."""
        return self.cpus or exact_cpus(found)

    def impossible(self, plan: Plan) -> list[str]:
        """Return what of a plan cannot be done here, whatever time there is, in words."""
        wrong = [f"in {self.kind.where}: {why}" for why in self._unable(plan.experiment)]
        return wrong + ([why] if (why := self.unbuildable(plan)) else [])

    def _unable(self, found: Experiment) -> list[str]:
        """Return what of an experiment cannot be done as it is asked for, in words."""
        wrong = unable(found, self.kind, exact=self.exact)
        if self.exact and found.needs.cpus > (has := self.exact_cpus(found)):
            wrong.append(
                f"needs.cpus = {found.needs.cpus}: with --exact a guest has {has} here, and at "
                f"most {MOST_EXACT_CPUS}"
            )
        return wrong

    def unbuildable(self, plan: Plan) -> str:
        """Return why a kernel that the plan boots cannot be had, in words; empty if all can."""
        if self.kind.boots:
            try:
                booting.requests(plan, self.flavour, self.kernel)
            except UsageError as error:
                return str(error)
        return ""

    def begin(self) -> tuple[Plan, RunFolder]:
        """Make the run's folder; UsageError if testbed or budget do not allow what it asks."""
        machines, plan = self.machines, self.plan()
        if wrong := self._unable(plan.experiment):
            raise UsageError(f"{self.file} cannot run in {self.kind.where}: {'; '.join(wrong)}")
        if self.store is None and (why := refusal(plan, self.at_once)):
            raise UsageError(f"{self.file}: {why}")
        if why := self.unbuildable(plan):
            raise UsageError(why)
        folder = RunFolder.create(paths.results(), plan.experiment.name, self.record(plan))
        disk.write(folder.path / EXPERIMENT, _file(self.file).read_bytes())
        kept.keep(folder.path, plan.experiment.rules)
        if machines is not None:
            text = machines.model_dump_json(by_alias=True, indent=2)
            disk.write(folder.path / MACHINES, text)
        return plan, folder

    def record(self, plan: Plan) -> PlanRecord:
        """Return what its run folder says of the plan."""
        experiment = plan.experiment
        parameters: dict[str, str | int | float | bool] = {
            "clock": "exact" if self.exact else "wall",
            "testbed": self.testbed,
            "plan": plan.digest,
        }
        again = [f"./skblab sweep {self.file}"]
        if self.kind.boots:
            parameters |= {"flavour": self.flavour, "patches": self.kernel.patches}
            again += [f"--flavour {self.flavour}", *self.kernel.words]
            if self.kernel.base != DEFAULT.name:
                parameters["kernel"] = self.kernel.base
        if self.exact:
            parameters["packets"] = packets = self.packets or PACKETS
            again.append(f"--exact --packets {packets}")
            if (cpus := self.exact_cpus(experiment)) != 1:
                parameters["cpus"] = cpus
                again.append(f"--cpus {cpus}")
        if not self.exact and (scale := self.times) != 1:
            parameters["scale"] = scale
        if self.minutes is not None:
            parameters["minutes"] = self.minutes
        if experiment.study is not None:
            rates = {
                setting.name: Published(*setting.published)
                for setting in experiment.setting
                if setting.published
            }
            latency = {
                setting.name: {
                    figure: Published(*both) for figure, both in setting.published_latency.items()
                }
                for setting in experiment.setting
                if setting.published_latency
            }
            study = PublishedStudy(experiment.study.name, experiment.study.differs, rates, latency)
            parameters |= published_study.parameters(study)
        again += [] if self.scale is None else [f"--scale {self.scale:g}"]
        again += [] if self.minutes is None else [f"--minutes {self.minutes:g}"]
        again += [] if self.kind is NETNS else [f"--testbed {self.testbed}"]
        again += [] if self.hosts is None else [f"--hosts {self.hosts}"]
        again += self._many
        if self.store is not None:
            parameters["store"] = str(self.store)
        if self.on is not None:
            parameters["on"] = self.on
        return PlanRecord(
            experiment=experiment.name,
            question=experiment.question,
            seed=experiment.seed,
            baseline=BASELINE,
            settings=(BASELINE, AGAIN, *(setting.name for setting in experiment.settings())),
            traffic=tuple(str(stream) for stream in experiment.traffic.each()),
            again=" ".join(again),
            parameters=parameters,
        )


class Parameters(BaseModel):
    """What a sweep's run folder says of how it was asked for; older ones say less."""

    model_config = ConfigDict(strict=True)

    clock: Literal["wall", "exact"] = "wall"
    plan: str
    testbed: Annotated[str, Field(pattern=f"^({'|'.join(KINDS)})$")] = NETNS.name
    packets: Positive = PACKETS
    cpus: Positive = 1
    # How many times as long as the file says trials are, and the budget instead of the file's.
    scale: Annotated[float, Field(gt=0)] = 1.0
    minutes: Annotated[float | None, Field(gt=0)] = None
    flavour: str = STOCK
    patches: bool = True
    # Its name without that of our series.
    kernel: str = DEFAULT.name
    # Where the results of its tasks are, and who runs these, if it has some.
    store: str | None = None
    on: Engine | None = None

    @property
    def name(self) -> Name:
        """The kernel; UsageError if it cannot be had any more."""
        return names.parse(f"{self.kernel}{PATCHED if self.patches else ''}")

    @classmethod
    def of(cls, folder: RunFolder) -> Parameters:
        """Return those of a run; RecordError if they cannot be read."""
        where = f"the parameters in {folder.path / 'run.json'}"
        return parse(cls, folder.document.plan.parameters, where)


def require_exact(*, exact: bool) -> None:
    """Raise UsageError for a sweep by the clock, which cannot be tasks."""
    if not exact:
        raise UsageError(
            "--store: expected --exact with it: only counts of instructions do not depend on what "
            "else a machine does; to time a sweep, run it on a machine that nobody else uses, such "
            "as: sbatch --exclusive --wrap './skblab sweep …'"
        )


def unfinished(run: Path) -> tuple[Plan, RunFolder]:
    """Open a run that did not come to its end; UsageError if it cannot be resumed."""
    folder = RunFolder.open(run)
    record = folder.document.plan
    if folder.document.state == "finished":
        # What was killed behind its last trial has no report.
        raise UsageError(
            f"{run} is finished: nothing to resume; to make its report: ./skblab report {run}; to "
            f"run it again: {record.again}"
        )
    if not (run / EXPERIMENT).exists():
        raise UsageError(
            f"{run} is no sweep (it has no {EXPERIMENT}), and only sweeps can be resumed; to run "
            f"it again: {record.again}"
        )
    return planned(folder), folder


def planned(folder: RunFolder) -> Plan:
    """Return the plan of a run, of its own experiment file; UsageError if that makes another."""
    asked = Parameters.of(folder)
    found = _in_time(read(str(folder.path / EXPERIMENT)), asked.scale, asked.minutes)
    plan = make_plan(found, exact=asked.clock == "exact")
    if plan.digest != asked.plan:
        raise UsageError(
            f"{folder.path}: its plan was {asked.plan}, and this skblab makes another one, "
            f"{plan.digest}, of the same file; to start again: {folder.document.plan.again}"
        )
    return plan


def _in_time(found: Experiment, scale: float, minutes: float | None) -> Experiment:
    asked = found if scale == 1 else shorter.scaled(found, scale)
    return asked if minutes is None else shorter.budgeted(asked, minutes)


def calibrated(plan: Plan) -> bool:
    """Return whether the tester alone is measured at the rates that settings are measured at."""
    return any(wanted.tester and wanted.rate is not None for _, _, wanted in plan.measurements())


def make_plan(found: Experiment, *, exact: bool, cpus: int = 1) -> Plan:
    """Return the plan of an experiment, with the boots that its knobs need.

    `cpus` are those of a guest that counts instructions.
    """
    needs_boot = [knob.name for knob in KNOBS.values() if knob.boot]
    return plans.make(found, needs_boot, exact=exact, cpus=cpus)


def exact_cpus(found: Experiment) -> int:
    """Return the CPUs of a guest that counts instructions, by what the experiment needs."""
    return max(1, min(found.needs.cpus, MOST_EXACT_CPUS))


def unable(found: Experiment, kind: Kind, *, exact: bool) -> list[str]:
    """Return what of an experiment a testbed cannot do, in words."""
    counted = uncountable(found.baseline) if exact else ()
    return [*kind.unable(found), *(f"baseline.{why}" for why in counted)]


def read(file: str) -> Experiment:
    """Read an experiment file, or the one of skblab's of that name; UsageError says its faults."""
    path = _file(file)
    found = experiments.read(path)
    if wrong := list(faults(found)):
        raise complaint(path, wrong)
    return found


def _file(file: str) -> Path:
    path = Path(file)
    if path.exists() or path.suffix or path.name != file:
        return path
    shipped = SHIPPED / f"{file}.toml"
    if not shipped.exists():
        names = ", ".join(sorted(file.stem for file in SHIPPED.glob("*.toml")))
        raise UsageError(
            f"{file}: no such file, and no experiment of this name comes with skblab; these do: "
            f"{names}"
        )
    return shipped
