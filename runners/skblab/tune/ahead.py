# SPDX-License-Identifier: GPL-2.0-or-later
"""What a tune would try, in which order and time: known before a guest or a run folder exists.

The first sweep is known as it will be. The others are of what it finds: what is said of them is the
most that they can be with settings of the file's order, and how their time is reckoned.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Literal

from pydantic import Field, JsonValue

from skblab.knobs.onlyhere import why_only_here
from skblab.knobs.values import Value, text
from skblab.sweep.budget import fitting
from skblab.sweep.experiment import BASELINE, Experiment, Setting, differing, knobs_of
from skblab.sweep.measure.exact import Exact
from skblab.sweep.measures import parts
from skblab.sweep.plan import Plan
from skblab.sweep.planned import Boot, Measurement
from skblab.sweep.request import Request
from skblab.tune import adding, choosing, deriving, stages
from skblab.tune.asked import Asked
from skblab.tune.choosing import Chosen, Goal
from skblab.tune.stages import CONFIRM, EACH, SWEEP, StageName
from skblab.tune.timing import CONFIRM_SHARE, SWEEP_SHARE, least_minutes
from skblab_analysis.base.certainty import AGAIN
from skblab_analysis.base.checked import Closed
from skblab_analysis.base.words import counted

DECIDES: Mapping[str, str] = {
    SWEEP: "Which settings are significantly better for the goal than the baseline, each alone, "
    "and which are worse: these are tried no further.",
    EACH: f"What each setting adds to the others: up to {adding.MOST} that were not worse are set "
    "at once, and then all but one of them, for each. What is worse with the others is dropped, "
    "what is needed is kept.",
    CONFIRM: "What is advised: what was needed is measured together, beside the best setting alone "
    "and beside all that was tried. Only what is significantly better again is advised; of sets "
    "that are not significantly apart, the one with the fewest settings.",
}


class Trial(Closed):
    """What is measured once of a setting: a search, or a trial at a rate."""

    measure: str
    traffic: str
    rate: int | None = Field(description="packets a second; null: a search, or a count")
    tester: bool = Field(description="of the tester alone, before the settings of a boot")
    seconds: float = Field(description="about how long it takes")


class Tried(Closed):
    """A setting that would be tried: all its knobs, and how a person sets each."""

    name: str
    knobs: dict[str, str]
    by_hand: dict[str, str]
    only_here: str = Field(default="", description="why it is never advised from here; empty: may")


class Ordered(Closed):
    """A setting at its place in the order, with its trials in theirs, by their numbers."""

    setting: str
    trials: tuple[int, ...]


class OrderedBoot(Closed):
    """A boot at its place in the order."""

    block: int = Field(description="from 1")
    boot: str = Field(description="knobs that only a boot sets, in words")
    settings: tuple[Ordered, ...]


class Stage(Closed):
    """A sweep of the tune. Where it is not `known`, it is as large as it can become."""

    name: StageName
    known: bool = Field(description="it will be so; else it depends on what was found before")
    decides: str
    minutes: float = Field(description="what it is given")
    estimated_minutes: float = Field(description="of the blocks that fit")
    blocks: int = Field(description="how many fit in its minutes")
    plan: str = Field(description="names the plan of one that is known; else empty")
    measure: dict[str, JsonValue] = Field(description="sections of the experiment, as shortened")
    settings: tuple[Tried, ...]
    trials: tuple[Trial, ...] = Field(description="of each setting; of the tester")
    order: tuple[OrderedBoot, ...] = Field(description="of one that is known: blocks that fit")


class TunePlan(Closed):
    """What `skblab tune --dry-run` prints; nothing was started for it."""

    schema_name: Literal["skblab.tune-plan/1"] = "skblab.tune-plan/1"
    experiment: str
    question: str
    goal: Goal
    testbed: str
    kernel: str
    minutes: float
    estimated_minutes: float = Field(description="of all stages, with the most settings")
    stages: tuple[Stage, ...]
    not_covered: tuple[str, ...] = Field(description="what the time has no room for, in sentences")
    cannot_run: tuple[str, ...] = Field(description="why it would be refused; empty if not")


def planned(asked: Asked, found: Experiment) -> TunePlan:
    """Return what a tune would do; UsageError if its files cannot be read."""
    # Machines that cannot be read are said now.
    request, exact = asked.request, asked.request.exact
    _ = request.machines
    with tempfile.TemporaryDirectory() as made:
        ahead = _Ahead(asked, Path(made))
        ahead.add(SWEEP, deriving.first(found, exact=exact), SWEEP_SHARE * asked.minutes)
        names = [one.name for one in found.settings() if not _only_here(request, found, one)]
        whole = adding.at_once(found, [], names)
        settings = adding.trying(found, whole)
        left = asked.minutes - ahead.took
        if len(settings) >= adding.LEAST:
            ahead.add(EACH, deriving.adding(found, settings, exact=exact), left / 2)
        if whole.settings:
            left = max(asked.minutes - ahead.took, CONFIRM_SHARE * asked.minutes)
            ahead.add(CONFIRM, _most(found, whole, exact=exact), left)
    ahead.not_covered += _never(request, found, names, whole)
    return TunePlan(
        experiment=found.name,
        question=found.question,
        goal=asked.goal,
        testbed=request.testbed,
        kernel=str(request.kernel) if request.kind.boots else "your own",
        minutes=asked.minutes,
        estimated_minutes=round(ahead.took, 1),
        stages=tuple(ahead.stages),
        not_covered=tuple(ahead.not_covered),
        cannot_run=tuple(ahead.cannot_run),
    )


class _Ahead:
    """Stages that are planned one after the other; `took` are their minutes by the estimate."""

    def __init__(self, asked: Asked, folder: Path) -> None:
        self._asked, self._folder = asked, folder
        self.stages: list[Stage] = []
        self.not_covered: list[str] = []
        self.cannot_run: list[str] = []
        self.took = 0.0

    def add(self, name: str, wanted: Experiment, minutes: float) -> None:
        """Plan a stage that is given so many minutes."""
        request = stages.requested(self._asked, wanted, self._folder, name, minutes)
        plan = request.plan()
        blocks, known = fitting(plan, request.at_once), name == SWEEP
        took = plan.seconds(blocks, request.at_once) / 60 if blocks else 0.0
        self.stages.append(
            Stage.model_validate(
                {
                    "name": name,
                    "known": known,
                    "decides": DECIDES[name],
                    "minutes": round(minutes, 1),
                    "estimated_minutes": round(took, 1),
                    "blocks": blocks,
                    "plan": plan.digest if known else "",
                    "measure": _measure(plan),
                    "settings": tuple(_tried(request, plan.experiment)),
                    "trials": tuple(_trials(plan).values()),
                    "order": tuple(_order(plan, blocks)) if known else (),
                }
            )
        )
        self._judge(name, request, plan, blocks)
        self.took += took

    def _judge(self, name: str, request: Request, plan: Plan, blocks: int) -> None:
        """Note what this stage has no room for, and why the tune would be refused."""
        if name == SWEEP:
            self.cannot_run += request.impossible(plan)
        if why := stages.no_time(self._asked, request, plan):
            # Without the first sweep there is nothing; without another, there is less.
            self._missing(name, f"{name}: {why}.")
            return
        self.not_covered += [f"{name}: {sentence}" for sentence in request.shortened(plan)]
        if blocks < deriving.LEAST_BLOCKS:
            enough = least_minutes(plan, request, SWEEP_SHARE if name == SWEEP else CONFIRM_SHARE)
            self.not_covered.append(
                f"{name}: {counted(blocks, 'block')} of it {'fits' if blocks == 1 else 'fit'}. "
                f"With fewer than {deriving.LEAST_BLOCKS} no gain of a few per cent is "
                f"significant; {deriving.LEAST_BLOCKS} take about --minutes {enough}."
            )

    def _missing(self, name: str, why: str) -> None:
        if name == SWEEP:
            self.cannot_run.append(why)
        else:
            self.not_covered.append(why)


def _most(found: Experiment, whole: Chosen, *, exact: bool) -> Experiment:
    """Return the largest last sweep: some that were needed, the best of them, and all."""
    several = len(whole.settings) > 2
    needed = choosing.combine(found, whole.settings[:-1]) if several else whole
    best = choosing.combine(found, whole.settings[:1])
    return deriving.confirming(found, needed, best, whole, exact=exact)


def _never(request: Request, found: Experiment, names: list[str], whole: Chosen) -> Iterator[str]:
    """Yield which settings are not set with others, whatever is found of them."""
    for one in found.settings():
        if why := _only_here(request, found, one):
            yield f"{one.name}: measured and never advised from this testbed: {why}."
    if over := len(choosing.combine(found, names).settings) - len(whole.settings):
        yield (
            f"{EACH}: {counted(over, 'setting')} of those that can be set together would be left "
            f"out if all are as good: {adding.MOST} are tried at once, the best of the first sweep."
        )


def _only_here(request: Request, found: Experiment, setting: Setting) -> str:
    """Return why a setting tells nothing of other machines; nobody's own router is such a one."""
    if not request.kind.boots:
        return ""
    cpus = request.exact_cpus(found) if request.exact else request.kind.cpus(found)
    return why_only_here(request.kind.machine(cpus), differing(found, setting))


