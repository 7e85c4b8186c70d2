# SPDX-License-Identifier: GPL-2.0-or-later
"""The summary of a report: what comparisons tell, in a few lines, the largest effects first."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from skblab_analysis.base.certainty import Difference
from skblab_analysis.base.comparison import Comparison, Wording, significant
from skblab_analysis.base.words import joined, share, small_share

# Settings that differ by more than this part are counted.
NOTABLE = 0.01
# A baseline that differs from itself by as much hides whatever is no larger, significant or not.
DOUBTFUL = 0.05
# Fewer settings are not counted: each is named anyway.
COUNTED = 3
# Names in a line; of more it has their number.
NAMED = 3


@dataclass(frozen=True)
class Effect:
    """What a setting differs by in one comparison."""

    setting: str
    difference: Difference
    of: Comparison

    @property
    def gain(self) -> float:
        """By which part it is better than the baseline."""
        return self.of.gain(self.difference)


def unreliable(found: Comparison) -> float | None:
    """Return by which part the baseline differed from itself, if that hides what settings do.

    None if it did not, or if a setting differs significantly and by more than that.
    """
    again = found.again
    itself = abs(found.gain(again)) if again else 0.0
    if again is None or itself < (NOTABLE if again.significant else DOUBTFUL):
        return None
    larger = any(abs(found.gain(change.difference)) > itself for change in significant(found))
    return None if larger else itself


def reliable(found: Sequence[Comparison]) -> bool:
    """Return whether anything can be told of what is compared, or nothing is compared."""
    worded = _worded(found)
    return not worded or bool(_good(worded))


def _worded(found: Sequence[Comparison]) -> list[Comparison]:
    """Return the comparisons that a summary tells of: with a wording, and of some setting."""
    return [
        comparison for comparison in found if comparison.wording is not None and comparison.others
    ]


def _good(found: Sequence[Comparison]) -> list[Comparison]:
    """Return the comparisons of which something can be told."""
    return [comparison for comparison in found if unreliable(comparison) is None]


def headline(
    found: Sequence[Comparison], doubt: str = "", apart: Collection[str] = ()
) -> str | None:
    """Return the largest gain and the largest loss in one line; None if nothing is known.

    Gains of the settings in `apart` are none to tell. With `doubt`, what is said of it, also the
    largest of which no significance is known.
    """
    found = _worded(found)
    good = _good(found)
    if found and not good:
        return _nothing(found, "").rstrip(".")
    # What shares of different wholes are cannot be compared: the first whole has the headline.
    by_whole = _by_whole(good)
    for of_whole in by_whole:
        if effects := _extremes(of_whole, apart):
            return "; ".join(
                f"{effect.setting} {effect.of.phrase(effect.difference)}" for effect in effects
            )
    known = [change.difference.significant for comparison in good for change in comparison.others]
    for of_whole in by_whole if doubt else ():
        if unknown := _unknown(of_whole):
            largest = max(unknown, key=lambda effect: abs(effect.gain))
            return f"{largest.setting} {largest.of.phrase(largest.difference)} ({doubt})"
    if known and None not in known:
        return f"No setting differs significantly from {good[0].baseline}"
    return None


def lines(
    found: Sequence[Comparison], identical: Collection[str] = (), apart: Collection[str] = ()
) -> tuple[list[str], list[str]]:
    """Return what nothing can be told of, then what is told, the largest effects first.

    `identical` names the settings that are the baseline's own state, `apart` those of which no gain
    is told as the largest.
    """
    by_measure: dict[str, list[Comparison]] = {}
    for comparison in _worded(found):
        by_measure.setdefault(comparison.measure, []).append(comparison)
    several = len(by_measure) > 1
    nothing: list[str] = []
    effects: list[str] = []
    rest: list[str] = []
    for ours in by_measure.values():
        good = _good(ours)
        if len(good) < len(ours):
            nothing.append(_nothing(ours, _of(ours, several)))
        by_whole = _by_whole(good)
        for of_whole in by_whole:
            # With which traffic it is so, where others have percentages of something else.
            where = _where(of_whole) if len(by_whole) > 1 else ""
            if several:
                effects += _in_one_line(of_whole, len(ours) > 1, apart)
            else:
                effects += [*_each(of_whole, len(ours) > 1, apart), *_counted(of_whole, where)]
            rest += _distrusted(of_whole, f"{_of(of_whole, several)}{where}")
        rest += _not_significant(by_whole, several)
    return nothing, [*effects, *rest, *_identical(identical)]


def _by_whole(found: Sequence[Comparison]) -> list[list[Comparison]]:
    """Return comparisons with a wording apart by what their percentages are of.

    Where one traffic has no tester, its percentages are of path and tester, and not of the path.
    """
    by_whole: dict[str, list[Comparison]] = {}
    for comparison in found:
        if comparison.wording is not None:
            by_whole.setdefault(comparison.wording.whole, []).append(comparison)
    return list(by_whole.values())


def _of(found: Sequence[Comparison], several: bool) -> str:
    wording = found[0].wording
    return f" of {wording.what}" if several and wording else ""


def _where(found: Sequence[Comparison]) -> str:
    """Return with which traffic and rates comparisons are, if that is known."""
    names = [comparison.where for comparison in found if comparison.where]
    return f" with {joined(names)}" if names else ""


def _nothing(found: Sequence[Comparison], of: str) -> str:
    """Say of what nothing can be told; some of the comparisons are unreliable."""
    itself = {
        comparison.where: part
        for comparison in found
        if (part := unreliable(comparison)) is not None
    }
    if len(itself) < len(found):
        of += f" with {joined(list(itself))}"
    most = max(itself.values())
    said = share(most, 0 if most >= 0.1 else 1)
    return f"Nothing can be told{of}: the baseline differed from itself by {said}."


def _extremes(found: Sequence[Comparison], apart: Collection[str]) -> list[Effect]:
    """Return the largest significant gain and loss, the larger one first."""
    effects = [
        Effect(change.setting, change.difference, comparison)
        for comparison in found
        for change in significant(comparison)
    ]
    told = (one for one in effects if one.setting not in apart)
    best = max(told, key=lambda one: one.gain, default=None)
    worst = min(effects, key=lambda one: one.gain, default=None)
    kept = [best] if best is not None and best.gain > 0 else []
    kept += [worst] if worst is not None and worst.gain < 0 else []
    return sorted(kept, key=lambda one: -abs(one.gain))


def _unknown(found: Sequence[Comparison]) -> list[Effect]:
    return [
        Effect(change.setting, change.difference, comparison)
        for comparison in found
        for change in comparison.others
        if change.difference.significant is None
    ]


def _named(one: Effect, wording: Wording, several: bool) -> str:
    first = wording.best if one.gain > 0 else wording.worst
    at = f" ({one.of.where})" if several and one.of.where else ""
    return f"{first}: {one.setting}, {one.of.amount(one.difference)}{at}"


def _each(found: Sequence[Comparison], several: bool, apart: Collection[str]) -> list[str]:
    """Return the largest gain and loss, a line each; of `several` traffics or rates with these."""
    return [
        f"{_named(extreme, extreme.of.wording, several)}."
        for extreme in _extremes(found, apart)
        if extreme.of.wording is not None
    ]


def _in_one_line(found: Sequence[Comparison], several: bool, apart: Collection[str]) -> list[str]:
    said = "; ".join(f"{line[0].lower()}{line[1:-1]}" for line in _each(found, several, apart))
    if not said:
        return []
    wording = found[0].wording
    assert wording is not None
    return [f"{wording.what[0].upper()}{wording.what[1:]}: {said}."]


def _counted(found: Sequence[Comparison], where: str) -> Iterator[str]:
    """Yield how many settings are notably worse, and how many better; `where` stands behind."""
    settings = {change.setting for comparison in found for change in comparison.others}
    if len(settings) < COUNTED:
        return
    wording = found[0].wording
    assert wording is not None
    gains = [
        (change.setting, comparison.gain(change.difference))
        for comparison in found
        for change in significant(comparison)
    ]
    parts: list[str] = []
    for (verb, rest), sign in ((wording.worse, -1), (wording.better, 1)):
        count = len({name for name, gain in gains if sign * gain > NOTABLE})
        if count:
            of = f"{count} of {len(settings)}{'' if parts else ' settings'}"
            phrase = rest.format(f"over {share(NOTABLE, 0)}")
            parts.append(f"{of} {_verb(verb, count)} {phrase}")
    if parts:
        yield f"{'; '.join(parts)}{where}."


def _verb(verb: str, count: int) -> str:
    return f"{verb}s" if count == 1 else verb


def _distrusted(found: Sequence[Comparison], of: str) -> Iterator[str]:
    """Yield that the baseline differed from itself, though some settings differ by more."""
    itself = [
        abs(comparison.gain(comparison.again))
        for comparison in found
        if comparison.again is not None and comparison.again.significant
    ]
    if itself and max(itself) >= NOTABLE:
        yield (
            f"The baseline differed from itself by {share(max(itself))}{of}: "
            "distrust differences that are not far greater."
        )


def _not_significant(by_whole: Sequence[Sequence[Comparison]], several: bool) -> Iterator[str]:
    """Yield in a line for each whole what is not significant, and in one of what is not known.

    A setting that differs significantly in any comparison is in neither.
    """
    found = [comparison for of_whole in by_whole for comparison in of_whole]
    if not found:
        return
    settings = list(
        dict.fromkeys(change.setting for comparison in found for change in comparison.others)
    )
    known = {change.setting for comparison in found for change in significant(comparison)}
    for of_whole in by_whole:
        insignificant = [
            (change.setting, comparison.detectable(change.difference))
            for comparison in of_whole
            for change in comparison.others
            if change.difference.significant is False and change.setting not in known
        ]
        least = [part for _, part in insignificant if part is not None]
        if not least:
            continue
        smallest = small_share(min(least))
        if small_share(max(least)) != smallest:
            smallest += f" to {small_share(max(least))}"
        wording = of_whole[0].wording
        whole = wording.whole if wording else ""
        where = _where(of_whole) if len(by_whole) > 1 else ""
        names = list(dict.fromkeys(setting for setting, _ in insignificant))
        yield (
            f"Not significant{_of(found, several)}{where}: {_some(names, len(settings))} "
            f"(smallest detectable difference {smallest}{whole})."
        )
    known |= {
        change.setting
        for comparison in found
        for change in comparison.others
        if change.difference.significant is False
    }
    unknown = [name for name in settings if name not in known]
    if unknown:
        whys = {
            change.difference.why
            for comparison in found
            for change in comparison.others
            if change.setting in unknown
        }
        why = "one block only" if "one block" in whys else "no good load in some block"
        yield (
            f"Not known whether significant{_of(found, several)}: "
            f"{_some(unknown, len(settings))} ({why})."
        )


def _identical(names: Collection[str]) -> Iterator[str]:
    if names:
        verb = "is" if len(names) == 1 else "are"
        said = joined(sorted(names)) if len(names) <= NAMED else f"{len(names)} settings"
        yield f"{said} {verb} identical to the baseline."


def _some(names: Sequence[str], of: int) -> str:
    """Return names, or of many how many settings they are."""
    return joined(list(names)) if len(names) <= NAMED else f"{len(names)} of {of} settings"
