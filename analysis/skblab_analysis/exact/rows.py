# SPDX-License-Identifier: GPL-2.0-or-later
"""What a trial that counts instructions hands over, and is stored as."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, StringConstraints

from skblab_analysis.base.checked import RefusedError
from skblab_analysis.base.whole import Positive, Whole

Part = Literal["whole", "tester"]
Setting = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_.=:/+, -]+$", max_length=80)]
# Packets of other traffic at the sink, as a share of those sent.
STRAY_LIMIT = 0.001


class ExactTrial(BaseModel):
    """One counted run: `instructions` guest instructions for `packets` packets.

    `delivered` packets were counted by the sink. `traffic` says what was sent, if there is a
    choice: trials of different packets are not compared with each other. `boot_knobs` says how it
    was booted, if there is a choice.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    setting: Setting
    part: Part = "whole"
    boot: Whole
    repeat: Whole = 0
    packets: Positive
    delivered: Whole
    instructions: Positive
    traffic: str = ""
    boot_knobs: str = ""

    @property
    def per_packet(self) -> float:
        """Instructions per packet."""
        return self.instructions / self.packets


def check(trial: ExactTrial) -> None:
    """Raise RefusedError for a trial whose packets did not all reach the sink."""
    strays = trial.delivered - trial.packets
    if not 0 <= strays <= STRAY_LIMIT * trial.packets:
        raise RefusedError(
            f"{trial.setting}, {trial.part}, boot {trial.boot}, repeat {trial.repeat}: "
            f"the sink counted {trial.delivered} packets of {trial.packets} sent"
        )
