# SPDX-License-Identifier: GPL-2.0-or-later
"""The `skblab tune` command: sweep, choose, confirm, advise."""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from skblab.commands import sweep as sweeping
from skblab.commands.documents import Tuned
from skblab.commands.options import KERNEL_DEFAULT, AsJson, FlavourName, KernelName, echo
from skblab.lab import labroot, paths
from skblab.lab.drawing import gnuplot
from skblab.lab.kernel import names as kernels
from skblab.lab.reporter import Reporter, printer
from skblab.machine.device import Machine
from skblab.sweep import session
from skblab.sweep.experiment import Experiment
from skblab.sweep.request import Request, read
from skblab.testbeds import KINDS, NETNS
from skblab.tune import choosing, deriving, page, script
from skblab.tune.choosing import Chosen, Goal
from skblab.tune.deriving import BEST_ALONE, LEAST_BLOCKS, TOGETHER
from skblab_analysis.base import disk
from skblab_analysis.base.errors import SkblabError, UsageError
from skblab_analysis.base.words import counted
from skblab_analysis.load import Run, load
from skblab_analysis.report import advice, left_out
from skblab_analysis.report.advice import Setting
from skblab_analysis.report.page import build_report

# Of the time that is given, so much is for the sweep over all settings.
SWEEP_SHARE = 0.6
LEAST_MINUTES = 2.0


@dataclasses.dataclass(frozen=True)
class Asked:
    """What is tuned for what, where, and in which time."""

    file: str
    goal: Goal
    minutes: float
    request: Request


def tune(
    file: Annotated[
        str,
        typer.Argument(
            help="An experiment file with the settings to try, or the name of one that comes with "
            "skblab.",
            autocompletion=sweeping.names,
            show_default=False,
        ),
    ],
    goal: Annotated[
        str,
        typer.Option(
            "--for",
            metavar="|".join(choosing.GOALS),
            help="What the best setting has: the highest throughput, the lowest latency, or the "
            "fewest instructions per packet.",
        ),
    ] = "throughput",
    minutes: Annotated[
        float,
        typer.Option(
            min=LEAST_MINUTES, max=100_000, help="End within so many minutes, by the estimate."
        ),
    ] = 10.0,
    testbed: Annotated[
        str,
        typer.Option(
            metavar="|".join(KINDS),
            help="Where: see skblab sweep --help. Default: virtio, and netns for instructions.",
            autocompletion=lambda: list(KINDS),
            show_default=False,
        ),
    ] = "",
    hosts: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="With --testbed hosts: the file that names your machines and their ports.",
            show_default=False,
        ),
    ] = None,
    flavour: FlavourName = "stock",
    name: KernelName = KERNEL_DEFAULT,
    as_json: AsJson = False,
) -> None:
    """Find settings that are better, try them together, and write down what to set.

    skblab sweeps the settings of an experiment file, chooses those that are significantly better
    than the baseline, and measures them together in fresh boots. Only what is better there, too,
    is advised. It writes advice.md, a script that sets it and with --revert puts it back, and
    files for sysctl.d and TuneD.

    Example: `skblab tune quick --for throughput`
    """
    if goal not in choosing.GOALS:
        raise UsageError(f"--for {goal}: expected one of {', '.join(choosing.GOALS)}")
    wanted = next(one for one in choosing.GOALS if one == goal)
    where = testbed or ("hosts" if hosts else NETNS.name if goal == "instructions" else "virtio")
    if where not in KINDS:
        raise UsageError(f"--testbed {where}: expected one of {', '.join(KINDS)}")
    exact = wanted == "instructions"
    chosen = kernels.parse(name)
    request = Request(file, exact, None, where, hosts, flavour, chosen)
    found = read(file)
    choosing.require(found, wanted, file)
    reporter = Reporter()
    if chosen.packaged is not None:
        settled = chosen.settled(labroot.ensure(reporter), reporter)
        request = dataclasses.replace(request, kernel=settled)
    document = _tuned(Asked(file, wanted, minutes, request), found, reporter)
    if as_json:
        echo(document)
        return
    console = printer()
    for line in (Path(document.folder) / page.PAGE).read_text().splitlines():
        console.print(escape(line), soft_wrap=True)


def _tuned(asked: Asked, found: Experiment, reporter: Reporter) -> Tuned:
    began = time.monotonic()
    folder = _folder(found.name)
    first, machine = _swept(
        asked,
        deriving.first(found, exact=asked.request.exact),
        folder / "sweep.toml",
        SWEEP_SHARE * asked.minutes,
        reporter,
    )
    advised = advice.of(first)
    better = [one for one in advised.ranked if _gains(one, asked.goal)]
    chosen = choosing.combine(found, [one.name for one in better])
    second: Run | None = None
    kept, why_none, confirmed = chosen, advised.why_none, ""
    if not chosen.settings:
        why_none = why_none or f"No setting is better for {asked.goal}."
        why_none += _more_time(first, (time.monotonic() - began) / 60)
    else:
        left = asked.minutes - (time.monotonic() - began) / 60
        second, machine = _swept(
            asked,
            deriving.confirming(found, chosen, exact=asked.request.exact),
            folder / "confirm.toml",
            max(left, LEAST_MINUTES),
            reporter,
        )
        kept, confirmed = _held(chosen, second, found, asked.goal)
        if not kept.settings:
            why_none = "What was better in the sweep was not so in fresh boots."
    told = _told(asked, first, second, advised, better, chosen, kept, confirmed, why_none)
    _write(folder, told, machine, asked, first, found)
    return Tuned(
        folder=str(folder),
        goal=asked.goal,
        experiment=found.name,
        settings=kept.settings,
        confirmed=confirmed,
        why_none=why_none,
        reports=tuple(told.reports),
    )


