# SPDX-License-Identifier: GPL-2.0-or-later
"""`run.json`: what a run was meant to do, on what, with what, and how it ended."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import (
    AwareDatetime,
    Field,
    NonNegativeFloat,
    StringConstraints,
    model_validator,
)

from skblab_analysis.base.checked import Finite
from skblab_analysis.base.whole import Positive, Whole
from skblab_analysis.formats.ledger import Ledger, of_before
from skblab_analysis.trials.rows import Clock, Setting

# Of a run folder; without it, a folder is none.
DOCUMENT = "run.json"
# Characters of a run's name.
MOST_NAME = 48
RunName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9_-]*$", max_length=MOST_NAME)]


class Plan(Finite):
    """What was asked for. Same plan, same order of trials: `seed` decides it."""

    experiment: str = Field(description="name of the experiment")
    question: str = Field(default="", description="the question in one sentence")
    seed: Whole = Field(description="seed of the random order")
    packets: Whole | None = Field(default=None, description="packets sent per wall trial")
    baseline: Setting | None = Field(default=None, description="setting others are compared with")
    settings: tuple[str, ...] = Field(
        default=(), description="names of settings, in the order in which results are shown"
    )
    traffic: tuple[str, ...] = Field(default=(), description="kinds of traffic, in that order")
    again: str = Field(default="", description="the command that runs it again")
    parameters: dict[str, str | int | float | bool] = Field(
        default_factory=dict, description="further parameters, by name"
    )


class Kernel(Finite):
    """The kernel under test."""

    release: str = Field(description="as `uname -r` says")
    version: str = Field(default="", description="as `uname -v` says")
    flavour: str = Field(description="stock or rt")
    source: str = Field(default="", description="where the source came from, with its version")
    config_hash: str = Field(description="digest of the .config")
    patches: tuple[str, ...] = Field(description="patches applied, in order; empty: none")


class Guest(Finite):
    """One way the guest was run."""

    accel: str = Field(description="accelerator, such as kvm or tcg")
    cpus: Positive = Field(description="virtual CPUs")
    memory_mib: Positive = Field(description="memory in MiB")
    command_line: str = Field(description="kernel command line, as /proc/cmdline says")
    clocksource: str = Field(default="", description="clock source the guest's kernel chose")
    machine: str = Field(default="", description="the emulator's own options that matter")


class Host(Finite):
    """The machine that ran the guest."""

    system: str = Field(description="operating system and release")
    cpu: str = Field(description="processor model")
    cpus: Positive = Field(description="processors usable by the run")
    memory_mib: Positive = Field(description="memory in MiB")


class Environment(Finite):
    """All that the numbers depend on and the plan does not say."""

    kernel: Kernel
    guests: dict[Clock, Guest] = Field(description="how the guest ran, by clock")
    host: Host
    more: dict[str, str] = Field(default_factory=dict, description="further facts, by name")


class Command(Finite):
    """A command of the measurement, as a person would type it."""

    where: str = Field(description="the machine or namespace it ran in")
    command: str
    setting: str = Field(default="", description="the setting that it makes; empty: none")
    by_hand: str = Field(
        default="",
        description="the same as a person would do it, where that differs from the baseline; "
        "DEVICE is each network device",
    )


class OnlyHere(Finite):
    """A setting whose effect is one of this testbed, and would be another one elsewhere."""

    setting: str
    reason: str = Field(description="why, in a sentence without its full stop")


class Timing(Finite):
    """Wall time of one step of the run."""

    step: str
    seconds: NonNegativeFloat


def timings_of(steps: Mapping[str, float]) -> tuple[Timing, ...]:
    """Return the timings of steps; `steps` maps each to its wall seconds."""
    return tuple(Timing(step=step, seconds=seconds) for step, seconds in steps.items())


def with_one_kind_of_ledgers(found: object) -> object:
    """Return a document that has ledgers, and had accounts beside them in an older version."""
    if not isinstance(found, dict):
        return found
    kinds = [found.get(name, []) for name in ("ledgers", "accounts")]
    if not all(isinstance(kind, list) and all(isinstance(e, dict) for e in kind) for kind in kinds):
        return found
    rest = {name: value for name, value in found.items() if name != "accounts"}
    return rest | {"ledgers": [of_before(ledger) for kind in kinds for ledger in kind]}


class RunDocument(Finite):
    """The whole of `run.json`."""

    schema_: Literal[
        "skblab.run/1", "skblab.run/2", "skblab.run/3", "skblab.run/4", "skblab.run/5"
    ] = Field(default="skblab.run/5", alias="schema")
    name: RunName
    state: Literal["running", "finished", "failed"]
    reason: str = Field(default="", description="why the run failed; empty otherwise")
    synthetic: bool = Field(default=False, description="made-up numbers, for tests only")
    started: AwareDatetime = Field(description="UTC")
    finished: AwareDatetime | None = Field(default=None, description="UTC; null while it runs")
    plan: Plan
    trials: Whole = Field(
        default=0, description="trials in the tables; those in parts/ come after them"
    )
    ledgers: tuple[Ledger, ...] = ()
    environment: Environment | None = None
    versions: dict[str, str] = Field(default_factory=dict, description="tool to version")
    commands: tuple[Command, ...] = ()
    only_here: tuple[OnlyHere, ...] = Field(
        default=(), description="settings whose effect is one of this testbed"
    )
    timings: tuple[Timing, ...] = ()
    gaps: tuple[str, ...] = Field(default=(), description="what could not be seen, in sentences")

    @model_validator(mode="before")
    @classmethod
    def _of_before(cls, found: object) -> object:
        """Until version 2 a run had accounts beside its ledgers."""
        return with_one_kind_of_ledgers(found)
