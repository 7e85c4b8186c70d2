# SPDX-License-Identifier: GPL-2.0-or-later
"""An experiment file: question, traffic, settings to compare, what to measure, how often.

The settings are the baseline, those of `[[setting]]`, each the baseline but for what it names, and
all combinations of `[matrix]`. Knobs of a `pair` go through their values together.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import product
from math import prod
from pathlib import Path
from typing import Annotated, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationError,
    field_validator,
    model_validator,
)

from skblab.knobs.registry import KNOBS
from skblab.knobs.values import Knobs, Name, Value, text
from skblab.sweep.measure.rfc2544 import back_to_back, frame_loss, latency, recovery
from skblab.sweep.measure.throughput.goals import SECONDS, TRIALS
from skblab.testbeds.asked import MOST_PACKETS, Needs, Traffic
from skblab_analysis.base import tomlfile
from skblab_analysis.base.certainty import AGAIN
from skblab_analysis.base.whole import Whole
from skblab_analysis.formats.run import RunName
from skblab_analysis.trials.rows import Setting as RecordedName

BASELINE = "baseline"
# What is measured before a boot's first setting: the tester, with nothing in between.
TESTER = "tester"
_RECORDED: TypeAdapter[str] = TypeAdapter(RecordedName)
# As many thresholds as pktsink takes, and as long a run, see probes/bpf/stream.h.
MOST_LATE = 4
MOST_RUN = 1 << 20
# Of one experiment, repeats included: at a second each they take eleven days.
MOST_TRIALS = 1_000_000
RFC2544 = ("latency", "frame_loss", "burst", "recovery")


def _each_once(values: tuple[float, ...]) -> tuple[float, ...]:
    if len(set(values)) < len(values):
        raise ValueError("one is there twice")
    return values


def _countable(rates: tuple[int, ...], seconds: float) -> None:
    if max(rates) * seconds >= MOST_PACKETS:
        raise ValueError(
            f"{max(rates)} packets a second for {seconds:g} s are more than the generator counts "
            f"to, {MOST_PACKETS}; expected fewer seconds"
        )


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Throughput(_Part):
    """A search for the highest rate (draft-ietf-bmwg-mlrsearch)."""

    goals: Annotated[tuple[Literal["strict", "ndr", "pdr"], ...], Field(min_length=1)] = (
        *("strict", "ndr", "pdr"),
    )
    seconds: Annotated[float, Field(gt=0, le=3600, description="of each trial")] = SECONDS
    width: Annotated[float, Field(ge=0.001, lt=1, description="of the result, relative")] = 0.02
    trials: Annotated[
        int, Field(ge=1, le=1000, description="that decide on a load, unless fewer do")
    ] = TRIALS
    confirm_seconds: Annotated[
        float | None,
        Field(gt=0, le=3600, description="a last trial at the strict rate; RFC 2544: 60"),
    ] = None

    @model_validator(mode="after")
    def _has_what_is_confirmed(self) -> Throughput:
        if len(set(self.goals)) < len(self.goals):
            raise ValueError("a goal is there twice")
        if self.confirm_seconds is not None and "strict" not in self.goals:
            raise ValueError("confirm_seconds is of the strict rate: expected strict among goals")
        return self


class Latency(_Part):
    """One-way latency, loss and anomalies at given rates."""

    rates: Annotated[
        tuple[Annotated[int, Field(ge=1, description="packets a second")], ...],
        Field(min_length=1),
        AfterValidator(_each_once),
    ]
    seconds: Annotated[float, Field(gt=0, le=86400)] = 10.0
    late_us: Annotated[
        tuple[Annotated[float, Field(gt=0)], ...],
        Field(max_length=MOST_LATE, description="RFC 8578: 250 and 750"),
        AfterValidator(_each_once),
    ] = (250.0, 750.0)
    run: Annotated[
        int, Field(ge=1, le=MOST_RUN, description="late packets in a row that are an anomaly")
    ] = 2

    @model_validator(mode="after")
    def _fits(self) -> Latency:
        _countable(self.rates, self.seconds)
        return self


class Layers(_Part):
    """The layer probe at given rates."""

    rates: Annotated[
        tuple[Annotated[int, Field(ge=1)], ...], Field(min_length=1), AfterValidator(_each_once)
    ]
    seconds: Annotated[float, Field(gt=0, le=3600)] = 5.0

    @model_validator(mode="after")
    def _fits(self) -> Layers:
        _countable(self.rates, self.seconds)
        return self


class Rfc2544(_Part):
    """RFC 2544's other tests, at the strict rate that was found; those whose seconds are given.

    The RFC's own: streams of 120 s for latency, trials of 60 s for loss and recovery. `burst` is
    back-to-back, whose longest burst that is tried takes `burst_seconds`.
    """

    latency_seconds: Annotated[float | None, Field(gt=0, le=3600)] = None
    latency_repeats: Annotated[int, Field(ge=1, le=1000)] = latency.REPEATS
    frame_loss_seconds: Annotated[float | None, Field(gt=0, le=3600)] = None
    frame_loss_step: Annotated[
        float, Field(ge=frame_loss.FINEST, le=frame_loss.COARSEST, description="of the most")
    ] = frame_loss.COARSEST
    burst_seconds: Annotated[float | None, Field(gt=0, le=3600)] = None
    burst_repeats: Annotated[int, Field(ge=1, le=1000)] = back_to_back.REPEATS
    recovery_seconds: Annotated[float | None, Field(gt=0, le=3600)] = None
    recovery_repeats: Annotated[int, Field(ge=1, le=1000)] = recovery.REPEATS

    @property
    def times(self) -> bool:
        """Whether packets are looked at as they arrive."""
        return self.latency_seconds is not None or self.recovery_seconds is not None

    @model_validator(mode="after")
    def _something(self) -> Rfc2544:
        lengths = {name: getattr(self, f"{name}_seconds") for name in RFC2544}
        if not any(lengths.values()):
            names = ", ".join(f"{name}_seconds" for name in RFC2544)
            raise ValueError(f"tests nothing: expected one of {names}")
        return self


class Measure(_Part):
    """What is measured. Interrupts, softirqs, softnet and NIC statistics always are."""

    throughput: Throughput | None = None
    rfc2544: Rfc2544 | None = None
    latency: Latency | None = None
    layers: Layers | None = None

    @model_validator(mode="after")
    def _something(self) -> Measure:
        if self.throughput is None and self.latency is None and self.layers is None:
            raise ValueError("measures nothing: expected throughput, latency or layers")
        if self.rfc2544 is not None and (
            self.throughput is None or "strict" not in self.throughput.goals
        ):
            raise ValueError(
                "rfc2544 is measured at the strict rate: expected measure.throughput with strict "
                "among its goals"
            )
        return self


class Repeats(_Part):
    """How often: until the interval is narrow enough, or `most`, or the budget is spent."""

    least: Annotated[int, Field(ge=1, le=1000)] = 3
    most: Annotated[int, Field(ge=1, le=1000)] = 3
    width: Annotated[
        float | None, Field(gt=0, lt=1, description="half of the 95 % interval, of the mean")
    ] = None
    budget_minutes: Annotated[float | None, Field(gt=0)] = None
    warm_up_seconds: Annotated[float, Field(ge=0, le=600)] = 2.0

    @model_validator(mode="after")
    def _ordered(self) -> Repeats:
        if self.most < self.least:
            raise ValueError(f"most is {self.most}, expected at least `least`, {self.least}")
        if self.most > self.least and self.width is None and self.budget_minutes is None:
            raise ValueError("between least and most a width or a budget has to decide")
        return self


class Setting(_Part):
    """A named setting: the baseline, but for `knobs`."""

    name: Annotated[RecordedName, Field(min_length=1, max_length=60)]
    knobs: Annotated[Knobs, Field(min_length=1)]

    @field_validator("name")
    @classmethod
    def _not_ours(cls, name: str) -> str:
        if name in (BASELINE, AGAIN):
            raise ValueError(f"{name!r} is the name of the baseline itself; expected another one")
        if name == TESTER:
            raise ValueError(f"{name!r} is what is measured without a router; expected another one")
        return name


class Experiment(_Part):
    """An experiment file."""

    name: RunName
    question: Annotated[str, Field(min_length=1)]
    seed: Whole = 1
    needs: Needs = Needs()
    traffic: Traffic = Traffic()
    baseline: Knobs = {}
    setting: tuple[Setting, ...] = ()
    matrix: Annotated[
        dict[Name, Annotated[tuple[Value, ...], Field(min_length=1)]],
        Field(description="every combination of these values"),
    ] = {}
    pair: Annotated[
        tuple[Annotated[tuple[Name, ...], Field(min_length=2)], ...],
        Field(description="knobs of the matrix that change together"),
    ] = ()
    exclude: Annotated[
        tuple[Annotated[Knobs, Field(min_length=1)], ...],
        Field(description="combinations of the matrix that are left out"),
    ] = ()
    measure: Measure
    repeats: Repeats = Repeats()

    @model_validator(mode="after")
    def _has_what_is_narrow(self) -> Experiment:
        measured = self.measure.throughput or self.measure.latency
        if self.repeats.width is not None and measured is None:
            raise ValueError(
                "repeats.width is of rates and delays: expected measure.throughput or "
                "measure.latency, or no width"
            )
        return self

    @model_validator(mode="after")
    def _whole(self) -> Experiment:
        for pair in self.pair:
            if unknown := [name for name in pair if name not in self.matrix]:
                raise ValueError(f"pair: {unknown[0]} is not in the matrix")
            lengths = {len(self.matrix[name]) for name in pair}
            if len(lengths) > 1:
                raise ValueError(f"pair: {', '.join(pair)} have not as many values as each other")
        paired = [name for pair in self.pair for name in pair]
        if twice := {name for name in paired if paired.count(name) > 1}:
            raise ValueError(f"pair: {min(twice)} is in two pairs")
        for excluded in self.exclude:
            if unknown := [name for name in excluded if name not in self.matrix]:
                raise ValueError(f"exclude: {unknown[0]} is not in the matrix")
        self._check_number()
        for combination in self._combinations():
            _recordable(combination.name)
        names = Counter(one.name for one in self.settings())
        if twice := {name for name, count in names.items() if count > 1}:
            raise ValueError(f"setting: two are named {min(twice)!r}")
        return self

    def _check_number(self) -> None:
        """Raise ValueError for more trials than anybody can wait for, before they are made."""
        groups = [pair[0] for pair in self.pair]
        groups += [name for name in self.matrix if not self._paired(name)]
        settings = len(self.setting) + prod(len(self.matrix[name]) for name in groups)
        traffic = self.traffic
        kinds = (traffic.family, traffic.frame, traffic.flows, traffic.destinations)
        trials = settings * prod(map(len, kinds)) * self.repeats.most
        if trials > MOST_TRIALS:
            raise ValueError(
                f"matrix: {settings} settings are {trials} trials, with all traffic and repeats; "
                f"expected at most {MOST_TRIALS}"
            )

    def settings(self) -> list[Setting]:
        """Return every setting but the baseline, in the file's order."""
        return [*self.setting, *self._combinations()]

    def _combinations(self) -> Iterator[Setting]:
        """Yield those of the matrix that are not excluded and are not the baseline itself."""
        groups = [*self.pair, *((name,) for name in self.matrix if not self._paired(name))]
        columns = [
            [
                dict(zip(group, values, strict=True))
                for values in zip(*(self.matrix[name] for name in group), strict=True)
            ]
            for group in groups
        ]
        # In the order of the matrix, whatever is paired.
        order = list(self.matrix)
        for parts in product(*columns) if columns else ():
            knobs = {name: value for part in parts for name, value in part.items()}
            knobs = {name: knobs[name] for name in order}
            if any(knobs.items() >= excluded.items() for excluded in self.exclude):
                continue
            if self.baseline.items() >= knobs.items():
                continue
            words = " ".join(f"{name}={text(value)}" for name, value in knobs.items())
            yield Setting.model_construct(name=words, knobs=knobs)

    def _paired(self, name: str) -> bool:
        return any(name in pair for pair in self.pair)


