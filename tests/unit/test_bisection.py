# SPDX-License-Identifier: GPL-2.0-or-later
"""The search for the commit that made a workload slower, on repositories that tests make."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from repositories import make_line, run_git
from skblab.compare.bisecting import Repository
from skblab.compare.bisection import (
    Bisection,
    CannotMeasureError,
    Found,
    NotFoundError,
    Step,
)
from skblab.lab.kernel import git

# Instructions, of a workload and of the noise between boots; more than that is a difference.
BASE, STEP, LIMIT = 4000.0, 100.0, 4.0


@dataclass
class Kernels:
    """What commits cost: those from `culprit` on cost a step more; noise is the boots' own."""

    costs: dict[str, float]
    broken: frozenset[str] = frozenset()
    noise: random.Random = field(default_factory=lambda: random.Random(1))
    spread: float = 1.0
    asked: Counter[str] = field(default_factory=Counter)

    def measure(self, commit: str, boot: int) -> float:
        """Return what a boot counts."""
        self.asked[commit] += 1
        if commit in self.broken:
            raise CannotMeasureError("it does not build")
        return self.costs[commit] + self.noise.uniform(-self.spread, self.spread)


def line_of(folder: Path, count: int) -> tuple[Repository, list[str]]:
    """Return a repository with so many commits in a row, and their names."""
    return Repository(folder), make_line(folder, [f"change {number}" for number in range(count)])


def branched(folder: Path, at: str, into: str) -> tuple[list[str], str]:
    """Make a branch of two commits `at` one, and merge it; return both, and the merge."""
    run_git(folder, "checkout", "-q", "-b", "side", at)
    side = []
    for number in range(2):
        (folder / "other").write_text(f"{number}\n")
        run_git(folder, "add", "other")
        run_git(folder, "commit", "-q", "-m", f"side {number}")
        side.append(run_git(folder, "rev-parse", "HEAD"))
    run_git(folder, "checkout", "-q", "-B", "main", into)
    run_git(folder, "merge", "-q", "--no-ff", "-m", "merge", "side")
    return side, run_git(folder, "rev-parse", "HEAD")


def searched(repository: Repository, made: list[str], kernels: Kernels) -> Found:
    """Search between the first and the last commit."""
    return Bisection(
        repository,
        made[0],
        made[-1],
        kernels.measure,
        lambda _: LIMIT,
    ).run()


def stepped(made: list[str], culprit: int, step: float = STEP) -> dict[str, float]:
    """Return what commits cost where one of them adds a step."""
    return {one: BASE + step * (place >= culprit) for place, one in enumerate(made)}


@pytest.mark.parametrize("seed", range(10))
def test_the_culprit_is_found_beside_commits_that_cannot_be_measured(
    tmp_path: Path, seed: int
) -> None:
    chance = random.Random(seed)
    repository, made = line_of(tmp_path, 20)
    culprit = chance.randrange(1, 20)
    others = [place for place in range(1, 19) if abs(place - culprit) > 1]
    broken = frozenset(made[place] for place in chance.sample(others, 2))
    kernels = Kernels(stepped(made, culprit), broken, noise=chance)
    found = searched(repository, made, kernels)
    assert found.commits == (made[culprit],)
    assert found.parent is not None and found.parent.commit == made[culprit - 1]
    assert found.step == pytest.approx(STEP, abs=3)
    assert sum(kernels.asked.values()) <= 4 + 7 + 1


@pytest.mark.parametrize("sign", [1, -1])
def test_a_commit_that_made_it_quicker_is_found_as_well(tmp_path: Path, sign: int) -> None:
    repository, made = line_of(tmp_path, 6)
    found = searched(repository, made, Kernels(stepped(made, 3, sign * STEP)))
    assert found.commits == (made[3],) and found.step == pytest.approx(sign * STEP, abs=3)


def test_a_commit_beside_one_that_cannot_be_measured_is_one_of_both(tmp_path: Path) -> None:
    repository, made = line_of(tmp_path, 8)
    found = searched(repository, made, Kernels(stepped(made, 4), frozenset((made[4], made[3]))))
    assert set(found.commits) == {made[3], made[4], made[5]} and found.step is None


def test_a_merged_branch_is_searched(tmp_path: Path) -> None:
    repository, made = line_of(tmp_path, 3)
    side, merge = branched(tmp_path, made[0], made[-1])
    slow = {side[1], merge}
    costs = {of: BASE + STEP * (of in slow) for of in (*made, *side, merge)}
    kernels = Kernels(costs)
    found = Bisection(repository, made[0], merge, kernels.measure, lambda _: LIMIT).run()
    assert found.commits == (side[1],)
    assert found.parent is not None and found.parent.commit == side[0]


def test_a_branch_that_is_older_than_the_good_end_is_not_searched(tmp_path: Path) -> None:
    """It costs what the good end has gained since: none of its commits has added anything."""
    repository, made = line_of(tmp_path, 6)
    side, merge = branched(tmp_path, made[0], made[-1])
    quick = {made[0]: BASE + STEP, **dict.fromkeys(side, BASE + STEP)}
    costs = {of: quick.get(of, BASE + STEP * (of in (made[4], made[5], merge))) for of in made}
    costs |= {**dict.fromkeys(side, BASE + STEP), merge: BASE + STEP}
    kernels = Kernels(costs)
    found = Bisection(repository, made[1], merge, kernels.measure, lambda _: LIMIT).run()
    assert found.commits == (made[4],) and found.step == pytest.approx(STEP, abs=3)
    assert not {*side} & {*kernels.asked}


