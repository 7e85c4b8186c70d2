# SPDX-License-Identifier: GPL-2.0-or-later
"""What the kernel counted of a trial, as it is handed over and stored."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict

Kind = Literal["interrupt", "softirq", "softnet", "device", "driver", "thread"]
# Counted in nanoseconds; all others are counts of what their names say.
TIMED: Kind = "thread"


class Counter(BaseModel):
    """By how much one counter rose; `cpu` is None of one that is of no CPU."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: Kind
    name: str
    cpu: int | None
    value: int

    @property
    def unit(self) -> str:
        """What it counts."""
        if self.kind == TIMED:
            return "ns"
        last = self.name.rpartition("_")[2]
        return last if last in ("bytes", "packets") else ""
