# SPDX-License-Identifier: GPL-2.0-or-later
"""Rates of settings in words: the rows of their tables, and the sentences about them.

A difference in brackets is not significant.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from pydantic import BaseModel

from skblab_analysis.base.certainty import AGAIN, Change, Difference, FalseAlarms
from skblab_analysis.base.whole import Whole
from skblab_analysis.base.words import ABSENT, NARROW_SPACE, joined, number, share, small_share
from skblab_analysis.latency import summary as latency_summary
from skblab_analysis.load import Run
from skblab_analysis.throughput import summary as throughput_summary
from skblab_analysis.throughput.rows import FoundRow, Judgement
from skblab_analysis.throughput.summary import (
    GoalSummary,
    Rate,
    ThroughputSummary,
    false_alarms,
)

# What a table has room for.
LIMITS: dict[Judgement | None, str] = {
    "device": "device",
    "tester": "tester",
    "maximum load": "not met",
    "no good load": "no load",
    None: "",
}
# RFC 2544, section 24.
FULL_SECONDS = 60.0
# An interval that reaches beyond so many times the baseline says nothing more than that.
MOST = 10.0


@dataclass(frozen=True)
class RateCells:
    """The row of a setting: rate and difference, each with half of its interval."""

    setting: str
    rate: str
    half: str
    difference: str
    difference_half: str
    blocks: str
    limit: str

    @property
    def doubtful(self) -> bool:
        """Whether the difference is not significant."""
        return self.difference.startswith("(")


def rows(goal: GoalSummary, space: str = " ") -> list[RateCells]:
    """Return a row for every setting, and last ones for the tester if it was searched."""
    made = [_cells(one, goal, space) for one in goal.rates]
    for one in goal.testers:
        tester = _cells(one, goal, space)
        made.append(RateCells(one.setting, tester.rate, tester.half, "", "", tester.blocks, ""))
    return made


def difference_words(goal: GoalSummary, setting: str) -> tuple[str, str]:
    """Return what a setting differs from the baseline, and half of the interval."""
    if setting == goal.baseline:
        return "baseline", ""
    change = goal.change(setting)
    if change is None:
        return ABSENT, ""
    return difference_text(change.difference), half_text(change.difference)


def difference_text(one: Difference) -> str:
    """Return a difference as a share of the other, in brackets if it is not significant."""
    text = share(one.share, 1, sign=True)
    return text if one.significant else f"({text})"


def half_text(one: Difference) -> str:
    """Return half of its interval, or its ends if these are not as far; nothing of one block."""
    if one.ends is None:
        return ""
    low, high = one.ends
    below, above = share(one.share - low, 1), share(high - one.share, 1)
    if below == above:
        return f"±{above}"
    if high > MOST:
        return f"{share(low, 1, sign=True)} or more"
    return f"{100 * low:+.1f} to {share(high, 1, sign=True)}".replace("-", "−")


def change_text(one: Change) -> str:
    """Return a setting, and what it differs."""
    return f"{one.setting} {share(one.difference.share, 1, sign=True)} {half_text(one.difference)}"


def not_significant(changes: Iterable[Change]) -> Iterator[str]:
    """Yield which differences are not significant, how great one has to be, and what limits it."""
    found = [(one, least) for one in changes if (least := _undetected(one)) is not None]
    if not found:
        return
    names, shares = [one.setting for one, _ in found], [least for _, least in found]
    smallest = small_share(min(shares))
    if len(found) > 1:
        smallest += f" to {small_share(max(shares))}"
    yield f"Not significant: {joined(names)}. Smallest detectable difference: {smallest}."
    coarse = [one.setting for one, _ in found if one.difference.why == "resolution"]
    if coarse:
        yield f"More blocks would detect no less with {joined(coarse)}: that is the resolution."


def _undetected(one: Change) -> float | None:
    return None if one.difference.significant is not False else one.difference.detectable_share


def alarms_text(what: str, alarms: FalseAlarms) -> list[str]:
    """Return how often the baseline differed from itself; nothing if it was not compared."""
    if not alarms.comparisons:
        return []
    return [
        f"False alarms in {what}, the baseline compared with itself: {alarms.alarms} of "
        f"{alarms.comparisons}. About one comparison in twenty gives one."
    ]


def goal_words(goal: GoalSummary) -> str:
    """Return what a goal is good for, in words."""
    lost = "nothing" if not goal.loss_ratio else f"{small_share(goal.loss_ratio)} at most"
    if not goal.exceed_ratio:
        return f"every trial lost {lost}"
    return f"{share(1 - goal.exceed_ratio, 0)} of all trials or more lost {lost}"


def headline(found: Sequence[ThroughputSummary]) -> str | None:
    """Return the finding in one sentence; None if there is none."""
    best = [(one, change) for one in found if (change := one.main.best) is not None]
    if best:
        summary, change = max(best, key=lambda pair: pair[1].difference.share)
        more = share(change.difference.share)
        against = f"{summary.main.baseline} ({summary.main.goal}, {summary.traffic})"
        return f"{change.setting} forwards {more} more packets than {against}"
    for summary in found:
        rate = summary.main.rates[0]
        if rate.interval is not None:
            said = f"{rate.setting} forwards {_count(rate.interval.mean)} packets/s"
            return f"{said} ({summary.main.goal}, {summary.traffic})"
    return None


def sentences(run: Run) -> list[str]:
    """Return the findings of a run's searches."""
    found = throughput_summary.of(run)
    said = [sentence for one in found for sentence in _of_traffic(run, one)]
    said += alarms_text("throughput", false_alarms(found))
    return [*said, *_confirmed(run), *_ended(run)]