def test_a_merge_that_brings_it_from_an_older_branch_is_said(tmp_path: Path) -> None:
    repository, made = line_of(tmp_path, 4)
    side, merge = branched(tmp_path, made[0], made[-1])
    costs = dict.fromkeys(made, BASE) | dict.fromkeys((*side, merge), BASE + STEP)
    with pytest.raises(NotFoundError, match=f"with --bad {side[-1][:12]}"):
        Bisection(repository, made[1], merge, Kernels(costs).measure, lambda _: LIMIT).run()


def test_where_each_commit_adds_a_little_none_is_named(tmp_path: Path) -> None:
    repository, made = line_of(tmp_path, 40)
    costs = {one: BASE + 2 * place for place, one in enumerate(made)}
    with pytest.raises(NotFoundError, match="no commit alone: "):
        searched(repository, made, Kernels(costs, spread=0.0))


def test_a_boot_that_was_off_names_nobody(tmp_path: Path) -> None:
    """A good commit whose first boot looked bad is booted once more before it is named."""
    repository, made = line_of(tmp_path, 8)
    costs = stepped(made, 6)
    [first] = [of for of in repository.between([made[0]], made[-1]) if of != made[-1]][:1]

    def measure(commit: str, boot: int) -> float:
        return costs[commit] + (STEP if (commit, boot) == (first, 0) else 0)

    with pytest.raises(NotFoundError, match="or a boot was off"):
        Bisection(repository, made[0], made[-1], measure, lambda _: LIMIT).run()


def test_histories_without_a_common_commit(tmp_path: Path) -> None:
    _, made = line_of(tmp_path, 2)
    run_git(tmp_path, "checkout", "-q", "--orphan", "other")
    run_git(tmp_path, "commit", "-q", "-m", "alone")
    assert not git.is_ancestor(tmp_path, made[0], run_git(tmp_path, "rev-parse", "HEAD"))


def test_a_subject_says_nothing_to_a_terminal(tmp_path: Path) -> None:
    run_git(tmp_path, "init", "-q")
    run_git(tmp_path, "commit", "-q", "--allow-empty", "-m", "net: \x1b]0;x\x07 [red]")
    assert git.subject(tmp_path, "HEAD") == "net: ?]0;x? [red]"


def test_ends_that_are_too_near_are_refused(tmp_path: Path) -> None:
    repository, made = line_of(tmp_path, 4)
    kernels = Kernels(stepped(made, 2, 6.0), spread=0.0)
    with pytest.raises(NotFoundError, match=r"both ends are too near: 4000\.0 and 4006\.0 "):
        searched(repository, made, kernels)
    assert set(kernels.asked) == {made[0], made[-1]}


def test_an_end_that_does_not_repeat_is_refused(tmp_path: Path) -> None:
    repository, made = line_of(tmp_path, 4)
    kernels = Kernels(stepped(made, 2), spread=0.0)
    boots = iter((4000.0, 4010.0))

    def measure(commit: str, boot: int) -> float:
        return next(boots)

    kernels.measure = measure  # type: ignore[method-assign]
    with pytest.raises(NotFoundError, match=r"does not repeat: 4000\.0 and 4010\.0 "):
        searched(repository, made, kernels)


@pytest.mark.parametrize(("broken", "called"), [(0, "good"), (-1, "bad")])
def test_an_end_that_cannot_be_measured_is_said(tmp_path: Path, broken: int, called: str) -> None:
    repository, made = line_of(tmp_path, 4)
    kernels = Kernels(stepped(made, 2), frozenset((made[broken],)))
    with pytest.raises(NotFoundError, match=f"the {called} end, .*: it does not build"):
        searched(repository, made, kernels)


def test_what_lies_in_the_middle_is_measured_again(tmp_path: Path) -> None:
    """Of the middle commit the first boot says nothing; the next ones do."""
    repository, made = line_of(tmp_path, 3)
    costs = stepped(made, 1)
    boots = iter((4050.0, 4099.0, 4101.0))

    def measure(commit: str, boot: int) -> float:
        return next(boots) if commit == made[1] else costs[commit]

    told: list[Step] = []
    found = Bisection(repository, made[0], made[2], measure, lambda _: LIMIT, told.append).run()
    assert found.commits == (made[1],)
    assert [one.figures for one in told if one.commit == made[1]] == [(4050.0, 4099.0)]
    assert found.step == pytest.approx(74.5)


def test_two_steps_one_of_them_is_found_and_is_a_step(tmp_path: Path) -> None:
    repository, made = line_of(tmp_path, 12)
    costs = {one: BASE + 60 * (of >= 3) + 60 * (of >= 8) for of, one in enumerate(made)}
    found = searched(repository, made, Kernels(costs))
    assert found.commits[0] in (made[3], made[8]) and found.step == pytest.approx(60, abs=3)


def test_what_is_known_is_not_measured_again(tmp_path: Path) -> None:
    repository, made = line_of(tmp_path, 16)
    kernels = Kernels(stepped(made, 11))
    first = Bisection(repository, made[0], made[-1], kernels.measure, lambda _: LIMIT)
    found = first.run()
    again = Kernels({})
    second = Bisection(
        repository,
        made[0],
        made[-1],
        again.measure,
        lambda _: LIMIT,
        known=first.steps,
    )
    assert second.run() == found and not again.asked
