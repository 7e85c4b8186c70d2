# SPDX-License-Identifier: GPL-2.0-or-later
"""What a measure of a sweep is: its section of the experiment file, and all that is done for it."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal, Protocol, TypeVar

from pydantic import AfterValidator, Field

from skblab.lab.reporter import Reporter
from skblab.machine.collectors import Tool
from skblab.sweep.best import BestSoFar
from skblab.sweep.planned import Measurement
from skblab.sweep.progress import Key
from skblab.testbeds import Kind, Sending, Testbed
from skblab.testbeds.asked import Stream
from skblab.testbeds.base import WARM_UP
from skblab_analysis.base.checked import Finite
from skblab_analysis.base.errors import SkblabError
from skblab_analysis.load import Run
from skblab_analysis.runfolder import RunFolder

# For the estimate: what a trial takes beside its traffic, in seconds.
TRIAL_SECONDS = 1.0
# More than a veth pair has carried anywhere; a search goes on from what really comes.
MOST_PER_SECOND = 10_000_000.0


class Section(Finite):
    """What an experiment file asks of a measure."""


SectionT = TypeVar("SectionT", bound=Section)


class Sections(Section):
    """The sections of an experiment file's `measure`, each None if it is not there."""

    def get(self, kind: type[SectionT]) -> SectionT | None:
        """Return the section of this kind; None if the file has none."""
        values = (getattr(self, name) for name in type(self).model_fields)
        return next((value for value in values if isinstance(value, kind)), None)

    def __getitem__(self, kind: type[SectionT]) -> SectionT:
        """Return the section of this kind; KeyError if the file has none."""
        if (found := self.get(kind)) is None:
            raise KeyError(kind.__name__)
        return found


@dataclass(frozen=True)
class Program:
    """A program of ours that a measure needs, and on which machine of a testbed."""

    name: str
    where: Literal["router", "tester"]


class DisturbedError(SkblabError):
    """Something else was measured with it: it is worth another attempt."""


@dataclass(frozen=True)
class Attempt:
    """A measurement under way: what it is, what was asked for, where it is recorded and told."""

    key: Key
    measurement: Measurement
    testbed: Testbed
    asked: Sections
    folder: RunFolder
    reporter: Reporter
    best: BestSoFar

    @property
    def part(self) -> Literal["tester", "whole"]:
        """What is measured, as records have it."""
        return "tester" if self.measurement.tester else "whole"


class Part(Protocol):
    """What takes part in the measurements of a sweep; `asked` has its section.

    `name` is that of its section, which is what an experiment file can ask of it.
    """

    name: ClassVar[str]
    section: ClassVar[type[Section]]

    def faults(self, asked: Sections) -> Sequence[str]:
        """Return what of its section does not fit the others, in sentences."""
        return ()

    def programs(self, asked: Sections) -> Sequence[Program]:
        """Return the programs that it needs in a testbed."""
        return ()

    def tools(self, asked: Sections) -> Sequence[Tool]:
        """Return commands that have to be on the router, which nobody puts there."""
        return ()

    def joins(self, measurement: Measurement) -> bool:
        """Return whether it takes part in a measurement."""
        return measurement.measure == self.name

    @abstractmethod
    def seconds(self, asked: Sections, measurement: Measurement) -> float:
        """Return about how long its part of a measurement takes."""

    @abstractmethod
    def commands(
        self, asked: Sections, measurement: Measurement, kind: Kind, cpus: int
    ) -> Iterator[str]:
        """Yield the commands of its part of a measurement, as far as they are known before."""


class Measure(Part, Protocol):
    """What has measurements of its own, which records have by its `name`.

    The best setting has the greatest figure, or the least if `least_is_best`; `unit` is behind it.
    `calibrates`: the tester alone is measured, too; records have it as `tester` with its rate, so
    that of measures at given rates only one can. `narrows`: its figures have intervals, which can
    be narrow enough.
    """

    unit: ClassVar[str]
    least_is_best: ClassVar[bool] = True
    calibrates: ClassVar[bool] = True
    narrows: ClassVar[bool] = False

    def best(self) -> BestSoFar:
        """Return what tells the best setting by its figures."""
        return BestSoFar(self.name, more=not self.least_is_best, unit=self.unit)

    def rates(self, asked: Sections) -> Sequence[int | None]:
        """Return the rates that each kind of traffic is measured at; None: at no given one."""
        return (None,)

    @abstractmethod
    def measure(self, attempt: Attempt) -> Callable[[], None]:
        """Measure; what is returned records it, if its setting is still there.

        SkblabError if it cannot be measured.
        """

    def by_block(self, run: Run) -> Iterable[Sequence[float]]:
        """Return what has to repeat, of each setting: its figures by block, none if it has none."""
        return ()


def fill_caches(measurement: Measurement, testbed: Testbed) -> None:
    """Send some packets that are not counted."""
    testbed.offer(Sending(measurement.stream, WARM_UP, tester=measurement.tester))


def warming(stream: Stream, seconds: float) -> Sending:
    """Return as much as goes for so long: a guest that was just booted is slow at first."""
    return Sending(stream, round(MOST_PER_SECOND * seconds), seconds=seconds)


def _each_once(values: tuple[float, ...]) -> tuple[float, ...]:
    if len(set(values)) < len(values):
        raise ValueError("one is there twice")
    return values


EachOnce = AfterValidator(_each_once)


class AtRates(Section):
    """Trials at given rates, in packets a second."""

    rates: Annotated[
        tuple[Annotated[int, Field(ge=1)], ...],
        Field(min_length=1, description="offered loads, in packets a second"),
        EachOnce,
    ]
    seconds: float
