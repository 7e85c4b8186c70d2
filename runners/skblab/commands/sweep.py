# SPDX-License-Identifier: GPL-2.0-or-later
"""The `skblab sweep`, `skblab resume` and `skblab cleanup` commands."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Annotated, Literal

import typer
from pydantic import BaseModel, ConfigDict, Field
from rich.markup import escape

from skblab.commands.options import FlavourName, Patches
from skblab.knobs.boot import STOCK
from skblab.knobs.registry import KNOBS
from skblab.knobs.values import Value
from skblab.lab import labroot, paths, portable, store, tools
from skblab.lab.drawing import gnuplot
from skblab.lab.labroot import Bind, LabRoot
from skblab.lab.reporter import Reporter, printer
from skblab.machine.device import Machine
from skblab.machine.recording import recording
from skblab.machine.transport import TransportError
from skblab.sweep import booting, inputs
from skblab.sweep import experiment as experiments
from skblab.sweep import plan as plans
from skblab.sweep.beds import Beds, Guests
from skblab.sweep.dryrun import commands, setting
from skblab.sweep.experiment import BASELINE, Experiment, faults, knobs_of
from skblab.sweep.hostbeds import HostBeds, abandoned, forget, put_back, remembered, router_of
from skblab.sweep.measure import latency as arriving
from skblab.sweep.measure import layers as layering
from skblab.sweep.measure.exact import PACKETS, Counting
from skblab.sweep.measure.exact import unable as uncounted
from skblab.sweep.measure.wall import Timing
from skblab.sweep.progress import Progress
from skblab.sweep.running import Method, Running
from skblab.testbeds import GUESTS, HOSTS, KINDS, NETNS, Kind, hostsfile
from skblab_analysis.base.certainty import AGAIN
from skblab_analysis.base.checked import parse
from skblab_analysis.base.errors import SkblabError, UsageError, one_line
from skblab_analysis.base.tomlfile import complaint
from skblab_analysis.base.whole import Positive
from skblab_analysis.formats.run import Command, Environment
from skblab_analysis.formats.run import Plan as PlanRecord
from skblab_analysis.load import Run, load
from skblab_analysis.report import findings, terminal
from skblab_analysis.report.page import build_report
from skblab_analysis.runfolder import RunFolder

# The experiment file of a run, in its folder.
EXPERIMENT = "experiment.toml"
# The machines of a run on hosts, there, too.
MACHINES = "hosts.json"
# The lock of sweeps in guests: side by side they would share CPUs, and both look good.
CPUS = "sweep-in-guests"
SHIPPED = paths.tree() / "runners" / "experiments"


def _is_testbed(name: str) -> str:
    if name not in KINDS:
        raise typer.BadParameter(f"{name!r} is not one of {', '.join(map(repr, KINDS))}.")
    return name


def sweep(
    file: Annotated[
        str, typer.Argument(help="An experiment file, or the name of one that comes with skblab.")
    ],
    exact: Annotated[
        bool,
        typer.Option("--exact", help="Count instructions per packet of every setting, in a guest."),
    ] = False,
    packets: Annotated[
        int | None,
        typer.Option(
            min=1000,
            max=10_000_000,
            help=f"Packets of each trial, with --exact (default {PACKETS}).",
            show_default=False,
        ),
    ] = None,
    testbed: Annotated[
        str,
        typer.Option(
            metavar=f"<{'|'.join(KINDS)}>",
            callback=_is_testbed,
            help=" ".join(f"{kind.name}: {kind.sentence}" for kind in KINDS.values()),
        ),
    ] = NETNS.name,
    hosts: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Which machines, reached by ssh, and which of their ports are joined how: see "
            "docs/sweep.md. For --testbed hosts.",
            show_default=False,
        ),
    ] = None,
    flavour: FlavourName = "stock",
    patches: Patches = True,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Only print the plan, how long it takes, and all commands."),
    ] = False,
) -> None:
    """Compare settings: what does each cost?

    One file says which settings, which traffic, what is measured and how often. Every setting is
    read back before and after each trial, and the baseline runs twice under two names: what differs
    between these is the suite's own error.
    """
    if packets is not None and not exact:
        raise UsageError(
            f"--packets {packets} is of --exact trials; others last measure.throughput.seconds"
        )
    kind = KINDS[testbed]
    if exact and not kind.exact:
        raise UsageError(
            f"--exact counts the instructions of one CPU, and {testbed} has several; expected "
            f"--testbed {NETNS.name}"
        )
    if (kind is HOSTS) != (hosts is not None):
        raise UsageError(
            "--testbed hosts takes --hosts FILE, which says which machines"
            if hosts is None
            else f"--hosts {hosts} is for --testbed hosts, and the testbed is {testbed}"
        )
    if not kind.boots and (flavour != STOCK or not patches):
        raise UsageError(
            f"--flavour and --no-patches choose the kernel of guests; {testbed} have their own"
        )
    machines = None if hosts is None else hostsfile.read(hosts)
    found = _read(file)
    plan = _plan(found, exact=exact)
    if dry_run:
        _print_plan(plan, kind, packets or PACKETS, flavour, patches=patches)
        return
    if wrong := _unable(found, kind, exact=exact):
        raise UsageError(f"{file} cannot run in {kind.where}: {'; '.join(wrong)}")
    parameters: dict[str, str | int | float | bool] = {
        "clock": "exact" if exact else "wall",
        "testbed": testbed,
        "plan": plan.digest,
    }
    if kind.boots:
        parameters |= {"flavour": flavour, "patches": patches}
    again = [f"./skblab sweep {file}"]
    again += [f"--flavour {flavour}"] if kind.boots else []
    if exact:
        parameters["packets"] = packets or PACKETS
        again.append(f"--exact --packets {packets or PACKETS}")
    again += [] if kind is NETNS else [f"--testbed {testbed}"]
    again += [] if hosts is None else [f"--hosts {hosts}"]
    again += [] if patches else ["--no-patches"]
    record = PlanRecord(
        experiment=found.name,
        question=found.question,
        seed=found.seed,
        baseline=BASELINE,
        settings=(BASELINE, AGAIN, *(one.name for one in found.settings())),
        traffic=tuple(str(one) for one in found.traffic.each()),
        again=" ".join(again),
        parameters=parameters,
    )
    folder = RunFolder.create(paths.results(), found.name, record)
    (folder.path / EXPERIMENT).write_bytes(_file(file).read_bytes())
    if machines is not None:
        (folder.path / MACHINES).write_text(machines.model_dump_json(by_alias=True, indent=2))
    reporter = Reporter()
    with _alone(folder.path, reporter):
        _run(plan, folder, reporter, resumed=False)


def resume(
    run: Annotated[
        Path, typer.Argument(help="The folder of a sweep that did not come to its end.")
    ],
) -> None:
    """Go on with a sweep that was stopped, killed or broke: the trials that it lacks."""
    reporter = Reporter()
    with _alone(run, reporter):
        # Not opened before: another one may have gone on with it meanwhile.
        plan, folder = _unfinished(run)
        _run(plan, folder, reporter, resumed=True)


def cleanup(
    gone: Annotated[
        str | None,
        typer.Option(
            "--forget",
            metavar="ROUTER",
            help="If this router does not answer, forget what was left there: it is gone for good.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Put back what sweeps that were killed left on hosts, and give back their ports.

    The next sweep on the same hosts does it, too. Guests leave nothing that needs it.
    """
    reporter = Reporter()
    wrong, count, routers = [], 0, []
    for place in abandoned():
        routers.append(router := router_of(place))
        try:
            put_back(place, reporter)
            count += 1
        except TransportError as error:
            why = one_line(str(error))
            if router == gone:
                forget(place)
                reporter.say(f"forgotten: what a killed run left on {router} ({why})")
            else:
                mend = f"if {router} is gone for good: skblab cleanup --forget {router}"
                wrong.append(f"{why}; {mend}")
        except SkblabError as error:
            # It answers, so it is not gone.
            wrong.append(one_line(str(error)))
    if gone is not None and gone not in routers:
        raise UsageError(
            f"--forget {gone}: expected a router on which something was left: "
            f"{', '.join(routers) or 'there is none'}"
        )
    if wrong:
        raise SkblabError("; ".join(wrong))
    typer.echo(
        f"{count} testbeds of hosts are as they were" if count else "nothing was left anywhere"
    )


