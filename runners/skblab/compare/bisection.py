# SPDX-License-Identifier: GPL-2.0-or-later
"""Which commit made a workload slower: the search itself, with nothing of kernels or guests in it.

found = Bisection(commits, good, bad, figures).run()

Both ends are measured first, twice each: where they are too near, or do not repeat, nothing can be
found. Then a commit in the middle is measured, and is bad if its figure is nearer to the bad end's.
One that lies near the middle of both figures is measured again. A commit that cannot be measured
is left out, as `git bisect skip` does. At the end the culprit and its parents are booted once more:
it is the culprit only if it differs from each of them, as the ends do.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

from skblab_analysis.base.errors import SkblabError

# Ends are too near where they differ by fewer thresholds.
LEAST_THRESHOLDS = 2.0
# A figure is near the middle of both ends if it is nearer to it than this share of the step.
NEAR = 0.2
# Boots of a commit that stays near the middle.
MOST_BOOTS = 3
# Boots of the culprit and of its parents, at least.
SURE_BOOTS = 2
Verdict = Literal["good", "bad", "skipped"]


class Commits(Protocol):
    """A repository's commits, each by its whole name."""

    def between(self, goods: Sequence[str], bad: str) -> list[str]:
        """Return what is reachable from `bad` and from no good one, the best to try first."""

    def parents(self, commit: str) -> list[str]:
        """Return its parents."""


class CannotMeasureError(SkblabError):
    """A commit has no figure, and why: it does not build, does not boot, or loses packets."""


class NotFoundError(SkblabError):
    """No commit can be named, and why."""


@dataclass(frozen=True)
class Step:
    """A commit that was measured: the figures of its boots, what it was taken for, and why."""

    commit: str
    figures: tuple[float, ...]
    verdict: Verdict
    why: str = ""

    @property
    def figure(self) -> float:
        """What it costs."""
        return statistics.median(self.figures)


@dataclass(frozen=True)
class Found:
    """The commit that made the step, or those of which one did; `parent` is what it is beside."""

    commits: tuple[str, ...]
    parent: Step | None
    step: float | None


@dataclass
class Bisection:
    """A search between a good and a bad commit.

    `measure(commit, boot)` returns a figure, or raises CannotMeasureError. `threshold(figure)` says
    from which difference on two figures differ. `tell` hears of each step once it is known.
    """

    commits: Commits
    good: str
    bad: str
    measure: Callable[[str, int], float]
    threshold: Callable[[float], float]
    tell: Callable[[Step], None] = lambda _: None
    known: Mapping[str, Step] = field(default_factory=dict)
    steps: dict[str, Step] = field(default_factory=dict, init=False)

    def run(self) -> Found:
        """Search; NotFoundError where nothing can be said."""
        good, bad = self._end(self.good, "good"), self._end(self.bad, "bad")
        step = bad.figure - good.figure
        limit = LEAST_THRESHOLDS * self.threshold(good.figure)
        if abs(step) < limit:
            raise NotFoundError(
                f"both ends are too near: {good.figure:.1f} and {bad.figure:.1f} instructions; "
                f"expected a step of at least {limit:.1f}"
            )
        goods, last = [self.good], self.bad
        while True:
            between = self.commits.between(goods, last)
            skipped = {of for of, one in self.steps.items() if one.verdict == "skipped"}
            left = [commit for commit in between if commit != last and commit not in skipped]
            if not left:
                return self._result(last, [one for one in between if one != last], step)
            one = self._middle(left[0], good.figure, step)
            if one.verdict == "good":
                goods.append(one.commit)
            elif one.verdict == "bad":
                last = one.commit

    def _end(self, commit: str, called: Verdict) -> Step:
        """Measure an end in two boots."""
        if (one := self.known.get(commit)) is not None and one.verdict == called:
            self.steps[commit] = one
            return one
        try:
            figures = (self.measure(commit, 0), self.measure(commit, 1))
        except CannotMeasureError as error:
            raise NotFoundError(
                f"the {called} end, {commit[:12]}, cannot be measured: {error}"
            ) from error
        apart = abs(figures[1] - figures[0])
        if apart > self.threshold(figures[0]):
            raise NotFoundError(
                f"the {called} end, {commit[:12]}, does not repeat: {figures[0]:.1f} and "
                f"{figures[1]:.1f} instructions in two boots"
            )
        return self._keep(Step(commit, figures, called))

    def _middle(self, commit: str, good: float, step: float) -> Step:
        """Measure a commit between the ends, until it is clear on which side it is."""
        if (known := self.known.get(commit)) is not None:
            self.steps[commit] = known
            return known
        figures: list[float] = []
        try:
            for boot in range(MOST_BOOTS):
                figures.append(self.measure(commit, boot))
                share = (statistics.median(figures) - good) / step
                if abs(share - 0.5) > NEAR:
                    break
        except CannotMeasureError as error:
            return self._keep(Step(commit, tuple(figures), "skipped", str(error)))
        return self._keep(Step(commit, tuple(figures), "bad" if share > 0.5 else "good"))

    def _keep(self, step: Step) -> Step:
        self.steps[step.commit] = step
        self.tell(step)
        return step

    def _result(self, culprit: str, skipped: Sequence[str], whole: float) -> Found:
        """Compare the first bad commit with its parents, in fresh boots; `whole` is the step."""
        if skipped:
            # One of those that cannot be measured may be it.
            return Found((culprit, *skipped), None, None)
        there = [
            one
            for parent in self.commits.parents(culprit)
            if (one := self._once_more(parent)) is not None
        ]
        if not there:
            return Found((culprit,), None, None)
        own = self._once_more(culprit) or self.steps[culprit]
        nearest = min(there, key=lambda one: (own.figure - one.figure) / whole)
        step = own.figure - nearest.figure
        if step / whole < 0 or abs(step) < self.threshold(nearest.figure):
            raise NotFoundError(self._no_step(culprit, nearest, len(there)))
        return Found((culprit,), nearest, step)

    def _no_step(self, culprit: str, parent: Step, parents: int) -> str:
        apart = f"{self.steps[culprit].figure:.1f} and {parent.figure:.1f} instructions"
        if parents > 1:
            return (
                f"{culprit[:12]} merges what costs as much as itself ({apart}): its parent "
                f"{parent.commit[:12]} is of a branch that is older than the good end; search "
                f"there, with --bad {parent.commit[:12]} and an older --good"
            )
        return (
            f"no commit alone: {culprit[:12]}, the first that is nearer to the bad end, and its "
            f"parent are too near ({apart}); several commits added a little each, or a boot was off"
        )

    def _once_more(self, commit: str) -> Step | None:
        """Return a commit in two boots, in three if they differ; None where it has no figure."""
        before = self.steps.get(commit) or self.known.get(commit)
        figures = before.figures if before is not None else ()
        verdict: Verdict = "good" if before is None else before.verdict
        if before is not None and len(figures) >= SURE_BOOTS:
            self.steps[commit] = before
            return before
        try:
            while len(figures) < SURE_BOOTS or (
                len(figures) < MOST_BOOTS
                and max(figures) - min(figures) > self.threshold(figures[0])
            ):
                figures = (*figures, self.measure(commit, len(figures)))
        except CannotMeasureError:
            if not figures:
                return None
        return self._keep(Step(commit, figures, verdict))
