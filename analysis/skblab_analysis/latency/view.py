# SPDX-License-Identifier: GPL-2.0-or-later
"""Latency of settings at given rates in words: the rows of their tables, and sentences about them.

A difference in brackets is not significant.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from skblab_analysis.base.certainty import AGAIN, Difference
from skblab_analysis.base.certainty import Change as SettingChange
from skblab_analysis.base.histogram import Histogram
from skblab_analysis.base.offered import KEPT, behind
from skblab_analysis.base.words import (
    ABSENT,
    NARROW_SPACE,
    Scale,
    at_rate,
    joined,
    number,
    quantity,
    scale,
    share,
    small_share,
)
from skblab_analysis.latency.rows import COMPARED
from skblab_analysis.latency.summary import (
    Delay,
    LatencySummary,
    Lateness,
    false_alarms,
)
from skblab_analysis.throughput.view import (
    alarms_text,
    change_text,
    difference_text,
    half_text,
    not_significant,
)

QUANTILES = {"p50": 0.5, "p99": COMPARED, "p99.9": 0.999, "p99.99": 0.9999}
# What a whole has of late packets is given in parts of this.
MILLION = 1_000_000


@dataclass(frozen=True)
class DelayCells:
    """The row of a setting: what was lost, its percentiles, and what it differs from the baseline.

    `times`: one for each of QUANTILES, and the longest.
    """

    setting: str
    blocks: str
    lost: str
    times: tuple[str, ...]
    difference: str
    half: str
    rate: str

    @property
    def doubtful(self) -> bool:
        """Whether the difference is not significant."""
        return self.difference.startswith("(")


@dataclass(frozen=True)
class LateCells:
    """The row of a setting and a threshold: late packets, runs of them, and packets in these."""

    setting: str
    threshold: str
    late: str
    share: str
    runs: str
    in_runs: str
    longest: str
    difference: str


def scale_of(summary: LatencySummary) -> Scale:
    """Return the one scale in which all its times are written."""
    longest = [one.latency.maximum for one in (*summary.delays, *summary.testers)]
    return scale("ns", max(longest, default=0))


def rows(summary: LatencySummary, space: str = " ") -> list[DelayCells]:
    """Return a row for every setting, and last ones for the tester if it was measured."""
    return [_cells(one, summary, space) for one in (*summary.delays, *summary.testers)]


def late_rows(summary: LatencySummary, space: str = " ") -> list[LateCells]:
    """Return a row for every setting and threshold, the tester's last."""
    return [
        _late(delay, one, summary, space)
        for delay in (*summary.delays, *summary.testers)
        for one in delay.lateness
    ]


def figure_row(delay: Delay, figure: str, scaled: Scale, space: str = " ") -> tuple[str, ...]:
    """Return percentiles and the longest of a figure of a setting, as `rows` has latency's."""
    return _times(delay.histogram(figure), scaled, space)


def headline(found: Sequence[LatencySummary]) -> str | None:
    """Return the finding in one sentence; None if there is none."""
    best = [
        (one.compared.share, summary, one)
        for summary in found
        if (one := summary.best) is not None and one.compared is not None
    ]
    if best:
        lower, summary, change = min(best, key=lambda three: three[0])
        return (
            f"{change.setting} has a 99th percentile {share(-lower)} below that of "
            f"{summary.baseline} ({at_rate(summary)})"
        )
    for summary in found:
        middle = summary.delays[0].latency.quantile(COMPARED)
        if middle is not None:
            return (
                f"99 % of packets take less than {quantity(middle, 'ns')} with "
                f"{summary.delays[0].setting} ({at_rate(summary)})"
            )
    return None


def sentences(found: Sequence[LatencySummary]) -> list[str]:
    """Return the findings."""
    said = [one for summary in found for one in _of(summary)]
    return [*said, *alarms_text("latency", false_alarms(found))]