def unseen(run: Run) -> list[str]:
    """Return what the searches could not tell."""
    found = throughput_summary.of(run)
    said = []
    for one in found:
        goal = one.main
        if not goal.testers:
            said.append(
                f"{one.traffic}: the tester was not searched alone: its ceiling is unknown."
            )
        limited = [rate for rate in goal.rates if rate.judgement == "tester"]
        if limited:
            said.append(
                f"{one.traffic}: of {len(goal.rates)} settings {len(limited)} had the tester for "
                "their limit, and not the router alone: these rates are what both carry together, "
                "and the router by itself may carry more."
            )
        single = [rate.setting for rate in goal.rates if len(rate.blocks) == 1]
        if single:
            said.append(
                f"{one.traffic}: {joined(single)} {_has(single)} a figure of one block only: how "
                "sure it is, and whether it differs, is not known."
            )
        none = [rate.setting for rate in goal.rates if rate.none]
        if none:
            said.append(
                f"{one.traffic}: with {joined(none)} no load at all was good in some block."
            )
    wide = [row for row in run.rows(FoundRow) if row.outcome == "regular" and not row.reached]
    if wide:
        said.append(f"{len(wide)} searches ended wider than was asked.")
    return said


def commands(run: Run) -> list[tuple[str, tuple[str, ...]]]:
    """Return each best setting with the commands that set it, if the run has them."""
    made = [(name, _commands(run, name)) for name in best(run)]
    return [(name, lines) for name, lines in made if lines]


def best(run: Run) -> list[str]:
    """Return the settings that forward most, then those with the shortest delays, each once."""
    changes = [
        *(one.main.best for one in throughput_summary.of(run)),
        *(one.best for one in latency_summary.of(run)),
    ]
    return list(dict.fromkeys(one.setting for one in changes if one is not None))


def _cells(rate: Rate, goal: GoalSummary, space: str) -> RateCells:
    found = rate.interval
    difference, difference_half = difference_words(goal, rate.setting)
    return RateCells(
        setting=rate.setting,
        rate=ABSENT if found is None else number(found.mean, 0, space),
        half="" if found is None or found.half is None else f"±{number(found.half, 0, space)}",
        difference=difference,
        difference_half=difference_half,
        blocks=str(len(rate.blocks) + rate.none),
        # Whatever limits it in the other blocks.
        limit=LIMITS["no good load" if rate.none else rate.judgement],
    )


def _of_traffic(run: Run, summary: ThroughputSummary) -> Iterable[str]:
    goal = summary.main
    known = [one for one in goal.rates if one.interval is not None]
    if not known:
        yield f"{summary.traffic}: no setting has a load at which {goal_words(goal)}."
        return
    first = known[0].setting
    rates = [
        f"{_count(rate.interval.mean)} ({one.goal})"
        for one in summary.goals
        if (rate := one.rate(first)) is not None and rate.interval is not None
    ]
    yield f"{summary.traffic}: {first} forwards {joined(rates)} packets/s."
    yield from _stalls(summary, first)
    changes = [one for one in goal.changes if one.setting != AGAIN]
    better = [one for one in changes if one.difference.significant]
    if better:
        order = sorted(better, key=lambda one: -one.difference.share)
        said = joined([change_text(one) for one in order])
        yield f"Against {goal.baseline} ({goal.goal}): {said}."
    yield from not_significant(changes)
    best = goal.best
    if best is not None:
        yield _to_set(best.setting, _commands(run, best.setting))
    elif any(one.difference.significant is not None for one in goal.changes):
        yield f"No setting was significantly faster than {goal.baseline}."


def _stalls(summary: ThroughputSummary, setting: str) -> Iterable[str]:
    """Say how far strict is below NDR: by losses that come in some trials and not in most."""
    by_name = {one.goal: one.rate(setting) for one in summary.goals}
    strict, ndr = by_name.get("strict"), by_name.get("NDR")
    if strict is None or ndr is None or strict.interval is None or ndr.interval is None:
        return
    gap = 1 - strict.interval.mean / ndr.interval.mean
    if gap > summary.main.width:
        yield (
            f"Its strict rate is {share(gap)} below NDR: between the two most trials lose nothing, "
            "and some do, in rare stalls."
        )


def _to_set(setting: str, lines: Sequence[str]) -> str:
    plain = [line for line in lines if "\n" not in line]
    if lines and len(plain) == len(lines):
        return f"To set {setting} on this testbed’s router: {'; '.join(plain)}"
    return f"Most is forwarded with {setting}."


def _confirmed(run: Run) -> list[str]:
    tried = [row for row in run.rows(FoundRow) if row.confirmed is not None]
    if not tried:
        return []
    held = sum(bool(row.confirmed) for row in tried)
    seconds = min(row.confirm_seconds or 0.0 for row in tried)
    said = f"Of {len(tried)} strict rates {held} held in a trial of {seconds:g} s"
    short = f", which RFC 2544 wants to be {FULL_SECONDS:g} s" if seconds < FULL_SECONDS else ""
    return [f"{said}{short}."]


class _Enough(BaseModel):
    """What the journal says when no more blocks are needed."""

    blocks: Whole
    reason: str


def _ended(run: Run) -> list[str]:
    ends = [event.told(_Enough) for event in run.journal if event.event == "enough"]
    return [f"It ended after {one.blocks} blocks: {one.reason}." for one in ends]


def _commands(run: Run, setting: str) -> tuple[str, ...]:
    return tuple(one.command for one in run.document.commands if one.setting == setting)


def _has(names: Sequence[str]) -> str:
    return "has" if len(names) == 1 else "have"


def _count(value: float) -> str:
    return number(value, 0, NARROW_SPACE)