class _Asked(BaseModel):
    """What a sweep's run folder says of how it was asked for; older ones say less."""

    model_config = ConfigDict(strict=True)

    clock: Literal["wall", "exact"] = "wall"
    plan: str
    testbed: Annotated[str, Field(pattern=f"^({'|'.join(KINDS)})$")] = NETNS.name
    packets: Positive = PACKETS
    flavour: str = STOCK
    patches: bool = True


def _unfinished(run: Path) -> tuple[plans.Plan, RunFolder]:
    folder = RunFolder.open(run)
    record = folder.document.plan
    if folder.document.state == "finished":
        raise UsageError(f"{run} came to its end: nothing to resume; again: {record.again}")
    if not (run / EXPERIMENT).exists():
        raise UsageError(f"{run} is no sweep (it has no {EXPERIMENT}): run it anew: {record.again}")
    asked = parse(_Asked, record.parameters, f"the parameters in {run / 'run.json'}")
    plan = _plan(_read(str(run / EXPERIMENT)), exact=asked.clock == "exact")
    if plan.digest != asked.plan:
        raise UsageError(
            f"{run}: its plan was {asked.plan}, and this skblab makes {plan.digest} "
            f"of the same file; run it anew: {record.again}"
        )
    return plan, folder


def _alone(run: Path, reporter: Reporter) -> AbstractContextManager[None]:
    return store.locked(f"run-{run.resolve().name}", reporter)