def _measure(plan: Plan) -> dict[str, JsonValue]:
    if plan.exact:
        return {"instructions": {}}
    asked = plan.experiment.measure.model_dump(mode="json", exclude_none=True)
    return {name: section for name, section in asked.items() if section is not None}


def _tried(request: Request, found: Experiment) -> Iterator[Tried]:
    yield _one(found, BASELINE, knobs_of(found, None), "")
    yield _one(found, AGAIN, knobs_of(found, None), "")
    for one in found.settings():
        why = _only_here(request, found, one)
        yield _one(found, one.name, knobs_of(found, one), why)


def _one(found: Experiment, name: str, knobs: Mapping[str, Value], only_here: str) -> Tried:
    return Tried(
        name=name,
        knobs={knob: text(value) for knob, value in knobs.items()},
        by_hand={knob: found.catalogue[knob].by_hand(value) for knob, value in knobs.items()},
        only_here=only_here,
    )


def _kind(measurement: Measurement) -> tuple[str, str, int | None, bool]:
    """Return what tells measurements of one setting apart."""
    stream = str(measurement.stream)
    return measurement.measure, stream, measurement.rate, measurement.tester


def _trials(plan: Plan) -> dict[tuple[str, str, int | None, bool], Trial]:
    """Return what is measured of each setting, and of the tester, in no order of theirs."""
    asked = plan.experiment.measure
    taking = parts(asked, Exact(cpus=plan.cpus) if plan.exact else None)
    found = {}
    for _, _, one in plan.measurements():
        if (kind := _kind(one)) not in found:
            seconds = sum(part.seconds(asked, one) for part in taking if part.joins(one))
            found[kind] = Trial(
                measure=one.measure,
                traffic=str(one.stream),
                rate=one.rate,
                tester=one.tester,
                seconds=round(seconds, 1),
            )
    return dict(
        sorted(found.items(), key=lambda item: (not item[0][3], item[0][:2], item[0][2] or 0))
    )


def _order(plan: Plan, blocks: int) -> Iterator[OrderedBoot]:
    numbers = {kind: number for number, kind in enumerate(_trials(plan))}
    for boot in plan.boots:
        if boot.block < blocks:
            yield OrderedBoot(
                block=boot.block + 1, boot=str(boot), settings=tuple(_ordered(boot, numbers))
            )


def _ordered(
    boot: Boot, numbers: Mapping[tuple[str, str, int | None, bool], int]
) -> Iterator[Ordered]:
    for one in boot.settings:
        trials = tuple(numbers[_kind(wanted)] for wanted in one.measurements)
        yield Ordered(setting=one.setting, trials=trials)
