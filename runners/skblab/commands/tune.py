# SPDX-License-Identifier: GPL-2.0-or-later
"""The `skblab tune` command: sweep, choose, confirm, advise."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
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
from skblab.sweep import kept as keeping
from skblab.sweep import session
from skblab.sweep.budget import fitting
from skblab.sweep.experiment import Experiment
from skblab.sweep.request import Request, read
from skblab.sweep.spent import spent
from skblab.testbeds import KINDS, NETNS
from skblab.tune import adding, choosing, deriving, page, script
from skblab.tune.adding import Added
from skblab.tune.choosing import Chosen, Goal
from skblab.tune.deriving import BEST_ALONE, LEAST_BLOCKS, TOGETHER, WHOLE
from skblab_analysis.base import disk
from skblab_analysis.base.certainty import AGAIN
from skblab_analysis.base.errors import SkblabError, UsageError
from skblab_analysis.base.words import counted, rough_time
from skblab_analysis.formats.journal import JOURNAL, Journal
from skblab_analysis.load import Run, load
from skblab_analysis.report import advice
from skblab_analysis.report.advice import Setting
from skblab_analysis.report.page import build_report
from skblab_analysis.trials.rows import TrialRow

# Of the time that is given, so much is for the sweep over all settings, and at least so much for
# the last one, of what was chosen.
SWEEP_SHARE, CONFIRM_SHARE = 0.5, 0.25
STOPPED = "It was stopped before anything was measured again."
NOTHING = Chosen((), {})
LEAST_MINUTES = 1.0


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
            help="What to look for: the highest throughput, the lowest latency, or the fewest "
            "instructions per packet.",
        ),
    ] = "throughput",
    minutes: Annotated[
        float,
        typer.Option(
            min=LEAST_MINUTES,
            max=100_000,
            help="Measure for about so many minutes; building kernels comes on top. --for latency "
            "needs [measure.latency] in the file.",
        ),
    ] = 20.0,
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

    skblab sweeps the settings of an experiment file. Those that may help it measures all at once,
    and all but each: some help only together. What is needed it measures once more, in guests that
    are booted anew or on your hosts. Only what is better again is advised. It writes
    results/tune-<name>-<time>/ with advice.md, a script that sets on the router what files and
    offload flags set and with --revert puts back what it found, and files for sysctl.d and TuneD.

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
    folder = _folder(found.name)
    first = _swept(
        asked,
        deriving.first(found, exact=asked.request.exact),
        folder / "sweep.toml",
        SWEEP_SHARE * asked.minutes,
        reporter,
    )
    took = _took(first)
    advised = advice.of(first)
    better = sorted(
        (one for one in advised.ranked if _gain(one, asked.goal) > 0),
        key=lambda one: -_gain(one, asked.goal),
    )
    names = [one.name for one in better]
    # What has been found is on disk before hours of further sweeps.
    _write(folder, _told(asked, found, [first], advised, better, why_none=STOPPED), asked)
    mixed = [one.name for one in advised.mixed]
    whole = adding.at_once(found, names, adding.hopeful(first, asked.goal, mixed))
    each, not_tried = _each(asked, found, whole, folder, asked.minutes - took, reporter)
    added = None if each is None else adding.judged(each, found, whole, asked.goal)
    chosen, others = _choice(asked, found, names, whole, each, added)
    best = choosing.combine(found, names[:1]) if names else None
    second: Run | None = None
    kept, why_none, confirmed = NOTHING, "", ""
    if chosen.settings:
        left = asked.minutes - took - (_took(each) if each else 0.0)
        try:
            second = _swept(
                asked,
                deriving.confirming(found, chosen, best, others, exact=asked.request.exact),
                folder / "confirm.toml",
                max(left, CONFIRM_SHARE * asked.minutes),
                reporter,
            )
        except SkblabError as error:
            # What the first sweep found is told all the same.
            why_none = f"What was better could not be measured again: {error}"
        else:
            kept, confirmed, why_none = _held(chosen, best, others, second, found, asked)
    elif advised.ranked:
        alone = ", alone or with others" if added else ""
        why_none = f"No setting is better for {asked.goal}{alone}."
    else:
        why_none = f"{advised.why_none}{_more_time(first, took)}"
    told = _told(
        *(asked, found, [first, each, second], advised, better, chosen, kept, added),
        confirmed=confirmed,
        why_none=why_none,
        not_tried=not_tried,
    )
    _write(folder, told, asked)
    return Tuned(
        folder=str(folder),
        goal=asked.goal,
        experiment=found.name,
        settings=kept.settings,
        confirmed=confirmed,
        why_none=why_none,
        reports=tuple(told.reports),
    )


def _choice(
    asked: Asked,
    found: Experiment,
    names: Sequence[str],
    whole: Chosen,
    each: Run | None,
    added: Added | None,
) -> tuple[Chosen, Chosen | None]:
    """Return what to measure again, and all of which it was chosen, but for what is harmful."""
    if each is None or added is None:
        return choosing.combine(found, names), None
    harmful = {name for name, _ in added.harmful}
    others = choosing.combine(found, [name for name in whole.settings if name not in harmful])
    needed = [name for name, _ in added.needed]
    if needed or names:
        # Of two that make up for each other, neither is needed.
        return choosing.combine(found, needed or names), others
    better = {one.name for one in advice.of(each).ranked if _gain(one, asked.goal) > 0}
    return (others if TOGETHER in better else NOTHING), None


def _each(
    asked: Asked, found: Experiment, whole: Chosen, folder: Path, left: float, reporter: Reporter
) -> tuple[Run | None, str]:
    """Return the sweep that tells what settings add to each other; else why there is none."""
    settings = adding.trying(found, whole)
    if len(settings) < adding.LEAST:
        return None, ""
    wanted = deriving.adding(found, settings, exact=asked.request.exact)
    try:
        return _swept(asked, wanted, folder / "each.toml", left / 2, reporter), ""
    except SkblabError as error:
        return None, f"What settings add to each other was not measured: {error}"


def _took(run: Run) -> float:
    """Return the minutes that a sweep took."""
    return spent(Journal(run.folder / JOURNAL).read()) / 60


def _more_time(run: Run, minutes: float, part: float = SWEEP_SHARE) -> str:
    """Say what more time would buy, where a verdict had too few blocks; nothing where it had.

    The run had this part of the time, and took so many minutes.
    """
    blocks = len({row.block for row in run.trials})
    if blocks >= LEAST_BLOCKS:
        return ""
    enough = math.ceil(LEAST_BLOCKS * minutes / blocks / part)
    return (
        f" The time was enough for {counted(blocks, 'block')}; {LEAST_BLOCKS} of them take about "
        f"--minutes {enough}."
    )


def _folder(name: str) -> Path:
    made = f"tune-{name}-{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}"
    for number in itertools.count(1):
        folder = paths.results() / (made if number == 1 else f"{made}-{number}")
        with contextlib.suppress(FileExistsError):
            folder.mkdir(parents=True)
            break
    return folder


def _swept(asked: Asked, wanted: Experiment, file: Path, minutes: float, reporter: Reporter) -> Run:
    """Run a sweep of an experiment that is written to a file first."""
    disk.write(file, deriving.text(wanted))
    keeping.keep(file.parent, wanted.rules)
    request = dataclasses.replace(asked.request, file=str(file), minutes=round(minutes, 1))
    plan = request.plan()
    if not fitting(plan, request.at_once):
        block = plan.seconds(1, request.at_once) / 60
        enough = math.ceil(block * asked.minutes / minutes)
        raise UsageError(
            f"--minutes {asked.minutes:g}: {minutes:.1f} of them are for this sweep, and one block "
            f"of it takes about {rough_time(60 * block)}; expected at least --minutes {enough}"
        )
    plan, folder = request.begin()
    for sentence in request.told(plan):
        reporter.say(sentence)
    root = labroot.ensure(reporter)
    with session.alone(folder.path, reporter):
        session.run(plan, folder, root, reporter, advice.candidates, resumed=False)
    build_report(folder.path, gnuplot(root))
    run = load(folder.path)
    for heard in (heard for heard in run.complaints() if heard.spoils):
        reporter.say(f"a kernel complained {heard.where}: {heard.lines[0]}")
    if all(row.state == "invalid" for row in run.trials):
        raise SkblabError(f"every trial of {folder.path} is invalid: its report says why")
    return run


def _gain(setting: Setting, goal: Goal) -> float:
    """Return by which part a setting is better for a goal; 0 if it is not."""
    worths = (worth for worth in setting.better if worth.of.measure == goal)
    return max((worth.gain for worth in worths), default=0.0)


def _held(
    chosen: Chosen,
    best: Chosen | None,
    others: Chosen | None,
    second: Run,
    found: Experiment,
    asked: Asked,
) -> tuple[Chosen, str, str]:
    """Return what of the chosen is better again, what was found in words, and why nothing is."""
    advised = advice.of(second)
    ranked = {one.name: one for one in advised.ranked if _gain(one, asked.goal) > 0}
    mixed = {one.name: one for one in advised.mixed}
    blocks = {
        name: len({row.block for row in second.trials if row.setting == name and _good(row)})
        for name in second.document.plan.settings
    }
    # What more settings do not make better needs no more settings: the fewest come first.
    sets = {
        BEST_ALONE: best or choosing.combine(found, chosen.settings[:1]),
        TOGETHER: chosen,
        **({WHOLE: others} if others else {}),
    }
    sets = {name: made for name, made in sets.items() if name in blocks}
    said, kept = [], ""
    for name, made in sets.items():
        what = " and ".join(made.settings) + (" alone" if name == BEST_ALONE else "")
        if name in ranked:
            said.append(f"Measured again, {what}: {ranked[name].gains}.")
            if not kept or _clearly(ranked[name], ranked[kept], asked.goal):
                kept = name
        elif name in mixed:
            said.append(f"Measured again, {what}: {mixed[name].gains}; but {mixed[name].losses}.")
        elif blocks[name] < LEAST_BLOCKS:
            said.append(
                f"Measured again, {what}: figures of {counted(blocks[name], 'block')} only, so "
                "that it is not known whether it is better."
            )
        else:
            said.append(f"Measured again, {what}: not significantly better.")
    words = " ".join(said)
    if kept:
        return sets[kept], words, ""
    if min(blocks[name] for name in sets) < LEAST_BLOCKS:
        more = _more_time(second, _took(second), CONFIRM_SHARE)
        return NOTHING, words, f"There was no time to measure it again.{more}"
    if any(name in mixed for name in sets):
        return NOTHING, words, "What is better by one figure is worse by another."
    return NOTHING, words, "What was better in the sweep was not so when measured again."


def _clearly(one: Setting, other: Setting, goal: Goal) -> bool:
    """Return whether one is better than another by more than its own interval."""
    found = [worth for worth in one.better if worth.of.measure == goal]
    worth = max(found, key=lambda each: each.gain)
    margin = worth.difference.margin or 0.0
    part = worth.of.of_whole(worth.difference, margin) or 0.0
    return worth.gain - _gain(other, goal) > abs(part)


def _good(row: TrialRow) -> bool:
    """Return whether a trial has a figure."""
    return row.state == "good"


def _told(
    asked: Asked,
    found: Experiment,
    runs: Sequence[Run | None],
    advised: advice.Advice,
    better: Sequence[Setting],
    chosen: Chosen = NOTHING,
    kept: Chosen = NOTHING,
    added: Added | None = None,
    *,
    confirmed: str = "",
    why_none: str = "",
    not_tried: str = "",
) -> page.Told:
    first = runs[0]
    assert first is not None
    environment = first.document.environment
    plan = first.document.plan
    there = {row.setting for row in first.trials if _good(row)}
    not_tested = {
        row.setting: row.reason for row in first.trials if row.setting not in there and row.reason
    }
    elsewhere = [one for one in advised.ranked if one not in better]
    known = {one.name for one in (*advised.ranked, *advised.mixed, *advised.only_here)}
    known |= set(kept.settings)
    return page.Told(
        question=plan.question,
        goal=asked.goal,
        where=asked.request.kind.where,
        kernel=environment.kernel.release if environment else "unknown",
        traffic=plan.traffic,
        together=kept.settings,
        ranked=[(one.name, one.gains) for one in better],
        elsewhere=[(one.name, one.gains) for one in elsewhere],
        mixed=[(one.name, f"{one.gains}; but {one.losses}") for one in advised.mixed],
        only_here=[(one.name, f"{one.gains}. Why: {one.only_here}.") for one in advised.only_here],
        added=list(added.lines()) if added else [],
        not_tried=not_tried,
        left=[*chosen.left, *_dropped(chosen, kept, better, added)],
        not_tested=list(not_tested.items()),
        no_gain=[
            name
            for name in plan.settings
            if name not in known | not_tested.keys() | {plan.baseline, AGAIN}
        ],
        confirmed=confirmed,
        caution=advised.caution,
        why_none=why_none,
        reports=[str(run.folder / "report" / "index.html") for run in runs if run is not None],
        knobs=kept.knobs,
        catalogue=found.catalogue,
    )


def _dropped(
    chosen: Chosen, kept: Chosen, better: Sequence[Setting], added: Added | None
) -> Iterator[tuple[str, str]]:
    """Yield what was good and is not set, with the reason; contradictions are told already."""
    if not kept.settings:
        return
    harmful = {name for name, _ in added.harmful} if added else set()
    told = {*kept.settings, *(name for name, _ in chosen.left)}
    for name in dict.fromkeys((*chosen.settings, *(one.name for one in better))):
        if name in told:
            continue
        if name in harmful:
            yield name, "with all the others it is better without it"
        elif name in chosen.settings:
            yield name, f"with it nothing was clearly better than {kept.settings[0]} alone"
        else:
            yield name, "with all the others it adds nothing that was seen"


def _write(folder: Path, told: page.Told, asked: Asked) -> None:
    disk.write(folder / page.PAGE, "\n".join(page.page(told)) + "\n")
    if of_script := script.settable(told.knobs):
        about = [f"For {asked.goal}, by skblab tune {asked.file}: {told.confirmed}"]
        disk.write(folder / page.SCRIPT, script.script(page.SCRIPT, about, of_script))
    for name, text in (
        (page.SYSCTL, page.sysctl_conf(told.knobs)),
        (page.TUNED, page.tuned_conf(told.knobs)),
    ):
        if text:
            disk.write(folder / name, text)