def _plan(found: Experiment, *, exact: bool) -> plans.Plan:
    return plans.make(found, [one.name for one in KNOBS.values() if one.boot], exact=exact)


def _unable(found: Experiment, kind: Kind, *, exact: bool) -> list[str]:
    """Return what of an experiment a testbed cannot do, in words."""
    return [*kind.unable(found), *(uncounted(found) if exact else [])]


def _file(file: str) -> Path:
    path = Path(file)
    if path.exists() or path.suffix or path.name != file:
        return path
    shipped = SHIPPED / f"{file}.toml"
    if not shipped.exists():
        names = ", ".join(sorted(one.stem for one in SHIPPED.glob("*.toml")))
        raise UsageError(f"{file}: no such file, and no experiment of skblab's; it has {names}")
    return shipped


def _read(file: str) -> Experiment:
    path = _file(file)
    found = experiments.read(path)
    if wrong := list(faults(found)):
        raise complaint(path, wrong)
    return found


def _run(plan: plans.Plan, folder: RunFolder, reporter: Reporter, *, resumed: bool) -> None:
    """Measure what the run in a folder lacks, and show what it has."""
    asked = folder.document.plan.parameters
    kind = KINDS[str(asked.get("testbed", NETNS.name))]
    root = labroot.ensure(reporter)
    progress = Progress.read(folder.path)
    method: Method = (
        Counting(folder, int(asked["packets"]))
        if plan.exact
        else Timing(
            plan.experiment,
            folder,
            reporter,
            kind.cpus(plan.experiment),
            shares=_shares(plan, root, reporter),
        )
    )
    # Before anything of the run is touched: one of another kernel stays as it was.
    beds, alone = _beds(plan, kind, method, folder, root, reporter)
    if resumed:
        folder.resume()
    with recording(folder, beds.environment, reporter), alone, reporter.step(method.title):
        Running(plan, method, folder, reporter, progress).run(beds)
    environment = beds.environment()
    assert environment is not None
    run = load(folder.path)
    best = _best(plan, beds.machine, run)
    gaps = (*kind.gaps, *method.gaps)
    folder.finish(environment, reporter.timings, commands=best, gaps=gaps)
    page = build_report(folder.path, gnuplot(root))
    console = printer()
    for table in terminal.of_run(folder.path):
        console.print(table)
        console.print()
    left_out = {row.setting: row.reason for row in run.trials if row.reason}
    for name, reason in left_out.items():
        console.print(f"[yellow]{escape(name)}: left out: {escape(reason)}[/]", soft_wrap=True)
    for one in best:
        command = one.command if "\n" not in one.command else "a script, in the report"
        console.print(escape(f"To set {one.setting}: {command}"), soft_wrap=True)
    console.print(f"Report: {page}", soft_wrap=True)
    if spoiled := [one for one in run.complaints() if one.spoils]:
        first = spoiled[0]
        raise SkblabError(
            f"kernels complained in {len(spoiled)} trials, which are invalid: {first.where}: "
            f"{first.lines[0]}{' …' if len(spoiled) > 1 else ''}"
        )
    if all(row.state == "void" for row in run.trials):
        raise SkblabError("no trial was good: nothing can be said of any setting")


