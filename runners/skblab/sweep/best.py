# SPDX-License-Identifier: GPL-2.0-or-later
"""The best setting so far, while a sweep goes on: for the progress bar, and for nothing else.

It is of what this process has measured, of the first kind of figure that came (the first traffic
and rate of the plan's order), and a mean over few blocks at that: a hint, no result.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from statistics import mean

from skblab.sweep.progress import Key
from skblab_analysis.base.words import number


@dataclass
class BestSoFar:
    """Figures of a measure by setting; `more`: whether the greatest is the best.

    `unit` is behind a figure.
    """

    measure: str
    more: bool
    unit: str
    _of: tuple[str, int | None] | None = None
    _figures: dict[str, list[float]] = field(default_factory=dict)

    def add(self, key: Key, figure: float | None) -> None:
        """Take a setting's figure; None if it has none. Those of other measures do not count."""
        if key.measure != self.measure:
            return
        kind = key.traffic, key.rate
        self._of = self._of or kind
        if figure is not None and self._of == kind:
            self._figures.setdefault(key.setting, []).append(figure)

    def __str__(self) -> str:
        """Return the best of two or more settings in words; nothing if there are fewer."""
        if len(self._figures) < 2:
            return ""
        means = {name: mean(figures) for name, figures in self._figures.items()}
        best = max(means, key=lambda name: means[name] if self.more else -means[name])
        return f"best so far: {best}, {number(means[best])} {self.unit}"
