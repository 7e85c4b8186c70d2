# SPDX-License-Identifier: GPL-2.0-or-later
"""What a trial of the layer probe hands over, in a sweep."""

from __future__ import annotations

from dataclasses import dataclass

from skblab_analysis.base.checked import RefusedError
from skblab_analysis.formats.pathlat import PathlatDocument, PathName

# The path of a router's packets.
PATH: PathName = "forward"


@dataclass(frozen=True)
class Probed:
    """What a trial of the layer probe is of: packets sent and forwarded, at which rate a second."""

    boot: int
    boot_knobs: str
    traffic: str
    rate: int
    sent: int
    forwarded: int
    offered_rate: float

    def check(self, document: PathlatDocument, limit: float) -> None:
        """Raise RefusedError if the probe saw fewer packets leave than were forwarded.

        By more than `limit` per cent; those that were merged are seen as one.
        """
        seen = document.path(PATH).ends.transmitted + document.merged
        if self.forwarded - seen > limit / 100 * self.forwarded:
            raise RefusedError(f"the probe saw {seen} of {self.forwarded} forwarded packets")
