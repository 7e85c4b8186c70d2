# SPDX-License-Identifier: GPL-2.0-or-later
"""Which packets are new, repeated or reordered, as runners/traffic/src/sequence.rs tells them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from skblab_analysis.formats.packets import Flag

# Numbers that are remembered behind the highest one.
WINDOW = 1 << 22
_FLOWS = 1 << 16
_MOST = 1 << 62
Numbers = npt.NDArray[np.int64]
Flows = npt.NDArray[np.uint16]
Flags = npt.NDArray[np.uint32]


@dataclass(slots=True)
class Counts:
    """Counts of packets; the first four add up to all."""

    distinct: int = 0
    duplicates: int = 0
    too_old: int = 0
    beyond: int = 0
    reordered: int = 0
    reordered_in_flow: int = 0


class Tracker:
    """Remembers what was seen."""

    def __init__(self, expect: int | None) -> None:
        self.expect = expect
        self.counts = Counts()
        # -1 if none was.
        self._highest = -1
        self._seen = np.zeros(WINDOW, np.bool_)
        # By flow the highest number plus one, 0 if none was seen.
        self._flow_next = np.zeros(_FLOWS, np.int64)

    @property
    def highest(self) -> int:
        """The highest number seen; 0 if none was."""
        return max(self._highest, 0)

    @property
    def flows(self) -> int:
        """Flows of which a new packet was seen."""
        return int(np.count_nonzero(self._flow_next))

    @property
    def lost(self) -> int:
        """Packets missing: of those expected, or below the highest seen."""
        of = self._highest + 1 if self.expect is None else self.expect
        return max(of - self.counts.distinct, 0)

    def observe(self, numbers: Numbers, flows: Flows) -> Flags:
        """Judge and remember packets, in their order; return flags of each, 0 for a new one."""
        flags = np.zeros(len(numbers), np.uint32)
        if not len(numbers):
            return flags
        rising = len(numbers) < 2 or bool((numbers[1:] > numbers[:-1]).all())
        low, high = int(numbers[0]), int(numbers[-1])
        if rising and low > self._highest and (self.expect is None or high < self.expect):
            self._remember(numbers, high)
            self.counts.distinct += len(numbers)
        else:
            self._judge(numbers, flags)
        new = (flags & ~np.uint32(int(Flag.REORDERED))) == 0
        if new.all():
            self._order_in_flows(numbers, flows)
        else:
            self._order_in_flows(numbers[new], flows[new])
        return flags

    def _judge(self, numbers: Numbers, flags: Flags) -> None:
        counts = self.counts
        if self.expect is not None:
            beyond = numbers >= self.expect
            flags[beyond] = int(Flag.BEYOND)
            counts.beyond += int(np.count_nonzero(beyond))
            there = np.flatnonzero(~beyond)
        else:
            there = np.arange(len(numbers))
        inside = numbers[there]
        if not len(inside):
            return
        before = np.maximum(np.maximum.accumulate(inside), self._highest)
        highest = int(before[-1])
        # What was the highest before each.
        before = np.concatenate(([self._highest], before[:-1]))
        old = before - inside >= WINDOW
        flags[there[old]] = int(Flag.TOO_OLD)
        counts.too_old += int(np.count_nonzero(old))
        at, inside, before = there[~old], inside[~old], before[~old]
        # Again in this chunk, or in one of those before.
        _, first = np.unique(inside, return_index=True)
        again = np.ones(len(inside), np.bool_)
        again[first] = False
        remembered = inside <= self._highest
        again[remembered] |= self._seen[inside[remembered] % WINDOW]
        flags[at[again]] = int(Flag.DUPLICATE)
        counts.duplicates += int(np.count_nonzero(again))
        new, behind = inside[~again], inside[~again] < before[~again]
        flags[at[~again][behind]] = int(Flag.REORDERED)
        counts.distinct += len(new)
        counts.reordered += int(np.count_nonzero(behind))
        self._remember(new, highest)

    def _remember(self, numbers: Numbers, highest: int) -> None:
        """Move the window up to `highest`, and mark new numbers in it."""
        first = self._highest + 1
        if highest - first >= WINDOW - 1:
            self._seen[:] = False
        elif highest >= first:
            begin, end = first % WINDOW, highest % WINDOW
            if begin <= end:
                self._seen[begin : end + 1] = False
            else:
                self._seen[begin:] = False
                self._seen[: end + 1] = False
        self._highest = max(self._highest, highest)
        self._seen[numbers[numbers > self._highest - WINDOW] % WINDOW] = True

    def _order_in_flows(self, numbers: Numbers, flows: Flows) -> None:
        """Count those that came after a higher number of their flow."""
        if not len(numbers):
            return
        if flows.min() == flows.max():
            self._order_in_flow(numbers, int(flows[0]))
            return
        order = np.argsort(flows, kind="stable")
        numbers, flows = numbers[order], flows[order]
        begins = np.concatenate(([True], flows[1:] != flows[:-1]))
        turn = np.cumsum(begins) - 1
        low = int(numbers.min())
        span = int(numbers.max()) - low + 1
        if span > _MOST // (int(turn[-1]) + 1):
            for part in np.split(np.arange(len(flows)), np.flatnonzero(begins)[1:]):
                self._order_in_flow(numbers[part], int(flows[part[0]]))
            return
        # A flow's numbers are above those of the flows before it, so one pass does for all.
        lifted = turn * span
        above = np.maximum.accumulate(numbers - low + lifted)
        before = np.concatenate(([0], above[:-1])) - lifted + low
        before[begins] = -1
        before = np.maximum(before, self._flow_next[flows] - 1)
        self.counts.reordered_in_flow += int(np.count_nonzero(numbers < before))
        np.maximum.at(self._flow_next, flows, numbers + 1)

    def _order_in_flow(self, numbers: Numbers, flow: int) -> None:
        following = int(self._flow_next[flow])
        before = np.maximum.accumulate(np.concatenate(([following - 1], numbers[:-1])))
        self.counts.reordered_in_flow += int(np.count_nonzero(numbers < before))
        self._flow_next[flow] = max(following, int(numbers.max()) + 1)
