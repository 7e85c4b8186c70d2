# SPDX-License-Identifier: GPL-2.0-or-later
"""A tune from its first sweep to its advice: sweep, choose, confirm, write down."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

from skblab.lab import paths
from skblab.lab.reporter import Reporter
from skblab.sweep import session
from skblab.sweep.experiment import Experiment
from skblab.testbeds import place
from skblab.tune import adding, choosing, deriving
from skblab.tune.asked import Asked
from skblab.tune.choosing import Chosen
from skblab.tune.judging import NOTHING, choice, gain, held
from skblab.tune.stages import CONFIRM, EACH, SWEEP
from skblab.tune.state import Progress
from skblab.tune.sweeping import Sweeps
from skblab.tune.telling import to_tell, write
from skblab.tune.timing import CONFIRM_SHARE, SWEEP_SHARE, minutes_of, more_time
from skblab_analysis.base.errors import SkblabError, UsageError
from skblab_analysis.load import Run
from skblab_analysis.report import advice

STOPPED = "It was stopped before anything was measured again."


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What is to be set and how it was confirmed, or why nothing is; where all was written."""

    folder: Path
    asked: Asked
    experiment: str
    kept: Chosen
    confirmed: str
    why_none: str
    reports: tuple[str, ...]


def tune(asked: Asked, found: Experiment, reporter: Reporter) -> Outcome:
    """Sweep the settings of an experiment, and return what to set; it is written down as well."""
    folder = _folder(found.name)
    with session.alone(folder, reporter):
        progress = Progress.begin(folder, asked, found)
        try:
            return _tune(asked, found, progress, reporter)
        except UsageError:
            if not progress.has_runs:
                # No sweep can be made of what was asked for.
                shutil.rmtree(folder, ignore_errors=True)
            raise


def resume(folder: Path, reporter: Reporter) -> Outcome:
    """Go on with a tune that was stopped; UsageError if that cannot be."""
    with session.alone(folder, reporter):
        progress = Progress.open(folder)
        return _tune(*progress.asked(), progress, reporter)


def _tune(asked: Asked, found: Experiment, progress: Progress, reporter: Reporter) -> Outcome:
    machines, folder = asked.request.machines, progress.folder
    # From the first sweep to the last one: others wait for all of it.
    with (
        _goes_on(folder, reporter),
        place.held(machines.labgrid if machines else None, folder.name, reporter),
    ):
        return _tuned(asked, found, progress, reporter)


@contextlib.contextmanager
def _goes_on(folder: Path, reporter: Reporter) -> Iterator[None]:
    """Say how to go on with a tune that was stopped."""
    try:
        yield
    except BaseException as error:
        if not isinstance(error, UsageError):
            _say_how(folder, reporter)
        raise


def _say_how(folder: Path, reporter: Reporter) -> None:
    reporter.say(f"go on with: ./skblab tune --resume {folder}")


def _tuned(asked: Asked, found: Experiment, progress: Progress, reporter: Reporter) -> Outcome:
    exact, folder = asked.request.exact, progress.folder
    sweeps = Sweeps(asked, progress, reporter)
    first = sweeps.run(deriving.first(found, exact=exact), SWEEP, SWEEP_SHARE * asked.minutes)
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
    each, not_tried = _each(asked, found, whole, sweeps, progress, asked.minutes - took)
    added = None if each is None else adding.judged(each, found, whole, asked.goal)
    chosen, others = choice(asked.goal, found, names, whole, each, added)
    best = choosing.combine(found, names[:1]) if names else None
    second: Run | None = None
    kept, why_none, confirmed, ended = NOTHING, "", "", True
    if chosen.settings:
        left = asked.minutes - took - (minutes_of(each) if each else 0.0)
        try:
            second = sweeps.run(
                deriving.confirming(found, chosen, best, others, exact=exact),
                CONFIRM,
                max(left, CONFIRM_SHARE * asked.minutes),
            )
        except SkblabError as error:
            # What the first sweep found is told all the same, and it can be tried again.
            why_none = f"What was better could not be measured again: {error}"
            ended = False
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
    if ended:
        progress.end()
    else:
        _say_how(folder, reporter)
    return Outcome(folder, asked, found.name, kept, confirmed, why_none, tuple(told.reports))


def _each(
    asked: Asked,
    found: Experiment,
    whole: Chosen,
    sweeps: Sweeps,
    progress: Progress,
    left: float,
) -> tuple[Run | None, str]:
    """Return the sweep that tells what settings add to each other; else why there is none."""
    settings = adding.trying(found, whole)
    if len(settings) < adding.LEAST:
        return None, ""
    why = progress.why_not(EACH)
    if not why:
        wanted = deriving.adding(found, settings, exact=asked.request.exact)
        try:
            run = sweeps.run(wanted, EACH, left / 2)
        except SkblabError as error:
            why = str(error)
            progress.failed(EACH, why)
        else:
            progress.succeeded(EACH)
            return run, ""
    return None, f"What settings add to each other was not measured: {why}"


def _folder(name: str) -> Path:
    made = f"tune-{name}-{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}"
    for number in itertools.count(1):
        folder = paths.results() / (made if number == 1 else f"{made}-{number}")
        with contextlib.suppress(FileExistsError):
            folder.mkdir(parents=True)
            break
    return folder
