# SPDX-License-Identifier: GPL-2.0-or-later
"""Numbers of which a packet has only the lower bits, and numbers of flows."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np
import numpy.typing as npt

Whole = npt.NDArray[np.int64]
_LAST_FLOW = (1 << 16) - 1


def nearest(low: Whole, bits: int, near: Whole) -> Whole:
    """Return of all numbers with these lower bits that nearest to another."""
    begin = np.maximum(near - (1 << (bits - 1)), 0)
    found: Whole = begin + ((low - begin) & ((1 << bits) - 1))
    return found


def unfolded(low: Whole, bits: int, highest: int) -> Whole:
    """Return sequence numbers in full: each is near the highest before it, at first `highest`."""
    if not len(low):
        return low
    found = nearest(low, bits, np.full(len(low), highest))
    before = np.maximum(np.maximum.accumulate(found), highest)
    before = np.concatenate(([highest], before[:-1]))
    if (nearest(low, bits, before) == found).all():
        return found
    # The highest has gone so far within these that it matters: one by one.
    for at, number in enumerate(low.tolist()):
        begin = max(highest - (1 << (bits - 1)), 0)
        full = begin + ((number - begin) & ((1 << bits) - 1))
        found[at] = full
        highest = max(highest, full)
    return found


class Flows:
    """Numbers of sources, in the order in which they came; the last number is of all further."""

    def __init__(self) -> None:
        self._numbers: dict[Hashable, int] = {}

    def of(self, keys: Sequence[Hashable], inverse: npt.NDArray[np.intp]) -> npt.NDArray[np.uint16]:
        """Return the flow of each packet, which has the key `keys[inverse]`."""
        found = np.zeros(len(keys), np.uint16)
        # By when each came first.
        first = np.full(len(keys), len(inverse))
        np.minimum.at(first, inverse, np.arange(len(inverse)))
        for at in np.argsort(first, kind="stable").tolist():
            key = keys[at]
            number = self._numbers.get(key)
            if number is None and len(self._numbers) <= _LAST_FLOW:
                number = self._numbers[key] = len(self._numbers)
            found[at] = _LAST_FLOW if number is None else number
        flows: npt.NDArray[np.uint16] = found[inverse]
        return flows
