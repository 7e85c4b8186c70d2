# SPDX-License-Identifier: GPL-2.0-or-later
"""Who was the limit: generator, device or sink, of one trial and of a search's result.

The tester itself is searched first, from generator to sink with nothing in between. What it reaches
is the ceiling: a device that comes near it was not measured, the tester was. A tester that cannot
be searched, as on hosts without a loop, has no ceiling: who lost packets is then not known.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from skblab_analysis.throughput.rows import Judgement, Limit, judge_unmeasured

# How near the ceiling a result may come. Twice the usual width, for the two searches, and as much
# again for a tester that has less left for a device's traffic than for a bare link's.
MARGIN = 0.02


@dataclass(frozen=True)
class Tolerances:
    """What is forgiven, as parts of one.

    `generator`: sent too little, or too much, of what was asked for. `sink`: not counted of what
    the device counted as sent.
    """

    generator: float = 0.001
    sink: float = 0.0


USUAL = Tolerances()


def missed(offered: int, sent: int, tolerances: Tolerances) -> bool:
    """Return whether the generator sent another load than it was asked for.

    One packet is only how seconds and load divide.
    """
    return abs(offered - sent) > max(1.0, offered * tolerances.generator)


def verdict(
    offered: int, sent: int, forwarded: int | None, received: int, tolerances: Tolerances
) -> Limit:
    """Return who was the limit of a trial with these counts; none, where nothing was missing.

    A generator that failed leaves nothing to be said of the others, nor a sink of the device. With
    a device that cannot be asked a loss is the device's: only the ceiling tells it from the sink's.
    """
    if missed(offered, sent, tolerances):
        return "generator"
    if forwarded is not None and forwarded - received > forwarded * tolerances.sink:
        return "sink"
    return "none" if sent == received else "device"


def most_often(limits: Iterable[Limit]) -> Limit:
    """Return who was the limit most often; one of the tester's rather than the device."""
    order: tuple[Limit, ...] = ("generator", "sink", "device")
    found = Counter(limits)
    best = max(order, key=lambda limit: found[limit])
    return best if found[best] else "none"


def judge(
    lower: float | None,
    upper: float | None,
    limit: Limit,
    ceiling: float | None,
    margin: float = MARGIN,
    *,
    alone: bool = True,
) -> Judgement:
    """Return what a search's result is the result of.

    `lower` and `upper` are the bounds found, `limit` is who was the limit at the upper one and
    `ceiling` the tester's own lower bound for the same goal, None where no load was good. `alone`:
    whether the tester was measured alone at all.
    """
    if not alone:
        return judge_unmeasured(lower, upper, limit)
    if ceiling is None or limit in ("generator", "sink"):
        return "tester"
    if lower is None:
        return "no good load"
    if upper is None and lower <= ceiling:
        # The tester may well be able to do more, but was not asked.
        return "maximum load"
    return "tester" if lower >= ceiling * (1 - margin) else "device"
