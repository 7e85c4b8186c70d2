# SPDX-License-Identifier: GPL-2.0-or-later
"""What each function of the kernel takes of a packet, by samples: by setting over all blocks.

A sample stands for as many of its event as came since the one before; a function's are added up
over all CPUs and divided by the packets that were forwarded meanwhile. What an idle CPU does is
apart. Settings are compared function by function, block by block.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from skblab_analysis.base import certainty
from skblab_analysis.base.certainty import Difference, Sample
from skblab_analysis.formats import stacks
from skblab_analysis.formats.stacks import BETWEEN
from skblab_analysis.latency.summary import in_order
from skblab_analysis.load import Run, once
from skblab_analysis.samples.rows import StackRow, Trial, trials

# The loop of a CPU that has nothing to do (kernel/sched/idle.c), functions in it that wait, and
# what an interrupt begins with (arch/*/kernel/entry*).
IDLE_LOOP = "do_idle"
_WAITS = re.compile(
    r"(cpuidle|default|mwait|intel|acpi|poll|psci|arch_cpu|cpu)_?(idle|enter)|_halt$|cpu_suspend"
)
_INTERRUPT = re.compile(r"asm_|el[01].*_(irq|fiq)|irq_entries|ret_from_exception")
# A function that takes less of all there is, with both settings, is not looked at for differences.
NOTABLE = 0.005


def idle(stack: str) -> bool:
    """Return whether a stack is that of a CPU that waits for something to do."""
    names = stack.split(BETWEEN)
    if IDLE_LOOP not in names:
        # Where the stack could not be followed.
        return len(names) == 1 and bool(_WAITS.search(names[0]))
    within = names[names.index(IDLE_LOOP) + 1 :]
    return any(map(_WAITS.search, within)) and not any(map(_INTERRUPT.match, within))


@dataclass(frozen=True)
class Block:
    """One trial, added up: what CPUs did that were not idle, by stack.

    `squares` are variances of `weights`, by chance.
    """

    number: int
    packets: int
    tried: int
    kept: bool
    weights: Mapping[str, int]
    samples: Mapping[str, int]
    squares: Mapping[str, int]
    idle: int

    @cached_property
    def own(self) -> Counter[str]:
        """The weight of each function, without those that it calls."""
        return _by_function(self.weights)

    @cached_property
    def found(self) -> Counter[str]:
        """How often each function was found running."""
        return _by_function(self.samples)

    @cached_property
    def squares_of(self) -> Counter[str]:
        """The variance of each function's weight, by chance."""
        return _by_function(self.squares)

    @cached_property
    def inclusive(self) -> Counter[str]:
        """The weight of each function and of all that it calls."""
        return stacks.inclusive(self.weights)


def _by_function(by_stack: Mapping[str, int]) -> Counter[str]:
    found: Counter[str] = Counter()
    for stack, count in by_stack.items():
        found[stack.rpartition(BETWEEN)[2]] += count
    return found


@dataclass(frozen=True)
class Sampling:
    """A setting at a rate: its blocks."""

    setting: str
    blocks: tuple[Block, ...]

    @property
    def packets(self) -> int:
        """Packets that were forwarded."""
        return sum(block.packets for block in self.blocks)

    @cached_property
    def own(self) -> Mapping[str, float]:
        """What each function takes of a packet itself, the most first."""
        return self._each(block.own for block in self.blocks)

    @cached_property
    def inclusive(self) -> Mapping[str, float]:
        """What each function and all that it calls take of a packet."""
        return self._each(block.inclusive for block in self.blocks)

    @cached_property
    def stacks(self) -> Mapping[str, float]:
        """What a packet takes by stack."""
        return self._each(block.weights for block in self.blocks)

    @cached_property
    def found(self) -> Counter[str]:
        """How often each function was found running."""
        return sum((block.found for block in self.blocks), Counter[str]())

    @property
    def whole(self) -> float:
        """What a packet takes of CPUs that are not idle."""
        return sum(self.own.values())

    @property
    def idle(self) -> float:
        """The part of all that was sampled in which a CPU was idle."""
        waited = sum(block.idle for block in self.blocks)
        whole = waited + sum(sum(block.weights.values()) for block in self.blocks)
        return waited / whole if whole else 0.0

    @property
    def kept(self) -> Sampling:
        """The same of the blocks that kept the rate: what is compared."""
        return Sampling(self.setting, tuple(block for block in self.blocks if block.kept))

    @property
    def dropped(self) -> float:
        """The part of the packets that was not forwarded."""
        tried = sum(block.tried for block in self.blocks)
        return max(1 - self.packets / tried, 0.0) if tried else 0.0

    def sample(self, function: str) -> Sample:
        """What a function takes of a packet by block."""
        return {block.number: block.own[function] / block.packets for block in self.blocks}

    @cached_property
    def each(self) -> float:
        """What a sample stands for, on average."""
        weight = sum(sum(block.weights.values()) for block in self.blocks)
        return weight / (self.found.total() or 1)

    def chance(self, function: str) -> float:
        """Return the standard deviation that chance alone leaves what a function takes.

        It might as well have been found once more.
        """
        squares = sum(block.squares_of[function] for block in self.blocks)
        return math.sqrt(squares + self.each * self.each) / self.packets

    def _each(self, blocks: Iterable[Mapping[str, int]]) -> dict[str, float]:
        found: Counter[str] = Counter()
        for block in blocks:
            found.update(block)
        return {name: weight / self.packets for name, weight in found.most_common()}


