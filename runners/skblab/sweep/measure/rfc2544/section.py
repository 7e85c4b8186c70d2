# SPDX-License-Identifier: GPL-2.0-or-later
"""What an experiment file asks of RFC 2544's other tests."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, model_validator

from skblab.sweep.measure.base import Section
from skblab.sweep.measure.rfc2544 import back_to_back, frame_loss, latency, recovery

TESTS = ("latency", "frame_loss", "burst", "recovery")


class Rfc2544(Section):
    """RFC 2544's other tests, at the strict rate that was found, if their seconds are given.

    The RFC's own: streams of 120 s for latency, trials of 60 s for loss and recovery. `burst` is
    back-to-back, whose longest burst that is tried takes `burst_seconds`.
    """

    latency_seconds: Annotated[
        float | None, Field(gt=0, le=3600, description="26.2: length of each stream")
    ] = None
    latency_repeats: Annotated[int, Field(ge=1, le=1000, description="streams")] = latency.REPEATS
    frame_loss_seconds: Annotated[
        float | None, Field(gt=0, le=3600, description="26.3: length of each trial")
    ] = None
    frame_loss_step: Annotated[
        float,
        Field(
            ge=frame_loss.FINEST,
            le=frame_loss.COARSEST,
            description="step between loads, as a share of the highest one",
        ),
    ] = frame_loss.COARSEST
    burst_seconds: Annotated[
        float | None,
        Field(gt=0, le=3600, description="26.4, back-to-back: length of the longest burst"),
    ] = None
    burst_repeats: Annotated[int, Field(ge=1, le=1000, description="searches for a burst")] = (
        back_to_back.REPEATS
    )
    recovery_seconds: Annotated[
        float | None,
        Field(gt=0, le=3600, description="26.5: length of the overload, and of what follows"),
    ] = None
    recovery_repeats: Annotated[int, Field(ge=1, le=1000, description="trials")] = recovery.REPEATS

    @property
    def times(self) -> bool:
        """Whether packets are looked at as they arrive."""
        return self.latency_seconds is not None or self.recovery_seconds is not None

    @model_validator(mode="after")
    def _something(self) -> Rfc2544:
        lengths = {name: getattr(self, f"{name}_seconds") for name in TESTS}
        if not any(lengths.values()):
            names = ", ".join(f"{name}_seconds" for name in TESTS)
            raise ValueError(f"tests nothing: expected one of {names}")
        return self
