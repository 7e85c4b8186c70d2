# SPDX-License-Identifier: GPL-2.0-or-later
"""What a search for throughput hands over, and is stored as."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    NonNegativeFloat,
    PositiveFloat,
    model_validator,
)

from skblab_analysis.base.offered import offered_rate
from skblab_analysis.base.whole import Whole
from skblab_analysis.exact.rows import Part, Setting

# Of a trial: who lost packets, or did not send them.
Limit = Literal["none", "generator", "device", "sink"]
# Of a search: what its result is the result of.
Judgement = Literal["device", "tester", "maximum load", "no good load"]
Outcome = Literal["regular", "good at the maximum load", "no good load"]
# What a trial was for.
Purpose = Literal["search", "confirmation", "rfc2544"]
Ratio = Annotated[float, Field(ge=0, le=1)]


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Load(_Part):
    """One trial of a search, or (`purpose`) one after it: counts in packets, times in s."""

    load: PositiveFloat
    seconds: PositiveFloat
    took: NonNegativeFloat
    sent: Whole
    forwarded: Whole | None
    received: Whole
    loss_ratio: Ratio
    limit: Limit
    purpose: Purpose = "search"

    @property
    def offered_rate(self) -> float:
        """Packets per second that the generator really put out."""
        return offered_rate(self.sent, self.seconds, self.took)


class Found(_Part):
    """What a search found for one goal; rates in packets per second.

    `judgement` is what it is the result of, None of the tester itself. `confirmed` says whether a
    last trial of `confirm_seconds` at the lower bound lost nothing; None if there was none.
    """

    goal: str
    loss_ratio: Ratio
    exceed_ratio: Ratio
    width: PositiveFloat
    lower: PositiveFloat | None
    upper: PositiveFloat | None
    throughput: PositiveFloat | None
    trials: Whole
    limit: Limit
    outcome: Outcome
    reached: bool
    judgement: Judgement | None = None
    confirmed: bool | None = None
    confirm_seconds: PositiveFloat | None = None

    @model_validator(mode="after")
    def _confirmed_in_seconds(self) -> Self:
        if self.confirmed is not None and self.confirm_seconds is None:
            raise ValueError("confirmed, in how many seconds is not said")
        return self


class Result(Found):
    """What a search found for one goal, and of what it was."""

    setting: Setting
    part: Part
    boot: Whole
    boot_knobs: str
    traffic: str


class Search(_Part):
    """A search: of which setting and traffic, in which block, all its trials and all it found.

    `boot_knobs` says how it was booted, if there is a choice.
    """

    setting: Setting
    part: Part = "whole"
    boot: Whole
    boot_knobs: str = ""
    traffic: str
    loads: tuple[Load, ...]
    goals: Annotated[tuple[Found, ...], Field(min_length=1)]
