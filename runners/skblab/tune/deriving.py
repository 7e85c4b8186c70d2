# SPDX-License-Identifier: GPL-2.0-or-later
"""The experiments of all sweeps, made of the user's: files that sweeps run, and users can read."""

from __future__ import annotations

from collections.abc import Sequence

import tomli_w

from skblab.sweep.experiment import Experiment
from skblab.sweep.experiment import Setting as Wanted
from skblab.tune.choosing import Chosen, combine
from skblab_analysis.formats.run import MOST_NAME

# With fewer blocks no gain of a few per cent is significant (Student's t has two degrees of freedom
# then). On the wall clock as many follow as the time has room for; what is counted repeats.
LEAST_BLOCKS, MOST_BLOCKS = 3, 30
# Settings of the sweeps that follow the first.
TOGETHER, BEST_ALONE, WHOLE = "all of it together", "the best alone", "all that was tried"


def first(experiment: Experiment, *, exact: bool = False) -> Experiment:
    """Return the experiment with as many blocks as its time has room for."""
    return _named(experiment, _short(experiment.name, "-tune"), exact)


def adding(experiment: Experiment, settings: Sequence[Wanted], *, exact: bool) -> Experiment:
    """Return what tries all hopeful settings at once, and all but each of them."""
    return _of(experiment, settings, "What does each setting add to the others?", "-each", exact)


def confirming(
    experiment: Experiment,
    chosen: Chosen,
    best: Chosen | None = None,
    whole: Chosen | None = None,
    *,
    exact: bool = False,
) -> Experiment:
    """Return what tries the chosen settings together, and the best one alone.

    `best` is that, if not the first of those. With `whole`, all of which they were chosen, that as
    well: of two that make up for each other none is needed, and one is.
    """
    first = combine(experiment, chosen.settings[:1]) if best is None else best
    settings = {TOGETHER: chosen.knobs}
    for name, more in ((BEST_ALONE, first), (WHOLE, whole)):
        if more is not None and dict(more.knobs) not in map(dict, settings.values()):
            settings[name] = more.knobs
    made = [Wanted(name=name, knobs=dict(knobs)) for name, knobs in settings.items()]
    question = f"Does it hold in fresh boots: {', '.join(chosen.settings)}?"
    return _of(experiment, made, question, "-confirm", exact)


def _of(
    experiment: Experiment, settings: Sequence[Wanted], question: str, kind: str, exact: bool
) -> Experiment:
    made = experiment.model_copy(
        update={
            "setting": tuple(settings),
            "matrix": {},
            "pair": (),
            "exclude": (),
            "question": question,
            # Another order than that in which they were found to be good.
            "seed": experiment.seed + 1,
        }
    )
    return _named(made, _short(experiment.name, kind), exact)


def text(experiment: Experiment) -> str:
    """Return an experiment as a file has it."""
    document = experiment.model_dump(mode="json", exclude_none=True, exclude_defaults=True)
    return tomli_w.dumps(document)


def _named(experiment: Experiment, name: str, exact: bool) -> Experiment:
    repeats = experiment.repeats.model_copy(
        update={
            "least": LEAST_BLOCKS,
            "most": LEAST_BLOCKS if exact else MOST_BLOCKS,
            "width": None,
            # Any: the one that counts is given with the sweep.
            "budget_minutes": experiment.repeats.budget_minutes or 60.0,
        }
    )
    return experiment.model_copy(update={"name": name, "repeats": repeats})


def _short(name: str, kind: str) -> str:
    """Return the name of a run: a folder's has so many characters at most."""
    return f"{name[: MOST_NAME - len(kind)]}{kind}"
