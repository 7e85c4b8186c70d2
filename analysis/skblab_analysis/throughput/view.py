# SPDX-License-Identifier: GPL-2.0-or-later
"""Rates of settings: the rows of their tables, the page's section, and the sentences about them.

A difference in brackets is not significant, or whether it is is not known.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from rich.table import Table

from skblab_analysis.base import lines, told
from skblab_analysis.base.certainty import AGAIN
from skblab_analysis.base.comparison import Comparison, Wording
from skblab_analysis.base.differences import alarms_text, brackets, change_text, not_significant
from skblab_analysis.base.sampled import Sampled
from skblab_analysis.base.tables import INTERVAL, known_columns, named, titled
from skblab_analysis.base.words import (
    NARROW_SPACE,
    joined,
    number,
    share,
    small_share,
    spaced,
)
from skblab_analysis.formats.summary import Figure
from skblab_analysis.load import Run
from skblab_analysis.throughput import line, loads, sizes
from skblab_analysis.throughput.cells import rows
from skblab_analysis.throughput.picture import line_rate, picture
from skblab_analysis.throughput.rows import FoundRow, LoadRow
from skblab_analysis.throughput.summary import (
    GoalSummary,
    Rate,
    ThroughputSummary,
    false_alarms,
    of,
)
from skblab_analysis.view import Cells, Section, View, suffix

# RFC 2544, section 24.
FULL_SECONDS = 60.0


def _tables(run: Run) -> list[Table]:
    return [
        _rate_table(summary, goal, run.identical) for summary in of(run) for goal in summary.goals
    ]


def _rate_table(summary: ThroughputSummary, goal: GoalSummary, identical: Collection[str]) -> Table:
    table = titled(f"Throughput, {goal.goal} (packets/s, {summary.traffic})")
    table.add_column("setting", overflow="fold")
    made = rows(goal)
    names, figures = known_columns(
        ("packets/s", INTERVAL, "difference", INTERVAL, "blocks", "limit"),
        [
            (row.rate, row.half, row.difference, row.difference_half, row.blocks, row.limit)
            for row in made
        ],
    )
    for name in names:
        table.add_column(name, justify="right", no_wrap=True)
    for place, (row, cells) in enumerate(zip(made, figures, strict=True)):
        table.add_row(
            named(row.setting, identical),
            *cells,
            end_section=place == len(goal.rates) - 1,
        )
    said = brackets(change.difference for change in goal.changes)
    table.caption = "\n".join([f"{goal.goal}: {goal_words(goal)}.", *said])
    return table


@dataclass(frozen=True)
class RatesOfGoal:
    """The table of one goal, and what the goal is."""

    name: str
    words: str
    columns: list[str]
    rows: tuple[Cells, ...]


@dataclass(frozen=True)
class Shown:
    """What the section has of one traffic."""

    suffix: str
    summary: ThroughputSummary
    goals: tuple[RatesOfGoal, ...]
    booted: bool
    line: str

    @property
    def loads_of(self) -> str:
        """Which settings the picture of loads has, if not all: in words."""
        names = [rate.setting for rate in self.summary.main.rates if rate.setting != AGAIN]
        return lines.some_of(len(loads.shown(self.summary)), len(names))

    @property
    def intervals(self) -> bool:
        """Whether any interval is known."""
        return any(INTERVAL in goal.columns for goal in self.goals)


def _section(run: Run, summary: ThroughputSummary, place: int) -> Section:
    goals = tuple(_rates(goal) for goal in summary.goals)
    bits = line.bits_of_line(run)
    shown = Shown(suffix(place), summary, goals, run.booted, _line_words(summary, bits))
    rates = picture(summary, suffix(place), bits)
    tried = loads.picture(summary, run.rows(LoadRow), suffix(place))
    return Section(
        "throughput/section.html.j2", shown, (rates,) if tried is None else (rates, tried)
    )


@dataclass(frozen=True)
class ShownSizes:
    """What the section of frame sizes has of one kind of traffic."""

    suffix: str
    traffic: str
    caption: str


def _sections(run: Run) -> list[Section]:
    found = of(run)
    bits = line.bits_of_line(run)
    made = [_section(run, summary, place) for place, summary in enumerate(found)]
    for place, one in enumerate(sizes.of(found)):
        caption = [
            f"Rates by {one.goal} with their 95 % intervals over blocks.",
            lines.some_of(len(one.shown), len(one.settings)),
            "" if bits is None else "Dashed: what the line carries.",
        ]
        made.append(
            Section(
                "throughput/sizes.html.j2",
                ShownSizes(suffix(place), one.traffic, " ".join(filter(None, caption))),
                (sizes.picture(one, suffix(place), bits),),
            )
        )
    return made


def _rates(goal: GoalSummary) -> RatesOfGoal:
    made = rows(goal, NARROW_SPACE)
    columns, figures = known_columns(
        ("difference", INTERVAL, "rate", INTERVAL, "blocks", "limit"),
        [
            (row.difference, row.difference_half, row.rate, row.half, row.blocks, row.limit)
            for row in made
        ],
    )
    return RatesOfGoal(
        name=goal.goal,
        words=goal_words(goal),
        columns=columns,
        rows=tuple(
            Cells(name=row.setting, figures=cells, strong=row.setting == goal.baseline)
            for row, cells in zip(made, figures, strict=True)
        ),
    )


def _line_words(summary: ThroughputSummary, bits: float | None) -> str:
    """Return what Gbit/s are, and the line's limit, in sentences; empty without a frame's size."""
    if line.frame_bytes(summary.traffic) is None:
        return ""
    said = "Below packets per second: bits on the line, of frames with preamble and gap."
    full = line_rate(summary, bits)
    if full is not None and bits is not None:
        said += (
            f" The line of {number(bits / line.GIGA, 0 if bits >= line.GIGA else 1)} Gbit/s is "
            f"full at {spaced(full)} packets/s (dashed where it is near)."
        )
    return said


def goal_words(goal: GoalSummary) -> str:
    """Return when a load is good by a goal, in words."""
    return f"a load is good if {_good(goal)}"


def _good(goal: GoalSummary) -> str:
    lost = "nothing" if not goal.loss_ratio else f"at most {small_share(goal.loss_ratio)}"
    if not goal.exceed_ratio:
        return f"every trial lost {lost}"
    return f"at least {share(1 - goal.exceed_ratio, 0)} of its trials lost {lost}"


def headline(run: Run) -> str | None:
    """Return the finding in one sentence; None if there is none."""
    return told.headline(compared(run), apart=run.only_here) or next(_forwarded(of(run)), None)


def _forwarded(found: Sequence[ThroughputSummary]) -> Iterator[str]:
    """Yield what the first setting forwards, of each traffic in which it has a rate."""
    for summary in found:
        rate = summary.main.rates[0]
        if rate.interval is not None:
            said = f"{rate.setting} forwards {spaced(rate.interval.mean)} packets/s"
            yield f"{said} ({_by(summary.main, rate)}, {summary.traffic})"


def compared(run: Run) -> list[Comparison]:
    """Return what settings forward beyond the baseline, of each traffic and goal."""
    return [
        Comparison(
            measure="throughput",
            figure="throughput",
            part=goal.goal,
            unit="packets/s",
            baseline=goal.baseline,
            changes=goal.changes,
            wording=_wording(goal.goal) if goal is summary.main else None,
            traffic=summary.traffic,
            more_is_better=True,
        )
        for summary in of(run)
        for goal in summary.goals
        if goal.baseline is not None
    ]


def _wording(goal: str) -> Wording:
    return Wording(
        what="throughput",
        noun=f"({goal})",
        better=("forward", "{} more packets"),
        worse=("forward", "{} fewer packets"),
        best="Biggest gain",
        worst="Biggest loss",
    )


def _summary(run: Run) -> list[str]:
    """Return what the baseline forwards, where no significance is known."""
    found = [
        summary
        for summary in of(run)
        if all(change.difference.significant is None for change in summary.main.changes)
    ]
    return [f"{said}." for said in _forwarded(found)]


def sentences(run: Run) -> list[str]:
    """Return the findings of a run's searches."""
    found = of(run)
    said = [sentence for summary in found for sentence in _of_traffic(run, summary)]
    said += alarms_text("throughput", false_alarms(found))
    return [*said, *_confirmed(run)]


