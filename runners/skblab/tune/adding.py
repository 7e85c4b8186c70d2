# SPDX-License-Identifier: GPL-2.0-or-later
"""What each setting adds to the others: all of them at once, beside all but one of them.

Some settings help only together: interrupts on two CPUs do nothing for a card that fills one queue,
and the second queue nothing where all interrupts go to one CPU. Alone, neither is seen.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from skblab.sweep.experiment import Experiment
from skblab.sweep.experiment import Setting as Wanted
from skblab.tune.choosing import Chosen, Goal, combine
from skblab.tune.deriving import TOGETHER
from skblab_analysis.load import Run
from skblab_analysis.report import advice
from skblab_analysis.report.advice import Worth

# Each costs a further setting to measure.
MOST = 8
# With one setting, or two of which one has all of the other, there is nothing to add.
LEAST = 3
NAME_MOST = 60


@dataclass(frozen=True)
class Added:
    """What was found of each setting, with the others there: what the rate is without it.

    `needed`: significantly worse without it, what it adds most first. `harmful`: significantly
    better without it. `idle`: neither.
    """

    needed: tuple[tuple[str, Worth], ...]
    harmful: tuple[tuple[str, Worth], ...]
    idle: tuple[str, ...]

    def lines(self) -> Iterator[tuple[str, str]]:
        """Yield each setting with what leaving it out does, in words."""
        for name, worth in (*self.needed, *self.harmful):
            yield name, f"without it, {worth.words(where=False)}"
        for name in self.idle:
            yield name, "without it, no significant difference"


def hopeful(run: Run, goal: Goal) -> list[str]:
    """Return the settings that may be good for a goal, alone or with others, the best first.

    Left out are those that are significantly worse, and those that are good on this testbed only.
    """
    found = advice.leanings(run, goal)
    return [
        name
        for name, worths in found.items()
        if name not in run.only_here
        and name not in run.identical
        and not any(worth.difference.significant and worth.gain < 0 for worth in worths)
    ][:MOST]


def together(run: Run, better: Sequence[str], goal: Goal) -> list[str]:
    """Return what to set at once: what is better alone, and what may be with others."""
    return list(dict.fromkeys((*better, *hopeful(run, goal))))[: max(MOST, len(better))]


def all_but(experiment: Experiment, chosen: Chosen) -> dict[str, Wanted]:
    """Return by setting what is set without it; none whose knobs the others have as well."""
    found = {}
    for number, name in enumerate(chosen.settings, 1):
        rest = combine(experiment, [other for other in chosen.settings if other != name])
        if rest.knobs and rest.knobs != chosen.knobs:
            called = f"without {name}"
            if len(called) > NAME_MOST:
                called = f"{called[: NAME_MOST - 3]} {number}"
            found[name] = Wanted(name=called, knobs=dict(rest.knobs))
    return found


def trying(experiment: Experiment, chosen: Chosen) -> list[Wanted]:
    """Return the settings of the sweep that tells what each adds; none if nothing is chosen."""
    if not chosen.knobs:
        return []
    whole = Wanted(name=TOGETHER, knobs=dict(chosen.knobs))
    return [whole, *all_but(experiment, chosen).values()]


def judged(run: Run, experiment: Experiment, chosen: Chosen, goal: Goal) -> Added:
    """Return what each of the chosen settings adds, by a sweep of `trying`."""
    names = {wanted.name: name for name, wanted in all_but(experiment, chosen).items()}
    itself = _itself(run, goal)
    found = advice.leanings(run.against(TOGETHER), goal)
    needed, harmful, idle = [], [], []
    for called, name in names.items():
        clear = [
            worth
            for worth in found.get(called, ())
            if worth.difference.significant and abs(worth.gain) > itself
        ]
        worst = min(clear, key=lambda worth: worth.gain, default=None)
        if worst is not None and worst.gain < 0:
            needed.append((name, worst))
        elif worst is not None:
            harmful.append((name, max(clear, key=lambda worth: worth.gain)))
        else:
            idle.append(name)
    needed.sort(key=lambda each: each[1].gain)
    return Added(tuple(needed), tuple(harmful), tuple(idle))


def _itself(run: Run, goal: Goal) -> float:
    """Return by which part the baseline differed from itself, at most."""
    gains: Sequence[float] = [
        abs(worth.of.gain(worth.of.again))
        for worths in advice.leanings(run, goal).values()
        for worth in worths
        if worth.of.again is not None
    ]
    return max(gains, default=0.0)