def _beds(
    plan: plans.Plan,
    kind: Kind,
    method: Method,
    folder: RunFolder,
    root: LabRoot,
    reporter: Reporter,
) -> tuple[Beds, AbstractContextManager[None]]:
    """Return what has a run's testbeds, and what keeps others from them; kernels are built now.

    UsageError if the run began with something else.
    """
    asked = folder.document.plan.parameters
    if kind is HOSTS:
        machines = remembered(folder.path / MACHINES)
        inputs.check(folder, inputs.files(plan) | {"hosts": machines.key})

        def same(found: Environment) -> None:
            inputs.check(folder, inputs.machines(found), inputs.MACHINES)

        bundles = _bundles(plan, root, reporter)
        hosts = HostBeds(machines, plan.experiment, reporter, bundles, same)
        return hosts, hosts.alone()
    boots = booting.ensure(plan, str(asked["flavour"]), bool(asked["patches"]), root, reporter)
    inputs.check(folder, inputs.inputs(plan, boots, root, method.shares))
    guests = Guests(GUESTS[kind.name], plan.experiment, method, boots, root, folder, reporter)
    return guests, store.locked(CPUS, reporter, "that has this machine's CPUs for a sweep")


def _programs(plan: plans.Plan) -> list[str]:
    """Return those programs of ours that the machines of a testbed have to have."""
    measure = plan.experiment.measure
    times = measure.latency is not None or (measure.rfc2544 is not None and measure.rfc2544.times)
    asked = {arriving.PROGRAM: times, layering.PROGRAM: measure.layers is not None}
    return [name for name, wanted in asked.items() if wanted]


def _bundles(plan: plans.Plan, root: LabRoot, reporter: Reporter) -> dict[str, Path]:
    """Return our programs as hosts need them, by name, if any are to be there."""
    if not (names := _programs(plan)):
        return {}
    tools_there = tools.ensure_probe(root, reporter)
    return {name: portable.ensure(root, tools_there / name, reporter) for name in names}


def _shares(plan: plans.Plan, root: LabRoot, reporter: Reporter) -> tuple[Bind, ...]:
    """Return the folder with what times packets, if any are to be."""
    return (Bind(tools.ensure_probe(root, reporter), "tools"),) if _programs(plan) else ()


def _best(plan: plans.Plan, machine: Machine, run: Run) -> list[Command]:
    """Return the commands of the settings that are best, of each traffic and rate."""
    experiment = plan.experiment
    knobs = {one.name: knobs_of(experiment, one) for one in experiment.settings()}
    return [
        Command(where="the router", command=command, setting=name)
        for name in findings.best(run)
        for command in (*_booting(knobs[name]), *setting(machine, knobs[name]))
    ]


def _booting(knobs: Mapping[str, Value]) -> list[str]:
    """Return a comment that says which of these knobs a boot sets, if any."""
    chosen = plans.words({name: value for name, value in knobs.items() if KNOBS[name].boot})
    return [f"# boot it with {chosen}"] if chosen else []


def _print_plan(plan: plans.Plan, kind: Kind, packets: int, flavour: str, *, patches: bool) -> None:
    experiment, trials = plan.experiment, list(plan.trials())
    typer.echo(f"{experiment.name}: {experiment.question}")
    typer.echo(
        f"plan {plan.digest}: {len(experiment.settings())} settings beside the baseline, "
        f"{len(plan.boots)} boots, {len(trials)} trials, about {plan.seconds() / 60:.0f} min"
    )
    for wrong in _unable(experiment, kind, exact=plan.exact):
        typer.echo(f"in {kind.where} it cannot run: {wrong}")
    for boot in plan.boots:
        typer.echo(f"\nblock {boot.block + 1}{f', {boot}' if boot.knobs else ''}")
        for change in boot.changes:
            typer.echo(f"  {change.setting}")
            for trial in change.trials:
                typer.echo(f"    {trial.number}: {trial}")
    typer.echo("\nCommands:")
    for line in commands(plan, kind, packets, flavour, patches=patches):
        typer.echo(line)