def unseen(run: Run) -> list[str]:
    """Return what the searches could not tell."""
    found = of(run)
    said = []
    for summary in found:
        goal = summary.main
        if not goal.testers:
            said.append(
                f"{summary.traffic}: the tester was not measured alone: its own limit is not known."
            )
        limited = [rate for rate in goal.rates if rate.judgement == "tester"]
        if limited:
            said.append(
                f"{summary.traffic}: the tester was the bottleneck with {len(limited)} of "
                f"{len(goal.rates)} settings. The router may forward more than these rates."
            )
        unknown = [rate for rate in goal.rates if rate.judgement == "not known" and not rate.none]
        if unknown:
            said.append(
                f"{summary.traffic}: with {len(unknown)} of {len(goal.rates)} settings it is not "
                "known whether the router or the tester limited the rate."
            )
        single = [rate.setting for rate in goal.rates if len(rate.blocks) == 1 and not rate.none]
        if single:
            said.append(
                f"{summary.traffic}: {joined(single)} {_has(single)} a figure of one block only. "
                "Its interval, and whether it differs, are not known."
            )
        said += [f"{summary.traffic}: {sentence}" for sentence in _without_load(goal)]
    wide = [row for row in run.rows(FoundRow) if row.outcome == "regular" and not row.reached]
    if wide:
        said.append(f"{len(wide)} searches ended before their bounds were as near as asked.")
    return said


