# SPDX-License-Identifier: GPL-2.0-or-later
"""RFC 2544's other tests: latency, frame loss, back-to-back and recovery, by setting.

Each is of the throughput that a search found in the same trial. Repetitions and blocks are taken
together: of a mean there is a standard deviation, as RFC 9004 has it, and no interval.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import mean, stdev
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, NonNegativeFloat, NonNegativeInt, PositiveFloat

from skblab_analysis.throughput import Limit

Test = Literal["latency", "frame loss", "back-to-back", "recovery"]


class Figure(BaseModel):
    """One figure of a test; `load` in packets per second, `seconds` those of a trial.

    `share` is the load's: of the tester's most for frame loss, of the throughput for recovery.
    `open`: the figure is a bound only. Of back-to-back no limit was met: it is at least so much; of
    recovery frames were lost until the end. What could not be measured is None.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    test: Test
    repeat: NonNegativeInt
    load: PositiveFloat
    seconds: PositiveFloat
    share: PositiveFloat | None = None
    latency_ns: NonNegativeFloat | None = None
    loss_percent: Annotated[float | None, Field(ge=0, le=100)] = None
    burst: NonNegativeInt | None = None
    buffer_s: NonNegativeFloat | None = None
    recovery_s: NonNegativeFloat | None = None
    open: bool = False
    limit: Limit | None = None


class OfTrial(Figure):
    """A figure, and of what it was."""

    setting: str
    boot: NonNegativeInt
    traffic: str


@dataclass(frozen=True)
class Mean:
    """A mean, its standard deviation (None of a single value), of how many; `open`: a bound."""

    mean: float
    deviation: float | None
    count: int
    open: bool


@dataclass(frozen=True)
class OfSetting:
    """What was found with a setting; None what was not measured, or could not be.

    `loss` is in per cent by share of the tester's most, the greatest first.
    """

    setting: str
    latency_ns: Mean | None
    burst: Mean | None
    buffer_s: Mean | None
    recovery_s: Mean | None
    loss: dict[float, float]
    # Asked for, and not to be told: the tester is no faster than the device, or not fast enough.
    no_burst: bool
    no_overload: bool
    # So many overloads the device did not recover from.
    lasting: int


@dataclass(frozen=True)
class Rfc2544Summary:
    """All that was tested with one traffic."""

    traffic: str
    settings: tuple[OfSetting, ...]

    def tested(self, test: Test) -> bool:
        """Whether any setting has it, or was asked for it."""
        return any(_has(one, test) for one in self.settings)


def summaries(found: Sequence[OfTrial]) -> list[Rfc2544Summary]:
    """Sum up the figures of each traffic, settings in the order given."""
    made = []
    for traffic in dict.fromkeys(one.traffic for one in found):
        ours = [one for one in found if one.traffic == traffic]
        by_setting: dict[str, list[OfTrial]] = {}
        for one in ours:
            by_setting.setdefault(one.setting, []).append(one)
        settings = tuple(_setting(name, some) for name, some in by_setting.items())
        made.append(Rfc2544Summary(traffic, settings))
    return made


def _setting(name: str, found: Sequence[OfTrial]) -> OfSetting:
    bursts = [one for one in found if one.test == "back-to-back"]
    recoveries = [one for one in found if one.test == "recovery"]
    losses: dict[float, list[float]] = {}
    for one in found:
        # A load that the generator did not keep is another one.
        if one.share is not None and one.loss_percent is not None and one.limit != "generator":
            losses.setdefault(round(one.share, 4), []).append(one.loss_percent)
    return OfSetting(
        setting=name,
        latency_ns=_mean((one.latency_ns, False) for one in found),
        burst=_mean((one.burst, one.open) for one in bursts),
        buffer_s=_mean((one.buffer_s, one.open) for one in bursts),
        recovery_s=_mean((one.recovery_s, False) for one in recoveries),
        loss={share: mean(losses[share]) for share in sorted(losses, reverse=True)},
        no_burst=bool(bursts) and all(one.burst is None for one in bursts),
        no_overload=any(one.limit == "generator" for one in recoveries),
        lasting=sum(one.open for one in recoveries),
    )


def _has(one: OfSetting, test: Test) -> bool:
    return {
        "latency": one.latency_ns is not None,
        "frame loss": bool(one.loss),
        "back-to-back": one.burst is not None or one.no_burst,
        "recovery": one.recovery_s is not None or one.lasting > 0 or one.no_overload,
    }[test]


def _mean(values: Iterable[tuple[float | None, bool]]) -> Mean | None:
    known = [(value, is_open) for value, is_open in values if value is not None]
    if not known:
        return None
    numbers = [value for value, _ in known]
    return Mean(
        mean(numbers),
        stdev(numbers) if len(numbers) > 1 else None,
        len(numbers),
        any(is_open for _, is_open in known),
    )
