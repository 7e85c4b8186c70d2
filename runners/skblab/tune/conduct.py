# SPDX-License-Identifier: GPL-2.0-or-later
"""A tune from its first sweep to its advice: sweep, choose, confirm, write down."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import time
from pathlib import Path

from skblab.lab import labroot, paths
from skblab.lab.drawing import gnuplot
from skblab.lab.reporter import Reporter
from skblab.sweep import session
from skblab.sweep.experiment import Experiment
from skblab.testbeds import place
from skblab.tune import adding, choosing, deriving, stages
from skblab.tune.asked import Asked
from skblab.tune.choosing import Chosen
from skblab.tune.judging import NOTHING, choice, gain, held
from skblab.tune.telling import to_tell, write
from skblab.tune.timing import CONFIRM_SHARE, SWEEP_SHARE, minutes_of, more_time
from skblab_analysis.base.errors import SkblabError, UsageError
from skblab_analysis.load import Run, load
from skblab_analysis.report import advice
from skblab_analysis.report.page import build_report

STOPPED = "It was stopped before anything was measured again."


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What is to be set and how it was confirmed, or why nothing is; where all was written."""

    folder: Path
    kept: Chosen
    confirmed: str
    why_none: str
    reports: tuple[str, ...]


def tune(asked: Asked, found: Experiment, reporter: Reporter) -> Outcome:
    """Sweep the settings of an experiment, and return what to set; it is written down as well."""
    folder, machines = _folder(found.name), asked.request.machines
    # From the first sweep to the last one: others wait for all of it.
    with place.held(machines.labgrid if machines else None, folder.name, reporter):
        return _tuned(asked, found, folder, reporter)


def _tuned(asked: Asked, found: Experiment, folder: Path, reporter: Reporter) -> Outcome:
    first = _swept(
        asked,
        deriving.first(found, exact=asked.request.exact),
        folder,
        stages.SWEEP,
        SWEEP_SHARE * asked.minutes,
        reporter,
    )
    took = minutes_of(first)
    advised = advice.of(first)
    better = sorted(
        (one for one in advised.ranked if gain(one, asked.goal) > 0),
        key=lambda one: -gain(one, asked.goal),
    )
    names = [one.name for one in better]
    # What has been found is on disk before hours of further sweeps.
    write(folder, to_tell(asked, found, [first], advised, better, why_none=STOPPED), asked)
    mixed = [one.name for one in advised.mixed]
    whole = adding.at_once(found, names, adding.hopeful(first, asked.goal, mixed))
    each, not_tried = _each(asked, found, whole, folder, asked.minutes - took, reporter)
    added = None if each is None else adding.judged(each, found, whole, asked.goal)
    chosen, others = choice(asked.goal, found, names, whole, each, added)
    best = choosing.combine(found, names[:1]) if names else None
    second: Run | None = None
    kept, why_none, confirmed = NOTHING, "", ""
    if chosen.settings:
        left = asked.minutes - took - (minutes_of(each) if each else 0.0)
        try:
            second = _swept(
                asked,
                deriving.confirming(found, chosen, best, others, exact=asked.request.exact),
                folder,
                stages.CONFIRM,
                max(left, CONFIRM_SHARE * asked.minutes),
                reporter,
            )
        except SkblabError as error:
            # What the first sweep found is told all the same.
            why_none = f"What was better could not be measured again: {error}"
        else:
            kept, confirmed, why_none = held(chosen, best, others, second, found, asked.goal)
    elif advised.ranked:
        alone = ", alone or with others" if added else ""
        why_none = f"No setting is better for {asked.goal}{alone}."
    else:
        why_none = f"{advised.why_none}{more_time(first, took)}"
    told = to_tell(
        *(asked, found, [first, each, second], advised, better, chosen, kept, added),
        confirmed=confirmed,
        why_none=why_none,
        not_tried=not_tried,
    )
    write(folder, told, asked)
    return Outcome(folder, kept, confirmed, why_none, tuple(told.reports))


def _each(
    asked: Asked, found: Experiment, whole: Chosen, folder: Path, left: float, reporter: Reporter
) -> tuple[Run | None, str]:
    """Return the sweep that tells what settings add to each other; else why there is none."""
    settings = adding.trying(found, whole)
    if len(settings) < adding.LEAST:
        return None, ""
    wanted = deriving.adding(found, settings, exact=asked.request.exact)
    try:
        return _swept(asked, wanted, folder, stages.EACH, left / 2, reporter), ""
    except SkblabError as error:
        return None, f"What settings add to each other was not measured: {error}"


def _swept(
    asked: Asked,
    wanted: Experiment,
    folder: Path,
    stage: str,
    minutes: float,
    reporter: Reporter,
) -> Run:
    """Run a sweep of an experiment that is written to a file first."""
    request = stages.requested(asked, wanted, folder, stage, minutes)
    if why := stages.no_time(asked, request, request.plan()):
        raise UsageError(why)
    plan, run_folder = request.begin()
    for sentence in request.told(plan):
        reporter.say(sentence)
    root = labroot.ensure(reporter)
    with session.alone(run_folder.path, reporter):
        session.run(plan, run_folder, root, reporter, advice.candidates, resumed=False)
    build_report(run_folder.path, gnuplot(root))
    run = load(run_folder.path)
    for heard in (heard for heard in run.complaints() if heard.spoils):
        reporter.say(f"a kernel complained {heard.where}: {heard.lines[0]}")
    if all(row.state == "invalid" for row in run.trials):
        raise SkblabError(f"every trial of {run_folder.path} is invalid: its report says why")
    return run


def _folder(name: str) -> Path:
    made = f"tune-{name}-{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}"
    for number in itertools.count(1):
        folder = paths.results() / (made if number == 1 else f"{made}-{number}")
        with contextlib.suppress(FileExistsError):
            folder.mkdir(parents=True)
            break
    return folder
