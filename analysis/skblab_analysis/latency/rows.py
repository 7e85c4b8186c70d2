# SPDX-License-Identifier: GPL-2.0-or-later
"""What a latency trial hands over, and is stored as."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, PositiveFloat

from skblab_analysis.base.offered import offered_rate
from skblab_analysis.base.whole import Positive, Whole
from skblab_analysis.exact.rows import Part, Setting
from skblab_analysis.formats.pktsink import ArrivalsDocument


class Arrivals(BaseModel):
    """A latency trial: what was sent at which rate (packets per second), and how it arrived.

    `sent` are packets that the generator put out, those among them that the first device refused
    included; `took` is in seconds.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    setting: Setting
    part: Part = "whole"
    boot: Whole
    boot_knobs: str = ""
    traffic: str
    rate: Positive
    sent: Whole
    seconds: PositiveFloat
    took: Annotated[float, Field(ge=0)]
    document: ArrivalsDocument

    @property
    def offered_rate(self) -> float:
        """Packets per second that the generator really put out."""
        return offered_rate(self.sent, self.seconds, self.took)

    @property
    def lost(self) -> int:
        """Packets sent that never came."""
        return max(self.document.packets.missing(self.sent), 0)
