# SPDX-License-Identifier: GPL-2.0-or-later
"""Differences between settings in words, the same in every measure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

from skblab_analysis.base.certainty import Change, Difference, FalseAlarms
from skblab_analysis.base.words import joined, share, small_share

# An interval that reaches beyond so many times the baseline says nothing more than that.
MOST = 10.0
# Detectable is no more than so many times the resolution: more blocks hardly change it.
NEAR = 1.05


def difference_text(difference: Difference) -> str:
    """Return a difference as a share of the other, in brackets if it is not significant."""
    text = share(difference.share, 1, sign=True)
    return text if difference.significant else f"({text})"


def brackets(differences: Iterable[Difference | None]) -> Iterator[str]:
    """Say what brackets around a table's differences mean, if there are any."""
    found = {difference.significant for difference in differences if difference is not None}
    told = {False: "not significant", None: "significance not known"}
    if said := " or ".join(words for key, words in told.items() if key in found):
        yield f"A difference in brackets: {said}."


def half_text(difference: Difference) -> str:
    """Return half of its interval, or its ends if these are not as far; nothing of one block."""
    if difference.ends is None:
        return ""
    low, high = difference.ends
    below, above = share(difference.share - low, 1), share(high - difference.share, 1)
    if below == above:
        return f"±{above}"
    if high > MOST:
        return f"{share(low, 1, sign=True)} or more"
    return f"{100 * low:+.1f} to {share(high, 1, sign=True)}".replace("-", "−")


def change_text(change: Change) -> str:
    """Return a setting, and what it differs."""
    difference = change.difference
    return f"{change.setting} {share(difference.share, 1, sign=True)} {half_text(difference)}"


def not_significant(changes: Iterable[Change]) -> Iterator[str]:
    """Yield which differences are not significant, how great one has to be, and what limits it."""
    found = [(change, least) for change in changes if (least := _undetected(change)) is not None]
    if not found:
        return
    names, shares = [change.setting for change, _ in found], [least for _, least in found]
    smallest = small_share(min(shares))
    if len(found) > 1:
        smallest += f" to {small_share(max(shares))}"
    yield f"Not significant: {joined(names)}. Smallest detectable difference: {smallest}."
    coarse = [(change, least) for change, least in found if change.difference.why == "resolution"]
    final = [change.setting for change, least in coarse if least <= NEAR * _resolution(change)]
    if final:
        yield f"With {joined(final)} more blocks detect no less: that is the resolution."
    others: dict[str, list[str]] = {}
    for change, least in coarse:
        if least > NEAR * _resolution(change):
            others.setdefault(small_share(_resolution(change)), []).append(change.setting)
    for resolution, names in others.items():
        yield (
            f"With {joined(names)} more blocks detect no less than {resolution}, the resolution."
        )


def _undetected(change: Change) -> float | None:
    return (
        None if change.difference.significant is not False else change.difference.detectable_share
    )


def _resolution(one: Change) -> float:
    """Return the resolution as a share of the other."""
    found = one.difference
    return math.expm1(found.resolution) if found.relative else found.resolution / found.of


def alarms_text(what: str, alarms: FalseAlarms) -> list[str]:
    """Return how often the baseline differed from itself; nothing if it was not compared."""
    if not alarms.comparisons:
        return []
    return [
        f"False alarms in {what}: {alarms.alarms} of {alarms.comparisons} comparisons of the "
        "baseline with itself. One in twenty is usual."
    ]
