# SPDX-License-Identifier: GPL-2.0-or-later
"""What a trial that counts instructions hands over; it is stored in the row of `trials` alone."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Self

from skblab_analysis.base.checked import RefusedError, parse
from skblab_analysis.base.rows import Numbered
from skblab_analysis.base.whole import Positive, Whole
from skblab_analysis.trials.rows import OfTrial, TrialRow

# Packets of other traffic at the sink, as a share of those sent.
STRAY_LIMIT = 0.001


class ExactTrial(OfTrial):
    """One counted run: `instructions` guest instructions for `packets` packets.

    `delivered` packets were counted by the sink.
    """

    repeat: Whole = 0
    packets: Positive
    delivered: Whole
    instructions: Positive

    @property
    def per_packet(self) -> float:
        """Instructions per packet."""
        return self.instructions / self.packets

    def check(self) -> None:
        """Raise RefusedError if its packets did not all reach the sink."""
        strays = self.delivered - self.packets
        if not 0 <= strays <= STRAY_LIMIT * self.packets:
            raise RefusedError(
                f"{self.setting}, {self.part}, block {self.block}, repeat {self.repeat}: "
                f"the sink counted {self.delivered} packets of {self.packets} offered"
            )

    def row(self, trial: int) -> TrialRow:
        """Return the trial's row."""
        return TrialRow(
            **self.head(trial),
            clock="exact",
            measure="tester" if self.part == "tester" else "instructions",
            repeat=self.repeat,
            tried=self.packets,
            received=self.delivered,
            lost=self.packets - self.delivered,
            packets=self.packets,
            instructions=self.instructions,
            instructions_per_packet=self.per_packet,
        )

    def rows(self, trial: int) -> Iterable[Numbered]:
        """Return none; RefusedError if its packets did not all reach the sink."""
        self.check()
        return ()

    @classmethod
    def of_row(cls, row: TrialRow) -> Self:
        """Return the trial of a row that counts instructions; RecordError if it cannot be one."""
        found = row.model_dump(include={*OfTrial.model_fields, "repeat", "packets", "instructions"})
        return parse(cls, found | {"delivered": row.received}, f"trial {row.trial}")
