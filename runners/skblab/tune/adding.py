# SPDX-License-Identifier: GPL-2.0-or-later
"""What each setting adds to the others: all of them at once, beside all but one of them.

Some settings help only together: interrupts on two CPUs do nothing for a card that fills one queue,
and the second queue nothing where all interrupts go to one CPU. Alone, neither is seen.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
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
    """What was found of each setting, with the others there: what the figure is without it.

    `needed`: significantly worse without it, what it adds most first. `harmful`: significantly
    better without it. `mixed`: both, by different traffic or rates. `idle`: neither. `unknown`: too
    few blocks to tell. `several`: there is more than one traffic or rate, so that each is named.
    """

    needed: tuple[tuple[str, Worth], ...] = ()
    harmful: tuple[tuple[str, Worth], ...] = ()
    mixed: tuple[tuple[str, Worth, Worth], ...] = ()
    idle: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    several: bool = False

    def lines(self) -> Iterator[tuple[str, str]]:
        """Yield each setting with what leaving it out does, in words."""
        for name, worth in (*self.needed, *self.harmful):
            yield name, f"without it, {worth.words(where=self.several)}"
        for name, worst, best in self.mixed:
            both = " and ".join(worth.words(where=True) for worth in (worst, best))
            yield name, f"without it, {both}"
        for name in self.idle:
            yield name, "without it, no significant difference"
        for name in self.unknown:
            yield name, "not known: it was measured in too few blocks"


def hopeful(run: Run, goal: Goal, apart: Collection[str] = ()) -> list[str]:
    """Return the settings that may be good for a goal, alone or with others, the best first.

    Left out are those that are significantly worse, those that are good on this testbed only, and
    those in `apart`.
    """
    found = advice.leanings(run, goal)
    return [
        name
        for name, worths in found.items()
        if name not in run.only_here
        and name not in run.identical
        and name not in apart
        and not any(worth.difference.significant and worth.gain < 0 for worth in worths)
    ]


def at_once(experiment: Experiment, better: Sequence[str], others: Sequence[str]) -> Chosen:
    """Return what to set at once: what is better alone, and what may be with others."""
    whole = combine(experiment, list(dict.fromkeys((*better, *others))))
    if len(whole.settings) <= MOST:
        return whole
    # What is better alone comes first, and is never left out.
    kept = max(MOST, sum(name in better for name in whole.settings))
    return combine(experiment, whole.settings[:kept])


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
    found = advice.against(run, TOGETHER, goal)
    several = any(len(found.get(called, ())) > 1 for called in names)
    # Of many that add nothing, one is significant by chance.
    count = sum(len(found.get(called, ())) for called in names)
    needed, harmful, mixed, idle, unknown = [], [], [], [], []
    for called, name in names.items():
        worths = found.get(called, [])
        known = [(worth, worth.clear(count), itself) for worth, itself in worths]
        clear = [worth for worth, sure, itself in known if sure and abs(worth.gain) > itself]
        clear.sort(key=lambda worth: worth.gain)
        if all(sure is None for _, sure, _ in known):
            unknown.append(name)
        elif not clear:
            idle.append(name)
        elif clear[0].gain < 0 < clear[-1].gain:
            mixed.append((name, clear[0], clear[-1]))
        elif clear[0].gain < 0:
            needed.append((name, clear[0]))
        else:
            harmful.append((name, clear[-1]))
    needed.sort(key=lambda each: each[1].gain)
    return Added(tuple(needed), tuple(harmful), tuple(mixed), tuple(idle), tuple(unknown), several)
