# SPDX-License-Identifier: GPL-2.0-or-later
"""The experiments of both sweeps, made of the user's: files that sweeps run, and users can read."""

from __future__ import annotations

import tomli_w

from skblab.sweep.experiment import Experiment, differing
from skblab.sweep.experiment import Setting as Wanted
from skblab.tune.choosing import Chosen
from skblab_analysis.formats.run import MOST_NAME

# With fewer blocks no gain of a few per cent is significant (Student's t has two degrees of freedom
# then). On the wall clock as many follow as the time has room for; what is counted repeats.
LEAST_BLOCKS, MOST_BLOCKS = 3, 30
# Settings of the second sweep.
TOGETHER, BEST_ALONE = "all of it together", "the best alone"


def first(experiment: Experiment, *, exact: bool = False) -> Experiment:
    """Return the experiment with as many blocks as its time has room for."""
    return _named(experiment, _short(experiment.name, "-tune"), exact)


def confirming(experiment: Experiment, chosen: Chosen, *, exact: bool = False) -> Experiment:
    """Return what tries the chosen settings together, and the best of them alone."""
    best = next(one for one in experiment.settings() if one.name == chosen.settings[0])
    settings = [Wanted(name=TOGETHER, knobs=dict(chosen.knobs))]
    if differing(experiment, best) != dict(chosen.knobs):
        settings.append(Wanted(name=BEST_ALONE, knobs=best.knobs))
    made = experiment.model_copy(
        update={
            "setting": tuple(settings),
            "matrix": {},
            "pair": (),
            "exclude": (),
            "question": f"Does it hold in fresh boots: {', '.join(chosen.settings)}?",
            # Another order than that in which they were found to be good.
            "seed": experiment.seed + 1,
        }
    )
    return _named(made, _short(experiment.name, "-confirm"), exact)


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
