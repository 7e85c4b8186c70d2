# SPDX-License-Identifier: GPL-2.0-or-later
"""The experiments that come with skblab, with what they ask and how long they take."""

from __future__ import annotations

from dataclasses import dataclass

from skblab.sweep.budget import fitting
from skblab.sweep.measure.exact import AT_ONCE
from skblab.sweep.plan import Plan
from skblab.sweep.request import SHIPPED, exact_cpus, make_plan, read, unable
from skblab.testbeds import KINDS

# Comes first in the list.
FIRST = "first"


@dataclass(frozen=True)
class Shipped:
    """An experiment: its settings beside the baseline, and the estimates in seconds.

    They are of the blocks that fit in its budget. `exact` is None where it cannot run so;
    `testbeds` are those that it can run in.
    """

    name: str
    question: str
    settings: int
    exact: float | None
    timed: float
    testbeds: tuple[str, ...]


def shipped() -> list[Shipped]:
    """Return every experiment: the first one, then the others, the quickest first."""
    found = []
    for file in SHIPPED.glob("*.toml"):
        experiment = read(str(file))
        counting = [
            kind
            for kind in KINDS.values()
            if kind.exact and not unable(experiment, kind, exact=True)
        ]
        timing = [name for name, kind in KINDS.items() if not unable(experiment, kind, exact=False)]
        counted = make_plan(experiment, exact=True, cpus=exact_cpus(experiment))
        found.append(
            Shipped(
                file.stem,
                experiment.question,
                len(experiment.settings()),
                _seconds(counted, AT_ONCE) if counting else None,
                _seconds(make_plan(experiment, exact=False), 1),
                tuple(timing),
            )
        )
    return sorted(found, key=lambda one: (one.name != FIRST, one.timed))


def _seconds(plan: Plan, at_once: int) -> float:
    return plan.seconds(fitting(plan, at_once), at_once)
