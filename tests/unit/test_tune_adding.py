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

    def clear(self, count: int) -> bool | None:
        assert count >= 1
        return self.significant

    def words(self, *, where: bool) -> str:
        return f"rate {self.gain:+}{' there' if where else ''}"


@dataclass
class Sweep:
    """A run of which only this is known; `without` is what it is against all of them."""

    found: Found
    without: Found = field(default_factory=dict)
    itself: tuple[float | None, ...] = (None, None)
    only_here: tuple[str, ...] = ()
    identical: tuple[str, ...] = ()

    def worths(self) -> dict[str, list[Worth]]:
        return {
            name: [Worth(*one, of) for one, of in zip(found, self.itself, strict=False)]
            for name, found in self.found.items()
        }


@pytest.fixture(autouse=True)
def leanings(monkeypatch: pytest.MonkeyPatch) -> None:
    def against(sweep: Sweep, baseline: str, goal: str) -> dict[str, list[tuple[Worth, float]]]:
        assert baseline == TOGETHER
        return {
            name: [
                (Worth(*one, of), of or 0.0) for one, of in zip(ones, sweep.itself, strict=False)
            ]
            for name, ones in sweep.without.items()
        }

    monkeypatch.setattr(advice, "leanings", lambda sweep, goal: sweep.worths())
    monkeypatch.setattr(advice, "against", against)


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


def test_not_more_are_set_at_once_than_can_be_measured() -> None:
    settings = [
        {"name": f"{number}", "knobs": {"netdev_budget": number + 1}} for number in range(10)
    ]
    several = [
        {"name": knob, "knobs": {knob: 999}}
        for knob in ("dev_weight", "netdev_max_backlog", "busy_poll", "busy_read")
    ]
    made = Experiment.model_validate(
        {
            "name": "few",
            "question": "Which?",
            "setting": [*settings, *several],
            "measure": {"throughput": {"seconds": 1.0}},
        }
    )
    # Ten of one knob are one.
    names = [one.name for one in made.settings()]
    whole = adding.at_once(made, [], names)
    assert whole.settings == ("0", *(one["name"] for one in several))
    assert len(adding.at_once(made, [], names).settings) <= adding.MOST


def test_what_is_better_alone_is_never_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adding, "MOST", 1)
    made = experiment()
    assert adding.at_once(made, ["b", "c"], ["a"]).settings == ("b", "c")
    assert adding.at_once(made, [], ["a", "b"]).settings == ("a",)


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


def test_what_each_adds_is_told() -> None:
    made = experiment()
    chosen = choosing.combine(made, list(KNOBS))
    without = {
        "without a": ((-0.1, True), (0.3, True)),
        "without b": ((0.2, True), (0.4, True)),
        "without c": ((-0.3, True),),
    }
    found = adding.judged(run({}, without), made, chosen, "throughput")
    assert list(found.lines()) == [
        ("c", "without it, rate -0.3 there"),
        ("b", "without it, rate +0.4 there"),
        ("a", "without it, rate -0.1 there and rate +0.3 there"),
    ]
    assert [name for name, _ in found.needed] == ["c"]
    one = {"without a": ((-0.1, True),)}
    found = adding.judged(run({}, one), made, chosen, "throughput")
    assert next(found.lines()) == ("a", "without it, rate -0.1")


def test_what_is_not_clear_is_idle_or_not_known() -> None:
    """One is not significant, one within what the baseline differs from itself, one not there."""
    made = experiment()
    chosen = choosing.combine(made, list(KNOBS))
    without = {"without a": ((-0.5, False),), "without b": ((-0.2, True), (0.2, True))}
    found = adding.judged(run({}, without, (0.3, 0.25)), made, chosen, "throughput")
    assert (found.idle, found.unknown) == (("a", "b"), ("c",))
    assert list(found.lines())[::2] == [
        ("a", "without it, no significant difference"),
        ("c", "not known: it was measured in too few blocks"),
    ]
    # Each figure by what it differs from itself, and not by what another one does.
    found = adding.judged(run({}, without, (0.1, 0.25)), made, chosen, "throughput")
    assert [name for name, _ in found.needed] == ["b"]
    one_block = {"without a": ((-0.5, None),)}
    found = adding.judged(run({}, one_block), made, chosen, "throughput")
    assert "a" in found.unknown
    # Under its whole name.
    found = adding.judged(run({}), made, choosing.combine(made, ["a too", "b"]), "throughput")
    assert found.unknown == ("a too", "b")
