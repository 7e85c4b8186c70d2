# SPDX-License-Identifier: GPL-2.0-or-later
"""All differences of a run, as a table for other programs.

It is made of the other tables whenever a report is, and skblab reads it nowhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from skblab_analysis.base.compared import Compared, OfFigure, compared
from skblab_analysis.base.comparison import Comparison
from skblab_analysis.base.rows import Stored


class ComparisonRow(Compared, OfFigure):
    """What a setting differs from the baseline in one figure, as `--json` has it.

    In version 1 `figure` had what is in `part` now, and `of` instructions was path and tester.
    """


COMPARISON = Stored(
    ComparisonRow,
    "comparison",
    "what one setting differs from the baseline in one figure. Derived from the other tables "
    "whenever a report is made, and read by nothing in skblab",
    version=2,
)


def rows(found: Iterable[Comparison], alike: Mapping[str, bool | None]) -> list[ComparisonRow]:
    """Return a row for each difference; `alike` says which settings are the baseline's state."""
    return [
        ComparisonRow(**dict(figure), **dict(difference))
        for comparison in found
        for figure, difference in compared(comparison, alike)
    ]