def unseen(found: Sequence[LatencySummary]) -> list[str]:
    """Return what these trials could not tell."""
    said = []
    for summary in found:
        where = at_rate(summary)
        if not summary.testers:
            said.append(f"{where}: the tester was not measured alone: its own delay is unknown.")
        everyone = (*summary.delays, *summary.testers)
        slow = [one.setting for one in everyone if behind(one.trials)]
        if slow:
            said.append(
                f"{where}: the generator sent over {share(KEPT, 0)} less than that in some block "
                f"of {joined(slow)}: these are times at a lower rate, and in no comparison."
            )
        single = [one.setting for one in summary.delays if len(one.trials) == 1]
        if single:
            said.append(
                f"{where}: {joined(single)} {'has' if len(single) == 1 else 'have'} one block "
                "only: whether it differs is not known."
            )
        short = [one.setting for one in summary.delays if one.latency.quantile(COMPARED) is None]
        if short:
            said.append(f"{where}: too few packets for a 99th percentile of {joined(short)}.")
    return said


def _cells(one: Delay, summary: LatencySummary, space: str) -> DelayCells:
    change = summary.change(one.setting)
    compared = change.compared if change else None
    if one.setting == summary.baseline:
        difference = "baseline"
    elif change is None:
        difference = ""
    else:
        difference = ABSENT if compared is None else difference_text(compared)
    slow = min((trial.offered_rate for trial in one.trials), default=0.0)
    return DelayCells(
        setting=one.setting,
        blocks=str(len(one.trials)),
        lost=small_share(one.lost / one.tried if one.tried else None),
        times=_times(one.latency, scale_of(summary), space),
        difference=difference,
        half="" if compared is None else half_text(compared),
        rate=f"{number(slow, 0, space)} at least" if behind(one.trials) else "kept",
    )


def _times(found: Histogram, scaled: Scale, space: str) -> tuple[str, ...]:
    values = [found.quantile(q) for q in QUANTILES.values()]
    longest = found.maximum if found.buckets else None
    return tuple(scaled.text(value, space) for value in (*values, longest))


def _late(delay: Delay, one: Lateness, summary: LatencySummary, space: str) -> LateCells:
    change = summary.change(delay.setting)
    first = min(late.threshold_ns for late in delay.lateness)
    difference = ""
    if one.threshold_ns == first and change is not None and change.late is not None:
        difference = _per_million(change.late, space)
    return LateCells(
        setting=delay.setting,
        threshold=quantity(one.threshold_ns, "ns", space),
        late=number(one.late, 0, space),
        share=small_share(one.share),
        runs=number(one.runs, 0, space),
        in_runs=number(one.in_runs, 0, space),
        longest=number(one.longest, 0, space),
        difference=difference,
    )


def _per_million(one: Difference, space: str) -> str:
    more = MILLION * one.effect
    text = f"{'+' if more > 0 else ''}{number(more, 1, space)}"
    if one.margin is not None:
        text += f" ±{number(MILLION * one.margin, 1, space)}"
    return text if one.significant else f"({text})"


def _of(summary: LatencySummary) -> Iterator[str]:
    first, where = summary.delays[0], at_rate(summary)
    middle, most = first.latency.quantile(0.5), first.latency.quantile(COMPARED)
    if middle is not None:
        said = f"{where}: with {first.setting} half of the packets take less than "
        said += quantity(middle, "ns")
        if most is not None:
            said += f" and 99 % less than {quantity(most, 'ns')}"
        yield f"{said}{_floor(summary)}."
    yield from _late_words(first)
    compared = [
        SettingChange(one.setting, one.compared)
        for one in summary.changes
        if one.compared is not None and one.setting != AGAIN
    ]
    if significant := [one for one in compared if one.difference.significant]:
        order = sorted(significant, key=lambda one: one.difference.share)
        said = joined([change_text(one) for one in order])
        yield f"Its 99th percentile against {summary.baseline}: {said}."
    yield from not_significant(compared)


def _floor(summary: LatencySummary) -> str:
    """Say what the tester's own part in these times is."""
    for one in summary.testers:
        middle = one.latency.quantile(0.5)
        if middle is not None:
            return f"; with the tester alone it is {quantity(middle, 'ns')} for half of them"
    return ""


def _late_words(one: Delay) -> Iterable[str]:
    if not one.lateness:
        return
    parts = [
        f"{number(late.late, 0, NARROW_SPACE)} took {quantity(late.threshold_ns, 'ns')} or more, "
        f"in {number(late.runs, 0, NARROW_SPACE)} anomal{'y' if late.runs == 1 else 'ies'} of "
        f"{late.in_a_row} in a row or more"
        for late in one.lateness
    ]
    packets = number(one.lateness[0].packets, 0, NARROW_SPACE)
    yield f"Of its {packets} packets {joined(parts)}."
