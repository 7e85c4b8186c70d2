# SPDX-License-Identifier: GPL-2.0-or-later
"""A submitter that runs elements in this process, for tests."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from skblab.jobs.campaign import Place
from skblab.jobs.element import Element, nothing
from skblab.jobs.submitter import Name
from skblab.lab.reporter import Reporter

QUIET = Reporter(quiet=True)


@dataclass
class Here:
    """A Submitter that runs an element whenever it is asked how things are."""

    kinds: Mapping[str, Callable[..., object]] = field(default_factory=lambda: {"nothing": nothing})
    poll: float = 0.0
    waiting: dict[Name, str] = field(default_factory=dict)
    submitted: list[int] = field(default_factory=list)
    # What an element does before its tasks: it may die.
    before: Callable[[Name], bool] = lambda _: True
    most: int = 0

    def submit(self, place: Place, array: int, count: int, minutes: int) -> None:
        self.submitted.append(count)
        self.waiting |= {(array, index): "waiting" for index in range(count)}
        self.most = max(self.most, len(self.waiting))

    def live(self, place: Place) -> Mapping[Name, str]:
        for name in list(self.waiting)[:50]:
            del self.waiting[name]
            if self.before(name):
                Element(place, *name, self.kinds).run(QUIET)  # type: ignore[arg-type]
        return dict(self.waiting)

    def cancel(self, place: Place) -> int:
        return 0
