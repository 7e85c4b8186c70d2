# SPDX-License-Identifier: GPL-2.0-or-later
"""The experiments that come with skblab, with what they ask and how long they take."""

from __future__ import annotations

from dataclasses import dataclass

from skblab.sweep.request import SHIPPED, make_plan, read, unable
from skblab.testbeds import KINDS

# Comes first in the list.
FIRST = "first"


@dataclass(frozen=True)
class Shipped:
    """An experiment: its settings beside the baseline, and the estimates in seconds.

    `exact` is None where it cannot run so; `testbeds` are those that it can run in.
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
        found.append(
            Shipped(
                file.stem,
                experiment.question,
                len(experiment.settings()),
                make_plan(experiment, exact=True).seconds() if counting else None,
                make_plan(experiment, exact=False).seconds(),
                tuple(timing),
            )
        )
    return sorted(found, key=lambda one: (one.name != FIRST, one.timed))
