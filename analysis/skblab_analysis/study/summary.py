# SPDX-License-Identifier: GPL-2.0-or-later
"""Changes of the rate by setting, published and ours, and how far they agree.

Of counted instructions our rate is that of a processor that takes as long for each of them: with a
path that is longer by a share s, 1 / (1 + s) of the rate. Two changes agree in their direction if
both are of one sign, or both within `NONE`. The order of settings agrees by Spearman's rank
correlation, in which all changes within `NONE` are one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from skblab_analysis.base.certainty import Difference
from skblab_analysis.base.comparison import Comparison
from skblab_analysis.exact import view as exact
from skblab_analysis.formats.published_rates import PublishedStudy, of_parameters
from skblab_analysis.load import Run, once
from skblab_analysis.throughput import view as throughput

# Measures that say something of rates.
RATES = (exact.VIEW, throughput.VIEW)
# A change that is less than that, either way, is none: studies round their rates to about as much.
NONE = 0.01
# Fewer settings that change something have no order to speak of.
LEAST_RANKED = 5


@dataclass(frozen=True)
class Beside:
    """A setting's change of the rate, published and ours, as shares of the baseline's rate.

    `significant` is whether ours is; None: not known.
    """

    setting: str
    published: float
    ours: float
    significant: bool | None

    @property
    def agrees(self) -> bool:
        """Whether both go in one direction."""
        return direction(self.published) == direction(self.ours)


@dataclass(frozen=True)
class StudySummary:
    """A study beside what one measure says of one traffic."""

    study: PublishedStudy
    measure: str
    figure: str
    traffic: str
    rows: tuple[Beside, ...]

    @property
    def agreeing(self) -> int:
        """How many settings agree in their direction."""
        return sum(row.agrees for row in self.rows)

    @property
    def rank_correlation(self) -> float | None:
        """Spearman's, from -1 to 1; None of too few settings, or where all changes are alike."""
        published = [row.published * abs(direction(row.published)) for row in self.rows]
        ours = [row.ours * abs(direction(row.ours)) for row in self.rows]
        changing = sum(change != 0 for change in published)
        if changing < LEAST_RANKED or 1 in (len(set(published)), len(set(ours))):
            return None
        # It takes a while to load, and few runs are of a study.
        from scipy.stats import spearmanr

        return float(spearmanr(published, ours).statistic)


def direction(change: float) -> int:
    """Return 1 of a rise, -1 of a drop, 0 of neither."""
    if abs(change) < NONE:
        return 0
    return 1 if change > 0 else -1


@once
def of(run: Run) -> list[StudySummary]:
    """Return what each measure of rates says of each traffic, in the order of measures."""
    study = of_parameters(run.document.plan.parameters)
    if study is None:
        return []
    found = []
    for comparison in (one for view in RATES for one in view.compared(run)):
        if rows := tuple(_rows(study, comparison)):
            found.append(
                StudySummary(
                    study=study,
                    measure=comparison.measure,
                    figure=comparison.part or comparison.figure,
                    traffic=comparison.traffic,
                    rows=rows,
                )
            )
    return found


def _rows(study: PublishedStudy, comparison: Comparison) -> Iterator[Beside]:
    changes = {change.setting: change.difference for change in comparison.others}
    for setting, rate in study.rates.items():
        difference = changes.get(setting)
        ours = None if difference is None else _rate_change(comparison, difference)
        if difference is not None and ours is not None:
            yield Beside(setting, rate.change, ours, difference.significant)


def _rate_change(comparison: Comparison, difference: Difference) -> float | None:
    share = comparison.share(difference)
    if share is None or comparison.more_is_better:
        return share
    return 1 / (1 + share) - 1 if share > -1 else None
