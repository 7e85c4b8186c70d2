# SPDX-License-Identifier: GPL-2.0-or-later
"""What each setting adds to the others: which are hopeful, and what is made of a sweep without."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import cast

import pytest

from skblab.sweep.experiment import Experiment
from skblab.tune import adding, choosing
from skblab.tune.choosing import Chosen
from skblab.tune.deriving import TOGETHER
from skblab_analysis.load import Run
from skblab_analysis.report import advice

# By setting, of each traffic: by which part it is better, and whether that is significant.
Found = Mapping[str, tuple[tuple[float, bool], ...]]
KNOBS = {"a": "netdev_budget", "b": "dev_weight", "c": "netdev_max_backlog"}


@dataclass
class Worth:
    """What a setting is worth by one comparison, whose baseline differs from itself by `itself`."""

    gain: float
    significant: bool
    itself: float | None

    @property
    def difference(self) -> SimpleNamespace:
        return SimpleNamespace(significant=self.significant)

    @property
    def of(self) -> SimpleNamespace:
        again = None if self.itself is None else object()
        return SimpleNamespace(again=again, gain=lambda _: self.itself)

    def words(self, *, where: bool) -> str:
        assert not where
        return f"rate {self.gain:+}"


@dataclass
class Sweep:
    """A run of which only this is known; `without` is what it is against all of them."""

    found: Found
    without: Found = field(default_factory=dict)
    itself: tuple[float | None, ...] = (None, None)
    only_here: tuple[str, ...] = ()
    identical: tuple[str, ...] = ()

    def against(self, baseline: str) -> Sweep:
        assert baseline == TOGETHER
        return Sweep(self.without)

    def worths(self) -> dict[str, list[Worth]]:
        return {
            name: [Worth(*one, of) for one, of in zip(found, self.itself, strict=False)]
            for name, found in self.found.items()
        }


@pytest.fixture(autouse=True)
def leanings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(advice, "leanings", lambda sweep, goal: sweep.worths())


def run(*some: object, **more: object) -> Run:
    return cast(Run, Sweep(*some, **more))  # type: ignore[arg-type]


def test_what_is_worse_or_of_this_testbed_is_not_hopeful() -> None:
    found = run(
        {
            "here": ((0.5, True),),
            "same": ((0.4, False),),
            "good": ((0.3, True),),
            "worse by one": ((0.2, True), (-0.1, True)),
            "not surely worse": ((-0.1, False),),
        },
        only_here=("here",),
        identical=("same",),
    )
    assert adding.hopeful(found, "throughput") == ["good", "not surely worse"]


def test_not_more_are_hoped_for_than_can_be_measured() -> None:
    found = run({f"{number}": ((0.1, False),) for number in range(20)})
    names = [f"{number}" for number in range(adding.MOST)]
    assert adding.hopeful(found, "throughput") == names
    better = ["19", "3"]
    assert adding.together(found, better, "throughput") == ["19", "3", "0", "1", "2", "4", "5", "6"]
    # What is better alone is never left out.
    better = [f"{number}" for number in range(19, 5, -1)]
    assert adding.together(found, better, "throughput") == better


def experiment() -> Experiment:
    settings = [{"name": name, "knobs": {knob: 999}} for name, knob in KNOBS.items()]
    return Experiment.model_validate(
        {
            "name": "few",
            "question": "Which?",
            "setting": [*settings, {"name": "a too", "knobs": {KNOBS["a"]: 999}}],
            "measure": {"throughput": {"seconds": 1.0}},
        }
    )


def test_what_others_have_as_well_is_not_left_out() -> None:
    made = experiment()
    chosen = choosing.combine(made, ["a", "b"])
    assert [one.name for one in adding.trying(made, chosen)] == [TOGETHER, "without a", "without b"]
    both = Chosen(("a", "a too", "b"), chosen.knobs)
    assert adding.all_but(made, both).keys() == {"b"}


def test_what_each_adds_is_told_by_its_worst_and_its_best() -> None:
    made = experiment()
    chosen = choosing.combine(made, list(KNOBS))
    without = {
        "without a": ((-0.1, True), (0.3, True)),
        "without b": ((0.2, True), (0.4, True)),
        "without c": ((-0.3, True),),
    }
    found = adding.judged(run({}, without), made, chosen, "throughput")
    assert list(found.lines()) == [
        ("c", "without it, rate -0.3"),
        ("a", "without it, rate -0.1"),
        ("b", "without it, rate +0.4"),
    ]


def test_what_is_not_clear_is_idle() -> None:
    """One is not significant, one within what the baseline differs from itself, one not there."""
    made = experiment()
    chosen = choosing.combine(made, list(KNOBS))
    without = {"without a": ((-0.5, False),), "without b": ((-0.2, True), (0.2, True))}
    itself = {"baseline again": ((0.0, False), (0.0, False))}
    found = adding.judged(run(itself, without, (0.1, -0.25)), made, chosen, "throughput")
    assert found == adding.Added((), (), ("a", "b", "c"))
    assert next(found.lines()) == ("a", "without it, no significant difference")
    found = adding.judged(run(itself, without, (0.1, None)), made, chosen, "throughput")
    assert [name for name, _ in found.needed] == ["b"]
