# SPDX-License-Identifier: GPL-2.0-or-later
"""What RFC 2544's other tests hand over, and are stored as."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, NonNegativeFloat, PositiveFloat

from skblab_analysis.base.whole import Whole
from skblab_analysis.throughput.rows import Limit

# Loads in a row without loss end the test of frame loss (26.3).
CLEAN = 2
Test = Literal["latency", "frame loss", "back-to-back", "recovery"]


class Figure(BaseModel):
    """One figure of a test; `load` in packets per second, `seconds` those of a trial.

    `share` is the load's: of the tester's most for frame loss, of the throughput for recovery.
    `floor_ns` is the tester's own part of the latency, and by `within_s` a recovery may be shorter.
    `open`: the figure is a bound only. Of back-to-back no limit was met: it is at least so much; of
    recovery frames were lost until the end. What could not be measured is None, for a `reason`.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    test: Test
    repeat: Whole
    load: PositiveFloat
    seconds: PositiveFloat
    share: PositiveFloat | None = None
    latency_ns: NonNegativeFloat | None = None
    floor_ns: NonNegativeFloat | None = None
    loss_percent: Annotated[float | None, Field(ge=0, le=100)] = None
    burst: Whole | None = None
    buffer_s: NonNegativeFloat | None = None
    recovery_s: NonNegativeFloat | None = None
    within_s: NonNegativeFloat | None = None
    open: bool = False
    limit: Limit | None = None
    reason: str | None = None


class OfTrial(Figure):
    """A figure, and of what it was."""

    setting: str
    boot: Whole
    traffic: str