def _recordable(name: str) -> None:
    """Raise ValueError if records take no such name, which is made of a matrix."""
    try:
        _RECORDED.validate_python(name)
    except ValidationError as error:
        [fault] = error.errors(include_url=False)
        raise ValueError(
            f"matrix: the combination {name!r} ({len(name)} characters) cannot be recorded by its "
            f"name: {fault['msg']}; expected it as a [[setting]] with a name of its own"
        ) from None


def read(file: Path) -> Experiment:
    """Read an experiment file; UsageError says what is wrong in which line."""
    return tomlfile.read(Experiment, file, "the experiment")


def knobs_of(experiment: Experiment, setting: Setting | None) -> Mapping[str, Value]:
    """Return all knobs of a setting; None is the baseline."""
    return {**experiment.baseline, **(setting.knobs if setting else {})}


def faults(experiment: Experiment) -> Iterator[tuple[tuple[int | str, ...], str]]:
    """Yield where an experiment has a knob that there is not, or a value that it does not take."""
    for place, name, value in _given(experiment):
        knob = KNOBS.get(name)
        if knob is None:
            yield place, f"no such knob; there are {', '.join(sorted(KNOBS))}"
            continue
        try:
            knob.check(value)
        except ValueError as error:
            yield place, str(error)


def _given(experiment: Experiment) -> Iterator[tuple[tuple[int | str, ...], str, Value]]:
    for name, value in experiment.baseline.items():
        yield ("baseline", name), name, value
    for number, setting in enumerate(experiment.setting):
        for name, value in setting.knobs.items():
            yield ("setting", number, "knobs", name), name, value
    for name, values in experiment.matrix.items():
        for value in values:
            yield ("matrix", name), name, value