def _more_time(first: Run, minutes: float) -> str:
    """Say what more time would buy, where a verdict had too few blocks; nothing where it had."""
    blocks = len({row.block for row in first.trials})
    if blocks >= LEAST_BLOCKS:
        return ""
    enough = math.ceil(LEAST_BLOCKS * minutes / blocks / SWEEP_SHARE)
    return (
        f" The time was enough for {counted(blocks, 'block')}; for {LEAST_BLOCKS} it takes "
        f"--minutes {enough}."
    )


def _folder(name: str) -> Path:
    folder = paths.results() / f"tune-{name}-{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}"
    folder.mkdir(parents=True)
    return folder


def _swept(
    asked: Asked, wanted: Experiment, file: Path, minutes: float, reporter: Reporter
) -> tuple[Run, Machine]:
    """Run a sweep of an experiment that is written to a file first."""
    disk.write(file, deriving.text(wanted))
    request = dataclasses.replace(asked.request, file=str(file), minutes=round(minutes, 1))
    plan, folder = request.begin()
    for sentence in request.told(plan):
        reporter.say(sentence)
    root = labroot.ensure(reporter)
    with session.alone(folder.path, reporter):
        machine = session.run(plan, folder, root, reporter, advice.candidates, resumed=False)
    build_report(folder.path, gnuplot(root))
    run = load(folder.path)
    if all(row.state == "invalid" for row in run.trials):
        raise SkblabError(f"every trial of {folder.path} is invalid: its report says why")
    return run, machine


def _gains(setting: Setting, goal: Goal) -> bool:
    return any(worth.of.measure == choosing.MEASURED_BY[goal] for worth in setting.better)


def _held(chosen: Chosen, second: Run, found: Experiment, goal: Goal) -> tuple[Chosen, str]:
    """Return what of the chosen is better in fresh boots, too, and what was found, in words."""
    ranked = {one.name: one for one in advice.of(second).ranked if _gains(one, goal)}
    together, alone = ranked.get(TOGETHER), ranked.get(BEST_ALONE)
    best = choosing.combine(found, chosen.settings[:1])
    several = len(chosen.settings) > 1
    said = []
    for name, words in ((TOGETHER, together), (BEST_ALONE, alone)):
        if name == BEST_ALONE and not several:
            continue
        what = "All of it together" if name == TOGETHER and several else chosen.settings[0]
        said.append(
            f"In fresh boots, {what}: {words.gains}."
            if words is not None
            else f"In fresh boots, {what} was not significantly better."
        )
    order = [one.name for one in advice.of(second).ranked]
    if together is None and alone is None:
        return Chosen((), {}, chosen.left), " ".join(said)
    if alone is not None and (together is None or order.index(alone.name) < order.index(TOGETHER)):
        # What more settings do not make better needs no more settings.
        return best, " ".join(said)
    return chosen, " ".join(said)


def _told(
    asked: Asked,
    first: Run,
    second: Run | None,
    advised: advice.Advice,
    better: Sequence[Setting],
    chosen: Chosen,
    kept: Chosen,
    confirmed: str,
    why_none: str,
) -> page.Told:
    environment = first.document.environment
    known = {one.name for one in (*advised.ranked, *advised.mixed, *advised.only_here)}
    not_tested = {one.setting: one.reason for one in left_out.of(first.trials)}
    settings = first.document.plan.settings
    own = [name for name in settings if name != first.document.plan.baseline]
    return page.Told(
        question=first.document.plan.question,
        goal=asked.goal,
        where=asked.request.kind.where,
        kernel=environment.kernel.release if environment else "unknown",
        traffic=first.document.plan.traffic,
        ranked=[(one.name, one.gains) for one in better],
        mixed=[(one.name, f"{one.gains}; but {one.losses}") for one in advised.mixed],
        only_here=[(one.name, f"{one.gains}. Why: {one.only_here}.") for one in advised.only_here],
        left=[*chosen.left, *_dropped(chosen, kept)],
        not_tested=list(not_tested.items()),
        no_gain=[
            name
            for name in own[1:]
            if name not in known and name not in not_tested and name != "baseline again"
        ],
        confirmed=confirmed,
        why_none=why_none,
        reports=[
            str(run.folder / "report" / "index.html") for run in (first, second) if run is not None
        ],
        knobs=kept.knobs if not why_none else {},
    )


def _dropped(chosen: Chosen, kept: Chosen) -> Iterator[tuple[str, str]]:
    if not kept.settings:
        return
    for name in chosen.settings:
        if name not in kept.settings:
            yield name, f"with {kept.settings[0]} it was not better in fresh boots"


def _write(
    folder: Path, told: page.Told, machine: Machine, asked: Asked, first: Run, found: Experiment
) -> None:
    disk.write(folder / page.PAGE, "\n".join(page.page(told)) + "\n")
    if told.why_none:
        return
    hosts = asked.request.machines
    home = script.at_home(machine, None if hosts is None else hosts.router.ports)
    about = [
        f"For {asked.goal}, by skblab tune {asked.file}: {told.confirmed}",
        "Without an argument it sets that; with --revert it puts back what was there.",
    ]
    states = script.states(first.settings, told.knobs, found.baseline)
    file = folder / page.SCRIPT
    disk.write(file, script.script(home, about, states))
    file.chmod(0o755)
    if text := page.sysctl_conf(told.knobs):
        disk.write(folder / page.SYSCTL, text)
    disk.write(folder / page.TUNED, page.tuned_conf(told.knobs))
