# SPDX-License-Identifier: GPL-2.0-or-later
"""What an experiment file asks of a search for throughput."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Literal

from pydantic import Field, model_validator

from skblab.sweep.measure.base import MOST_PER_SECOND, Section
from skblab.sweep.measure.throughput import goals
from skblab.sweep.measure.throughput.goals import SECONDS, TRIALS, SearchRequest
from skblab.testbeds.sending import LEAST_PACKETS

GOALS = {"strict": goals.STRICT, "ndr": goals.NDR, "pdr": goals.PDR}
# The generator's gap between two packets has ten digits.
LEAST_PER_SECOND = 1.0


class Throughput(Section):
    """A search for the highest rate (draft-ietf-bmwg-mlrsearch)."""

    goals: Annotated[
        tuple[Literal["strict", "ndr", "pdr"], ...],
        Field(
            min_length=1,
            description="strict: no trial loses a packet; ndr: half of them lose none; pdr: half "
            "lose at most 0.5 %; the first one compares settings",
        ),
    ] = ("strict", "ndr", "pdr")
    seconds: Annotated[float, Field(gt=0, le=3600, description="how long each trial lasts")] = (
        SECONDS
    )
    width: Annotated[
        float, Field(ge=0.001, lt=1, description="relative width at which a search ends")
    ] = 0.02
    trials: Annotated[
        int, Field(ge=1, le=1000, description="most trials that decide on a load")
    ] = TRIALS
    confirm_seconds: Annotated[
        float | None,
        Field(
            gt=0, le=3600, description="length of a last trial at the strict rate (RFC 2544: 60)"
        ),
    ] = None

    @model_validator(mode="after")
    def _has_what_is_confirmed(self) -> Throughput:
        if len(set(self.goals)) < len(self.goals):
            raise ValueError("a goal is there twice")
        if self.confirm_seconds is not None and "strict" not in self.goals:
            raise ValueError("confirm_seconds is of the strict rate: expected strict among goals")
        return self

    def request(self) -> SearchRequest:
        """Return what the search is asked for."""
        least = max(LEAST_PER_SECOND, LEAST_PACKETS / self.seconds)
        return SearchRequest(
            min_load=least,
            max_load=max(MOST_PER_SECOND, 10 * least),
            goals=tuple(replace(GOALS[name], width=self.width) for name in self.goals),
            seconds=self.seconds,
            trials=self.trials,
        )
