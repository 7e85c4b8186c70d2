# SPDX-License-Identifier: GPL-2.0-or-later
"""What to set: the settings that are better than the baseline, ranked, or why there are none.

A setting counts that is significantly better by a comparison of which something can be told, and by
more than the baseline differed from itself. What is better by one figure and worse by another is
not advised, nor is what is better on this testbed alone, as the run says of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from skblab_analysis.base import told
from skblab_analysis.base.certainty import Difference, significant_among
from skblab_analysis.base.comparison import Comparison
from skblab_analysis.base.words import counted, joined, share, small_share
from skblab_analysis.load import Run
from skblab_analysis.measures import VIEWS

# Runs of these do not know it.
OLDER = frozenset(f"skblab.run/{version}" for version in range(1, 5))
# Settings that a terminal shows; the report has all.
SHOWN = 5
COUNTED_ONLY = (
    "These save instructions. Whether more packets pass, a sweep without --exact tells: on real "
    "hardware, if you can."
)


@dataclass(frozen=True)
class Worth:
    """What a setting differs from the baseline, by one comparison."""

    of: Comparison
    difference: Difference

    @property
    def gain(self) -> float:
        """By which part it is better; below 0 if it is worse."""
        if self.of.wording is None:
            # A share already, and one of a baseline that may be 0.
            return self.difference.effect if self.of.more_is_better else -self.difference.effect
        return self.of.gain(self.difference)

    def clear(self, count: int) -> bool | None:
        """Return whether it is significant as one of so many; None if that is not known."""
        return significant_among(self.difference, count)

    def words(self, *, where: bool) -> str:
        """Return what is how much better or worse, with its interval; `where`: with the traffic."""
        place = f" [{self.of.where}]" if where and self.of.where else ""
        if self.of.wording is None:
            return (
                f"{share(self.difference.effect, 2, sign=True)} of packets {self.of.figure}{place}"
            )
        what, noun = self.of.wording.what, self.of.wording.noun
        named = "" if what in noun else f"{what} "
        return f"{named}{self.of.amount(self.difference)}{place}"


@dataclass(frozen=True)
class Setting:
    """A setting that differs: by what it is better, and by what it is worse.

    `only_here` is why it would be no better elsewhere, or empty.
    """

    name: str
    better: tuple[Worth, ...]
    worse: tuple[Worth, ...]
    only_here: str
    commands: tuple[str, ...]
    # Whether there are several traffics or rates, so that each has to be named.
    several: bool

    @property
    def contradicts(self) -> bool:
        """Whether it is worse by something that is worth to be told."""
        return any(
            worth.of.wording is None or abs(worth.gain) >= told.NOTABLE for worth in self.worse
        )

    @property
    def gains(self) -> str:
        """What it is better by, in words."""
        return joined([worth.words(where=self.several) for worth in self.better])

    @property
    def losses(self) -> str:
        """What it is worse by, in words; empty if by nothing."""
        return joined([worth.words(where=self.several) for worth in self.worse])


@dataclass(frozen=True)
class Advice:
    """What to set, the best first; what is good and bad; what is good here only; what is worse.

    `why_none` says why there is nothing to set, and is empty if there is.
    """

    ranked: tuple[Setting, ...]
    mixed: tuple[Setting, ...]
    only_here: tuple[Setting, ...]
    why_none: str
    worse: tuple[Setting, ...] = ()

    @property
    def caution(self) -> str:
        """What nobody has measured of what is to be set, in a sentence; empty if nothing."""
        measures = {worth.of.measure for setting in self.ranked for worth in setting.better}
        return COUNTED_ONLY if measures == {"instructions"} else ""

    @property
    def first(self) -> tuple[str, ...]:
        """Names of what is to be set, the best first."""
        return tuple(setting.name for setting in self.ranked)


def asked(run: Run) -> bool:
    """Return whether a run is a sweep that ended, and knows which effects are of its testbed."""
    document = run.document
    known = document.schema_ not in OLDER and document.state == "finished"
    return known and "testbed" in document.plan.parameters


def candidates(run: Run) -> list[str]:
    """Return every setting that is better than the baseline by something, the best first."""
    return [name for name, better, _ in _changed(_trusted(_deciding(run))) if better]


def of(run: Run) -> Advice:
    """Return what a run advises."""
    found = _deciding(run)
    trusted = _trusted(found)
    several = len({comparison.where for comparison in trusted}) > 1
    settings = [
        Setting(name, better, worse, run.only_here.get(name, ""), _commands(run, name), several)
        for name, better, worse in _changed(trusted)
    ]
    lost = tuple(one for one in settings if one.worse and not one.better)
    settings = [one for one in settings if one.better]
    ranked = [one for one in settings if not one.only_here and not one.contradicts]
    mixed = [one for one in settings if not one.only_here and one.contradicts]
    here = [one for one in settings if one.only_here]
    why = "" if ranked else _why_none(run, found, trusted, mixed, here)
    return Advice(tuple(ranked), tuple(mixed), tuple(here), why, lost)


def leanings(run: Run, measure: str) -> dict[str, tuple[Worth, ...]]:
    """Return what each setting is worth by a measure, significant or not.

    Those come first that gain the most. What a baseline that differs from itself hides is left out.
    """
    found: dict[str, list[Worth]] = {}
    for comparison in _trusted(_deciding(run)):
        if comparison.measure == measure and comparison.wording is not None:
            for change in comparison.others:
                worths = found.setdefault(change.setting, [])
                worths.append(Worth(comparison, change.difference))
    ordered = sorted(found.items(), key=lambda item: -max(worth.gain for worth in item[1]))
    return {name: tuple(worths) for name, worths in ordered}


def against(run: Run, baseline: str, measure: str) -> dict[str, list[tuple[Worth, float]]]:
    """Return what settings are worth against another one than the run's own baseline.

    With each, by which part the run's baseline differed from itself in the same figure: what is no
    more than that is nothing. Figures of which nothing can be told are left out.
    """
    own = {comparison.of: comparison for comparison in _trusted(_deciding(run))}
    found: dict[str, list[tuple[Worth, float]]] = {}
    for comparison in _deciding(run.against(baseline)):
        known = own.get(comparison.of)
        if known is None or comparison.measure != measure or comparison.wording is None:
            continue
        itself = abs(known.gain(known.again)) if known.again else 0.0
        for change in comparison.others:
            worths = found.setdefault(change.setting, [])
            worths.append((Worth(comparison, change.difference), itself))
    return found


def lines(advice: Advice) -> Iterator[str]:
    """Yield advice for a terminal, line by line."""
    if advice.why_none:
        yield f"Set this: nothing. {advice.why_none}"
    else:
        yield "Set this, the best first:"
    for place, setting in enumerate(advice.ranked[:SHOWN], 1):
        yield f"  {place}. {setting.name}: {setting.gains}{_but(setting)}"
        plain = [command for command in setting.commands if "\n" not in command]
        yield from (f"     {command}" for command in plain)
        if scripts := len(setting.commands) - len(plain):
            yield f"     {'and ' if plain else ''}{counted(scripts, 'script')}, in the report"
    if (more := len(advice.ranked) - SHOWN) > 0:
        yield f"  and {counted(more, 'further setting')}, in the report"
    if advice.caution:
        yield f"  {advice.caution}"
    if advice.mixed:
        yield "Good by one figure and bad by another:"
        yield from (f"  {one.name}: {one.gains}{_but(one)}" for one in advice.mixed)
    if advice.only_here:
        yield "Good on this testbed only (not transferable):"
        yield from (f"  {one.name}: {one.gains}. Why: {one.only_here}." for one in advice.only_here)


def _but(setting: Setting) -> str:
    return f"; but {setting.losses}" if setting.losses else ""


def _commands(run: Run, setting: str) -> tuple[str, ...]:
    """Return what sets a setting by hand; older runs have no more than the scripts that did."""
    made = [command for command in run.document.commands if command.setting == setting]
    by_hand = tuple(command.by_hand for command in made if command.by_hand)
    return by_hand or tuple(command.command for command in made)


def _deciding(run: Run) -> list[Comparison]:
    return [
        comparison
        for view in VIEWS
        for comparison in view.compared(run)
        if (comparison.wording is not None or comparison.decides) and comparison.others
    ]


def _trusted(found: Sequence[Comparison]) -> list[Comparison]:
    return [comparison for comparison in found if told.unreliable(comparison) is None]


def _changed(
    trusted: Sequence[Comparison],
) -> Iterator[tuple[str, tuple[Worth, ...], tuple[Worth, ...]]]:
    """Yield settings with what they are better and worse by, the largest gain first.

    That is the gain by the first measure that they gain by: those of others come after these.
    """
    by_setting: dict[str, list[Worth]] = {}
    for comparison in trusted:
        itself = abs(Worth(comparison, comparison.again).gain) if comparison.again else 0.0
        for change in comparison.others:
            worth = Worth(comparison, change.difference)
            if change.difference.significant and abs(worth.gain) > itself:
                by_setting.setdefault(change.setting, []).append(worth)
    order = list(dict.fromkeys(comparison.measure for comparison in trusted))

    def rank(worths: list[Worth]) -> tuple[int, float]:
        gains = [(order.index(one.of.measure), -one.gain) for one in worths if one.gain > 0]
        return min(gains, default=(len(order), 0.0))

    for setting, worths in sorted(by_setting.items(), key=lambda found: rank(found[1])):
        better = tuple(one for one in worths if one.gain > 0 and one.of.wording is not None)
        worse = tuple(one for one in worths if one.gain < 0)
        yield setting, better, worse


def _why_none(
    run: Run,
    found: Sequence[Comparison],
    trusted: Sequence[Comparison],
    mixed: Sequence[Setting],
    here: Sequence[Setting],
) -> str:
    """Return why there is nothing to set, in a sentence."""
    if not found:
        return "No setting was compared with the baseline."
    if not trusted:
        nothing, _ = told.lines(found, run.identical)
        return " ".join(nothing)
    if mixed and here:
        return "What is better is worse by another figure, or better on this testbed only."
    if mixed:
        return "What is better by one figure is worse by another."
    if here:
        return "What is better is so on this testbed only."
    known = [change.difference for comparison in trusted for change in comparison.others]
    if all(difference.why == "one block" for difference in known):
        return "With one block no difference is known to be significant: measure more blocks."
    least = [
        part
        for comparison in trusted
        for change in comparison.others
        if not change.difference.significant
        and (part := comparison.detectable(change.difference)) is not None
    ]
    baseline = trusted[0].baseline
    if not least:
        return f"No setting is better than {baseline}."
    return (
        f"No setting is significantly better than {baseline}. Gains below "
        f"{small_share(max(least))} may not have been seen."
    )