@dataclass(frozen=True)
class Differs:
    """What a function takes more or less with a setting than with the baseline."""

    setting: str
    function: str
    difference: Difference


@dataclass(frozen=True)
class SamplesSummary:
    """All settings at one rate of one traffic, the baseline first, then in the order given.

    `event` is what was sampled.
    """

    traffic: str
    rate: int
    event: str
    baseline: str | None
    settings: tuple[Sampling, ...]

    @property
    def unit(self) -> str:
        """What a figure is in, per packet: that of the clocks of perf, or events."""
        return "ns" if self.clock else self.event

    @property
    def clock(self) -> bool:
        """Whether time was sampled by a timer of the kernel; modifiers say where."""
        return self.event.partition(":")[0].endswith("-clock")

    @property
    def others(self) -> tuple[Sampling, ...]:
        """The settings that are compared with the baseline."""
        return self.settings[1:] if self.baseline is not None else ()

    def differences(self, setting: Sampling, most: int) -> list[Differs]:
        """Return the functions that a setting and the baseline differ by most."""
        first, other = self.settings[0].kept, setting.kept
        if not (first.blocks and other.blocks):
            return []
        least = NOTABLE * max(first.whole, other.whole)
        by = {
            function: other.own.get(function, 0.0) - first.own.get(function, 0.0)
            for function in {**first.own, **other.own}
            if max(first.own.get(function, 0.0), other.own.get(function, 0.0)) >= least
        }
        largest = sorted(by, key=lambda function: (-abs(by[function]), function))[:most]
        compared = ((name, _difference(first, other, name, len(by))) for name in largest)
        return [
            Differs(setting.setting, function, found)
            for function, found in compared
            if found is not None
        ]


def _difference(first: Sampling, other: Sampling, function: str, among: int) -> Difference | None:
    """Return what a function differs by, which was chosen among so many."""
    chance = certainty.chance(among) * math.hypot(first.chance(function), other.chance(function))
    return certainty.difference(
        first.sample(function), other.sample(function), resolution=chance, chosen_of=among
    )


@once
def of(run: Run) -> list[SamplesSummary]:
    """Return the samples of a run, of each traffic, rate and event."""
    found = run.in_order(trials(run.rows(StackRow), run.trials))
    events = {(trial.traffic, trial.rate, trial.event): None for trial in found}
    kinds = in_order([(trial.traffic, trial.rate) for trial in found])
    baseline = run.document.plan.baseline
    return [
        _summary(found, kind, event, baseline)
        for kind in kinds
        for traffic, rate, event in events
        if (traffic, rate) == kind
    ]


def _summary(
    found: Sequence[Trial], kind: tuple[str, int], event: str, baseline: str | None
) -> SamplesSummary:
    of_it = [trial for trial in found if (trial.traffic, trial.rate, trial.event) == (*kind, event)]
    names = list(dict.fromkeys(trial.setting for trial in of_it))
    names.sort(key=lambda name: name != baseline)
    return SamplesSummary(
        *kind,
        event=event,
        baseline=baseline if names[0] == baseline else None,
        settings=tuple(
            Sampling(name, tuple(_block(trial) for trial in of_it if trial.setting == name))
            for name in names
        ),
    )


def _block(trial: Trial) -> Block:
    weights: Counter[str] = Counter()
    samples: Counter[str] = Counter()
    squares: Counter[str] = Counter()
    waited = 0
    for stack in trial.stacks:
        if idle(stack.stack):
            waited += stack.weight
        else:
            weights[stack.stack] += stack.weight
            samples[stack.stack] += stack.samples
            squares[stack.stack] += stack.spread**2
    return Block(
        trial.block,
        trial.forwarded,
        trial.tried,
        trial.kept,
        weights,
        samples,
        squares,
        waited,
    )