def _of_traffic(run: Run, summary: ThroughputSummary) -> Iterable[str]:
    goal = summary.main
    known = [rate for rate in goal.rates if rate.interval is not None]
    if not known:
        yield f"{summary.traffic}: no setting has a load at which {_good(goal)}."
        return
    first = known[0].setting
    rates = [
        f"{spaced(rate.interval.mean)} ({_by(goal, rate)})"
        for goal in summary.goals
        if (rate := goal.rate(first)) is not None and rate.interval is not None
    ]
    yield f"{summary.traffic}: {first} forwards {joined(rates)} packets/s."
    yield from _stalls(summary, first)
    changes = [change for change in goal.changes if change.setting != AGAIN]
    better = [change for change in changes if change.difference.significant]
    if better:
        order = sorted(better, key=lambda change: -change.difference.share)
        said = joined([change_text(change) for change in order])
        yield f"Against {goal.baseline} ({goal.goal}): {said}."
    yield from not_significant(changes)
    best = goal.best
    if best is not None:
        yield f"{best.setting} forwards most."
    elif any(change.difference.significant is not None for change in goal.changes):
        yield f"No setting was significantly faster than {goal.baseline}."


def _by(goal: GoalSummary, rate: Rate) -> str:
    """Return by which goal a rate is, and in how many blocks, if not in all."""
    return f"{goal.goal}, in {rate.of_blocks} blocks" if rate.none else goal.goal


def _without_load(goal: GoalSummary) -> Iterable[str]:
    """Say of each setting that has no good load in some block what its figures are worth."""
    for rate in goal.rates:
        if not rate.none:
            continue
        if not rate.blocks:
            yield f"with {rate.setting} no load was good in any block."
            continue
        known = "Its rate is of these blocks"
        if rate.setting == goal.baseline:
            known += "; whether other settings differ from it is not known"
        elif goal.change(rate.setting) is not None:
            known += "; whether it differs is not known"
        yield f"with {rate.setting} a load was good in {rate.of_blocks} blocks. {known}."


def _stalls(summary: ThroughputSummary, setting: str) -> Iterable[str]:
    """Say how far strict is below NDR: by losses that come in some trials and not in most."""
    by_name = {goal.goal: goal.rate(setting) for goal in summary.goals}
    strict, ndr = by_name.get("strict"), by_name.get("NDR")
    if strict is None or ndr is None or strict.interval is None or ndr.interval is None:
        return
    if strict.none or ndr.none:
        # They are of different blocks.
        return
    gap = 1 - strict.interval.mean / ndr.interval.mean
    if gap > summary.main.width:
        yield (
            f"Its strict rate is {share(gap)} below NDR: between the two, most trials lose "
            "nothing, and some lose packets in rare stalls."
        )


def _confirmed(run: Run) -> list[str]:
    tried = [row for row in run.rows(FoundRow) if row.confirmed is not None]
    if not tried:
        return []
    held = sum(bool(row.confirmed) for row in tried)
    seconds = min(row.confirm_seconds or 0.0 for row in tried)
    said = f"{held} of {len(tried)} strict rates held in a trial of {seconds:g} s"
    short = f"; RFC 2544 asks for {FULL_SECONDS:g} s" if seconds < FULL_SECONDS else ""
    return [f"{said}{short}."]


def _has(names: Sequence[str]) -> str:
    return "has" if len(names) == 1 else "have"


def _figures(summary: ThroughputSummary) -> Iterable[Figure]:
    for goal in summary.goals:
        for rate in (*goal.rates, *goal.testers):
            yield Figure(
                measure="throughput",
                figure="throughput",
                part=goal.goal,
                unit="packets/s",
                setting=rate.setting,
                traffic=summary.traffic,
                value=rate.interval.mean if rate.interval else None,
                half=rate.interval.half if rate.interval else None,
                blocks=len(rate.blocks),
            )


def _samples(run: Run) -> list[Sampled]:
    return [
        Sampled(
            measure="throughput",
            figure="throughput",
            part=goal.goal,
            unit="packets/s",
            setting=rate.setting,
            blocks=rate.blocks,
            traffic=summary.traffic,
            resolution=goal.width,
            relative=True,
            partial=bool(rate.none),
            how=_how(goal),
        )
        for summary in of(run)
        for goal in summary.goals
        for rate in goal.rates
        if rate.blocks
    ]


def _how(goal: GoalSummary) -> tuple[tuple[str, str], ...]:
    """Return by name what a goal's figure depends on, whatever the goal is called."""
    return (
        ("loss ratio", f"{goal.loss_ratio:g}"),
        ("share of bad trials", f"{goal.exceed_ratio:g}"),
        ("width of the search", f"{goal.width:g}"),
    )


VIEW = View(
    samples=_samples,
    depends={"throughput.seconds": 1.0, "throughput.trials": 21},
    figures=lambda run: [figure for summary in of(run) for figure in _figures(summary)],
    tables=_tables,
    sections=_sections,
    headline=headline,
    compared=compared,
    summary=_summary,
    sentences=sentences,
    unseen=unseen,
)
